"""The claim: a command that reads costs little more than connecting and reading.

The CPU time of ``log``, ``show``, ``status``, ``session list`` and ``search``, as the kernel counts
it for the whole process, is at most 1.6 times that of a bare script that imports click and psycopg,
connects with the same login and prints the same rows; ``--version`` takes at most three times a
bare Python. ``revert`` without arguments, in folders of 5,000 and of 100,000 files, takes at most
1.6 times such a script that also looks at every file once. Commands and scripts take turns, so a
busy machine slows both alike. No command opens the ledger twice: the server's own log says who
connected and what was asked, and each of the five makes a single connection.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg

import turntree
from proofs.figures import DURABLE, Proof, load_statements, run, temporary_server
from turntree.boot.open import Settings
from turntree.core.message import assistant, user
from turntree.db.embedded.server import EmbeddedServer
from turntree.demo.month import month_acts
from turntree.system.head_file import DEMO_WORKSPACE

READ_MAX_RATIO = 1.6
VERSION_MAX_RATIO = 3.0
FOLDERS = (5_000, 100_000)
"""Files of the folders in which turns are listed to be taken back; a quick run uses the first."""
FILES_PER_FOLDER = 100
TURNS = 12
STATEMENTS = load_statements(Path(__file__).with_name("start_up.sql"))
READS = ("log", "show", "status", "session list", "search redirect")
OTHERS = (
    "session create elsewhere",
    "fork HEAD~1 attempt",
    "switch demo/middleware",
    "snapshot",
    "rewind demo/middleware~1",
    "snapshot",
    "session reset demo/middleware demo/middleware@{1} --files --yes",
    "rewind demo/middleware~1 --files --yes",
    "undo demo/middleware --yes",
    "reflog",
    "log --graph",
    "verify",
    "session show",
    "program list",
)
"""Before each state that is pinned, the files change."""
OPENING = "current_setting('server_version_num')"
"""Asked whenever the ledger is opened, and at no other time."""
CONNECTED = "connection authorized: "
BARE = """
import sys

import click
import psycopg


@click.command()
@click.argument("address")
@click.argument("statement")
def read(address, statement):
    with psycopg.connect(address) as connection:
        for row in connection.execute(statement):
            click.echo(" ".join(map(str, row)))


read()
"""
LOOKING = """
import os
import sys

for folder, _, names in os.walk(sys.argv.pop()):
    for name in names:
        os.lstat(os.path.join(folder, name))
"""
"""Put before the bare script: it looks at every file once."""


async def prove(proof: Proof) -> None:
    """Measure commands against bare scripts, then count how often each opens the ledger."""
    settings = {**DURABLE, "log_connections": "on"}
    with temporary_server(settings) as (_, folder):
        await asyncio.to_thread(_prove, proof, folder)


def _prove(proof: Proof, folder: Path) -> None:
    home, here = folder / "home", folder / "work"
    here.mkdir()
    bare = folder / "bare.py"
    bare.write_text(BARE, encoding="utf-8")
    stage = Commands(home, here)
    stage.call("demo")
    asyncio.run(_archive_month(home))
    if proof.begins("cost"):
        prove_cost(proof, stage, bare)
    if proof.begins("revert"):
        for files in FOLDERS[:1] if proof.quick else FOLDERS:
            prove_revert(proof, stage, folder / f"files-{files}", files)
    if proof.begins("version"):
        prove_version(proof, stage)
    if proof.begins("opens"):
        prove_opens(proof, stage)


async def _archive_month(home: Path) -> None:
    """Leave only the story in lists: a start is measured here, not the length of a list."""
    async with turntree.open(Settings(home, workspace=DEMO_WORKSPACE)) as tree:
        for act in month_acts():
            await tree.sessions.set_status(act.label, "archived")


class Commands:
    """The command line on a home and in a folder of its own."""

    def __init__(self, home: Path, here: Path) -> None:
        """Use the program beside this Python."""
        self.home = home
        self.here = here
        self.program = str(Path(sys.executable).with_name("turntree"))
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TURNTREE_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment = {**kept, "TURNTREE_HOME": str(home), "HOME": str(home)}

    def call(self, words: str) -> None:
        """Run a command; what it says does not matter, but it must not fail."""
        self.cpu([self.program, *words.split()])

    def cpu(self, words: Sequence[str]) -> float:
        """Run a program and return the CPU time that it took, in milliseconds."""
        # Not Popen.wait, which would throw away what the kernel has counted.
        process = subprocess.Popen(
            words, env=self.environment, cwd=self.here, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, (words, process.returncode)
        return (used.ru_utime + used.ru_stime) * 1000


def prove_cost(proof: Proof, stage: Commands, bare: Path) -> None:
    """Compare each command with a script that reads the same rows."""
    address = EmbeddedServer(stage.home).find_conninfo()
    assert address is not None, "the server was just used"
    rounds = 9 if proof.quick else 40
    for words in READS:
        name = words.removesuffix(" redirect")
        statement = STATEMENTS[name.replace(" ", "_")].decode()
        ours: list[float] = []
        theirs: list[float] = []
        stage.call(words)  # Once before: it compiles what it imports, and fills an index.
        for _ in range(rounds):
            ours.append(stage.cpu([stage.program, *words.split()]))
            theirs.append(stage.cpu([sys.executable, str(bare), address, statement]))
        _show(proof, name, ours, theirs, READ_MAX_RATIO, "a bare script")


def prove_revert(proof: Proof, stage: Commands, place: Path, files: int) -> None:
    """Compare the list of turns that can be taken back with a script that looks at all files."""
    for number in range(files):
        path = place / f"{number // FILES_PER_FOLDER}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n", encoding="utf-8")
    asyncio.run(_take_turns(stage.home, place))
    looking = place.with_suffix(".py")
    looking.write_text(LOOKING + BARE, encoding="utf-8")
    address = EmbeddedServer(stage.home).find_conninfo()
    assert address is not None, "the server was just used"
    here = Commands(stage.home, place)
    words = [sys.executable, str(looking), address, STATEMENTS["revert"].decode(), str(place)]
    ours: list[float] = []
    theirs: list[float] = []
    here.call("revert")
    for _ in range(9 if proof.quick else 40):
        ours.append(here.cpu([here.program, "revert"]))
        theirs.append(here.cpu(words))
    control = "a bare script that looks at every file"
    _show(proof, f"revert, {files:,} files", ours, theirs, READ_MAX_RATIO, control)


async def _take_turns(home: Path, place: Path) -> None:
    """Have turns change some of the files, each with a state before and after it."""
    async with turntree.open(Settings(home)) as tree:
        await tree.sessions.get_or_create(place.name)
        resource = await tree.resources.ensure_directory(str(place), place.name)
        keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
        before = await asyncio.to_thread(keeper.snapshot, resource.place)
        for number in range(TURNS):
            began = world.now()
            for path in sorted((place / f"{number}").iterdir())[:5]:
                path.write_text(f"{path.name}, by turn {number}\n", encoding="utf-8")
            after = await asyncio.to_thread(keeper.snapshot, resource.place)
            placed = await tree.turns.record(
                place.name, [user(f"Change {number}")], [assistant("Done.")]
            )
            now = world.now()
            await tree.resources.pin(placed.turn.id, resource, before, after, began, now)
            before = after


def prove_version(proof: Proof, stage: Commands) -> None:
    """Compare the shortest command with Python itself."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(15 if proof.quick else 60):
        ours.append(stage.cpu([stage.program, "--version"]))
        theirs.append(stage.cpu([sys.executable, "-c", "pass"]))
    _show(proof, "--version", ours, theirs, VERSION_MAX_RATIO, "a bare Python")


def _show(
    proof: Proof, name: str, ours: list[float], theirs: list[float], bar: float, control: str
) -> None:
    took, bare = statistics.median(ours), statistics.median(theirs)
    proof.note(f"{name}, CPU", took, "ms")
    proof.note(f"{name}, least CPU", min(ours), "ms")
    proof.note(f"{name}, {control}", bare, "ms")
    proof.at_most(f"{name}, ratio to {control}", took / bare, "x", bar, of="time")


def prove_opens(proof: Proof, stage: Commands) -> None:
    """Have the server tell how often each command connects, and how often it opens the ledger."""
    address = EmbeddedServer(stage.home).find_conninfo()
    assert address is not None, "the server was just used"
    with psycopg.connect(address, autocommit=True, user="postgres") as connection:
        connection.execute(STATEMENTS["log_statements"])
    log = stage.home / "server.log"
    most_opens, most_connections = 0, 0
    for words in (*READS, *OTHERS):
        if words == "snapshot":
            (stage.here / "notes.txt").write_text(f"{log.stat().st_size}\n", encoding="utf-8")
        before = log.stat().st_size
        stage.call(words)
        with log.open("rb") as file:
            file.seek(before)
            said = file.read().decode(errors="replace")
        opens, connections = said.count(OPENING), said.count(CONNECTED)
        most_opens = max(most_opens, opens)
        if words in READS:
            most_connections = max(most_connections, connections)
        proof.at_least(f"{words}: opens the ledger", opens, "times", 1)
    proof.at_most("most often that one command opens the ledger", most_opens, "times", 1)
    proof.at_most("most connections of one command that reads", most_connections, "connections", 1)


if __name__ == "__main__":
    run(prove, __doc__ or "")
