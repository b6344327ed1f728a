"""What is made from a private session is private, whichever way it was made."""

from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.program import Right
from turntree.core.session import Session, Spawn
from turntree.core.turn import Header, seal
from turntree.db.database import Database
from turntree.ledger.session_store import SessionStore
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.rerun import rerun
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


def seen(database: Database, world: FakeClock, place: Path, user: str) -> Tree:
    """Return the tree as somebody sees it."""
    engine = InlineEngine(database.lend)
    return tree_on(database, Settings(place, user=user, session="main"), world, engine=engine)


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path) -> Tree:
    """The tree as ana sees it, who owns what is private."""
    return seen(database, world, place, "ana")


@pytest.fixture
def bob(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same tree, as bob sees it, who is let in."""
    return seen(database, world, place, "bob")


@pytest.fixture
def carl(database: Database, world: FakeClock, place: Path) -> Tree:
    """The same tree, as carl sees it, who is not."""
    return seen(database, world, place, "carl")


@pytest.fixture
async def closed(tree: Tree) -> TurnId:
    """The head of a private session of ana's that bob may read; its first turn is main's too."""
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    await tree.sessions.fork("main", "secret")
    await tree.programs.create("session", "secret", {}, visibility="private")
    await tree.programs.grant("secret", "bob", "read")
    made = await tree.turns.record("secret", [user("a xylophone")], [assistant("well hidden")])
    return made.turn.id


async def assert_closed(tree: Tree, session: Session, *others: Tree) -> None:
    """See that a session is ana's, private, and absent to others."""
    program = await tree.programs.get(session.id)
    assert (program.owner, program.visibility) == ("human:ana", "private")
    assert await tree.sessions.ledger.get(session.id) == session
    for other in others:
        with pytest.raises(NotFound):
            await other.sessions.ledger.get(session.id)
    assert await tree.checks.fsck() == []


async def grants(tree: Tree, session: Session) -> list[tuple[str, Right]]:
    """Return who is let into a session."""
    return await tree.programs.list_grants(session.id)


async def test_a_fork_of_it_is_private_and_its_owners(
    tree: Tree, bob: Tree, carl: Tree, closed: TurnId
) -> None:
    """Whoever was let in goes on in a fork of their own, which stays its owner's to open."""
    mine = await bob.sessions.fork("secret", "mine")
    await assert_closed(tree, mine, carl)
    assert await grants(tree, mine) == [("human:bob", "configure")]
    assert (await bob.turns.record("mine", [user("more")], [assistant("yes")])).parent == closed
    await bob.sessions.rename("mine", "ours")
    with pytest.raises(PermissionDenied, match="only human:ana says who sees ours"):
        await bob.programs.set_visibility("ours", "public")
    with pytest.raises(PermissionDenied, match="only human:ana lets others use ours"):
        await bob.programs.invite("ours", "carl")
    with pytest.raises(NotFound):
        await carl.turns.get(closed)


@pytest.mark.parametrize("revision", ["TURN", "secret~1", "secret@{0}"])
async def test_fork_by_name_of_private_session_is_private(
    tree: Tree, bob: Tree, closed: TurnId, revision: str
) -> None:
    """Also at a turn that an open session holds, if the private one was named."""
    await tree.programs.grant("secret", "bob", "read", on=False)
    named = revision.replace("TURN", closed)
    await assert_closed(tree, await tree.sessions.fork(named, "mine"), bob)


async def test_a_fork_of_what_is_open_is_open(tree: Tree, carl: Tree, closed: TurnId) -> None:
    """Nothing closes by itself, and who wants a private fork says so."""
    del closed
    open_one = await carl.sessions.fork("main", "open")
    assert await carl.programs.find(open_one.id) is None
    own = await carl.sessions.fork("main", "own", visibility="private")
    assert (await carl.programs.get(own.id)).owner == "human:carl"
    with pytest.raises(NotFound):
        await tree.sessions.get("own")


async def test_only_its_owner_forks_it_into_the_open(tree: Tree, bob: Tree, closed: TurnId) -> None:
    """The refusal says what to leave out."""
    with pytest.raises(PermissionDenied, match=r"only human:ana .* leave out --public"):
        await bob.sessions.fork("secret", "mine", visibility="public")
    opened = await tree.sessions.fork("secret", "opened", visibility="public")
    assert opened.head == closed
    assert await tree.programs.find(opened.id) is None


async def test_no_open_session_is_moved_to_it(tree: Tree, bob: Tree, closed: TurnId) -> None:
    """That would open it as a fork would; a private session of its owner's may stand there."""
    await tree.sessions.fork("main", "hers", visibility="private")
    for who in (tree, bob):
        with pytest.raises(InvalidOperation, match="the whole workspace would read it there"):
            await who.sessions.replay("main", closed)
    assert (await tree.sessions.replay("hers", closed)).head == closed


async def test_private_session_is_not_reset_to_private_turn_of_another_user(
    tree: Tree, bob: Tree, carl: Tree, closed: TurnId
) -> None:
    """Whoever owns a session lets others in, and here that is not the turn's owner."""
    own = await bob.sessions.fork("main", "own", visibility="private")
    with pytest.raises(InvalidOperation, match=r"human:ana's, .*human:bob's") as refused:
        await bob.sessions.replay("own", closed)
    assert refused.value.hint == Hint("session.fork", {"revision": closed})
    await bob.programs.set_visibility("own", "public")
    assert (await carl.sessions.get("own")).head == own.head
    with pytest.raises(NotFound):
        await carl.turns.get(closed)
    await assert_closed(tree, await bob.sessions.fork(closed, "theirs"), carl)


async def test_a_private_session_goes_back_to_where_it_stood(tree: Tree, bob: Tree) -> None:
    """Also if the session that it was forked from was closed since."""
    first = await tree.turns.record("plans", [user("one")], [assistant("1")])
    second = await tree.turns.record("plans", [user("two")], [assistant("2")])
    await bob.sessions.fork("plans", "own", visibility="private")
    await bob.sessions.fork("plans~1", "other", visibility="private")
    await tree.programs.create("session", "plans", {}, visibility="private")
    assert (await bob.sessions.rewind("own", first.turn.id)).head == first.turn.id
    assert (await bob.sessions.undo("own")).head == second.turn.id
    assert (await bob.sessions.replay("other", second.turn.id)).head == second.turn.id


async def test_a_rerun_of_its_first_turn_is_private(tree: Tree, bob: Tree) -> None:
    """What is asked again was said in private, wherever the new session stands."""
    await tree.turns.record("plans", [user("a xylophone")], [assistant("well hidden")])
    await tree.programs.create("session", "plans", {}, visibility="private")
    placed = await tree.turns.get("plans")
    begun = await rerun(tree.runs, tree.sessions, tree.ledger, tree.programs, placed)
    await assert_closed(tree, begun.session, bob)


async def test_a_rerun_after_an_open_turn_is_private(
    tree: Tree, carl: Tree, closed: TurnId
) -> None:
    """The parent is open, and the query is not."""
    placed = await tree.turns.get(closed)
    begun = await rerun(tree.runs, tree.sessions, tree.ledger, tree.programs, placed)
    assert begun.session.head == (await tree.sessions.get("main")).head
    await assert_closed(tree, begun.session, carl)


async def test_what_it_spawns_is_private(tree: Tree, carl: Tree, closed: TurnId) -> None:
    """A subagent's session begins empty, and knows whose call began it."""
    del closed
    use = [assistant(ToolUse("call_1", "spawn", {})), tool(ToolResult("call_1", "ok", 1))]
    called = await tree.turns.record("secret", [user("have it done")], [*use, assistant("done")])
    spawn = Spawn((await tree.sessions.get("secret")).id, called.turn.id, "call_1")
    worker = await tree.sessions.create("worker", spawn=spawn)
    await assert_closed(tree, worker, carl)
    assert await grants(tree, worker) == [("human:bob", "read")]


async def test_a_fork_with_files_is_private(tree: Tree, bob: Tree, closed: TurnId) -> None:
    """A plan begins its session by the same rule, with what was said about it."""
    del closed
    plan = await bob.plans.propose_fork("secret", "mine")
    await bob.plans.carry_out(plan)
    await assert_closed(tree, await bob.sessions.get("mine"))
    opened = await tree.plans.propose_fork("secret", "opened", visibility="public")
    await tree.plans.carry_out(opened)
    assert await tree.programs.find("opened") is None


async def test_imported_handoff_of_private_session_is_private(
    tree: Tree, carl: Tree, closed: TurnId, database: Database, world: FakeClock
) -> None:
    """An import hangs turns below a private one before any session holds them."""
    turn, at = TurnId(world.new_id()), world.now()
    header = Header(
        turn, (await tree.turns.get(closed)).turn.digest, Principal("human", "ana"), at, at
    )
    await tree.ledger.seal(
        seal(header, [user("more of it")], [assistant("here")]), closed, by="system:import", at=at,
        session=None,
    )  # fmt: skip
    everything = SessionStore(database)
    home = SessionId(world.new_id())
    await everything.create(home, Label("home"), by="system:import", at=world.now(), head=turn)
    session = await tree.sessions.get("home")
    await assert_closed(tree, session, carl)
    assert await grants(tree, session) == [("human:bob", "read")]
