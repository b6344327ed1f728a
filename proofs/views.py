"""The claim: SQL through the schema ``ledger`` reads what it returns, never all that was said.

A workspace is filled with many sessions, and the look-ups people do are run as the role
``turntree_reader``. Bodies are most of the bytes of a ledger, so the figures are about them: how
many look-ups scan all bodies (none may), and how often a look-up reads a body for each turn in its
result. Both are counted by PostgreSQL while the look-up runs, inside functions too, and the plan is
searched as well. ``just prove views`` fills in 100,000 turns of 1 KB; ``--quick`` 20,000.
"""

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from proofs import crowd, figures
from proofs.crowd import Crowd
from proofs.figures import Proof
from proofs.workload import BY, Library, begin, record
from turntree.core import event as events
from turntree.core.canonical import Json
from turntree.core.event import Event
from turntree.core.ids import Label, SessionId, unix_ms
from turntree.core.session import Spawn
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.system.clock import SystemClock

STATEMENTS = figures.load_statements(Path(__file__).with_name("views.sql"))
SETTINGS = ("analyze", "set_role", "set_workspace", "count_alone", "touched", "explain")
LOOK_UPS = tuple(name for name in STATEMENTS if name not in SETTINGS)
EDGE_LOOK_UPS = frozenset(LOOK_UPS[LOOK_UPS.index("edges_from_a_turn") :])
MOVES = 200
RESOURCES = 400
HOLDINGS = 4
"""How often each resource is attached and detached."""
POLICIES = 20
READS_MAX = 5
"""A column that shows what a body holds reads it: a turn has five of them, a tool call four."""
EDGES_MAX_MS = 100
"""Most of it is planning: an edge may come from any of a dozen places."""

Params = Mapping[str, object]
Reader = psycopg.AsyncConnection[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What PostgreSQL did for a look-up."""

    rows: int
    turns: int
    """How many different turns the result is about."""
    scans: int
    """How often all bodies were scanned, in the plan or inside a function."""
    bodies: int
    buffers: int
    plan: str
    """The ways into tables that the plan takes."""


async def prove(proof: Proof) -> None:
    """Fill a workspace and take every figure."""
    turns = 20_000 if proof.quick else 100_000
    with figures.temporary_server() as (server, _):
        conninfo = await ensure_database(server, "proof_views")
        workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
        async with open_database(
            conninfo, workspace, connections_max=1, sight=EVERYTHING
        ) as database:
            params = await _fill(database, turns, proof.seed)
        async with await psycopg.AsyncConnection[dict[str, Any]].connect(
            conninfo, autocommit=True, row_factory=dict_row
        ) as reader:
            await reader.execute(STATEMENTS["analyze"])
            await reader.execute(STATEMENTS["set_role"])
            await reader.execute(STATEMENTS["set_workspace"], {"workspace": str(workspace)})
            proof.note("workspace", turns, "turns")
            await _look_up(proof, reader, params)


async def _look_up(proof: Proof, reader: Reader, params: Params) -> None:
    wanted = [name for name in LOOK_UPS if proof.wants(name)]
    times = {name: await _time(reader, name, params, 5 if proof.quick else 15) for name in wanted}
    await reader.execute(STATEMENTS["count_alone"])
    seen = {name: await _watch(reader, name, params) for name in wanted}
    for name, found in seen.items():
        told = name.replace("_", " ")
        proof.note(told, times[name], "ms")
        proof.note(f"{told}, result", found.rows, "rows")
        proof.note(f"{told}, bodies read", found.bodies, "bodies")
        proof.note(f"{told}, pages touched by: {found.plan}", found.buffers, "pages")
    empty = sum(found.rows == 0 for found in seen.values())
    scanning = sum(found.scans > 0 for found in seen.values())
    dearest = max(found.bodies / max(found.turns, 1) for found in seen.values())
    proof.note("look-ups", len(seen), "look-ups")
    proof.at_most("look-ups that find nothing", empty, "look-ups", 0)
    proof.at_most("look-ups that scan all bodies", scanning, "look-ups", 0)
    proof.at_most("reads of a body for each turn in a result", dearest, "x", READS_MAX)
    walked = [times[name] for name in wanted if name in EDGE_LOOK_UPS]
    if walked:
        proof.at_most("slowest look-up along edges", max(walked), "ms", EDGES_MAX_MS, of="time")


async def _time(reader: Reader, name: str, params: Params, times: int) -> float:
    """Return the median of its wall time, in milliseconds, rows fetched."""
    spent: list[float] = []
    for _ in range(times + 1):
        start = time.perf_counter()
        await (await reader.execute(STATEMENTS[name], params)).fetchall()
        spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent[1:])


async def _watch(reader: Reader, name: str, params: Params) -> Seen:
    """Return what a look-up touches, as PostgreSQL counts it."""
    async with reader.transaction(force_rollback=True):
        before = await _touched(reader)
        rows = await (await reader.execute(STATEMENTS[name], params)).fetchall()
        after = await _touched(reader)
        explained = b"\n".join((STATEMENTS["explain"], STATEMENTS[name]))
        (plan,) = await (await reader.execute(explained, params)).fetchall()
    top = plan["QUERY PLAN"][0]["Plan"]
    planned = sum(
        node["Node Type"] == "Seq Scan" and node["Relation Name"] == "turn_bodies"
        for node in _nodes(top)
    )
    turns = {row["turn_id"] for row in rows if "turn_id" in row}
    return Seen(
        len(rows),
        len(turns),
        planned + after["scans"] - before["scans"],
        after["bodies"] - before["bodies"],
        top["Shared Hit Blocks"] + top["Shared Read Blocks"],
        ", ".join(dict.fromkeys(way for node in _nodes(top) if (way := _way(node)))),
    )


def _way(node: Mapping[str, Any]) -> str | None:
    """Return how a node of a plan comes to rows, or None for one that works on others' rows."""
    into = node.get("Index Name") or node.get("Relation Name") or node.get("Function Name")
    return None if into is None else f"{node['Node Type']} {into}"


async def _touched(reader: Reader) -> dict[str, int]:
    (row,) = await (await reader.execute(STATEMENTS["touched"])).fetchall()
    return {name: int(value) for name, value in row.items()}


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


async def _fill(database: Database, turns: int, seed: int) -> Params:
    """Fill the workspace and return what the look-ups name."""
    people = Crowd(database, seed)
    await people.grow(turns - MOVES, deepest=turns // 20)
    plain = next(
        thread
        for thread in people.threads[1:]
        if thread.base is None and 20 < len(thread.turns) < 60
    )
    forked = next(thread for thread in people.threads if thread.base is not None)
    assert forked.base is not None
    moment = await _keep_busy(database, seed)
    sessions, world = SessionStore(database), SystemClock()
    found = await sessions.find(plain.label)
    assert found is not None
    # A compaction calls no tool; a root is none.
    spawner = plain.turns[0].id
    spawn = Spawn(found.id, spawner, "call_0", task="look around")
    id, now = SessionId(world.new_id()), world.now()
    await sessions.create(id, Label("worker"), by=str(BY), at=now, spawn=spawn)
    await sessions.name(found.id, Label("entity:ana"), by=str(BY), at=now, as_label=False)
    held, stream = await _hold_things(database)
    return {
        "turn": plain.turns[0].id,
        "message": f"{plain.turns[0].id}/0",
        "session": plain.label,
        "long_session": people.threads[0].label,
        "deep": people.threads[0].head,
        "fork": forked.base.middle.id,
        "from": plain.turns[0].started_ms,
        # A window that holds some fifty turns, whatever the size.
        "to": plain.turns[0].started_ms + crowd.SPAN_MS * 50 // turns,
        "busy": "busy",
        "moment": moment,
        "worker": "worker",
        "spawner": spawner,
        "alias": "entity:ana",
        "tool": crowd.TOOL_RARE,
        "model": crowd.MODEL_RARE,
        "path": crowd.PATH_RARE,
        "call": f"{spawner}/call/call_0",
        "worker_id": id,
        "agent": str(BY),
        "resource": "resource-7",
        "event": f"{stream}/event/0",
        "held": held,
    }


async def _hold_things(database: Database) -> tuple[int, str]:
    """Record who held what; return a moment at which all was held, and a stream."""
    ledger, world = Ledger(database), SystemClock()
    streams = [world.new_id() for _ in range(RESOURCES)]
    attached = ("resource.attached", {"mount": "/data", "mode": "ro"})
    told = [*[attached, ("resource.detached", {})] * HOLDINGS, attached]
    for number, stream in enumerate(streams):
        named: dict[str, Json] = {
            "resource_ref": f"resource-{number}",
            "agent_id": f"agent:{number}" if number % HOLDINGS else str(BY),
        }
        for seq, (kind, data) in enumerate(told):
            fact = Event(stream, seq, kind, world.now(), {**named, **data})
            await ledger.append(events.record(fact))
        if number < POLICIES:
            chosen: dict[str, Json] = {"policy_ref": f"policy-{number}.py"}
            fact = Event(stream, len(told), "policy.activated", world.now(), chosen)
            await ledger.append(events.record(fact))
    return unix_ms(world.now()), streams[0]


async def _keep_busy(database: Database, seed: int) -> int:
    """Record turns one by one in a session, and return a moment in the middle of them."""
    recorder = await begin(database, "busy", None)
    moment = 0
    for number, said in enumerate(Library(seed).exchanges(MOVES)):
        await record(recorder, said)
        if number == MOVES // 2:
            moment = unix_ms(SystemClock().now())
    return moment


if __name__ == "__main__":
    figures.run(prove, str(__doc__))
