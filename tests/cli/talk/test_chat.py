"""``chat`` as somebody types into it who is no person: lines in, lines out."""

import json
import os
import readline
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.talker import TOOLS, chat, furnish
from turntree.cli.head_file import read_head
from turntree.cli.talk.chat import Lines, without_keys

ROOT = Path(__file__).parent.parent.parent.parent


def test_a_talk_is_answered_and_stays(turntree: Call) -> None:
    furnish(turntree)
    first = chat(["Good morning", "the sum please"], "--tools", TOOLS)
    assert first.code == 0
    lines = first.lines
    assert lines[0].startswith("main, nothing was said yet")
    assert lines[1] == "Good morning"
    assert "tokens" in lines[2]
    assert lines[3:5] == ["They want a sum.", "Let me add."]
    assert lines[5].startswith("  → add 20 22 … ok ")
    assert lines[6] == "It is 42."
    again = chat([])
    assert again.lines[0].startswith("main, at ")
    assert again.lines[1:] == [
        "main> Good morning", "Good morning",
        "main> the sum please", "Let me add.", "  → add 20 22 ok", "It is 42.",
    ]  # fmt: skip
    assert turntree("verify", "main").code == 0


def test_a_session_that_does_not_exist_begins_and_is_the_current_one(turntree: Call) -> None:
    furnish(turntree)
    assert chat(["hello"], "fresh").code == 0
    assert read_head(Path.cwd()) == "fresh"
    assert chat([]).lines[1:] == ["fresh> hello", "hello"]


def test_slashes_move_the_session(turntree: Call) -> None:
    furnish(turntree)
    told = chat(
        ["one", "two", "/fork side", "three", "/log", "/switch main", "/rewind", "/undo", "/quit",
         "never said"]
    )  # fmt: skip
    out = told.out
    assert "side begins at " in out
    assert "this is main now" in out
    assert out.count("main moved ") == 2
    assert "never said" not in out
    assert told.err.endswith("go on with: turntree chat main\n")
    titles = [turn["title"] for turn in turntree("log", "side", "--json").documents]
    assert titles == ["three", "two", "one"]
    assert [turn["title"] for turn in turntree("log", "main", "--json").documents] == ["two", "one"]


def test_another_model_may_answer_from_now_on(turntree: Call) -> None:
    furnish(turntree)
    rules = json.dumps([{"when": "", "replies": [{"text": "The other one."}]}])
    turntree("provider", "create", "other", "--type", "scripted", "--set", f"rules={rules}")
    turntree("model", "create", "second", "--backend", "scripted-1", "--provider", "other")
    told = chat(["hello", "/model second", "hello", "/fork", "hello"], "--model", "echo")
    assert "@(second) (scripted-1) answers via @(other)" in told.out
    answers = [line for line in told.lines if line in ("hello", "The other one.")]
    assert answers == ["hello", "The other one.", "The other one."]
    assert read_head(Path.cwd()) == "main-2"


def test_the_context_of_the_last_turn_is_shown(turntree: Call) -> None:
    furnish(turntree)
    assert "nothing was said yet" in chat(["/context"]).out
    assert "assembled again it is the same" in chat(["hello", "/context"]).out


def test_mistakes_do_not_end_a_chat(turntree: Call) -> None:
    furnish(turntree)
    told = chat(["/nonsense", "/rewind x", "/model nobody", "/switch", "/undo", "/cancel", "still"])
    assert told.code == 0
    assert told.err.count("error: ") == 5
    assert "there is no /nonsense: see /help" in told.err
    assert "nothing is being answered" in told.out
    assert "still" in told.lines


def test_a_line_may_begin_with_a_slash_or_go_on(turntree: Call) -> None:
    furnish(turntree)
    out = chat(["//etc/hosts", "one\\", "two"]).lines
    assert out[1] == "/etc/hosts"
    assert out[3:5] == ["one", "two"]


def test_nobody_says_which_model(turntree: Call) -> None:
    turntree("session", "create", "main")
    told = chat(["hello"])
    assert "no_model" in told.out
    assert "turntree model create" in told.out


def test_programs_may_chat_in_json(turntree: Call) -> None:
    furnish(turntree)
    told = chat(["hello"], "--json").documents
    kinds = [one["event"] for one in told]
    assert kinds[0] == "begun"
    assert kinds[-2:] == ["said", "ended"]
    assert told[-1]["text"] == "hello"


@pytest.mark.slow
def test_what_was_sent_meanwhile_is_answered_first(turntree: Call) -> None:
    furnish(turntree)
    assert turntree("send", "main", "while you were away", "--no-wait").code == 0
    out = chat(["and now"]).lines
    assert out[1:3] == ["user> while you were away", "while you were away"]
    assert "and now" in out


def interrupt(typed: Any, expected: Any) -> None:
    """Press Ctrl-C until it is heard: one that comes just before a line is read is not."""
    for _ in range(20):
        typed.sendintr()
        if typed.expect_exact([expected, pexpect.TIMEOUT], timeout=3) == 0:
            return
    raise AssertionError(f"{expected} was not seen")


KEY = "sk-ant-" + "a1B2" * 12
PEM = ["-----BEGIN PRIVATE KEY-----", "MIIE" * 16, "MIIE" * 16, "-----END PRIVATE KEY-----"]


def test_what_was_typed_is_kept_without_secret_keys(tmp_path: Path) -> None:
    readline.clear_history()
    try:
        for line in ("hello", f"my key is {KEY}", "two \\", "lines"):
            readline.add_history(line)
        Lines(tmp_path, is_person=True).keep()
        kept = tmp_path / "chat.history"
        assert kept.stat().st_mode & 0o777 == 0o600
        lines = kept.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "hello"
        assert lines[1].startswith("my key is [redacted:")
        assert lines[2:] == ["two \\", "lines"]
        assert KEY not in kept.read_text(encoding="utf-8")
    finally:
        readline.clear_history()


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_key_of_several_lines_is_not_kept_either(end: str) -> None:
    typed = ["one", *(f"{line}{end}" for line in PEM[:-1]), PEM[-1], "two \\", "lines"]
    kept = without_keys(typed)
    assert (kept[0], kept[-2:]) == ("one", ["two \\", "lines"])
    assert "MIIE" not in str(kept)
    assert without_keys(typed[-2:]) == typed[-2:]


@pytest.mark.slow
def test_ctrl_c_ends_an_answer_and_pressed_again_the_chat(turntree: Call) -> None:
    furnish(turntree, [{"when": "long", "replies": [{"text": "word " * 200}]}],
            "--set", "word_delay_s=0.05")  # fmt: skip
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
    typed = pexpect.spawn(
        f"{sys.executable} -m turntree.cli.main chat", env=environment, timeout=60, encoding="utf-8"
    )
    typed.expect_exact("main> ")
    typed.sendline("a long one")
    typed.expect_exact("word word word")
    typed.sendintr()
    typed.expect_exact("(canceled)")
    typed.expect_exact("main> ")
    interrupt(typed, "Ctrl-C again")
    interrupt(typed, pexpect.EOF)
    typed.close()
    assert typed.exitstatus == 0
    (turn,) = turntree("log", "--all", "--json").documents
    assert turn["outcome"] == "canceled"
