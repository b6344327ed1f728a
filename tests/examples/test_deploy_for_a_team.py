"""The page on a server for a team: its commands, and its requests beside a real server."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

import pytest

from proofs.http_world import serving_apart
from tests.boot.test_shards import empty, write_map
from tests.cli.hint_runner import HintRunner, begin_and_end
from tests.databases import Databases, as_owner
from tests.examples.tutorial import ROOT, Shell, check_again, reader
from turntree.boot.open import Settings

PAGE = ROOT / "docs/howto/deploy-for-a-team.md"
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )?turntree .*$", re.MULTILINE)
REQUEST = re.compile(r"^curl .*$", re.MULTILINE)
SERVER = "http://127.0.0.1:8744"
REMOTE = "## From the command line"
"""The section whose commands work over a server."""
SHARDS = "## Use several databases"
"""The section whose commands need a map of databases."""
NAMED = "https://turntree.example.net"
SOON_S = 60.0

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def shell(
    tmp_path: Path, conninfo: str, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> Shell:
    """The workspace of the page, with a model that repeats what it is told."""
    reader(tmp_path, conninfo, monkeypatch)
    monkeypatch.setenv("TURNTREE_WORKSPACE", "team")
    typed = Shell(tmp_path, monkeypatch, lambda _: "", hints=hints)
    typed.type("turntree provider create script --type scripted")
    typed.type("turntree model create echo --backend scripted-1 --provider script")
    return typed


@pytest.fixture
def settings(shell: Shell, place: Path, conninfo: str) -> Settings:
    """How the server of the page opens its ledger."""
    del shell
    return Settings(place / "served", as_owner(conninfo), workspace="team", user="ana")


def test_commands_of_the_page_can_be_typed_twice(shell: Shell) -> None:
    page = PAGE.read_text(encoding="utf-8").partition(REMOTE)[0]
    commands = COMMAND.findall(page.replace(_section(page, SHARDS), ""))
    assert "turntree serve" in commands
    for good in ((0,), (0, 1, 3, 4)):
        for command in commands:
            _type_here(shell, command, good)


def test_commands_on_several_databases_can_be_typed(
    shell: Shell, databases: Databases, template: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    page = PAGE.read_text(encoding="utf-8").partition(REMOTE)[0]
    with databases.lend(template) as one, databases.lend(template) as two:
        empty(as_owner(two))
        shards = write_map(tmp_path / "shards.toml", as_owner(one), as_owner(two))
        monkeypatch.setenv("TURNTREE_SHARDS", str(shards))
        monkeypatch.delenv("TURNTREE_DATABASE_URL")
        for command in COMMAND.findall(_section(page, SHARDS)):
            _type_here(shell, command, (0, 1))


def _section(page: str, heading: str) -> str:
    """Return the text from a heading to the next one."""
    assert heading in page
    before, _, rest = page.partition(heading)
    return page[len(before) :].removesuffix(rest) + rest.partition("\n## ")[0]


def _type_here(shell: Shell, command: str, good: Container[int]) -> None:
    """Type a command; one that does not end by itself is ended."""
    words = shlex.split(command)
    if words[1] in ("serve", "worker"):
        port = ["--port", "0"] if words[1] == "serve" else []
        code, printed = begin_and_end([*words[1:], *port])
        assert code == 0, (command, printed)
        assert words[1] == "worker" or "/w/team/api/v1" in printed
        return
    lines = shell.type(command, good=good)
    if shell.code:
        check_again(command, lines)


async def test_requests_of_the_page_are_answered(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    requests = REQUEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(requests) == 10
    known = {"CODE": "", "KEY": "", "RUN": ""}
    async with serving_apart(settings) as served:
        known["CODE"] = served.told["link"].partition("#code=")[2]
        answers: list[str] = []
        for request in requests:
            if "accepted-invitations" in request:
                known["CODE"] = await invite("bo")
            typed = request.replace(SERVER, served.url).replace("CODE", known["CODE"])
            typed = typed.replace('"KEY"', f'"{known["KEY"]}"')
            answer = await asyncio.to_thread(_type, typed, known)
            assert "urn:turntree:problem" not in answer, (request, answer)
            answers.append(answer)
            # The key of the agent is for a program; the person logs in with their own.
            if answer.startswith("{") and "Idempotency-Key: ci-1" not in request:
                document = json.loads(answer)
                known["KEY"] = document.get("key", known["KEY"])
                known["RUN"] = document.get("run", known["RUN"])
    _, me, _, events, turn, first, second, login, bo, _ = answers
    assert json.loads(me)["user"] == "ana"
    assert [json.loads(key)["holder"] for key in (first, second, login)] == ["human:bo"] * 3
    assert json.loads(bo)["user"] == "bo"
    assert "\nevent: end\n" in events
    assert json.loads(turn)["reply"][0]["parts"][0]["text"] == "Hello"


async def invite(name: str) -> str:
    """Return the code of a new invitation, whose undo is not tried: it is accepted."""
    told = await asyncio.to_thread(_type, f"turntree invitation create {name} --json", {})
    return str(json.loads(told)["code"])


async def test_commands_over_the_server_of_the_page_work(settings: Settings) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(REMOTE)[2].partition("```text\n")[2]
    commands = section.partition("```")[0]
    assert "turntree key store" in commands
    sent = "turntree session create main && turntree send main one && turntree send main two"
    await asyncio.to_thread(_type, sent, {})
    async with serving_apart(settings) as served:
        code = served.told["link"].partition("#code=")[2]
        made = await asyncio.to_thread(
            _type,
            f"""curl -s -H 'Content-Type: application/json' -d '{{"code": "{code}"}}' """
            f"{served.url}/w/team/api/v1/first-key",
            {},
        )
        typed = commands.replace(NAMED, served.url).replace("key store", 'key store <<<"$KEY"', 1)
        # No database answers there: what is printed came from the server.
        nowhere = {"TURNTREE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
        known = {"KEY": json.loads(made)["key"], **nowhere}
        printed = await asyncio.to_thread(_type, f"set -e\n{typed}", known)
    assert "What is left to do?" in printed
    assert "other-way begins at" in printed


def _type(request: str, known: dict[str, str]) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", request], env={**os.environ, "PATH": path, **known}, capture_output=True,
        text=True, check=False, timeout=SOON_S,
    )  # fmt: skip
    assert ended.returncode == 0, (request, ended.stderr)
    return ended.stdout
