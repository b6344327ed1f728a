"""A workspace as it is after years: many sessions, threads of all lengths, a few of everything.

A turn here is 1 KB, a fifth of the one in ``workload``, so that a hundred thousand fit a run. Its
ids are of random minutes, so that neighbours in time are no neighbours on the disk. Knows how the
product is called. Must never know what is measured.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from proofs.workload import BY, CALLS, MINUTE_MS, PAST_MS, Library
from turntree.core.compaction import Compaction
from turntree.core.ids import RANDOM_BITS, Digest, Label, SessionId, TurnId, instant, uuid7
from turntree.core.message import Message, Text, ToolResult, ToolUse, assistant, tool, user
from turntree.core.message_context import TouchedFile
from turntree.core.turn import Header, Outcome, SealedTurn, seal
from turntree.db.database import Database
from turntree.ledger.session_store import SessionStore
from turntree.system.clock import SystemClock
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn

LENGTH_MEAN = 40
LENGTH_MAX = 1_000
TEXT_CHARS = 160
RARE = 200
"""One turn in so many has what people search for: a failure, a file, a rare tool and model."""
TOOL_RARE = "Deploy"
MODEL_RARE = "claude-y"
PATH_RARE = "src/rare.py"
SPAN_MS = 1_000_000 * MINUTE_MS
"""Threads begin at a random moment of so long a time: two years."""
CODE = "Try this:\n```python src/a.py\nprint(1)\n```"
"""How the first turn of a thread ends."""
FORKS = 8
"""One thread in so many leaves another in its middle."""


@dataclass(frozen=True, slots=True)
class Written:
    """What is remembered of a turn: a million bodies would not fit."""

    id: TurnId
    digest: Digest
    started_ms: int


@dataclass(slots=True)
class Thread:
    """A thread that was written, and the session at its head."""

    label: str
    turns: list[Written]
    """Only what it adds to the thread it left, root first."""
    base: "Thread | None" = None

    @property
    def head(self) -> TurnId:
        """Its newest turn."""
        return self.turns[-1].id

    @property
    def middle(self) -> Written:
        """A turn with others above and below it, if the thread is long enough."""
        return self.turns[len(self.turns) // 2]


@dataclass(slots=True)
class Crowd:
    """Writes threads and begins a session at each head, as many as are asked for."""

    database: Database
    seed: int
    length_mean: int = LENGTH_MEAN
    threads: list[Thread] = field(default_factory=list[Thread])
    turns: int = 0
    _draw: random.Random = field(init=False)
    _said: list[str] = field(init=False)

    def __post_init__(self) -> None:
        """Draw the words that turns are made of."""
        self._draw = random.Random(self.seed)
        drawn = Library(self.seed).exchanges()
        self._said = [message.text[:TEXT_CHARS] for each in drawn for message in each.query]

    async def grow(self, turns: int, *, deepest: int = 0) -> None:
        """Write threads until there are so many turns; the first is of the depth given, if any."""
        begun = len(self.threads)
        await import_turns(self.database, self._write(turns, deepest))
        sessions, world = SessionStore(self.database), SystemClock()
        for thread in self.threads[begun:]:
            id = SessionId(world.new_id())
            label, now = Label(thread.label), world.now()
            await sessions.create(id, label, by=str(BY), at=now, head=thread.head)

    def _write(self, turns: int, deepest: int) -> Iterator[ImportedTurn]:
        while self.turns < turns:
            drawn = 1 + int(self._draw.expovariate(1 / self.length_mean))
            length = min(deepest or drawn, deepest or LENGTH_MAX, turns - self.turns)
            deepest = 0
            yield from self._thread(length)

    def _thread(self, length: int) -> Iterator[ImportedTurn]:
        number = len(self.threads)
        thread = Thread(f"session-{number}", [])
        parent: Written | None = None
        if number % FORKS == FORKS - 1:
            thread.base = self._draw.choice(self.threads)
            parent = thread.base.middle
        start_ms = PAST_MS + self._draw.randrange(SPAN_MS)
        for place in range(length):
            at_ms = start_ms + MINUTE_MS * place
            sealed = self._turn(at_ms, parent)
            yield ImportedTurn(sealed, None if parent is None else parent.id, CALLS)
            parent = Written(sealed.turn.id, sealed.turn.digest, at_ms)
            thread.turns.append(parent)
            self.turns += 1
        self.threads.append(thread)

    def _turn(self, at_ms: int, parent: Written | None) -> SealedTurn:
        rare = self._draw.randrange(RARE)
        if rare == 0 and parent is not None:
            header = self._header(at_ms, parent, compaction=Compaction(parent.id, None, 1))
            return seal(header, [], [assistant(self._words())])
        asked = user(self._words())
        if rare == 1:
            context = {"files": [TouchedFile("read", PATH_RARE, 1, 9).to_json()]}
            asked = Message("user", (Text(self._words()),), "human", context=context)
        call = ToolUse("call_0", TOOL_RARE if rare == 2 else "Shell", {"command": self._words()})
        model = MODEL_RARE if rare == 3 else CALLS[0].model
        outcome: Outcome = "failed" if rare == 4 else "completed"
        reply = [
            assistant(Text(self._words()), call),
            tool(ToolResult(call.call_id, "ok", {"stdout": self._words()})),
            assistant(self._words() if parent else CODE),
        ]
        return seal(self._header(at_ms, parent, model=model, outcome=outcome), [asked], reply)

    def _header(
        self,
        at_ms: int,
        parent: Written | None,
        *,
        compaction: Compaction | None = None,
        model: str | None = None,
        outcome: Outcome = "completed",
    ) -> Header:
        return Header(
            TurnId(uuid7(at_ms, self._draw.getrandbits(RANDOM_BITS))),
            None if parent is None else parent.digest,
            BY,
            instant(at_ms),
            instant(at_ms + 9_000),
            outcome,
            "normal" if compaction is None else "compaction",
            model=model,
            compaction=compaction,
        )

    def _words(self) -> str:
        return self._draw.choice(self._said)
