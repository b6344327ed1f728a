"""What every proof shares: figures with bars, a server of its own, and clocks.

A proof prints one JSON line a figure and ends with status 1 if one falls short of its bar. Its
last line counts them: without that line it ended in an error, whatever its status says.
Knows PostgreSQL and the machine's clocks. Must never know what a single proof is about.

Costs are compared as CPU time of the client and of its backend, in rounds that take turns:
a machine that is busy with something else then slows both sides alike. Linux only.
"""

import argparse
import asyncio
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from psycopg.conninfo import make_conninfo

from turntree.db.embedded.logins import SUPERUSER
from turntree.db.embedded.server import EmbeddedServer

Result = TypeVar("Result")
Of = Literal["truth", "time"]
"""A truth holds on any machine; a time may be spoilt by whoever else uses this one."""

DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
}
"""What a careful person would run: every commit is on the disk before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, what it should be, and whether it is."""

    figure: str
    value: float
    unit: str
    bar: str | None
    """None for a number that is only reported."""
    ok: bool
    of: Of | None
    """None for a number that is only reported."""
    part: str | None = None
    """The part of the proof that it belongs to, which ``--only`` takes alone."""


@dataclass(slots=True)
class Proof:
    """What a run of a proof was asked for, and what it has shown so far."""

    quick: bool
    seed: int
    only: str | None = None
    flags: frozenset[str] = frozenset()
    """What else was asked for, by the names that the proof gave to ``run``."""
    keep: Path | None = None
    """Where to keep what takes long to write, for another run."""
    first: int = 0
    """The number of the first piece of random work, to go on with a run that was ended."""
    figures: list[Figure] = field(default_factory=list[Figure])
    part: str | None = None
    """The part that is being shown, where the proof names its parts by ``begins``."""

    def wants(self, name: str) -> bool:
        """Say whether a part of the proof was asked for."""
        return self.only is None or any(word in name for word in self.only.split(","))

    def begins(self, name: str) -> bool:
        """Say whether a part was asked for; the figures from here on belong to it."""
        is_wanted = self.wants(name)
        if is_wanted:
            self.part = name
        return is_wanted

    def at_most(
        self, figure: str, value: float, unit: str, bar: float, *, of: Of = "truth"
    ) -> None:
        """Show a figure that must not exceed its bar."""
        self._show(Figure(figure, _shown(value), unit, f"<= {bar}", value <= bar, of, self.part))

    def at_least(
        self, figure: str, value: float, unit: str, bar: float, *, of: Of = "truth"
    ) -> None:
        """Show a figure that must reach its bar."""
        self._show(Figure(figure, _shown(value), unit, f">= {bar}", value >= bar, of, self.part))

    def note(self, figure: str, value: float, unit: str) -> None:
        """Show a figure that has no bar."""
        self._show(Figure(figure, _shown(value), unit, None, ok=True, of=None, part=self.part))

    def conclude(self) -> int:
        """Count the figures in a last line, and return the status to end with."""
        short = sum(not figure.ok for figure in self.figures)
        print(json.dumps({"figures": len(self.figures), "short": short}), flush=True)
        return 1 if short else 0

    def _show(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(json.dumps(asdict(figure)), flush=True)


def run(
    prove: Callable[[Proof], Awaitable[None]],
    about: str,
    flags: Mapping[str, str] | None = None,
    *,
    keeps: str | None = None,
    numbers: str | None = None,
) -> NoReturn:
    """Run a proof from the command line and end with its verdict.

    ``flags`` are options of this proof alone, each with its help; ``keeps`` says what ``--keep``
    leaves in a folder, and ``numbers`` what ``--from`` counts, if the proof takes them.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="end within 60 s")
    parser.add_argument("--seed", type=int, default=7, help="of the workload")
    parser.add_argument(
        "--only", help="the parts whose name contains one of these words, separated by commas"
    )
    for flag, told in (flags or {}).items():
        parser.add_argument(f"--{flag}", action="store_true", help=told)
    if keeps is not None:
        parser.add_argument("--keep", type=Path, metavar="FOLDER", help=keeps)
    if numbers is not None:
        told = f"number of the first of the {numbers}: those before it were seen already"
        parser.add_argument("--from", type=int, dest="first", metavar="NUMBER", help=told)
    asked = parser.parse_args()
    wanted = frozenset(flag for flag in flags or {} if getattr(asked, flag))
    options = vars(asked)
    proof = Proof(
        asked.quick, asked.seed, asked.only, wanted, options.get("keep"), options.get("first") or 0
    )
    asyncio.run(_awaited(prove(proof)))
    sys.exit(proof.conclude())


async def _awaited(work: Awaitable[None]) -> None:
    await work


@contextmanager
def temporary_server(settings: Mapping[str, str] = DURABLE) -> Generator[tuple[str, Path], None]:
    """Lend a server of one's own and a folder it can reach; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-proof-"))
    # The server's account may be another than ours, and must pass through.
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "home", settings)
    try:
        # Proofs count, forge and look past every policy, so they come as the superuser.
        reached = make_conninfo(server.ensure_running(), user=SUPERUSER, dbname="postgres")
        yield reached, folder
    finally:
        server.stop(mode="immediate")
        shutil.rmtree(folder, ignore_errors=True)


def load_statements(file: Path) -> dict[str, bytes]:
    """Return the statements of a file, each of which stands under a line ``-- name: it``."""
    _, *pieces = re.split(r"^-- name: (\w+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: text.strip().encode() for name, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


@dataclass(frozen=True, slots=True)
class Cost:
    """What one repetition cost, in microseconds."""

    client: float
    backend: float
    wall: float

    @property
    def cpu(self) -> float:
        """The time both processors worked; waiting is not in it."""
        return self.client + self.backend


def backend_ns(pid: int) -> int:
    """Return how long a process has been on a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_bytes().split()[0])


async def measure(pid: int, times: int, work: Callable[[], Awaitable[object]]) -> Cost:
    """Return what a piece of work costs on average, when done a number of times in a row."""
    if times > 1:
        await work()  # What ran before has left the caches to itself.
    wall, client, backend = time.perf_counter_ns(), time.process_time_ns(), backend_ns(pid)
    for _ in range(times):
        await work()
    spent = (
        time.process_time_ns() - client,
        backend_ns(pid) - backend,
        time.perf_counter_ns() - wall,
    )
    return Cost(*(ns / times / 1000 for ns in spent))


async def interleave(
    rounds: int, candidates: Sequence[Callable[[], Awaitable[Result]]]
) -> list[list[Result]]:
    """Run each candidate once a round, beginning with another each time."""
    results: list[list[Result]] = [[] for _ in candidates]
    for number in range(rounds):
        for place in range(len(candidates)):
            chosen = (place + number) % len(candidates)
            results[chosen].append(await candidates[chosen]())
    return results


def median_cpu(costs: Sequence[Cost]) -> float:
    """Return the median of client and backend together."""
    return statistics.median(cost.cpu for cost in costs)


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median of one side over the median of the other."""
    return statistics.median(above) / statistics.median(below)


def _shown(value: float) -> float:
    return round(value, 3) if abs(value) < 100 else round(value, 1)
