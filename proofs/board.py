"""The claim: `turntree ps` shows what every agent does within a second, and every collision.

    python -m proofs.board [--quick]

Four agents have sessions in one folder. Their hooks, as `turntree on` installed them, are called
with each tool's own words, and their transcripts grow in each tool's own format. There is no
database. `turntree ps --watch --json` runs beside them, and what it prints is held against a list
of what was done when: the state of a session must be right within a second, every file that two
agents edited in turns that ran at the same time must be named, no other may be, and watching may
take a hundredth of one processor.

The control judges what is shown again as if waits had not been told.
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from uuid import UUID

from anyio.to_thread import run_sync

from proofs.agents.stage import list_with
from proofs.figures import Proof, run
from proofs.transcripts.live import LIVE, LiveTranscript
from turntree.cli.hook_process.daemon import stop_daemon
from turntree.hooks.coding_agents import TOOLS
from turntree.hooks.settings_text import list_commands
from turntree.hooks.spool import FOLDER, Spool
from turntree.transcripts.importer import ToolPaths

COMMAND: Final = (sys.executable, "-m", "turntree.cli.main")
RIGHT_MAX_S: Final = 1.0
APART_S: Final = 1.3
"""Between two changes of one session: each can be seen before the next."""
READY_MAX_S: Final = 40.0
END_MAX_S: Final = 60.0
SETTLE_S: Final = 2.5
FILES: Final = tuple(f"part_{number}.py" for number in range(12))
WAITS: Final[Mapping[str, Mapping[str, str]]] = {
    "claude-code": {"notification_type": "permission_prompt"},
    "gemini": {"notification_type": "ToolPermission"},
    "copilot": {"notification_type": "permission_prompt"},
    "codex": {"tool_name": "shell"},
}
"""What each tool says besides when it waits for its user."""

Step = Literal["begin", "wait", "agree", "edit", "end", "close", "session"]
STEPS: Final[Mapping[str, Sequence[Step]]] = {
    "open": ("begin",),
    "working": ("wait", "edit", "edit", "end"),
    "waiting": ("agree", "agree", "end"),
    "done": ("begin", "begin", "begin", "close"),
    "closed": ("session",),
}
"""What may happen to a session in each state."""
LEADS_TO: Final[Mapping[Step, str]] = {
    "begin": "working", "wait": "waiting", "agree": "working", "edit": "working", "end": "done",
    "close": "closed", "session": "open",
}  # fmt: skip


@dataclass(slots=True)
class Turn:
    """One turn, as it really was."""

    begun: float
    ended: float | None = None
    files: dict[str, float] = field(default_factory=dict[str, float])
    """When it first edited each file."""


@dataclass(slots=True)
class PlayedSession:
    """A session of an agent, and what really happened in it."""

    tool: str
    id: str
    transcript: LiveTranscript
    state: str = "open"
    ready_at: float = 0.0
    turns: list[Turn] = field(default_factory=list[Turn])


@dataclass(frozen=True, slots=True)
class Change:
    """What a session became, and when."""

    session: str
    state: str
    at: float


async def prove(proof: Proof) -> None:
    """Play the agents and hold what is shown against what was done."""
    sessions, changes, rate = (2, 30, 6.0) if proof.quick else (8, 1000, 3.0)
    with tempfile.TemporaryDirectory(prefix="turntree-board-") as place:
        stage = Playhouse(Path(place))
        await run_sync(stage.set_up)
        with stage.watching() as screen:
            await run_sync(_play, stage, screen, sessions, changes, rate, random.Random(proof.seed))
        stage.close()
        _judge(proof, stage, screen)


def _judge(proof: Proof, stage: "Playhouse", screen: "Screen") -> None:
    seen = screen.documents
    right = [_is_right(change, seen) for change in stage.changes]
    share = 100 * sum(right) / len(right)
    proof.note("sessions", len(stage.sessions), "sessions")
    proof.note("changes of state", len(right), "changes")
    proof.at_least(f"right within {RIGHT_MAX_S:g} s", share, "%", 99.0, of="time")
    last = {agent["session"]: agent["state"] for agent in seen[-1][1]["agents"]}
    wrong = sum(last.get(session.id) != session.state for session in stage.sessions)
    proof.at_most("wrong in the end", wrong, "sessions", 0)
    expected, shown = _real_overlaps(stage.sessions), _shown_overlaps(seen)
    proof.at_least("files edited by two at once", len(expected), "overlaps", 1)
    proof.at_most("overlaps that were not named", len(expected.keys() - shown), "overlaps", 0)
    proof.at_most("overlaps that were none", _count_false(seen, expected), "overlaps", 0)
    proof.at_most("processor of the watcher", 100 * screen.cpu_share, "%", 1.0, of="time")
    deaf = [(at, _without_waits(document)) for at, document in seen]
    heard = sum(_is_right(change, deaf) for change in stage.changes)
    proof.at_most("control: right without waits", 100 * heard / len(right), "%", 98.9)


def _play(
    stage: "Playhouse",
    screen: "Screen",
    sessions: int,
    changes: int,
    rate: float,
    chance: random.Random,
) -> None:
    for tool in LIVE:
        for number in range(sessions):
            stage.open(tool, str(UUID(int=chance.getrandbits(128), version=4)), number)
    screen.wait_for(len(stage.sessions))
    screen.start_clock()
    next_at = time.monotonic()
    while len(stage.changes) < changes:
        next_at += 1 / rate
        time.sleep(max(0.0, next_at - time.monotonic()))
        rested = [one for one in stage.sessions if one.ready_at <= time.monotonic()]
        if not rested:
            continue
        session = chance.choice(rested)
        # Few files for few sessions, so that they meet.
        file = chance.choice(FILES[: len(stage.sessions) // 2])
        stage.step(session, chance.choice(STEPS[session.state]), file)
    screen.stop_clock()
    # The last changes can be seen as well before these sessions change again.
    time.sleep(APART_S)
    for session in stage.sessions:
        if session.state == "working":
            stage.step(session, "wait", "")
    time.sleep(SETTLE_S)


class Playhouse:
    """A person's home with four agents, whose hooks and transcripts are played."""

    def __init__(self, place: Path) -> None:
        self.person, self.home, self.shop = place / "person", place / "home", place / "shop"
        self.sessions: list[PlayedSession] = []
        self.changes: list[Change] = []
        self.environment = {
            **{name: value for name, value in os.environ.items() if "TURNTREE" not in name},
            "HOME": str(self.person),
            "TURNTREE_HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            # Nothing listens there: hooks start a server of their own otherwise.
            "TURNTREE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        }
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"):
            self.environment.pop(name, None)
        self._commands: dict[tuple[str, str], str] = {}

    def set_up(self) -> None:
        """Install the hooks, and find the command of each."""
        for folder in (self.person, self.shop):
            folder.mkdir()
        places = ToolPaths(self.person, {})
        for tool in LIVE:
            words = [*COMMAND, "hook", "install", tool]
            subprocess.run(words, env=self.environment, check=True, capture_output=True)
            text = TOOLS[tool].user_file(places).read_text(encoding="utf-8")
            for event, _, command in list_commands(text):
                self._commands.setdefault((tool, TOOLS[tool].events[event]), command)

    def open(self, tool: str, id: str, number: int) -> None:
        """Have an agent open a session, in which something was said before."""
        folder = self.person if tool == "claude-code" else self.person / f"{tool}-{number}"
        transcript = LIVE[tool](folder, id, str(self.shop))
        transcript.ask("What is here?")
        transcript.answer("A shop.")
        session = PlayedSession(tool, id, transcript)
        self.sessions.append(session)
        self._report(session, "session")

    def step(self, session: PlayedSession, step: Step, file: str) -> None:
        """Have something happen in a session, and write down that it did."""
        match step:
            case "begin":
                session.turns.append(Turn(time.monotonic()))
                self._report(session, "begin")
                session.transcript.ask("Go on.")
            case "agree" | "edit":
                path = str(self.shop / file)
                session.turns[-1].files.setdefault(path, time.monotonic())
                session.transcript.edit(path)
            case "end":
                session.transcript.answer("Done.")
                self._report(session, "end")
                session.turns[-1].ended = time.monotonic()
            case "wait" | "close" | "session":
                self._report(session, step)
        at = time.monotonic()
        session.state, session.ready_at = LEADS_TO[step], at + APART_S
        if step != "edit":
            self.changes.append(Change(session.id, session.state, at))

    @contextmanager
    def watching(self) -> Generator["Screen"]:
        """Run the watcher, and end it."""
        words = [*COMMAND, "ps", "--watch", "--all", "--json"]
        watcher = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, text=True)
        screen = Screen(watcher)
        reader = threading.Thread(target=screen.read)
        reader.start()
        try:
            yield screen
        finally:
            watcher.terminate()
            watcher.wait()
            reader.join()

    def close(self) -> None:
        """Wait until nothing that the hooks left running writes into the home any more."""
        stop_daemon(Spool(self.home / FOLDER))
        until = time.monotonic() + END_MAX_S
        # The daemon is not all: the end of a turn leaves a process behind that reads the spool.
        while left := list_with("TURNTREE_HOME", str(self.home)):
            if time.monotonic() > until:
                raise TimeoutError(f"processes of hooks are still running: {left}")
            time.sleep(0.05)

    def _report(self, session: PlayedSession, kind: str) -> None:
        told: dict[str, Any] = {"cwd": str(self.shop)}
        if session.tool == "copilot":
            told |= {"sessionId": session.id, "transcriptPath": str(session.transcript.file)}
        else:
            told |= {"session_id": session.id, "transcript_path": str(session.transcript.file)}
        if kind == "wait":
            told |= WAITS[session.tool]
        command = self._commands[session.tool, kind]
        subprocess.run(
            ["sh", "-c", command], input=json.dumps(told), text=True, check=True,
            cwd=self.shop, env=self.environment,
        )  # fmt: skip


class Screen:
    """What the watcher has printed, with the time of each line."""

    def __init__(self, watcher: "subprocess.Popen[str]") -> None:
        self._watcher = watcher
        self.documents: list[tuple[float, dict[str, Any]]] = []
        self._started = (0.0, 0.0)
        self.cpu_share = 0.0

    def read(self) -> None:
        """Take lines until the watcher ends."""
        assert self._watcher.stdout is not None
        for line in self._watcher.stdout:
            self.documents.append((time.monotonic(), json.loads(line)))

    def wait_for(self, count: int) -> None:
        """Wait until all sessions are shown."""
        until = time.monotonic() + READY_MAX_S
        while not (self.documents and len(self.documents[-1][1]["agents"]) >= count):
            if time.monotonic() > until:
                raise TimeoutError("the watcher does not show all sessions")
            time.sleep(0.05)

    def start_clock(self) -> None:
        """Measure from here on."""
        self._started = time.monotonic(), self._cpu_s()

    def stop_clock(self) -> None:
        """Measure no longer."""
        wall, cpu = self._started
        self.cpu_share = (self._cpu_s() - cpu) / (time.monotonic() - wall)

    def _cpu_s(self) -> float:
        told = Path(f"/proc/{self._watcher.pid}/stat").read_text(encoding="utf-8")
        fields = told.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_right(change: Change, seen: Sequence[tuple[float, Mapping[str, Any]]]) -> bool:
    """Whether the state was shown a second later."""
    due = change.at + RIGHT_MAX_S
    shown = None
    for at, document in seen:
        if at > due:
            break
        shown = document
    if shown is None:
        return False
    states = {agent["session"]: agent["state"] for agent in shown["agents"]}
    return states.get(change.session) == change.state


def _real_overlaps(sessions: Sequence[PlayedSession]) -> dict[tuple[str, str, str], float]:
    """Return since when two sessions have edited the same file in turns at the same time."""
    found: dict[tuple[str, str, str], float] = {}
    for one in sessions:
        for other in sessions:
            if one.id >= other.id:
                continue
            for mine in one.turns:
                for theirs in other.turns:
                    ends = mine.ended or time.monotonic(), theirs.ended or time.monotonic()
                    if mine.begun > ends[1] or theirs.begun > ends[0]:
                        continue
                    for path in mine.files.keys() & theirs.files.keys():
                        since = max(mine.files[path], theirs.files[path])
                        overlap = (path, one.id, other.id)
                        found[overlap] = min(since, found.get(overlap, since))
    return found


def _shown_overlaps(
    seen: Sequence[tuple[float, Mapping[str, Any]]],
) -> set[tuple[str, str, str]]:
    found: set[tuple[str, str, str]] = set()
    for _, document in seen:
        for overlap in document["overlaps"]:
            ids = sorted(one["session"] for one in overlap["sessions"])
            found |= {(overlap["path"], a, b) for a in ids for b in ids if a < b}
    return found


def _count_false(
    seen: Sequence[tuple[float, Mapping[str, Any]]], expected: Mapping[tuple[str, str, str], float]
) -> int:
    """Return how often a session was named for a file that it had edited beside none of the others.

    By then: later on, most sessions have met most others.
    """
    since = {**expected, **{(path, b, a): at for (path, a, b), at in expected.items()}}
    named: dict[tuple[str, str, tuple[str, ...]], float] = {}
    for at, document in seen:
        for overlap in document["overlaps"]:
            ids = tuple(one["session"] for one in overlap["sessions"])
            for id in ids:
                named.setdefault((overlap["path"], id, ids), at)
    return sum(
        all(since.get((path, id, b), math.inf) > at for b in ids)
        for (path, id, ids), at in named.items()
    )


def _without_waits(document: Mapping[str, Any]) -> dict[str, Any]:
    agents = [
        {**agent, "state": "working" if agent["state"] == "waiting" else agent["state"]}
        for agent in document["agents"]
    ]
    return {**document, "agents": agents}


if __name__ == "__main__":
    run(prove, __doc__ or "")
