"""Every call of the library, made by a stranger with the ids of what is private in hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from turntree.adapters.engines.inline import InlineEngine
from turntree.boot import Settings, tree_on
from turntree.domain.canonical import Json
from turntree.domain.context import TouchedFile
from turntree.domain.errors import TurntreeError
from turntree.domain.event import Event, record
from turntree.domain.feed import BEGINNING
from turntree.domain.ids import Digest, Label, ProgramId, RunId, SessionId, TurnId
from turntree.domain.message import Lifted, assistant, user
from turntree.domain.run import Fact
from turntree.domain.usage import ModelCall, Usage
from turntree.runtime.tree import Tree
from turntree.store.database import Database
from turntree.testing.hashing_embedder import HashingEmbedder
from turntree.testing.worlds import ScriptedWorld

pytestmark = pytest.mark.anyio

WORD = "canary"
BOB = "human:bob"
NEW = "01a1e300-0000-7000-8000-000000000001"


@dataclass(frozen=True, slots=True)
class Private:
    """What leads to a private session of ana's."""

    session: SessionId
    turn: TurnId
    run: RunId
    waiting: RunId
    large: Digest
    """A part of a message that is kept as an object."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Bob, and what he knows."""

    tree: Tree
    known: Private
    world: ScriptedWorld


Call = Callable[[Stranger], Awaitable[object]]


async def first_of(stream: AsyncIterator[object]) -> list[object]:
    """Return what a stream tells at once."""
    found: list[object] = []
    with anyio.move_on_after(0.5):
        async for one in stream:
            found += [one]
    return found


READS: dict[str, Call] = {
    "facts of the session": lambda s: s.tree.ledger.facts(s.known.session),
    "facts of the run": lambda s: s.tree.ledger.facts(s.known.run),
    "facts of the turn": lambda s: s.tree.ledger.facts(s.known.turn),
    "a message that waits": lambda s: s.tree.runs.find_waiting(s.known.waiting),
    "the state of the run": lambda s: s.tree.runs.status(s.known.run),
    "open runs": lambda s: s.tree.runs.list_open(),
    "failed runs": lambda s: s.tree.runs.list_failed(),
    "what waits": lambda s: s.tree.runs.inbox.list_waiting(s.known.session),
    "what waits anywhere": lambda s: s.tree.runs.inbox.list_piles(),
    "open runs of the session": lambda s: s.tree.runs.workers.list_open(s.known.session),
    "failed runs of the session": lambda s: s.tree.runs.workers.list_failed(
        s.known.session, last=10
    ),
    "why runs failed": lambda s: s.tree.runs.workers.list_reasons([s.known.run]),
    "the run as it goes on": lambda s: first_of(s.tree.runs.follow(s.known.run)),
    "the turn": lambda s: s.tree.threads.threads.get_turn(s.known.turn),
    "its usage": lambda s: s.tree.threads.usage(s.known.turn),
    "edges from it": lambda s: s.tree.edges.list_from(s.known.turn),
    "edges to it": lambda s: s.tree.edges.list_to(s.known.turn),
    "its history": lambda s: s.tree.edges.list_history(s.known.run),
    "its calls": lambda s: s.tree.edges.list_calls(s.known.run),
    "where it comes from": lambda s: s.tree.edges.list_ancestry(s.known.session),
    "its lineage": lambda s: s.tree.edges.list_lineage(s.known.turn),
    "who recorded it": lambda s: s.tree.edges.find_recording(s.known.turn),
    "the feed": lambda s: s.tree.feed.read(BEGINNING, limit=999),
    "its document": lambda s: s.tree.search.reader.read([s.known.turn]),
    "who holds it": lambda s: s.tree.search.reader.list_holders([s.known.turn]),
    "files it names": lambda s: s.tree.search.reader.list_touches(f"{WORD}.py", limit=9),
    "what it cost": lambda s: s.tree.turns.list_calls([TurnId(s.known.run), s.known.turn]),
    "its config": lambda s: s.tree.programs.store.get_version(ProgramId(s.known.session), 1),
    "a proof of it": lambda s: s.tree.checks.verify(s.known.turn),
    "its versions": lambda s: s.tree.programs.store.list_versions(ProgramId(s.known.session)),
    "its grants": lambda s: s.tree.programs.store.list_grants(ProgramId(s.known.session)),
    "its judgements": lambda s: s.tree.authority.permissions.list_facts(session=s.known.session),
    "its personas": lambda s: s.tree.authority.permissions.list_personas(s.known.turn),
    "its states": lambda s: s.tree.resources.pins.list_pins([s.known.turn]),
}
WRITES: dict[str, Call] = {
    "a move": lambda s: s.tree.sessions.ledger.move(
        s.known.session, "rewind", None, by=BOB, at=s.world.now()
    ),
    "a name": lambda s: s.tree.sessions.ledger.name(
        s.known.session, Label("mine"), as_label=False, reason="manual", by=BOB, at=s.world.now()
    ),
    "a status": lambda s: s.tree.sessions.ledger.set_status(
        s.known.session, "archived", by=BOB, at=s.world.now()
    ),
    "a session at its head": lambda s: s.tree.sessions.ledger.create(
        SessionId(NEW), Label("mine"), head=s.known.turn, by=BOB, at=s.world.now()
    ),
    "a message": lambda s: s.tree.runs.inbox.post(
        s.known.session, user("hello"), by=BOB, at=s.world.now()
    ),
    "an end of its run": lambda s: s.tree.runs.inbox.cancel(
        s.known.session, by=BOB, at=s.world.now()
    ),
    "an event": lambda s: s.tree.ledger.append(
        record(Event(s.known.session, 999, "permission.granted", s.world.now(), {"by": BOB}))
    ),
    "a run": lambda s: s.tree.ledger.start(
        RunId(NEW), s.known.session,
        Fact.of(Event(NEW, 0, "run_started", s.world.now(), {}), user("mine")),
    ),
    "an erasure": lambda s: s.tree.turns.marks.erase(
        s.known.turn, 0, reason="because", by=BOB, at=s.world.now()
    ),
    "a tag": lambda s: s.tree.turns.marks.set_tag(
        s.known.turn, "mine", on=True, by=BOB, at=s.world.now()
    ),
}  # fmt: skip


@pytest.fixture
def tree(database: Database, world: ScriptedWorld, place: Path) -> Tree:
    """The tree as ana sees it."""
    return seen(database, world, place, "ana")


@pytest.fixture
async def stranger(tree: Tree, database: Database, world: ScriptedWorld, place: Path) -> Stranger:
    """Bob, who was told every id of what is private, and nothing else."""
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    files: dict[str, Json] = {"files": [TouchedFile("read", f"{WORD}.py").to_json()]}
    asked = [replace(user(f"the {WORD}"), context=files)]
    made = await tree.turns.record(
        WORD, asked, [assistant(f"{WORD} " * 4000)], calls=[ModelCall(WORD, Usage(1, 2))]
    )
    await tree.turns.tag(WORD, WORD)
    await tree.programs.create("session", WORD, {}, visibility="private")
    session = await tree.sessions.get(WORD)
    run = RunId(world.new_id())
    begun = Fact.of(Event(run, 0, "run_started", world.now(), {}), user(WORD))
    await tree.ledger.start(run, session.id, begun)
    waiting = await tree.runs.post(WORD, f"the {WORD} waits")
    await tree.search.fill()
    (part,) = made.turn.messages[1].parts
    assert isinstance(part, Lifted)
    known = Private(session.id, made.turn.id, run, waiting.run, part.object)
    return Stranger(seen(database, world, place, "bob"), known, world)


def seen(database: Database, world: ScriptedWorld, place: Path, who: str) -> Tree:
    settings = Settings(place, user=who, session="main")
    engine = InlineEngine(database.lend)
    return tree_on(database, settings, world, embedder=HashingEmbedder(), engine=engine)


async def test_no_call_tells_a_stranger_a_word(tree: Tree, stranger: Stranger) -> None:
    told = dict[str, str]()
    for name, read in READS.items():
        try:
            answer = repr(await read(stranger))
        except TurntreeError as error:
            answer = str(error)
        if WORD in answer:
            told[name] = answer
    assert told == {}
    # The same calls tell ana, who owns it.
    hers = replace(stranger, tree=tree)
    assert WORD in repr(await READS["facts of the run"](hers))
    assert WORD in repr(await READS["files it names"](hers))


async def test_no_call_changes_anything_for_a_stranger(tree: Tree, stranger: Stranger) -> None:
    async def picture() -> tuple[object, ...]:
        return (
            await tree.sessions.get(WORD),
            # That he was denied it is told to ana.
            [
                fact
                for fact in await tree.ledger.facts(stranger.known.session)
                if fact.event.kind != "permission.denied"
            ],
            await tree.ledger.facts(stranger.known.run),
            await tree.runs.inbox.list_waiting(stranger.known.session),
            await tree.turns.marks.list_tags(),
        )

    before = await picture()
    done = list[str]()
    for name, write in WRITES.items():
        try:
            await write(stranger)
        except TurntreeError:
            continue
        done.append(name)
    assert done == []
    assert [one for one in await picture() if one not in before] == []
