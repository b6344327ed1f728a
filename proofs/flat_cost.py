"""The claim: a turn costs the same at any depth, and little more than PostgreSQL itself.

Figures are ratios to bare PostgreSQL in the same run, in rounds that take turns, or bytes on the
disk. ``just prove flat-cost`` takes all of them; ``--quick`` repeats less often.
"""

import itertools
import statistics
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from uuid import UUID

import orjson

from proofs import figures
from proofs.figures import Cost, Proof, interleave, median_cpu
from proofs.stage import STATEMENTS, Measured, Stage, prefill, set_stage
from proofs.workload import BY, CALLS, Library, begin, record, thread
from proofs.writers import LABEL, WRITERS, processes, run_pgbench, run_tasks
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import digest_raw
from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.usage import ModelCall, recorded
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import turn_params
from turntree.ledger.thread_store import ThreadStore
from turntree.system.clock import SystemClock
from turntree.transcripts.bulk_copy import COLUMN_TYPES, import_turns
from turntree.transcripts.incoming import ImportedTurn

KB = 1024
DEPTHS = (10, 1_000, 10_000)
NESTED_FORKS = 1_000
OWN_TABLES = ("turns", "turn_bodies", "segments")
OTHER_TABLES = (
    "tool_calls", "model_calls", "session_history", "session_reach", "sessions", "idempotency_keys",
)  # fmt: skip
BYTES_TURNS = 2_000


async def prove(proof: Proof) -> None:
    """Take every figure."""
    with figures.temporary_server() as (server, folder):
        for name, depths, parts in STAGES:
            if not any(proof.wants(part) for part in parts):
                continue
            async with set_stage(proof, server, folder, name, depths) as stage:
                for part, take in parts.items():
                    if proof.begins(part):
                        await take(stage)


async def take_append(stage: Stage) -> None:
    """An append costs the same at any depth, and a bounded number of bare inserts."""
    appends = [await _append_at(stage, depth) for depth in DEPTHS]
    bare = stage.theirs(80, stage.insert_bare)
    await interleave(3, [*appends, bare])
    *costs, floor = await interleave(stage.times(15, 60), [*appends, bare])
    for depth, cost in zip(DEPTHS, costs, strict=True):
        _note_cost(stage.proof, f"append at depth {depth:,}", cost)
    _note_cost(stage.proof, "bare insert", floor)
    medians = [median_cpu(cost) for cost in costs]
    stage.proof.at_most(
        "append, dearest depth to cheapest", max(medians) / min(medians), "x", 1.15, of="time"
    )
    stage.proof.at_most(
        "append to a bare insert, CPU", max(medians) / median_cpu(floor), "x", 12, of="time"
    )


async def _append_at(stage: Stage, depth: int) -> Measured:
    recorder = await begin(stage.database, f"at-{depth}", stage.threads[depth][-1])
    said = itertools.cycle(stage.exchanges)

    async def append() -> None:
        await record(recorder, next(said))

    return stage.ours(40, append)


async def take_bytes(stage: Stage) -> None:
    """What a turn takes on the disk, with its indexes."""
    kinds = ((True, "a turn of 5 KB"), (False, "turns of 5 KB on average"))
    for even, told in kinds[:1] if stage.proof.quick else kinds:
        library = Library(stage.proof.seed + 1, even=even)
        # The first rows pay for pages that the next ones fill.
        await _grow(stage, library, f"warm-{even}", 50, CALLS)
        alone = await _grow(stage, library, f"alone-{even}", BYTES_TURNS // 2, ())
        drawn = library.chars_drawn
        whole = await _grow(stage, library, f"whole-{even}", BYTES_TURNS, CALLS)
        stage.proof.note(f"{told}, text", (library.chars_drawn - drawn) / BYTES_TURNS, "characters")
        for name in ("turns", "turn_bodies", *OTHER_TABLES):
            stage.proof.note(f"{told}, {name}", whole[name], "B")
        stage.proof.note(f"{told}, events of the session", alone["events"], "B")
        stage.proof.note(f"{told}, the run's journal", whole["events"] - alone["events"], "B")
        own = sum(whole[name] for name in OWN_TABLES)
        rest = sum(whole[name] for name in OTHER_TABLES) + alone["events"]
        if even:
            stage.proof.at_most(f"{told}, turn and body", own / KB, "KB", 4.0)
            stage.proof.at_most(f"{told}, everything", (own + rest) / KB, "KB", 6.0)
        else:
            # Equal bodies leave an equal gap in each page; bodies of all lengths fill the gaps.
            stage.proof.note(f"{told}, turn and body", own / KB, "KB")
            stage.proof.note(f"{told}, everything", (own + rest) / KB, "KB")


async def _grow(
    stage: Stage, library: Library, label: str, turns: int, calls: Sequence[ModelCall]
) -> dict[str, float]:
    """Return by how many bytes a turn each table grows."""
    recorder = await begin(stage.database, label, None)
    before = await stage.sizes()
    for _ in range(turns):
        await record(recorder, library.exchange(), calls)
    after = await stage.sizes()
    return {name: (after[name] - before[name]) / turns for name in after}


async def take_fork(stage: Stage) -> None:
    """A fork costs a few commits at any depth and copies nothing."""
    world = SystemClock()
    sessions = SessionStore(stage.database)
    tree = tree_on(stage.database, Settings(stage.folder, user="proof"), world)

    def fork(head: TurnId) -> Measured:
        async def once() -> None:
            id = world.new_id()
            await sessions.create(SessionId(id), Label(id), by=str(BY), at=world.now(), head=head)

        return stage.ours(10, once)

    def fork_by_name(head: TurnId) -> Measured:
        return stage.ours(10, lambda: tree.sessions.fork(head, f"fork-{world.new_id()}"))

    bare = stage.theirs(10, stage.insert_bare)
    before = await stage.sizes()
    # Short turns, and each compared with its neighbour: a commit waits for a disk whose pace
    # changes within a second.
    for depth in DEPTHS:
        head = stage.threads[depth][-1]
        ways = [fork(head), bare, fork_by_name(head), stage.ours(10, stage.insert_bare_pooled)]
        await interleave(4, ways)
        forks, commits, named, pooled = await interleave(stage.times(40, 150), ways)
        _note_cost(stage.proof, f"fork at depth {depth:,}", forks)
        stage.proof.note("bare commit, wall", _median_wall(commits), "us")
        stage.proof.note("bare commit through the pool, wall", _median_wall(pooled), "us")
        figure = f"fork at depth {depth:,} to a bare commit, wall"
        stage.proof.at_most(figure, _median_pair(forks, commits), "x", 3, of="time")
        figure = f"tree.sessions.fork at depth {depth:,} to a bare commit, wall"
        # What a user calls: the same function, with the name checked and the session returned.
        stage.proof.at_most(figure, _median_pair(named, commits), "x", 4, of="time")
    after = await stage.sizes()
    grown = sum(after[name] - before[name] for name in OWN_TABLES)
    stage.proof.at_most("forks, bytes of turns and bodies", grown, "B", 0)


async def take_load(stage: Stage) -> None:
    """Loading a thread costs little more than reading its rows and parsing their lines."""
    threads = ThreadStore(stage.database)
    turns = stage.threads[1_000]
    params = (stage.database.workspace, UUID(turns[0]), len(turns))

    async def load_bare() -> None:
        rows = await stage.bare.execute(STATEMENTS["load_bare"], params, binary=True)
        found = [
            list(map(orjson.loads, (header, *said.split("\n"))))
            for _, header, said, *_ in await rows.fetchall()
        ]
        assert len(found) == len(turns)

    async def load() -> None:
        assert len(await threads.list_range(turns[-1])) == len(turns)

    ways = [stage.ours(1, load), stage.theirs(1, load_bare)]
    await interleave(3, ways)
    ours, floor = await interleave(stage.times(12, 100), ways)
    _note_cost(stage.proof, "load of 1,000 turns", ours)
    _note_cost(stage.proof, "bare load of 1,000 turns", floor)
    ratio = median_cpu(ours) / median_cpu(floor)
    stage.proof.at_most("load of 1,000 turns to a bare one, CPU", ratio, "x", 1.5, of="time")


async def take_relations(stage: Stage) -> None:
    """Ancestor questions do not climb turn by turn."""
    await _relate(stage, stage.threads[10_000], "at depth 10,000", 1.0)
    library = Library(stage.proof.seed + 2)
    nested = await prefill(stage.database, library, 10_000, forks=NESTED_FORKS)
    await stage.owner.execute(STATEMENTS["analyze"])
    await _relate(stage, nested, f"below {NESTED_FORKS:,} nested forks", 3.0)


async def _relate(stage: Stage, turns: list[TurnId], where: str, bar: float) -> None:
    threads = ThreadStore(stage.database)
    others: list[TurnId] = []
    # A branch that leaves near the root, and one that leaves near the head.
    for depth in (5, 9_990):
        recorder = await begin(stage.database, f"{where}-{depth}", turns[depth - 1])
        await record(recorder, stage.exchanges[0])
        assert recorder.head is not None
        others.append(recorder.head)
    above = itertools.cycle([1, 9, 99, 999, 4_567, 9_998])
    beside = itertools.cycle(others)

    async def ask_ancestor() -> None:
        assert await threads.is_ancestor(turns[next(above)], turns[-1])

    async def find_common() -> None:
        assert await threads.find_common_ancestor(turns[-1], next(beside)) is not None

    ways = [stage.ours(12, ask_ancestor), stage.ours(12, find_common)]
    asked, found = await interleave(stage.times(20, 60), ways)
    for name, costs in (("is_ancestor", asked), ("find_common_ancestor", found)):
        backend_ms = statistics.median(cost.backend for cost in costs) / 1000
        stage.proof.at_most(f"{name} {where}, CPU of the backend", backend_ms, "ms", bar, of="time")


async def take_import(stage: Stage) -> None:
    """A bulk import reaches at least half the speed of a bare COPY of the same bytes."""
    library = Library(stage.proof.seed + 3)
    batches = itertools.count()
    size = stage.times(1_000, 2_000)

    async def ours() -> float:
        turns = list(thread(library, size + next(batches)))[:size]
        cost = await figures.measure(stage.pid, 1, lambda: import_turns(stage.database, turns))
        return cost.wall / size

    async def theirs() -> float:
        turns = list(thread(library, size))
        cost = await figures.measure(stage.pid, 1, lambda: _copy_bare(stage, turns))
        return cost.wall / size

    import_us, copy_us = map(statistics.median, await interleave(stage.times(3, 7), [ours, theirs]))
    stage.proof.note("import", 1e6 / import_us, "turns/s")
    stage.proof.note("bare COPY", 1e6 / copy_us, "turns/s")
    stage.proof.at_least(
        "import to a bare COPY, turns a second", copy_us / import_us, "x", 0.5, of="time"
    )


async def _copy_bare(stage: Stage, turns: Sequence[ImportedTurn]) -> None:
    """Copy what the turns hold into tables without a key, an index or a check."""
    workspace = stage.database.workspace.bytes
    first = _raw(turns[0].sealed.turn.id)
    async with stage.database.acting_as("turntree_importer") as connection:
        async with connection.cursor().copy(STATEMENTS["copy_bare_turns"]) as copy:
            copy.set_types(COLUMN_TYPES["copy_turns"].split())
            for depth, item in enumerate(turns, 1):
                h = item.sealed.turn.header
                await copy.write_row((
                    workspace, _raw(h.id), item.parent and _raw(item.parent), first, depth,
                    digest_raw(item.sealed.turn.digest), datetime.fromisoformat(h.started_at),
                    datetime.fromisoformat(h.sealed_at), h.kind, h.outcome, h.agent_role,
                    str(h.by), h.model, h.provider,
                ))  # fmt: skip
        async with connection.cursor().copy(STATEMENTS["copy_bare_bodies"]) as copy:
            copy.set_types(COLUMN_TYPES["copy_bodies"].split())
            for item in turns:
                header, _, said = item.sealed.body.partition("\n")
                await copy.write_row((workspace, _raw(item.sealed.turn.id), header, said))
        await connection.execute(STATEMENTS["truncate_bare"])


def _raw(id: str) -> bytes:
    return bytes.fromhex(id.replace("-", ""))


async def take_writers(stage: Stage) -> None:
    """Eight writers through the library keep up with pgbench calling the same function."""
    for number in range(WRITERS):
        await begin(stage.database, LABEL.format(number), stage.threads[1_000][-1])
    script = await _put_payload(stage)
    seconds = stage.times(2, 5)
    many = open_database(stage.conninfo, stage.workspace, connections_max=WRITERS, sight=EVERYTHING)
    with processes(stage.conninfo, stage.workspace, stage.proof.seed) as lent:
        async with many as database:

            async def pgbench() -> float:
                return run_pgbench(stage.conninfo, stage.workspace, script, seconds)

            async def by_processes() -> float:
                return lent.run(seconds)

            async def by_tasks() -> float:
                return await run_tasks(database, stage.exchanges, seconds)

            # The first append of each session opens a segment, and caches are cold.
            await by_tasks()
            rates = await interleave(stage.times(2, 5), [pgbench, by_processes, by_tasks])
    floor, processes_rate, tasks_rate = map(statistics.median, rates)
    stage.proof.note("8 writers, pgbench", floor, "turns/s")
    stage.proof.note("8 writers, eight processes", processes_rate, "turns/s")
    stage.proof.note("8 writers, one process", tasks_rate, "turns/s")
    stage.proof.note("8 writers, eight processes to pgbench", processes_rate / floor, "x")
    stage.proof.note("8 writers, one process to pgbench", tasks_rate / floor, "x")
    better = max(processes_rate, tasks_rate) / floor
    stage.proof.at_least("8 writers, the better way to pgbench", better, "x", 0.55, of="time")


async def _put_payload(stage: Stage) -> Path:
    """Put the turn that pgbench appends where its script finds it, and return the script."""
    (item,) = thread(Library(stage.proof.seed), 1)
    params = turn_params(item.sealed, None, CALLS)
    (fact,) = recorded(item.sealed.turn, CALLS)
    names = ("header", "body", "started_at", "sealed_at", "calls", "models", "tokens")
    row = (*(params[name] for name in names), fact.body)
    await stage.owner.execute(STATEMENTS["put_payload"], row)
    script = stage.folder / "append.sql"
    script.write_bytes(STATEMENTS["pgbench"])
    return script


def _note_cost(proof: Proof, name: str, costs: Sequence[Cost]) -> None:
    proof.note(f"{name}, CPU of the client", statistics.median(c.client for c in costs), "us")
    proof.note(f"{name}, CPU of the backend", statistics.median(c.backend for c in costs), "us")


def _median_pair(costs: Sequence[Cost], floors: Sequence[Cost]) -> float:
    """Return the median of what a turn took to what the turn beside it took."""
    return statistics.median(
        cost.wall / floor.wall for cost, floor in zip(costs, floors, strict=True)
    )


def _median_wall(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.wall for cost in costs)


# Forks come first where turns must not grow; bytes are counted where nothing else was written.
STAGES: Sequence[tuple[str, Sequence[int], dict[str, Callable[[Stage], Awaitable[None]]]]] = (
    (
        "depth",
        DEPTHS,
        {"fork": take_fork, "append": take_append, "load": take_load, "relations": take_relations},
    ),
    ("bytes", (), {"bytes": take_bytes}),
    ("import", (), {"import": take_import}),
    ("writers", (1_000,), {"writers": take_writers}),
)

if __name__ == "__main__":
    figures.run(prove, str(__doc__))
