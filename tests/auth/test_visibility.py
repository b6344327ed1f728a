"""A private session is absent to whoever may not read it, whichever way it is addressed."""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import anyio
import pytest
from psycopg import AsyncConnection

from turntree.api import Tree
from turntree.boot.open import Settings, stats_on, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import (
    Conflict,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    TurntreeError,
)
from turntree.core.event import BEGINNING, Event
from turntree.core.ids import ResourceId, RunId, SnapshotId, TurnId
from turntree.core.message import assistant, user
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.ref import ExtRef
from turntree.core.run import RunEvent
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.viewer import Sight
from turntree.db.database import Database
from turntree.ledger.thread_store import SQL
from turntree.resources.resource import Resource, Snapshot
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

WORD = "xylophone"
"""What was said in the private session alone."""
MODEL = "quiet-model"
NOWHERE = TurnId("01a0c450-0000-7000-8000-000000000000")


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path) -> Tree:
    """The tree as ana sees it, who owns what is private."""
    return seen(database, world, place, "ana")


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same tree, as bob sees it."""
    return seen(database, world, place, "bob")


def seen(database: Database, world: FakeClock, place: Path, user: str) -> Tree:
    """Return the tree as somebody sees it."""
    settings = Settings(place, user=user, session="main")
    engine = InlineEngine(database.lend)
    return tree_on(database, settings, world, embedder=HashingEmbedder(), engine=engine)


@pytest.fixture
async def closed(tree: Tree, world: FakeClock) -> TurnId:
    """The head of a session of ana's that nobody else may read."""
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    await tree.turns.record("main", [user("and more")], [assistant("of it")])
    await tree.sessions.fork("main~1", "secret")
    files: dict[str, Json] = {"files": [TouchedFile("read", f"{WORD}.py").to_json()]}
    await tree.turns.record("secret", [user(f"my {WORD}")], [assistant("well hidden")])
    made = await tree.turns.record(
        "secret",
        [replace(user("again"), context=files)],
        [assistant(f"the {WORD}")],
        calls=[ModelCall(MODEL, Usage(1, 2))],
    )
    await tree.turns.tag("secret", "hidden")
    await tree.programs.create("session", "secret", {}, visibility="private")
    session = await tree.sessions.get("secret")
    run = RunId(world.new_id())
    await tree.ledger.start(
        run, session.id, RunEvent.of(Event(run, 0, "run.started", world.now(), {}), user(WORD))
    )
    await tree.search.fill()
    await tree.search.fill_meanings()
    return made.turn.id


Way = Callable[[Tree, str, TurnId], Awaitable[object]]

ABSENT: dict[str, Way] = {
    "a session": lambda tree, name, _: tree.sessions.get(name),
    "a revision": lambda tree, name, _: tree.resolve(name),
    "an ancestor": lambda tree, name, _: tree.resolve(f"{name}~1"),
    "a moment": lambda tree, name, _: tree.resolve(f"{name}@{{1}}"),
    "an id": lambda tree, _, turn: tree.resolve(turn),
    "the beginning of an id": lambda tree, _, turn: tree.resolve(turn[:28]),
    "a turn": lambda tree, _, turn: tree.turns.get(turn),
    "a thread": lambda tree, _, turn: tree.threads.read(turn),
    "a program": lambda tree, name, _: tree.programs.get(name),
    "a fork of a session": lambda tree, name, _: tree.sessions.fork(name, "mine"),
    "a fork of a turn": lambda tree, _, turn: tree.sessions.fork(turn, "mine"),
    "a move to it": lambda tree, _, turn: tree.sessions.replay("main", turn),
    "a move of it": lambda tree, name, _: tree.sessions.replay(name, "main"),
    "a name": lambda tree, name, _: tree.sessions.rename(name, "known"),
    "an alias": lambda tree, name, _: tree.sessions.alias(name, "known"),
    "a merge": lambda tree, name, _: tree.sessions.merge("main", name),
    "a status": lambda tree, name, _: tree.sessions.set_status(name, "archived"),
    "an undo": lambda tree, name, _: tree.sessions.undo(name),
    "its moves": lambda tree, name, _: tree.sessions.list_moves(name),
    "a cancellation": lambda tree, name, _: tree.runs.cancel(name),
    "a tag": lambda tree, _, turn: tree.turns.tag(turn, "mine"),
    "an erasure": lambda tree, _, turn: tree.turns.erase(turn, 0, reason="because"),
    "a comparison": lambda tree, _, turn: tree.threads.compare("main", turn),
    "a proof": lambda tree, _, turn: tree.verify(turn),
    "a route": lambda tree, name, _: tree.router.resolve(name),
    "a route to a turn": lambda tree, _, turn: tree.router.resolve(f"turn:{turn}"),
    "a likeness": lambda tree, _, turn: tree.meanings.similar_to(turn),
}


@pytest.mark.parametrize("way", ABSENT)
async def test_it_is_absent_whichever_way_it_is_addressed(
    bob: Tree, closed: TurnId, way: str
) -> None:
    """Whoever may not read it is told what is told of something that does not exist."""
    with pytest.raises(TurntreeError) as hidden:
        await ABSENT[way](bob, "secret", closed)
    with pytest.raises(TurntreeError) as missing:
        await ABSENT[way](bob, "nowhere", NOWHERE)
    assert type(hidden.value) is type(missing.value)
    told = str(hidden.value).replace("secret", "nowhere").replace(closed, NOWHERE)
    assert told.replace(closed[:28], NOWHERE[:28]) == str(missing.value)


async def hits(tree: Tree, *, semantic: bool) -> object:
    """Return what a search for the word finds."""
    return (await tree.search(WORD, semantic=semantic)).hits


async def routes(tree: Tree) -> object:
    """Return where a message would go that its owner sent, whoever asks that."""
    route = await tree.router.resolve(text=WORD, sender=Principal("human", "ana"))
    return [(one.label, one.head, one.session) for one in route.candidates]


LISTS: dict[str, Callable[[Tree, Database, TurnId], Awaitable[object]]] = {
    "sessions": lambda tree, _, __: tree.sessions.ledger.list_page(limit=99),
    "turns": lambda tree, _, __: tree.turns.list_newest(),
    "children": lambda tree, _, __: tree.turns.list_children("main~1"),
    "leaves": lambda tree, _, __: tree.threads.threads.list_leaves(),
    "words": lambda tree, _, __: hits(tree, semantic=False),
    "meanings": lambda tree, _, __: hits(tree, semantic=True),
    "routes in another's name": lambda tree, _, __: routes(tree),
    "files": lambda tree, _, __: tree.search.blame("*.py"),
    "likeness": lambda tree, _, __: tree.meanings.similar_to_text(WORD),
    "tags": lambda tree, _, __: tree.turns.marks.list_tags(),
    "the feed": lambda tree, _, __: tree.feed.read(BEGINNING, limit=999),
    "open runs": lambda tree, _, __: tree.runs.workers.list_open(),
    "facts": lambda tree, _, turn: tree.ledger.facts(turn),
    "history": lambda tree, _, turn: tree.edges.list_history(turn),
    "edges": lambda tree, _, turn: tree.edges.list_to(turn),
    "spending": lambda _, database, __: stats_on(database).list_spending([], with_sessions=True),
}


@pytest.mark.parametrize("what", LISTS)
async def test_private_session_is_in_no_list(
    tree: Tree, bob: Tree, database: Database, closed: TurnId, what: str
) -> None:
    """What is listed holds nothing of it: no name, no id, no word."""
    session = await tree.sessions.get("secret")
    first = (await tree.resolve("secret~1")).turn
    traces = ("secret", session.id, first, closed, WORD, MODEL)
    for who, by in ((tree, "human:ana"), (bob, "human:bob")):
        told = repr(await LISTS[what](who, database.seen_by(Sight(by)), closed))
        assert any(one in told for one in traces) is (who is tree)


async def test_no_file_that_it_names_is_found(tree: Tree, bob: Tree, closed: TurnId) -> None:
    path = f"{WORD}.py"
    assert [touch.turn for touch in await tree.search.reader.list_touches(path, limit=9)] == [
        closed
    ]
    assert await bob.search.reader.list_touches(path, limit=9) == []


async def test_what_is_closed_takes_no_place_among_what_is_like_a_text(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    """Whoever asks for the nearest gets as many as there are, none of them closed."""
    (vector,) = await HashingEmbedder().embed([WORD], "query")
    for who, count in ((tree, 4), (bob, 2)):
        near = await who.meanings.store.list_near(HashingEmbedder().id, vector, limit=count)
        assert len(near) == count
        assert (closed in [one.id for one in near]) is (who is tree)


async def test_grantee_sees_private_session(tree: Tree, bob: Tree, closed: TurnId) -> None:
    """An invitation opens it, and taking it back closes it again."""
    await tree.programs.grant("secret", "bob", "read")
    assert (await bob.resolve("secret")).turn == closed
    assert WORD in repr(await bob.search(WORD, semantic=False))
    await tree.programs.grant("secret", "bob", "read", on=False)
    with pytest.raises(NotFound):
        await bob.resolve("secret")


async def test_what_an_open_thread_shares_with_it_stays_open(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    """A turn that an open session holds is open, and can be gone on from."""
    del closed
    shared = (await bob.resolve("main~1")).turn
    assert (await tree.threads.read("secret"))[0].turn.id == shared
    await bob.sessions.fork(shared, "beside")
    # The closed session was first after the shared turn or not: nobody can tell.
    assert (await bob.turns.record("beside", [user("me too")], [assistant("yes")])).depth == 2


async def test_viewer_without_access_cannot_cancel_or_list_waiting(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    """A run's address is of no use to them: there is no such run."""
    del closed
    (run,) = await tree.runs.workers.list_open()
    waiting = await tree.runs.post("secret", f"and the {WORD}")
    for one in (run.run, waiting.run):
        assert await bob.runs.cancel(one) is None
        assert await bob.runs.cancel(one, discard=True) is None
        assert not await bob.runs.unpark(one)
        assert await bob.runs.find_waiting(one) is None
    assert [one.is_canceled for one in await tree.runs.workers.list_open()] == [False]
    assert await tree.runs.find_waiting(waiting.run) is not None
    assert await tree.runs.cancel(waiting.run) == waiting.run


@pytest.fixture
async def abandoned(tree: Tree, closed: TurnId, world: FakeClock) -> TurnId:
    """What is left of the run in the private session, which was canceled: nobody holds it."""
    (run,) = await tree.runs.workers.list_open()
    return await leave_turn(tree, world, TurnId(run.run), closed)


async def leave_turn(tree: Tree, world: FakeClock, turn: TurnId, parent: TurnId) -> TurnId:
    """Store a turn below another that no session moves to."""
    digest = (await tree.turns.get(parent)).turn.digest
    at = world.now()
    header = Header(turn, digest, Principal("human", "ana"), at, at, outcome="canceled")
    sealed = seal(header, [user(f"never mind the {WORD}")], [])
    await tree.ledger.seal(sealed, parent, by="human:ana", at=at, session=None)
    return turn


async def test_a_turn_that_its_run_left_is_as_closed_as_its_session(
    tree: Tree, bob: Tree, database: Database, closed: TurnId, abandoned: TurnId, world: FakeClock
) -> None:
    """Nobody holds what was canceled, and yet it was said in the private session."""
    branch = await leave_turn(tree, world, TurnId(world.new_id()), closed)
    for left in (abandoned, branch):
        assert (await tree.turns.get(left)).parent == closed
        with pytest.raises(NotFound):
            await bob.turns.get(left)
        # Its body has a policy of its own; its row must be hidden without that too.
        async with database.seen_by(Sight("human:bob")).connection() as connection:
            rows = await connection.execute(
                "SELECT digest FROM turntree.turns WHERE id = %s", [UUID(left)]
            )
            assert await rows.fetchall() == []
        assert left not in repr(await bob.turns.list_newest())
    beside = await leave_turn(tree, world, TurnId(world.new_id()), (await bob.resolve("main")).turn)
    assert (await bob.turns.get(beside)).turn.id == beside
    await tree.programs.grant("secret", "bob", "read")
    assert [(await bob.turns.get(left)).turn.id for left in (abandoned, branch)] == [
        abandoned,
        branch,
    ]


WRITES: dict[str, Callable[[Tree, RunId], Awaitable[object]]] = {
    "a turn": lambda tree, _: tree.turns.record("secret", [user("mine")], [assistant("now")]),
    "a message": lambda tree, _: tree.runs.post("secret", "hello"),
    "a cancellation": lambda tree, _: tree.runs.cancel("secret"),
    "a cancellation of its run": lambda tree, run: tree.runs.cancel(run),
    "an answer to what waits": lambda tree, run: tree.runs.unpark(run),
    "a rewind": lambda tree, _: tree.sessions.rewind("secret", "secret~1"),
    "a fork into it": lambda tree, _: tree.sessions.replay("secret", "main"),
    "an undo": lambda tree, _: tree.sessions.undo("secret"),
    "a name": lambda tree, _: tree.sessions.rename("secret", "known"),
    "an alias": lambda tree, _: tree.sessions.alias("secret", "known"),
    "a merge": lambda tree, _: tree.sessions.merge("main", "secret"),
    "a status": lambda tree, _: tree.sessions.set_status("secret", "archived"),
    "a tag of a turn": lambda tree, _: tree.turns.tag("secret", "mine"),
    "a tag of it": lambda tree, _: tag_session(tree),
    "an erasure": lambda tree, _: tree.turns.erase("secret", 0, reason="because"),
    "a permission": lambda tree, _: grant_here(tree),
    "a resource": lambda tree, _: work_on_it(tree),
}


async def tag_session(tree: Tree) -> object:
    """Put a tag on the session itself."""
    session, at = await tree.programs.get("secret"), tree.turns.world.now()
    return await tree.turns.marks.set_tag(session.id, "mine", on=True, by=str(tree.turns.by), at=at)


async def grant_here(tree: Tree) -> None:
    """Write something about rights into the session's stream."""
    session, at = await tree.sessions.get("secret"), tree.turns.world.now()
    await tree.authority.permissions.record(session.id, "session.persona_changed", {}, at=at)


async def work_on_it(tree: Tree) -> object:
    """Let the session work on a folder."""
    session, world = await tree.sessions.get("secret"), tree.turns.world
    folder = Resource(
        ResourceId(world.new_id()), "directory", "here", "/srv", "work", frozenset(),
        imperative=False, created_at=world.now(),
    )  # fmt: skip
    await tree.resources.ledger.ensure(folder, by=str(tree.turns.by))
    return await tree.resources.attachments.attach(
        folder.id, session.id, "rw", by=str(tree.turns.by), at=world.now()
    )


async def test_what_is_shared_with_it_is_whose_session_it_was_said_in(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    """A fork of somebody's private session gives no right on what it holds; an open one does."""
    await tree.programs.grant("secret", "bob", "read")
    await bob.sessions.fork(closed, "mine")
    with pytest.raises(PermissionDenied, match="configure"):
        await bob.turns.erase("mine", 0, reason="because")
    assert await bob.turns.erase("main~1", 0, reason="because")
    await tree.programs.grant("secret", "bob", "configure")
    assert await bob.turns.erase("mine", 0, reason="because")


@pytest.mark.parametrize("way", WRITES)
async def test_read_access_does_not_allow_to_write(
    tree: Tree, bob: Tree, closed: TurnId, way: str
) -> None:
    """The refusal says what is missing and who may grant it; nothing has changed."""
    await tree.programs.grant("secret", "bob", "read")
    (run,) = await tree.runs.workers.list_open()
    before = await tree.sessions.get("secret")
    with pytest.raises(PermissionDenied, match="human:ana may grant that") as refused:
        await WRITES[way](bob, run.run)
    assert refused.value.hint is not None
    assert refused.value.hint.action == "program.grant"
    assert refused.value.hint.arguments["program"] == "secret"
    assert refused.value.hint.arguments["grantee"] == "bob"
    assert await tree.sessions.get("secret") == before
    assert before.head == closed
    assert [one.is_canceled for one in await tree.runs.workers.list_open()] == [False]


async def test_denied_message_is_recorded_in_any_transaction(
    tree: Tree, database: Database, world: FakeClock, place: Path, closed: TurnId
) -> None:
    """Also where the engine has connections of its own."""
    del closed

    @contextlib.asynccontextmanager
    async def lend() -> AsyncGenerator[object, None]:
        async with await AsyncConnection.connect(database.conninfo) as connection:
            yield connection

    settings = Settings(place, user="bob", session="main")
    bob = tree_on(database, settings, world, engine=InlineEngine(lend))
    await tree.programs.grant("secret", "bob", "read")
    with pytest.raises(PermissionDenied):
        await bob.runs.post("secret", "hello")
    told = await tree.ledger.facts((await tree.sessions.get("secret")).id)
    assert (told[-1].event.kind, told[-1].event.data["permission"]) == (
        "permission.denied",
        "action:invoke",
    )


async def test_name_of_private_session_is_only_reported_as_taken(bob: Tree, closed: TurnId) -> None:
    """Whoever wants its name is told what is told of any other that is taken."""
    del closed
    await bob.sessions.create("beside")
    for name in ("secret", "main"):
        for way in (bob.sessions.rename, bob.sessions.alias):
            with pytest.raises(Conflict, match=f"the name {name} is taken"):
                await way("beside", name)
        with pytest.raises(Conflict, match=f"the name {name} is taken"):
            await bob.sessions.create(name)


async def test_repeated_denials_do_not_grow_stream(
    tree: Tree, database: Database, world: FakeClock, place: Path, closed: TurnId
) -> None:
    """Each of two who try in turn is noted once."""
    del closed
    session = await tree.sessions.get("secret")
    before = len(await tree.ledger.facts(session.id))
    for _ in range(3):
        for who in ("bob", "carl"):
            with pytest.raises(NotFound):
                await seen(database, world, place, who).runs.inbox.cancel(
                    session.id, by=f"human:{who}", at=world.now()
                )
    assert len(await tree.ledger.facts(session.id)) == before + 2


async def test_invoke_access_allows_to_continue_session(
    tree: Tree, bob: Tree, closed: TurnId
) -> None:
    """Whoever is invited appends and sends; its name stays its owner's business."""
    await tree.programs.invite("secret", "bob")
    made = await bob.turns.record("secret", [user("me too")], [assistant("yes")])
    assert made.parent == closed
    with pytest.raises(PermissionDenied, match="configure"):
        await bob.sessions.rename("secret", "known")


async def test_nothing_is_pulled_away_from_a_closed_session_unseen(
    tree: Tree, bob: Tree, closed: TurnId, world: FakeClock
) -> None:
    """Whoever takes a resource away from everybody is refused, or takes it from that one too."""
    del closed
    session = await tree.sessions.get("secret")
    folder = Resource(
        ResourceId(world.new_id()), "directory", "here", "/srv", "work",
        frozenset({"snapshot"}), imperative=False, created_at=world.now(),
    )  # fmt: skip
    await tree.resources.ledger.ensure(folder, by="human:ana")
    state = Snapshot(
        SnapshotId(world.new_id()), folder.id, "copy", ExtRef("shadow-tree", "aa"), 1,
        world.now(),
    )  # fmt: skip
    await tree.resources.ledger.keep(state, by="human:ana")
    attachments, at = bob.resources.attachments, world.now()
    await tree.resources.attachments.attach(folder.id, session.id, "rw", by="human:ana", at=at)
    with pytest.raises(InvalidOperation, match="hidden from you"):
        await attachments.leave(folder.id, state.id, by="human:bob", at=at)
    assert await tree.resources.attachments.list_holders(folder.id) == [session.id]
    assert await tree.resources.attachments.find_last_holder("directory", "here", ["/srv"]) == (
        session.id,
        "/srv",
    )
    assert await attachments.find_last_holder("directory", "here", ["/srv"]) is None
    left = await attachments.leave(folder.id, state.id, by="human:bob", at=at, force=True)
    assert left.sessions == ()
    assert await tree.resources.attachments.list_holders(folder.id) == []
    told = await tree.ledger.facts(session.id)
    assert told[-1].event.kind == "resource.detached"


async def test_what_tells_of_another_private_program_is_closed_too(tree: Tree, bob: Tree) -> None:
    """Its events and tags are absent, whether or not there is a private session as well."""
    task = await tree.programs.create("task", "hers", {"title": WORD}, visibility="private")
    at = tree.turns.world.now()
    await tree.turns.marks.set_tag(task.id, "hidden", on=True, by="human:ana", at=at)
    for label in ("one", "two"):
        assert task.id in repr(await tree.feed.read(BEGINNING, limit=999))
        assert task.id not in repr(await bob.feed.read(BEGINNING, limit=999))
        await tree.sessions.create(label)
        await tree.programs.create("session", label, {}, visibility="private")


async def test_an_agent_that_is_busy_in_private_does_not_say_with_what(
    tree: Tree, bob: Tree
) -> None:
    """Whoever wants it for another task is told how to go on, and no name."""
    await tree.programs.create("agent", "atlas", {})
    config: dict[str, Json] = {"title": "some work", "assignee": "@(atlas)"}
    await tree.programs.create("task", WORD, config, visibility="private")
    await bob.programs.create("task", "theirs", config)
    with pytest.raises(InvalidOperation, match="busy with a task that is private") as refused:
        await bob.programs.take_up(await bob.programs.get("theirs"))
    assert WORD not in str(refused.value)
    assert (await tree.programs.get("atlas")).details["current_task"] == WORD
    assert WORD not in repr([await bob.programs.get("atlas"), await bob.programs.refs_to("atlas")])
    assert WORD not in repr([one async for one in bob.programs.list_all()])


async def test_worker_sees_private_sessions(database: Database, closed: TurnId) -> None:
    """A connection that nobody looks through is the system's; one that is lent on is not."""
    bob = database.seen_by(Sight("human:bob"))
    asked = {"turn": UUID(closed)}
    async with bob.keep_together():
        assert await bob.fetch(SQL["find_turn"], **asked) == []
        assert len(await database.fetch(SQL["find_turn"], **asked)) == 1
        assert await bob.fetch(SQL["find_turn"], **asked) == []
    assert len(await database.fetch(SQL["find_turn"], **asked)) == 1
    with contextlib.suppress(NotFound):
        async with bob.keep_together():
            assert len(await database.fetch(SQL["find_turn"], **asked)) == 1
            raise NotFound("halfway")
    assert await bob.fetch(SQL["find_turn"], **asked) == []
    assert len(await database.fetch(SQL["find_turn"], **asked)) == 1


async def test_nobody_is_lent_what_somebody_else_who_was_canceled_asked_for(
    database: Database, closed: TurnId
) -> None:
    """Who looks is told anew after a cancellation, and after a savepoint that was taken back."""
    bob = database.seen_by(Sight("human:bob"))
    asked = {"turn": UUID(closed)}
    async with bob.connection() as connection:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await connection.enter((database.workspace, database.sight))
        assert scope.cancelled_caught
        assert connection.scope is None
    async with bob.keep_together():
        with contextlib.suppress(NotFound):
            async with database.connection() as connection, connection.transaction():
                assert await bob.fetch(SQL["find_turn"], **asked) == []
                raise NotFound("halfway")
        assert await bob.fetch(SQL["find_turn"], **asked) == []


async def test_a_reader_of_many_private_sessions_pays_for_few_and_sees_all_of_them(
    tree: Tree, bob: Tree, database: Database
) -> None:
    async def sees_all_at_a_glance() -> bool:
        row = await database.seen_by(Sight("human:bob")).fetch_one(
            b"SELECT turntree.can_see_all_sessions() AND turntree.can_see_all_programs()"
        )
        return bool(row and row[0])

    glances: list[bool] = []
    for number in range(10):
        await tree.programs.create("session", f"one-{number}", {}, visibility="private")
        await tree.programs.grant(f"one-{number}", "human:bob", "read")
        await tree.turns.record(f"one-{number}", [user("hello")], [assistant("hi")])
        glances.append(await sees_all_at_a_glance())
    assert glances == [True] * 8 + [False] * 2
    read = [(await bob.turns.get(f"one-{number}")).turn.reply[0].text for number in range(10)]
    assert read == ["hi"] * 10
    await tree.programs.create("session", "eleventh", {}, visibility="private")
    listed = {session.label async for session in bob.sessions.list_all()}
    assert listed == {f"one-{number}" for number in range(10)}
