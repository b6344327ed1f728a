"""Archived turns: hidden from lists and searches, found by every address, shown again by undo."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import furnish


@pytest.fixture
def tree(turntree: Call) -> Call:
    """A session of three turns, and a fork of the second with one of its own."""
    furnish(turntree)
    for words in ("a harbour", "a lighthouse keeper", "a lighthouse lamp"):
        assert turntree("send", "main", words).code == 0
    turntree("fork", "main~1", "side")
    assert turntree("send", "side", "a lighthouse door").code == 0
    return turntree


def titles(turntree: Call, *words: str) -> set[str]:
    return {one["title"] for one in turntree(*words, "--json").documents}


KEEPER, LAMP, DOOR = "a lighthouse keeper", "a lighthouse lamp", "a lighthouse door"


def write_diary(turntree: Call) -> str:
    """Return the id of a turn in a private session of the user."""
    furnish(turntree)
    turntree("session", "create", "diary", "--private")
    turn = turntree("send", "diary", "a secret plan", "--json").document["turn"]
    assert isinstance(turn, str)
    return turn


def test_an_archived_turn_hides_with_what_follows_it(tree: Call) -> None:
    keeper = tree("show", "main~1", "--json").document
    told = tree("archive", "main~1")
    assert told.code == 0
    assert "is archived, with what follows" in told.out
    short = told.out.split()[0]
    assert f"undo with: turntree unarchive {short}" in told.err
    assert "next: turntree session archive" in told.err
    # Lists and searches leave it out, and the fork of it too.
    assert tree("search", "lighthouse").code == 1
    assert tree("search", "in:main").out.count("lighthouse") == 0
    assert titles(tree, "log", "--graph") == {"a harbour"}
    assert tree("show", ":/lighthouse").code == 3
    # Every address leads to it, and a list of everything has it.
    assert tree("show", keeper["id"], "--json").document["tags"] == ["archived"]
    assert titles(tree, "log", "main") == {"a harbour", KEEPER, LAMP}
    assert titles(tree, "log", "--all") == {"a harbour", KEEPER, LAMP, DOOR}
    assert titles(tree, "search", "lighthouse", "archived:yes") == {KEEPER, LAMP, DOOR}
    assert titles(tree, "search", "archived:yes") == {KEEPER, LAMP, DOOR}
    assert tree("search", "harbour", "archived:yes").code == 1
    # It goes on, and nothing is lost.
    assert tree("send", "side", "a lighthouse stair").code == 0
    assert tree("search", "stair").code == 1
    assert tree("verify", "side").code == 0
    assert tree("fsck").code == 0
    again = tree("archive", "main~1")
    assert "(as before)" in again.out
    assert "undo" not in again.err
    assert tree("unarchive", short).code == 0
    assert titles(tree, "search", "lighthouse") == {KEEPER, LAMP, DOOR, "a lighthouse stair"}
    assert DOOR in titles(tree, "log", "--graph")


def test_one_branch_is_archived_and_the_others_stay(tree: Call) -> None:
    tree("archive", "side")
    assert titles(tree, "search", "lighthouse") == {KEEPER, LAMP}
    assert titles(tree, "log", "--graph") == {"a harbour", KEEPER, LAMP}
    # A message is not sent to an archived turn, however well it fits.
    route = tree("send", "--dry-run", "--to", "", "the lighthouse door", "--json").document
    assert "side" not in str(route)


def test_what_is_archived_with_an_earlier_turn_is_shown_again_with_that_one(tree: Call) -> None:
    made = tree("archive", "main~1", "--json").document
    assert (made["archived"], made["changed"], made["sessions"]) == (True, True, ["main", "side"])
    refused = tree("unarchive", "main")
    assert refused.code != 0
    assert "is archived with" in refused.err
    assert "next: turntree unarchive" in refused.err
    assert tree("search", "lamp").code == 1
    assert tree("archive", "main", "nothing").code == 3


def test_another_viewer_archives_nothing_that_is_private(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = write_diary(turntree)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("archive", turn).code == 3
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert titles(turntree, "search", "secret") == {"a secret plan"}


def test_a_guest_of_a_private_session_archives_none_of_its_turns(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = write_diary(turntree)
    assert turntree("program", "grant", "diary", "bob", "invoke").code == 0
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert turntree("tag", "add", turn, "kept").code == 0
    for words in (("archive", turn), ("tag", "add", turn, "archived")):
        refused = turntree(*words)
        assert refused.code != 0
        assert "configure" in refused.err
    assert titles(turntree, "search", "secret") == {"a secret plan"}


def test_a_page_from_elsewhere_archives_nothing_here(
    tree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, back = tmp_path / "page.html", tmp_path / "back.html"
    assert tree("share", "main", "-o", str(page)).code == 0
    monkeypatch.setenv("TURNTREE_WORKSPACE", "second")
    assert tree("import", str(page)).code == 0
    keeper = tree("search", KEEPER, "--json").documents[0]
    assert tree("archive", keeper["id"]).code == 0
    session = tree("session", "list", "--json").documents[0]["label"]
    assert tree("share", session, "-o", str(back)).code == 0
    monkeypatch.setenv("TURNTREE_WORKSPACE", "tests")
    tree("import", str(back))
    assert titles(tree, "search", "lighthouse") == {KEEPER, LAMP, DOOR}
