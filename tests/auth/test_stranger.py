"""Every call of the library, made by a stranger with the ids of what is private in hand."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import NotFound, TurntreeError
from turntree.core.event import BEGINNING, Event, record
from turntree.core.ids import Digest, Label, ProgramId, RunId, SessionId, TurnId
from turntree.core.message import (
    ErasedMessage,
    Message,
    ObjectRef,
    Text,
    assistant,
    lift_parts,
    user,
)
from turntree.core.message_context import TouchedFile
from turntree.core.run import RunEvent
from turntree.core.usage import ModelCall, Usage
from turntree.db.database import Database
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

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
    running: Digest
    """The same, of a run that goes on."""
    waits: Digest
    """The same, of a message that waits."""
    config: Digest
    """The config of a private program."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """Bob, and what he knows."""

    tree: Tree
    known: Private
    world: FakeClock
    database: Database
    place: Path


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
    "its config": lambda s: s.tree.programs.store.get_version(
        ProgramId(s.known.session), 1, by=str(s.tree.programs.by)
    ),
    "a proof of it": lambda s: s.tree.checks.verify(s.known.turn),
    "its versions": lambda s: s.tree.programs.store.list_versions(ProgramId(s.known.session)),
    "its grants": lambda s: s.tree.programs.store.list_grants(ProgramId(s.known.session)),
    "its judgements": lambda s: s.tree.authority.permissions.list_facts(session=s.known.session),
    "its personas": lambda s: s.tree.authority.permissions.list_personas(s.known.turn),
    "a part of it": lambda s: s.tree.ledger.get_object(s.known.large),
    "a part of its run": lambda s: s.tree.ledger.get_object(s.known.running),
    "a part of a message that waits": lambda s: s.tree.ledger.get_object(s.known.waits),
    "its config, by digest": lambda s: s.tree.ledger.get_object(s.known.config),
    "its states": lambda s: s.tree.resources.pins.list_pins([s.known.turn]),
}
OBJECTS = [name for name in READS if name.startswith("a part of") or name.endswith("by digest")]
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
        RunEvent.of(Event(NEW, 0, "run.started", s.world.now(), {}), user("mine")),
    ),
    "an erasure": lambda s: s.tree.turns.marks.erase(
        s.known.turn, 0, reason="because", by=BOB, at=s.world.now()
    ),
    "a tag": lambda s: s.tree.turns.marks.set_tag(
        s.known.turn, "mine", on=True, by=BOB, at=s.world.now()
    ),
}  # fmt: skip


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path) -> Tree:
    """The tree as ana sees it."""
    return seen(database, world, place, "ana")


@pytest.fixture
async def stranger(tree: Tree, database: Database, world: FakeClock, place: Path) -> Stranger:
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
    running = await lifted(tree, Message("user", (Text(WORD), Text(f"{WORD} runs " * 4000))))
    begun = RunEvent.of(Event(run, 0, "run.started", world.now(), {}), running)
    await tree.ledger.start(run, session.id, begun)
    waiting = await tree.runs.post(WORD, f"the {WORD} waits")
    waits = await lifted(tree, user(f"{WORD} waits " * 4000))
    await tree.runs.post(WORD, waits)
    task = await tree.programs.create("task", "secret", {"title": WORD}, visibility="private")
    await tree.search.fill()
    large, of_run, of_waiting = map(object_in, (made.turn.messages[1], running, waits))
    known = Private(
        session.id, made.turn.id, run, waiting.run, large, of_run, of_waiting, task.version.digest
    )
    return Stranger(seen(database, world, place, "bob"), known, world, database, place)


async def lifted(tree: Tree, message: Message) -> Message:
    """Return a message whose large parts are stored as objects."""
    objects: list[bytes] = []
    stands = lift_parts(message, objects)
    for data in objects:
        await tree.ledger.put_object(data)
    return stands


def object_in(message: Message | ErasedMessage) -> Digest:
    """Return the digest that a message's only large part refers to."""
    assert isinstance(message, Message)
    (part,) = [part for part in message.parts if isinstance(part, ObjectRef)]
    return part.object


def seen(database: Database, world: FakeClock, place: Path, who: str) -> Tree:
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
    for name in OBJECTS:
        assert WORD in repr(await READS[name](hers)), name


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


async def start_run(stranger: Stranger, said: Message) -> None:
    session = await stranger.tree.sessions.get("bobs")
    started = Event(NEW, 0, "run.started", stranger.world.now(), {})
    await stranger.tree.ledger.start(RunId(NEW), session.id, RunEvent.of(started, said))


FORGERIES: dict[str, Callable[[Stranger, Message], Awaitable[object]]] = {
    "a turn": lambda s, said: s.tree.turns.record("bobs", [said], [assistant("yes")]),
    "a message": lambda s, said: s.tree.runs.post("bobs", said),
    "a run": start_run,
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_message_that_names_a_private_object_is_refused(
    stranger: Stranger, name: str
) -> None:
    await stranger.tree.turns.record("bobs", [user("mine")], [assistant("yes")])
    forged = Message("user", (ObjectRef("text", stranger.known.large, 9),))
    with pytest.raises(NotFound, match="there is no object"):
        await FORGERIES[name](stranger, forged)
    with pytest.raises(NotFound):
        await stranger.tree.ledger.get_object(stranger.known.large)


async def test_same_bytes_stored_by_two_are_read_by_both(tree: Tree, stranger: Stranger) -> None:
    data = await tree.ledger.get_object(stranger.known.large)
    bob = stranger.tree.ledger
    assert await bob.put_object(data) == stranger.known.large
    assert await bob.get_object(stranger.known.large) == data
    said = Message("user", (ObjectRef("text", stranger.known.large, len(data)),))
    made = await stranger.tree.turns.record("bobs", [said], [assistant("yes")])
    # Bob's session is open, so everybody may read what it refers to.
    carol = seen(stranger.database, stranger.world, stranger.place, "carol")
    assert await carol.ledger.get_object(stranger.known.large) == data
    assert (await carol.threads.threads.get_turn(made.turn.id)).turn.id == made.turn.id


async def test_erased_message_deletes_its_object(tree: Tree, stranger: Stranger) -> None:
    await tree.turns.erase(stranger.known.turn, 1, reason="secret")
    with pytest.raises(NotFound):
        await tree.ledger.get_object(stranger.known.large)
    # What comes again is not opened by what was noted before.
    data = f"{WORD} again".encode()
    digest = await tree.ledger.put_object(data)
    assert await tree.ledger.get_object(digest) == data
