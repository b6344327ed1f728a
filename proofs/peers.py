"""The claim: the same work costs less here than in the stores other agents keep their turns in.

Each store runs in a process of its own, in an environment made for it (``.bench/venv``), with a
database of its own on one server. They take turns, so a busy machine slows all alike. Figures
are CPU time of the process and its backends, and bytes on the disk; each is shown with the
ratio to Turntree's, whose bar is 1. ``CONCEDED`` names the cells where a peer is ahead: they are
shown without a bar, and explained in docs/explanation/benchmarks.md.

A full run draws docs/benchmarks and the tables of that page anew, size by size; ``--quick`` ends
in 3 minutes and writes to ``.bench/report``.
"""

import argparse
import asyncio
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from proofs.figures import DURABLE, Cost, Proof, interleave, temporary_server
from proofs.rivals.bench import Bench, Contender, ensure_environment
from proofs.rivals.report import BYTES, Cell, Report, publish
from turntree.db.database import ensure_database

RIVALS = "proofs.rivals."
OURS = "turntree"
CONTENDERS = (
    Contender(OURS, "Turntree", RIVALS + "turntree_recorder", "TurntreeRecorder"),
    Contender("llm", "llm (SQLite)", RIVALS + "llm_logstore", "LLMLogStore"),
    Contender("agents", "OpenAI Agents SDK", RIVALS + "openai_agents", "OpenAIAgents"),
    Contender("agno", "agno", RIVALS + "agno_postgres", "Agno"),
    Contender("adk", "Google ADK", RIVALS + "google_adk", "GoogleADK"),
    Contender(
        "delta", "LangGraph, DeltaChannel", RIVALS + "langgraph_checkpoint", "LangGraphDelta"
    ),
    Contender("langgraph", "LangGraph", RIVALS + "langgraph_checkpoint", "LangGraph"),
)
CONCEDED = frozenset(
    {
        ("llm", "fork"),
        ("llm", "fork bytes"),
        ("delta", "fork bytes"),
        ("langgraph", "fork bytes"),
        ("agno", "bytes"),
        ("agents", "bytes"),
        ("agno", "load"),
        ("agents", "load"),
    }
)
"""Peer and measure, at any length: what a first run showed, so this guards and proves nothing."""

SIZES = (100, 1_000, 10_000)
SETTINGS = {
    **DURABLE,
    "shared_buffers": "2GB",
    # A parallel worker ends before anybody could ask how long it worked.
    "max_parallel_workers_per_gather": "0",
}
ROUND_MS = 100
"""About what a store may take for its part of a round."""
TIMES_MAX = 10
PATIENCE_MS, PATIENCE_QUICK_MS = 20_000, 2_000
"""Work that takes longer is done once."""
GROWTH = {"append": "bytes", "fork": "fork bytes"}
GROWTH_MS = 4_000
GROWTH_TIMES, GROWTH_TIMES_CLEAR = 200, 100
PAGE, PAGES_CLEAR, PAGES_PLENTY = 8192, 30, 300
"""Tables grow by pages; a few of them say little about a turn."""
ROOT = Path(__file__).parent.parent


async def prove(proof: Proof, sizes: list[int], root: Path) -> None:
    """Measure every store at every size, and publish below a folder what is known so far."""
    python = ensure_environment(ROOT)
    with temporary_server(SETTINGS) as (server, folder), ExitStack() as ended:
        for size in sizes:
            benches: list[Bench] = []
            for contender in CONTENDERS:
                if contender.name != OURS and not proof.wants(contender.name):
                    continue
                name = f"{contender.name}_{size}"
                conninfo = await ensure_database(server, name)
                where = folder / name
                where.mkdir()
                benches.append(
                    ended.enter_context(Bench(contender, python, conninfo, where, proof.seed))
                )
            report = Report()
            await compare(proof, report, size, benches)
            # Stores are compared within a size, so each stands for itself.
            publish(report, root)
            ended.close()


async def compare(proof: Proof, report: Report, size: int, benches: list[Bench]) -> None:
    """Take every figure of one size; what makes a thread longer comes last."""
    for bench in benches:
        filled = str(bench.ask("fill", size)["filled"])
        report.stores[bench.contender.name] = bench.store()
        report.fills[bench.contender.name, size] = filled
    for verb in ("load", "fork", "append"):
        able = [b for b in benches if verb != "fork" or size <= (b.forks_max or size)]
        await _time(proof, report, verb, size, able)
    for measure in report.measures(size):
        _show(proof, report, measure, size)


async def _time(proof: Proof, report: Report, verb: str, size: int, benches: list[Bench]) -> None:
    """Time a verb in rounds; if it writes, count what it adds to the disk too."""
    patience_ms = PATIENCE_QUICK_MS if proof.quick else PATIENCE_MS
    tries = [Try(bench, verb, patience_ms) for bench in benches]
    rounds = 3 if size >= 10_000 else 5 if proof.quick else 9
    patient = [one for one in tries if not one.is_slow]
    found = await interleave(rounds, [one.run for one in patient])
    cpu = dict(zip((one.bench for one in patient), found, strict=True))
    for one in tries:
        name, costs = one.bench.contender.name, cpu.get(one.bench, [one.first.cpu])
        report.add(Cell(verb, size, name, statistics.median(costs), len(costs), one.times))
        if verb in GROWTH:
            grown = one.growth()
            if grown is not None:
                report.add(Cell(GROWTH[verb], size, name, grown[0], 1, grown[1]))


class Try:
    """A verb of a store: how long it takes, and how often it has been done."""

    def __init__(self, bench: Bench, verb: str, patience_ms: float) -> None:
        """Do it once or, if nobody minds, three times: the first is cold."""
        self.bench = bench
        self._verb = verb
        self._before = bench.bytes()
        self._done = 0
        self.first = self._do(1)
        self.is_slow = self.first.wall > patience_ms * 1000
        again = () if self.is_slow else (self._do(1), self._do(1))
        self._wall_ms: float = min(cost.wall for cost in (self.first, *again)) / 1000
        self.times = self._fitting(ROUND_MS, TIMES_MAX)

    async def run(self) -> float:
        """Do it a few times and return what one took of the processors."""
        cost = self._do(self.times)
        self._wall_ms = min(self._wall_ms, cost.wall / 1000)
        return cost.cpu

    def growth(self) -> tuple[float, int] | None:
        """Return what it adds to the disk and over how many, or None if too few to tell."""
        wanted = self._done
        if self._grown() < PAGES_PLENTY * PAGE:
            wanted = max(wanted, self._fitting(GROWTH_MS, GROWTH_TIMES))
        if self._verb == "append":
            # Part of a cycle would count its dear turn too often, or not at all.
            wanted += -wanted % self.bench.cycle
        if wanted > self._done and not self.is_slow:
            self._do(wanted - self._done)
        is_clear = self._done >= GROWTH_TIMES_CLEAR or self._grown() >= PAGES_CLEAR * PAGE
        return (self._grown() / self._done, self._done) if is_clear else None

    def _grown(self) -> int:
        return self.bench.bytes() - self._before

    def _do(self, times: int) -> Cost:
        self._done += times
        return self.bench.time(self._verb, times)

    def _fitting(self, budget_ms: float, most: int) -> int:
        return max(1, min(most, round(budget_ms / self._wall_ms)))


def _show(proof: Proof, report: Report, measure: str, size: int) -> None:
    unit = "B" if measure in BYTES else "us"
    ours = report.cell(measure, size, OURS)
    for contender in CONTENDERS:
        cell = report.cell(measure, size, contender.name)
        if cell is None:
            continue
        what = f"{measure} at {size} turns, {contender.label}"
        proof.note(what, cell.value, unit)
        if contender.name == OURS or ours is None:
            continue
        ratio = cell.value / ours.value
        if (contender.name, measure) in CONCEDED:
            proof.note(f"{what}, to Turntree's (conceded)", ratio, "x")
        else:
            proof.at_least(f"{what}, to Turntree's", ratio, "x", 1, of="time")


def main() -> None:
    """Run the comparison from the command line and end with its verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 turns, few repetitions")
    parser.add_argument("--sizes", help="lengths of threads, with commas")
    parser.add_argument("--seed", type=int, default=7, help="of the workload")
    parser.add_argument("--only", help="the peers whose name contains this word")
    parser.add_argument("--redraw", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    sizes = [int(size) for size in asked.sizes.split(",")] if asked.sizes else list(SIZES)
    if asked.quick and not asked.sizes:
        sizes = [SIZES[0]]
    proof = Proof(asked.quick, asked.seed, asked.only)
    is_whole = not asked.quick and not asked.only and set(sizes) <= set(SIZES)
    root = ROOT if is_whole else ROOT / ".bench" / "report"
    if asked.redraw:
        publish(Report(), ROOT)
    else:
        asyncio.run(prove(proof, sizes, root))
    sys.exit(proof.conclude())


if __name__ == "__main__":
    main()
