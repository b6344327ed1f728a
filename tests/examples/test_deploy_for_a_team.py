"""The page on a server for a team: its commands, and its requests beside a real server."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from proofs.http_world import serving_apart
from tests.cli.hint_runner import HintRunner, begin_and_end
from tests.databases import as_owner
from tests.examples.tutorial import ROOT, Shell, check_again, reader
from turntree.boot.open import Settings

PAGE = ROOT / "docs/howto/deploy-for-a-team.md"
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )?turntree .*$", re.MULTILINE)
REQUEST = re.compile(r"^curl .*$", re.MULTILINE)
SERVER = "http://127.0.0.1:8744"
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
    commands = COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert "turntree serve" in commands
    for good in ((0,), (0, 1, 3, 4)):
        for command in commands:
            words = shlex.split(command)
            if words[:2] == ["turntree", "serve"]:
                code, printed = begin_and_end([*words[1:], "--port", "0"])
                assert (code, "/w/team/api/v1" in printed) == (0, True), printed
                continue
            lines = shell.type(command, good=good)
            if shell.code:
                check_again(command, lines)


async def test_requests_of_the_page_are_answered(settings: Settings) -> None:
    requests = REQUEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(requests) == 5
    known = {"CODE": "", "KEY": "", "RUN": ""}
    async with serving_apart(settings) as served:
        known["CODE"] = served.told["link"].partition("#code=")[2]
        answers: list[str] = []
        for request in requests:
            typed = request.replace(SERVER, served.url).replace("CODE", known["CODE"])
            answer = await asyncio.to_thread(_type, typed, known)
            assert "urn:turntree:problem" not in answer, (request, answer)
            answers.append(answer)
            if answer.startswith("{"):
                document = json.loads(answer)
                known["KEY"] = document.get("key", known["KEY"])
                known["RUN"] = document.get("run", known["RUN"])
    _, me, _, events, turn = answers
    assert json.loads(me)["user"] == "ana"
    assert "\nevent: end\n" in events
    assert json.loads(turn)["reply"][0]["parts"][0]["text"] == "Hello"


def _type(request: str, known: dict[str, str]) -> str:
    ended = subprocess.run(
        ["bash", "-c", request], env={**os.environ, **known}, capture_output=True, text=True,
        check=True, timeout=SOON_S,
    )  # fmt: skip
    return ended.stdout
