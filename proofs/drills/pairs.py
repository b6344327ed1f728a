"""Pairs of writers whose every interleaving must leave the ledger as if one had come first."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from proofs.drills.audit import audit_session, read_thread
from proofs.drills.gates import EVERY_STOP, Gate, Orders, Ran, Work, Writer
from proofs.drills.hooks import open_hooked
from proofs.drills.scene import Scene, make_scene
from turntree.core.clock import Clock
from turntree.core.errors import Conflict, InvalidOperation, TurntreeError
from turntree.core.ids import SessionId
from turntree.core.thread import MoveResult, ThreadTurn
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Tags
from turntree.system.clock import SystemClock

Judge = Callable[[Scene, tuple[object, ...]], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two writers and what must be true after them, beyond a sound reflog."""

    name: str
    works: Callable[[Scene], tuple[Work, Work]]
    judge: Judge
    stops: frozenset[str] = EVERY_STOP


@dataclass(frozen=True, slots=True)
class Explored:
    """What all orders of a pair came to."""

    pair: str
    orders: int
    problems: tuple[str, ...]


async def explore(conninfo: str, pairs: "Sequence[Pair] | None" = None) -> list[Explored]:
    """Try every order of every pair."""
    world = SystemClock()
    workspace = await prepare_database(conninfo, "interleavings", world.new_id())
    first, second = Gate(), Gate()
    async with (
        open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database,
        open_hooked(conninfo, workspace, first) as (one, one_pid),
        open_hooked(conninfo, workspace, second) as (two, two_pid),
        _asking(conninfo) as server,
    ):
        writers = (Writer(one, one_pid, first), Writer(two, two_pid, second))
        return [
            await _explore(pair, Orders(writers, server), database, world)
            for pair in pairs or PAIRS
        ]


async def _explore(pair: Pair, orders: Orders, database: Database, world: Clock) -> Explored:
    for writer in orders.writers:
        writer.gate.stops = pair.stops
    count, problems = 0, list[str]()
    more = True
    while more:
        scene = await make_scene(database, world)
        ran = await orders.run(pair.works(scene))
        found = await _judged(pair, scene, ran)
        problems += [f"{pair.name}: {problem} after {_told(ran)}" for problem in found]
        count += 1
        more = orders.advance()
    return Explored(pair.name, count, tuple(problems))


async def _judged(pair: Pair, scene: Scene, ran: Ran) -> list[str]:
    try:
        found = await audit_session(scene.database, scene.session)
        return found + await pair.judge(scene, ran.outcomes)
    except TurntreeError as error:
        # What was there before the writers came can no longer be read.
        return [f"{type(error).__name__}: {error}"]


def _told(ran: Ran) -> str:
    errors = [repr(outcome) for outcome in ran.outcomes if isinstance(outcome, BaseException)]
    return " ".join([ran.order, *errors])


@asynccontextmanager
async def _asking(conninfo: str) -> AsyncGenerator[psycopg.AsyncConnection[tuple[object]], None]:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        yield connection


async def _all_in_thread(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Both turns stand in the thread, after the three that were there."""
    thread = [placed.turn.id for placed in await read_thread(scene.database, scene.session)]
    added = {placed.turn.id for placed in outcomes if isinstance(placed, ThreadTurn)}
    if thread[:3] == list(scene.turns) and sorted(thread[3:]) == sorted(added) and len(added) == 2:
        return []
    return [f"the thread is {thread}, and {outcomes} were acknowledged"]


async def _siblings(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Each session has its own turn, and both turns follow the same one."""
    problems = await audit_session(scene.database, scene.twin)
    for session, placed in zip((scene.session, scene.twin), outcomes, strict=True):
        thread = [each.turn.id for each in await read_thread(scene.database, session)]
        if not isinstance(placed, ThreadTurn) or thread != [*scene.turns, placed.turn.id]:
            problems.append(f"the thread is {thread}, and {placed} was acknowledged")
    return problems


async def _one_in_thread(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Both were answered with the one turn that stands in the thread."""
    thread = [placed.turn.id for placed in await read_thread(scene.database, scene.session)]
    answers = {placed.turn.id for placed in outcomes if isinstance(placed, ThreadTurn)}
    both = all(isinstance(outcome, ThreadTurn) for outcome in outcomes)
    return [] if both and set(thread[3:]) == answers and len(thread) == 4 else [f"{outcomes}"]


async def _one_in_either(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """One appended; the other was told that the key means something else."""
    sessions = SessionStore(scene.database)
    heads = {(await sessions.get(id)).head for id in (scene.session, scene.twin)}
    added = {placed.turn.id for placed in outcomes if isinstance(placed, ThreadTurn)}
    told = sum(isinstance(outcome, InvalidOperation) for outcome in outcomes) == 1
    right = told and len(added) == 1 and heads == {scene.turns[2], *added}
    return [] if right else [f"the heads are {heads}, {outcomes}"]


async def _moved_twice(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Both moves were logged; the audit has said whether they are lawful."""
    version = (await SessionStore(scene.database).get(scene.session)).version
    return [] if version == 6 and _answered(outcomes) else [f"version {version}, {outcomes}"]


async def _forked(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """One of them moved the session; the other began one where it had stood at some time."""
    (began,) = [o for o in outcomes if isinstance(o, MoveResult) and o.session != scene.session]
    problems = await audit_session(scene.database, began.session)
    stood = {scene.turns[0], scene.turns[2]}
    stood |= {placed.turn.id for placed in outcomes if isinstance(placed, ThreadTurn)}
    if began.head not in stood:
        problems.append(f"the fork stands at {began.head}")
    version = (await SessionStore(scene.database).get(scene.session)).version
    return problems if version == 5 and _answered(outcomes) else [*problems, f"{outcomes}"]


async def _one_name(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """One got the name, the other was told so, and both still have a label."""
    sessions = SessionStore(scene.database)
    holder = await sessions.find(f"wanted-{scene.mark}")
    named = [number for number, outcome in enumerate(outcomes) if outcome is None]
    if len(named) != 1 or not isinstance(outcomes[1 - named[0]], Conflict):
        return [f"the name was given {len(named)} times: {outcomes}"]
    winner = (scene.session, scene.other)[named[0]]
    for id in (scene.session, scene.other):
        await sessions.get(id)
    return [] if holder is not None and holder.id == winner else [f"{winner} has no name"]


async def _one_session(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """One session began; whoever lost was told so, or was answered with it."""
    began = {outcome.session for outcome in outcomes if isinstance(outcome, MoveResult)}
    told = all(isinstance(outcome, MoveResult | Conflict) for outcome in outcomes)
    found = await SessionStore(scene.database).find(f"wanted-{scene.mark}")
    return [] if told and found is not None and began == {found.id} else [f"{outcomes}"]


async def _both_recorded(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """One session began and holds both turns."""
    found = await SessionStore(scene.database).find(f"wanted-{scene.mark}")
    if found is None or not _answered(outcomes):
        return [f"{outcomes}"]
    problems = await audit_session(scene.database, found.id)
    return problems if found.depth == 2 else [*problems, f"{found.depth} turns of 2"]


async def _merged(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """The turn stands in its session, and the merge is done."""
    found = await SessionStore(scene.database).get(scene.session)
    done = _answered(outcomes) and found.version == 5
    return [] if done else [f"version {found.version}, {outcomes}"]


async def _merged_twice(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Each merge was done, one after the other, and every name leads somewhere."""
    ids = (scene.session, scene.other)
    names = [f"{kind}-{id}" for id in ids for kind in ("s", "kept")]
    lost = [name for name in names if await SessionStore(scene.database).find(name) is None]
    return [] if _answered(outcomes) and not lost else [f"lost {lost}, {outcomes}"]


async def _tagged(scene: Scene, outcomes: tuple[object, ...]) -> list[str]:
    """Both tags stand."""
    tags = await Tags(scene.database).list_tags(turn=scene.turns[0])
    return [] if len(tags) == 2 and outcomes == (True, True) else [f"{tags}, {outcomes}"]


def _answered(outcomes: tuple[object, ...]) -> bool:
    return not any(isinstance(outcome, BaseException) for outcome in outcomes)


PAIRS: Sequence[Pair] = (
    Pair("append × append", lambda s: (s.append, s.append), _all_in_thread),
    Pair(
        "append × append under one key",
        lambda s: (
            lambda db: s.append(db, key=s.mark),
            lambda db: s.append(db, key=s.mark),
        ),
        _one_in_thread,
    ),
    Pair(
        "append × append under one key in two sessions",
        lambda s: (
            lambda db: s.append(db, key=s.mark),
            lambda db: s.append(db, key=s.mark, to=s.twin),
        ),
        _one_in_either,
    ),
    Pair(
        "overtaken append × overtaken append",
        lambda s: (s.append_overtaken, s.append_overtaken),
        _all_in_thread,
    ),
    Pair(
        "append × append after one turn in two sessions",
        lambda s: (s.append, lambda db: s.append(db, to=s.twin)),
        _siblings,
    ),
    Pair("append × fork", lambda s: (s.append, s.fork), _forked),
    Pair(
        "append × rewind",
        lambda s: (s.append, lambda db: s.move(db, "rewind", s.turns[0])),
        _moved_twice,
    ),
    Pair(
        "fork × rewind",
        lambda s: (s.fork, lambda db: s.move(db, "rewind", s.turns[0])),
        _forked,
    ),
    Pair("undo × append", lambda s: (lambda db: s.move(db, "undo", None), s.append), _moved_twice),
    Pair(
        "undo × undo",
        lambda s: (lambda db: s.move(db, "undo", None), lambda db: s.move(db, "undo", None)),
        _moved_twice,
    ),
    Pair(
        "rename × rename to one name",
        lambda s: (
            lambda db: s.name(db, s.session, as_label=True),
            lambda db: s.name(db, s.other, as_label=True),
        ),
        _one_name,
    ),
    Pair(
        "alias × alias of one name",
        lambda s: (
            lambda db: s.name(db, s.session, as_label=False),
            lambda db: s.name(db, s.other, as_label=False),
        ),
        _one_name,
    ),
    Pair(
        "rename × alias of one name",
        lambda s: (
            lambda db: s.name(db, s.session, as_label=True),
            lambda db: s.name(db, s.other, as_label=False),
        ),
        _one_name,
    ),
    Pair(
        "create × create of one name",
        lambda s: (
            lambda db: s.create(db, SessionId(s.world.new_id()), label=f"wanted-{s.mark}"),
            lambda db: s.create(db, SessionId(s.world.new_id()), label=f"wanted-{s.mark}"),
        ),
        _one_session,
    ),
    Pair(
        "create × create under one key",
        lambda s: (
            lambda db: s.create(
                db, SessionId(s.world.new_id()), label=f"wanted-{s.mark}", key=s.mark
            ),
            lambda db: s.create(
                db, SessionId(s.world.new_id()), label=f"wanted-{s.mark}", key=s.mark
            ),
        ),
        _one_session,
    ),
    Pair(
        "record × record into a session nobody began",
        lambda s: (s.record_by_name, s.record_by_name),
        _both_recorded,
        # Its many looks at sessions would multiply the orders; those of other pairs are enough.
        stops=frozenset({"insert_session", "append_turn", "commit"}),
    ),
    Pair(
        "merge × append",
        lambda s: (lambda db: s.merge(db, s.other, s.session), s.append),
        _merged,
    ),
    Pair(
        "merge × merge crosswise",
        lambda s: (
            lambda db: s.merge(db, s.other, s.session),
            lambda db: s.merge(db, s.session, s.other),
        ),
        _merged_twice,
    ),
    Pair(
        "tag × tag",
        lambda s: (lambda db: s.tag(db, "one"), lambda db: s.tag(db, "two")),
        _tagged,
    ),
)
