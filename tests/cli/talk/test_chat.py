"""``chat`` as somebody types into it who is no person: lines in, lines out."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.talker import TOOLS, chat, furnish
from turntree.cli.talk.line_editor import read_history, without_keys, write_history
from turntree.system.head_file import read_head
from turntree.testing.scripted.server import MODEL, Reply, ScriptedModel

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
    assert lines[5].startswith("  → add a=20 b=22 … ok ")
    assert lines[6] == "It is 42."
    again = chat([])
    assert again.lines[0].startswith("main, at ")
    assert again.lines[1:] == [
        "main> Good morning", "Good morning",
        "main> the sum please", "Let me add.", "  → add a=20 b=22 ok", "It is 42.",
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


@pytest.mark.parametrize("session", ["fresh", "main"])
def test_chat_without_a_model_fails_before_the_prompt_and_leaves_nothing(
    turntree: Call, session: str
) -> None:
    turntree("session", "create", "main")
    told = chat(["hello"], session)
    assert told.code != 0
    assert "there is no model that could answer" in told.err
    assert "ANTHROPIC_API_KEY" in told.err
    assert "next: turntree model create" in told.err
    assert turntree("log", "--all", "--json").documents == []
    assert [one["label"] for one in turntree("session", "list", "--json").documents] == ["main"]
    assert read_head(Path.cwd()) is None


def test_chat_with_a_model_whose_key_is_missing_leaves_nothing(turntree: Call) -> None:
    turntree("provider", "create", "claude", "--type", "anthropic")
    turntree("model", "create", "opus", "--backend", "claude-opus-4-8", "--provider", "claude")
    told = chat(["hello"])
    assert told.code != 0
    assert "ANTHROPIC_API_KEY" in told.err
    assert turntree("session", "list", "--json").documents == []


def test_a_key_in_the_environment_is_enough(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel([Reply("Hello from the vendor.")]) as model:
        host = model.url.removeprefix("http://")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        refused = chat(["hello"])
        assert refused.code != 0
        assert f"ANTHROPIC_API_KEY may not be sent to {host} yet" in refused.err
        assert model.exchanges == []
        allow = refused.err.partition("next: turntree ")[2].split()
        assert turntree(*allow).code == 0
        told = chat(["hello"])
        assert told.code == 0, told.err
        assert "Hello from the vendor." in told.lines
        assert f"@(claude) ({MODEL}) answers via @(anthropic)" in told.err
        undo = told.err.partition("undo with: turntree ")[2].splitlines()[0].split()
        assert turntree(*undo).code == 0


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
    kept = tmp_path / "chat.history"
    write_history(kept, ["hello", f"my key is {KEY}", "two \\\nlines", "a path \\"])
    assert kept.stat().st_mode & 0o777 == 0o600
    messages = read_history(kept)
    assert messages[0] == "hello"
    assert messages[1].startswith("my key is [redacted:")
    assert messages[2:] == ["two \\\nlines", "a path \\ "]
    assert KEY not in kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_key_of_several_lines_is_not_kept_either(end: str) -> None:
    typed = ["one", *(f"{line}{end}" for line in PEM[:-1]), PEM[-1], "two \\", "lines"]
    kept = without_keys(typed)
    assert (kept[0], kept[-2:]) == ("one", ["two \\", "lines"])
    assert "MIIE" not in str(kept)
    assert without_keys(typed[-2:]) == typed[-2:]


PASTE = "first line\n\n  /indented\nlast line"


def type_into_chat(*options: str) -> Any:
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
    return pexpect.spawn(
        sys.executable, ["-m", "turntree.cli.main", "chat", *options],
        env=environment, timeout=60, encoding="utf-8", dimensions=(24, 80),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n"])
def test_a_paste_of_several_lines_is_one_message(turntree: Call, breaks: str) -> None:
    furnish(turntree)
    typed = type_into_chat()
    typed.expect_exact("main>")
    typed.send(f"\x1b[200~{PASTE.replace(chr(10), breaks)}{breaks}\x1b[201~")
    typed.expect_exact("last line")
    typed.send("\r")
    typed.expect_exact("tokens")
    typed.expect_exact("main>")
    typed.send("one\x1b\rtwo\r")
    typed.expect_exact("tokens")
    typed.expect_exact("main>")
    typed.sendeof()
    typed.expect_exact("go on with: turntree chat main")
    typed.expect(pexpect.EOF)
    typed.close()
    assert typed.exitstatus == 0
    messages = json.loads(turntree("export", "main", "--format", "openai").out)
    assert [one["content"] for one in messages if one["role"] == "user"] == [PASTE, "one\ntwo"]


@pytest.mark.slow
def test_ctrl_c_ends_an_answer_and_pressed_again_the_chat(turntree: Call) -> None:
    furnish(turntree, [{"when": "long", "replies": [{"text": "word " * 200}]}],
            "--set", "word_delay_s=0.05")  # fmt: skip
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1"}
    typed = pexpect.spawn(
        f"{sys.executable} -m turntree.cli.main chat", env=environment, timeout=60, encoding="utf-8"
    )
    typed.expect_exact("main>")
    typed.sendline("a long one")
    typed.expect_exact("word word word")
    typed.sendintr()
    typed.expect_exact("(canceled)")
    typed.expect_exact("main>")
    interrupt(typed, "Ctrl-C again")
    interrupt(typed, pexpect.EOF)
    typed.close()
    assert typed.exitstatus == 0
    (turn,) = turntree("log", "--all", "--json").documents
    assert turn["outcome"] == "canceled"
