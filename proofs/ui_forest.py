"""Forests for the proofs of the page: sessions of several agents and projects that fork and spawn.

Turns go in by the importers' way, so that a hundred thousand take seconds. Children are written
after their parents, but not in the order of their ids, as imports do it. Knows how the product is
called. Must never know what is measured.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turntree.core.compaction import Compaction
from turntree.core.ids import RANDOM_BITS, Digest, Label, SessionId, TurnId, instant, uuid7
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.session import Origin, Spawn
from turntree.core.turn import Header, Outcome, seal
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Tags
from turntree.system.clock import SystemClock
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn

MINUTE_MS = 60_000
DAY_MS = 1_440 * MINUTE_MS
BEGAN_MS = 1_780_000_000_000
"""May 2026."""
AGENTS = ("claude-code", "codex", "cursor", "gemini", "opencode")
PROJECTS = ("shop", "ledger", "site", "tools", "notes", "engine", "mail", "maps")
VERBS = ("why does", "fix", "test", "review", "measure", "document", "rename", "split", "trace")
NOUNS = (
    "redirect", "index", "cache", "schema", "invoice", "layout", "search", "header", "backup",
)  # fmt: skip
RARE_NOUNS = ("login", "cart", "scroll", "parser", "queue")
RARE_SHARE = 0.025
"""Each rare noun is in about two turns of a hundred, as what people look for is."""
CALLS = (ModelCall("claude-x", Usage(900, 400, 12_000), "anthropic"),)


@dataclass(frozen=True, slots=True)
class PlantedTurn:
    """What is remembered of a turn."""

    id: TurnId
    digest: Digest
    at_ms: int
    agent: str
    project: str


@dataclass(frozen=True, slots=True)
class PlantedSession:
    """A session at its last turn, and the turn that spawned it."""

    id: SessionId
    label: str
    head: PlantedTurn
    spawned_by: tuple[SessionId, TurnId] | None = None


@dataclass(slots=True)
class ForestWriter:
    """Writes threads that fork and spawn, and a session at each head."""

    database: Database
    draw: random.Random
    length_mean: float = 14.0
    fork_share: float = 0.42
    spawn_share: float = 0.08
    days: int = 180
    turns: list[PlantedTurn] = field(default_factory=list[PlantedTurn])
    sessions: list[PlantedSession] = field(default_factory=list[PlantedSession])
    tags: list[TurnId] = field(default_factory=list[TurnId])

    async def plant(self, turns: int, *, threads: Sequence[int] = ()) -> None:
        """Write that many turns; the first sessions have threads of the lengths given."""
        await import_turns(self.database, self._write(turns, threads), hurrying=True)
        store, clock = SessionStore(self.database), SystemClock()
        async with self.database.hurry():
            for session in self.sessions:
                spawn = None
                if session.spawned_by is not None:
                    spawn = Spawn(*session.spawned_by, "call_1")
                await store.create(
                    session.id, Label(session.label), by=f"agent:{session.head.agent}",
                    at=instant(session.head.at_ms), head=session.head.id, spawn=spawn,
                    origin=Origin(session.head.agent, session.id),
                )  # fmt: skip
            marks = Tags(self.database)
            for turn in self.tags:
                await marks.set_tag(turn, "good", on=True, by="human:ana", at=clock.now())

    def _write(self, turns: int, threads: Sequence[int]) -> Iterator[ImportedTurn]:
        while len(self.turns) < turns:
            is_given = len(self.sessions) < len(threads)
            length = 1 + int(self.draw.expovariate(1 / self.length_mean))
            if is_given:
                length = threads[len(self.sessions)]
            length = min(length, turns - len(self.turns))
            chance = self.draw.random()
            if is_given or not self.sessions or chance > self.fork_share:
                agent, project = self.draw.choice(AGENTS), self.draw.choice(PROJECTS)
                at_ms = BEGAN_MS + int(self.draw.random() ** 0.6 * self.days * DAY_MS)
                yield from self._session(length, None, at_ms, agent, project)
            elif chance < self.spawn_share:
                parent = self.draw.choice(self.sessions)
                yield from self._session(
                    min(length, 5), None, parent.head.at_ms + 3_000, parent.head.agent,
                    parent.head.project, (parent.id, parent.head.id),
                )  # fmt: skip
            else:
                left = self.draw.choice(self.turns)
                agent = left.agent if self.draw.random() < 0.7 else self.draw.choice(AGENTS)
                at_ms = left.at_ms + self.draw.randrange(1, 600) * MINUTE_MS
                yield from self._session(length, left, at_ms, agent, left.project)

    def _session(
        self,
        length: int,
        parent: PlantedTurn | None,
        at_ms: int,
        agent: str,
        project: str,
        spawned_by: tuple[SessionId, TurnId] | None = None,
    ) -> Iterator[ImportedTurn]:
        turn = parent
        for _ in range(length):
            yield from self._turn(turn, at_ms, agent, project)
            turn = self.turns[-1]
            at_ms += self.draw.randrange(1, 30) * MINUTE_MS
            if self.draw.random() < 0.01:
                at_ms += 14 * 60 * MINUTE_MS
        assert turn is not None, "a session has at least one turn"
        id = SessionId(uuid7(at_ms, self.draw.getrandbits(RANDOM_BITS)))
        label = f"{agent}/{project}/{id[-8:]}"
        self.sessions.append(PlantedSession(id, label, turn, spawned_by))

    def _noun(self) -> str:
        return self.draw.choice(RARE_NOUNS if self.draw.random() < RARE_SHARE else NOUNS)

    def _turn(
        self, parent: PlantedTurn | None, at_ms: int, agent: str, project: str
    ) -> Iterator[ImportedTurn]:
        draw = self.draw
        chance = draw.random()
        compaction = None
        if chance < 0.02 and parent is not None:
            compaction = Compaction(parent.id, None, 1)
        outcome: Outcome = "completed"
        if 0.02 < chance < 0.06:
            outcome = "failed" if chance < 0.04 else "canceled"
        header = Header(
            TurnId(uuid7(at_ms, draw.getrandbits(RANDOM_BITS))),
            None if parent is None else parent.digest,
            Principal("agent", agent),
            instant(at_ms),
            instant(at_ms + 40_000),
            outcome,
            "normal" if compaction is None else "compaction",
            model=CALLS[0].model,
            provider=CALLS[0].provider,
            compaction=compaction,
        )
        words = f"{draw.choice(VERBS)} the {self._noun()} of the {self._noun()}"
        query = [] if compaction else [user(f"{words} in {project}, number {len(self.turns)}")]
        reply = [
            assistant(ToolUse("call_1", "Bash", {"command": f"rg {self._noun()} src"})),
            tool(ToolResult("call_1", "ok", f"{draw.randrange(99)} matches")),
            assistant(f"It was the {self._noun()}. " + words.capitalize() + " is done."),
        ]
        sealed = seal(header, query, [reply[-1]] if compaction else reply)
        if chance > 0.98:
            self.tags.append(sealed.turn.id)
        self.turns.append(PlantedTurn(sealed.turn.id, sealed.turn.digest, at_ms, agent, project))
        yield ImportedTurn(sealed, None if parent is None else parent.id, CALLS)
