"""The turn that every figure of ``flat_cost`` is about, and threads made of it.

A turn is 5 KB of real text, slices of Python's own library: three messages of 1 KB, two tool calls
and a message with their results. It is recorded under a key, with one model call. Knows how the
product is called. Must never know what is measured.
"""

import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turntree.core.ids import RANDOM_BITS, Label, SessionId, TurnId, instant, uuid7
from turntree.core.message import Message, Text, ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.turn import Header, SealedTurn, seal
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.ledger.recorder import Recorder
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.system.clock import SystemClock
from turntree.transcripts.incoming import ImportedTurn

BY = Principal("human", "proof")
CALLS = (ModelCall("claude-x", Usage(1200, 300, 900, 40, 120), "anthropic", "msg_01XFDUDYJgAACz"),)
PAST_MS = 1_750_000_000_000
MINUTE_MS = 60_000
TEXT_CHARS_MIN = 4_000
POOL = 200


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one turn says."""

    query: list[Message]
    reply: list[Message]


class Library:
    """Draws exchanges from Python's own sources."""

    def __init__(self, seed: int, *, even: bool = True) -> None:
        """Read the sources.

        Every exchange is of one length if ``even``; otherwise only on average, many of its texts
        being shorter and some much longer, as in real life.
        """
        self._random = random.Random(seed)
        self.chars_drawn = 0
        self._even = even
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        self._texts = [text for text in texts if len(text) > TEXT_CHARS_MIN]

    def exchange(self) -> Exchange:
        """Return an exchange nobody has seen before."""
        turn = f"call_{self._random.getrandbits(32):08x}"
        read = ToolUse(f"{turn}_0", "Read", {"path": self._slice(60), "pattern": self._slice(100)})
        shell = ToolUse(f"{turn}_1", "Shell", {"command": self._slice(160)})
        results = (
            ToolResult(read.call_id, "ok", {"text": self._slice(780)}),
            ToolResult(shell.call_id, "ok", {"code": 0, "stdout": self._slice(760)}),
        )
        first = assistant(Text(self._slice(1024)), read, shell)
        return Exchange(
            [user(self._slice(1024))], [first, tool(*results), assistant(self._slice(1024))]
        )

    def exchanges(self, count: int = POOL) -> list[Exchange]:
        """Return a number of exchanges."""
        return [self.exchange() for _ in range(count)]

    def _slice(self, length: int) -> str:
        if not self._even:
            length = min(1 + int(self._random.expovariate(1 / length)), TEXT_CHARS_MIN)
        self.chars_drawn += length
        text = self._random.choice(self._texts)
        start = self._random.randrange(len(text) - length)
        return text[start : start + length]


def thread(library: Library, depth: int, *, forks: int = 0) -> Iterator[ImportedTurn]:
    """Yield a thread, root first.

    With ``forks``, that many times a sibling comes first and takes the place in the segment, so
    that the thread forks off there.
    """
    draw = random.Random(depth + forks)
    said = library.exchanges()
    every = depth // forks if forks else depth + 1
    parent: SealedTurn | None = None
    for number in range(depth):
        at_ms = PAST_MS + MINUTE_MS * number
        above = None if parent is None else parent.turn.id
        if number and number % every == 0:
            yield ImportedTurn(_sealed(draw, at_ms, parent, said[0]), above)
        sealed = _sealed(draw, at_ms, parent, said[number % len(said)])
        yield ImportedTurn(sealed, above)
        parent = sealed


def _sealed(
    draw: random.Random, at_ms: int, parent: SealedTurn | None, exchange: Exchange
) -> SealedTurn:
    header = Header(
        TurnId(uuid7(at_ms, draw.getrandbits(RANDOM_BITS))),
        None if parent is None else parent.turn.digest,
        BY,
        instant(at_ms),
        instant(at_ms + 9000),
        model=CALLS[0].model,
        provider=CALLS[0].provider,
    )
    return seal(header, exchange.query, exchange.reply)


async def begin(database: Database, label: str, head: TurnId | None) -> Recorder:
    """Begin a session at a turn, or with none, and return its recorder."""
    world = SystemClock()
    await SessionStore(database).create(
        SessionId(world.new_id()), Label(label), by=str(BY), at=world.now(), head=head
    )
    return await recorder_on(database, label)


async def recorder_on(database: Database, label: str) -> Recorder:
    """Return a recorder of a session, from where it stands."""
    found = await SessionStore(database).find(label)
    assert found is not None, label
    return Recorder(
        Ledger(database),
        ThreadStore(database),
        SystemClock(),
        BY,
        found.id,
        found.head,
        found.head_digest,
    )


async def record(
    recorder: Recorder, exchange: Exchange, calls: Sequence[ModelCall] = CALLS
) -> None:
    """Record an exchange the way an agent's process does: under a key, with its model call."""
    key = recorder.world.new_id()
    await recorder.record(exchange.query, exchange.reply, key=key, calls=calls)
