"""Nothing that was stored reaches a terminal as something it obeys, and no password is printed."""

import json
import sys
import unicodedata
from dataclasses import replace

import anyio
import pytest

from tests.cli.conftest import Call
from turntree.boot.open import open_tree
from turntree.cli.harmless import harmless, spelled
from turntree.cli.settings import hide_password
from turntree.cli.transcripts import export
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
EVIL = f"a{CLIPBOARD}b\x1b[2Jc\x9b31md\u202ee\u2066f\x08g\rh"
SECRET = "hunter2-of-ana"


def obeyed(text: str) -> set[str]:
    """Return the signs of a text that a terminal would obey."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {sign for sign in text if sign not in "\n\t" and unicodedata.category(sign) in unseen}


def test_harmless_text_stays_and_nothing_else_does() -> None:
    for text in ("plain\ttext\nmore", "ünï 漢字 👩‍💻", "x" * 1000):
        assert harmless(text) == text
    assert obeyed(harmless(EVIL)) == set()
    assert harmless(EVIL).startswith("abc")
    painted = f"\x1b[32mgreen\x1b[0m {EVIL}"
    assert harmless(painted, colored=True).startswith("\x1b[32mgreen\x1b[0m abc")
    assert obeyed(harmless(painted, colored=True)) == {"\x1b"}
    assert "52;c" not in harmless(painted, colored=True)


def test_json_is_spelled_and_equal() -> None:
    document = {"text": EVIL, "emoji": "👩‍💻", "tag": "\U000e0041"}
    text = spelled(json.dumps(document, ensure_ascii=False, indent=2))
    assert json.loads(text) == document
    assert obeyed(text) == set()


@pytest.fixture
def planted(turntree: Call) -> str:
    """The digest of a turn whose every word is evil."""

    async def plant() -> str:
        async with open_tree() as tree:
            use = ToolUse("c1", f"Bash{EVIL}", {f"k{EVIL}": EVIL})
            said = [
                replace(assistant("x"), parts=(use,)),
                tool(ToolResult("c1", "ok", EVIL)),
                assistant(f"answer {EVIL}"),
            ]
            placed = await tree.turns.record("main", [user(f"hello {EVIL}")], said)
            await tree.turns.tag(placed.turn.id, f"tag{EVIL}")
            return placed.turn.digest.removeprefix("sha256:")[:12]

    return anyio.run(plant)


@pytest.mark.parametrize("color", ["never", "always"])
def test_no_display_passes_on_what_a_terminal_obeys(
    turntree: Call, planted: str, color: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr(export, "_is_terminal", is_terminal)
    shown = (
        "log --all", f"show {planted}", f"show --full {planted}", f"show {planted}:tool/1",
        f"show {planted}:msg/0", f"show {planted}:msg/1", "search hello", "session list",
        f"context {planted}", f"why {planted}", "tag list", f"export {planted} --as md",
        f"export {planted} --as html", f"export {planted}", f"export {planted} --as openai",
        f"show --json {planted}", "log --json", "stats", "status", f"verify {planted}",
    )  # fmt: skip
    for command in shown:
        answer = turntree("--color", color, *command.split())
        allowed = {"\x1b"} if color == "always" else set[str]()
        assert obeyed(answer.out + answer.err) <= allowed, command
        assert "52;c" not in answer.out.replace("\\u001b]52;c", ""), command


def test_no_error_passes_on_what_a_terminal_obeys(turntree: Call) -> None:
    for words in (
        ("show", EVIL),
        ("session", "create", EVIL),
        ("tag", "add", "HEAD", EVIL),
        (EVIL,),
    ):
        answer = turntree("--color", "never", *words)
        assert answer.code != 0
        assert obeyed(answer.out + answer.err) == set()


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ana:{SECRET}@db/x",
        f"postgresql://ana:{SECRET}/with/slash@db:5432/x",
        f"postgresql://ana:p@{SECRET}@db/x",
        f"postgresql://ana:{SECRET}",
        f"postgresql://ana:{SECRET}@db:notaport/x",
        f"postgresql://ana:%zz{SECRET}@db/x",
        f"host=db password={SECRET} user=ana",
        f"host=db password = '{SECRET} and more' user=ana",
        f"postgresql://db/x?user=ana&password={SECRET}",
        f"host=db passwordX password='{SECRET}",
    ],
)
def test_no_password_of_an_address_is_printed(
    bare: Call, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SECRET not in hide_password(address)
    assert "ana" in hide_password(address) or "user" not in address
    monkeypatch.setenv("TURNTREE_DATABASE_URL", address)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")
    for command in ("config get database_url", "config list", "config list --json"):
        answer = bare(*command.split())
        assert SECRET not in answer.out + answer.err
        assert answer.code == 0
    if "@db/" in address or address.startswith("host=db password=") or "?user" in address:
        return  # It is an address: what follows would look for its host.
    for command in ("status", "log", "doctor", "fsck", "server status"):
        answer = bare(*command.split())
        assert SECRET not in answer.out + answer.err, command


def test_every_character_that_is_escaped_in_json_is_not_printable() -> None:
    for code in range(sys.maxunicode + 1):
        assert spelled(f"\n{chr(code)}")[1:] == spelled(chr(code)), hex(code)
