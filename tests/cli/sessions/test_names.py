"""Names of sessions as people type them: parts of a label, letters of any alphabet, mistakes."""

import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project

LONG = "claude-code/-home-ana-shop/24e44709"


def test_a_part_of_a_label_that_only_one_has_is_enough(turntree: Call, project: Project) -> None:
    project.say("Hello", session=LONG)
    project.say("Other", session="claude-code/-home-ana-blog/99aa0011")
    start = "claude-code/-home-ana-s"
    for typed in ("24e44709", "24e4", "shop/24e44709", start, f"{start}…", "…/24e44709"):
        assert turntree("session", "show", typed, "--json").document["label"] == LONG, typed
        assert turntree("log", typed, "--json").documents[0]["title"] == "Hello", typed
    assert turntree("switch", "24e44709").out.startswith(f"HEAD is {LONG} now")
    assert "Hello" in turntree("tail", "24e44709").out


def test_a_part_that_several_labels_have_lists_them(turntree: Call) -> None:
    for label in ("fix/cart", "fix/cart-2"):
        turntree("session", "create", label)
    answer = turntree("switch", "fix/c")
    assert answer.code == 3
    assert "'fix/c' could be several sessions:" in answer.err
    assert "\n  fix/cart\n" in answer.err
    assert "\n  fix/cart-2\n" in answer.err
    # A whole label is never ambiguous, even if another one begins with it.
    assert turntree("switch", "fix/cart").out.startswith("HEAD is fix/cart now")
    turntree("session", "archive", "fix/cart-2")
    assert turntree("session", "show", "fix/ca", "--json").document["label"] == "fix/cart"


def test_a_mistyped_name_suggests_what_was_meant(turntree: Call) -> None:
    turntree("session", "create", "team/fix-login")
    for words in (("switch", "fix-logni"), ("log", "team/fix-lgoin"), ("show", "fix-logni")):
        answer = turntree(*words)
        assert answer.code == 3
        assert "did you mean team/fix-login?" in answer.err, words
    assert "did you mean" not in turntree("switch", "zzzz").err
    turntree("provider", "create", "anthropic", "--type", "anthropic")
    missed = turntree("provider", "show", "antropic")
    assert missed.code == 3
    assert "did you mean anthropic?" in missed.err


def test_a_command_that_creates_takes_its_name_literally(turntree: Call) -> None:
    turntree("session", "create", "feature-login")
    turntree("fork", "feature-login", "feature")
    assert turntree("session", "create", "featur").code == 0
    assert turntree("session", "show", "featur", "--json").document["label"] == "featur"


@pytest.mark.parametrize("label", ["größe", "修正", "проект/вход", "ทำงาน"])
def test_a_label_may_have_letters_of_any_alphabet(
    turntree: Call, project: Project, label: str
) -> None:
    assert turntree("session", "create", label).code == 0
    project.say("Hello", session=label)
    assert turntree("switch", label).out.startswith(f"HEAD is {label} now")
    assert turntree("log", f"{label}@{{0}}", "--json").documents[0]["sessions"] == [label]
    assert turntree("tag", "HEAD", label).out.endswith(f"has the tag {label}\n")
    assert turntree("session", "rename", label, "plain").code == 0
    assert turntree("session", "show", label, "--json").document["label"] == "plain"


def test_a_label_is_found_however_its_accents_are_typed(turntree: Call) -> None:
    turntree("session", "create", "cafe\u0301")
    assert turntree("session", "list", "--json").documents[0]["label"] == "caf\u00e9"
    for typed in ("cafe\u0301", "caf\u00e9"):
        assert turntree("session", "show", typed).code == 0
    assert turntree("session", "create", "caf\u00e9").code == 1


@pytest.mark.parametrize("label", ["a\u202eb", "m\u0430in", "a\u200bb", "\uff4dain", "a b"])
def test_a_label_that_deceives_is_refused(turntree: Call, label: str) -> None:
    answer = turntree("session", "create", label)
    assert answer.code == 2
    assert "for example: fix-login" in answer.err


def test_label_is_not_a_command_and_suggests_rename(turntree: Call) -> None:
    assert turntree("session", "create", "main").code == 0
    answer = turntree("label", "main", "other")
    assert answer.code == 2
    assert "next: turntree session rename SESSION LABEL\n" in answer.err
