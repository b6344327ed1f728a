"""The guide to the API, typed from its first line to its last before a real server."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from proofs.http_world import ServeProcess, serving_apart
from tests.databases import as_owner
from tests.examples.tutorial import ROOT, Shell, reader
from turntree.boot.open import Settings

PAGE = ROOT / "docs/howto/use-the-api.md"
BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "https://turntree.example.net"
MARK = "\x1eblock\n"
SOON_S = 240.0

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def settings(
    tmp_path: Path, conninfo: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """How the server of the page opens its ledger, in which a model repeats what it is told."""
    reader(tmp_path, conninfo, monkeypatch)
    monkeypatch.setenv("TURNTREE_WORKSPACE", "team")
    typed = Shell(tmp_path, monkeypatch, lambda _: "")
    typed.type("turntree provider create script --type scripted")
    typed.type("turntree model create echo --backend scripted-1 --provider script")
    return Settings(place / "served", as_owner(conninfo), workspace="team", user="ana")


async def test_page_can_be_typed_from_top_to_bottom(settings: Settings, tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    program, script = [block for block in blocks if block.startswith("import ")]
    commands = [block for block in blocks if block not in {program, script}]
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    async with serving_apart(settings) as served:
        key = await asyncio.to_thread(_take_key, served, tmp_path)
        typed = "".join(f"printf %s '{MARK}'\n{block}" for block in commands)
        for one in ("program.py", "script.py"):
            typed += f"\nprintf %s '{MARK}'\n{sys.executable} {one}\n"
        typed = f"set -euo pipefail\n{typed}"
        typed = typed.replace(ADDRESS, served.url)
        ended = await asyncio.to_thread(_type, typed, f"{key}\n", tmp_path)
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    assert key not in ended.stdout + ended.stderr
    _, *printed = ended.stdout.split(MARK)
    told = {block.splitlines()[0]: text for block, text in zip(commands, printed, strict=False)}
    _check(told)
    waited = printed[-1].splitlines()
    assert waited[0] == "Once more, and wait."
    assert waited[-1] == "['main', 'other-way', 'third-way']"
    lines = printed[-2].splitlines()
    assert lines[0] == "ana"
    assert "Now from Python." in lines
    assert {"main", "other-way", "third-way", "['one-time link', 'dashboard']"} <= {*lines}
    assert any("has moved" in line for line in lines)
    assert any("no-such-session" in line for line in lines)


def _check(told: Mapping[str, str]) -> None:
    """Compare what the blocks printed with what the page says of them, by their first lines."""

    def of(start: str) -> str:
        (printed,) = [text for line, text in told.items() if line.startswith(start)]
        return printed

    assert json.loads(of('api "$API/me"'))["user"] == "ana"
    events = of('api -N "$API/runs/$RUN/events"')
    assert "\nevent: step\n" in events
    assert "\nevent: end\n" in events
    assert of('api "$API/runs/$RUN"') == "finished\n"
    assert of('api "$API/turns/$RUN" ') == "What is left to do?\n"
    assert of('api "$API/turns/$RUN/raw"').startswith("good sha256:")
    assert '"label":"other-way"' in of("api -H 'Idempotency-Key: fork-1'")
    assert of('api -H "If-Match') == "412\n"
    assert json.loads(of("api -H 'Idempotency-Key: undo-1'"))["turns"] == 2
    assert set(of("cat > pages.sh").split()) == {"main", "other-way"}
    assert "hits" in json.loads(of("api -G --data-urlencode"))
    assert "event: hello" in of("api -N --max-time 2")
    assert json.loads(of('api "$API/turns/no-such-session"'))["status"] == 404


def test_stream_that_is_resumed_lacks_what_was_seen(tmp_path: Path) -> None:
    """The expression of the page finds the first position of a stream."""
    (line,) = re.findall(r"^POSITION=.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    events = "id: 1\nevent: step\ndata: {}\n\nid: 2\nevent: end\ndata: {}\n\n"
    (tmp_path / "events").write_text(events, encoding="utf-8")
    ended = _type(f'{line}\nprintf %s "$POSITION"', "", tmp_path)
    assert ended.stdout == "1"


def _take_key(served: ServeProcess, folder: Path) -> str:
    """Return the key that the printed link gives."""
    code = json.dumps({"code": served.told["link"].partition("#code=")[2]})
    send = "curl -sS --fail-with-body -H 'Content-Type: application/json' -d @-"
    answer = _type(f"{send} {served.url}/w/team/api/v1/first-key", code, folder)
    return str(json.loads(answer.stdout)["key"])


def _type(script: str, typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script], input=typed, cwd=folder, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False, timeout=SOON_S,
    )  # fmt: skip
