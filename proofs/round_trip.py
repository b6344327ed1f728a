"""That a ledger comes back: from its own export, byte for byte, and from a backup.

Random ledgers, some with transcripts of other tools, are exported, imported into another database
and exported again; the two files must be equal, and the checks of the second ledger find nothing.
Transcripts that came with a ledger are not imported a second time. A forged byte must be refused.
Then a server is backed up and restored on PostgreSQL 18, and on PostgreSQL 15 without pgvector
where this machine has it: the digests are the same, and fsck finds nothing.
"""

import io
import random
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from proofs.figures import Proof, load_statements, run, temporary_server
from proofs.fsck_files import tell_files
from proofs.fsck_story import CALLS, USED, tell, tell_resources
from proofs.transcripts.samples import SAMPLES
from turntree.api import Tree
from turntree.boot.open import Settings, importing_on, load_importers, tree_on
from turntree.core.errors import InvalidOperation, NotFound, TurntreeError
from turntree.core.message import PART_INLINE_MAX_BYTES, assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.db.embedded.account import LENT_ID, find_account, is_root, lent_account
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import START_MS, FakeClock
from turntree.transcripts.importer import Importer, TranscriptRef
from turntree.transfer.backup import create_backup, restore_backup, verify_backup

SQL: Final = load_statements(Path(__file__).with_suffix(".sql"))
READY: Final = "ready"
LEDGERS: Final = 1000
LEDGERS_QUICK: Final = 8
TOLD_EVERY: Final = 25
STEPS_MAX: Final = 14
WORKSPACES: Final = (0, 1)
FORGERIES: Final = 3
DEBIAN_15: Final = Path("/usr/lib/postgresql/15/bin")
WORDS: Final = ("one", "zwei", "три", '\u0000 and \\ and "', "🌲", "a\nb", "é e\u0301", "")


async def prove(proof: Proof) -> None:
    """Show every figure."""
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with temporary_server(settings) as (server, folder):
        await prepare_database(
            await ensure_database(server, READY), "first", FakeClock(LEDGERS).new_id()
        )
        if proof.begins("archives"):
            await _prove_archives(proof, server, folder)
        if proof.begins("backup"):
            await _prove_backup(proof, server, folder)


async def _prove_archives(proof: Proof, server: str, folder: Path) -> None:
    here, there = [_clone(server, name) for name in ("here", "there")]
    different, faulty, accepted, forged, lines, again = 0, 0, 0, 0, 0, 0
    transcripts = _samples(folder)
    numbers = range(proof.first, LEDGERS_QUICK if proof.quick else LEDGERS)
    count = len(numbers)
    for number in numbers:
        dice = random.Random(f"{proof.seed} {number}")
        async with _opened(here, folder / "a", number) as tree:
            await _live(tree, dice, number, folder)
            brought = transcripts[number % len(transcripts)] if number % 3 == 1 else []
            await _bring(tree, brought)
            if brought and dice.random() < 0.5:
                await _erase_imported(tree, dice)
            first = await _export(tree)
        lines += first.count(b"\n")
        async with _opened(there, folder / f"b{number}", number) as copy:
            for _ in range(FORGERIES if not number % 10 else 0):
                forged += 1
                accepted += await _accepts(copy, _forge(first, dice))
            await copy.archives.load(io.BytesIO(first))
            different += await _export(copy) != first
            # Repeating it changes nothing.
            await copy.archives.load(io.BytesIO(first))
            different += await _export(copy) != first
            if brought:
                again += await _bring(copy, brought)
                different += await _export(copy) != first
            # The import has checked the structure itself; hashing everything starts a process.
            faulty += await fsck(copy.archives.database, full=not number % 4) != []
        if not (number + 1) % TOLD_EVERY:
            short = different + faulty + accepted + again
            print(f"{number + 1} ledgers, {short} short", file=sys.stderr, flush=True)
    proof.at_least("ledgers exported and imported", count, "ledgers", count)
    proof.note("lines in their archives", lines, "lines")
    proof.at_most("second exports that differ", different, f"of {2 * count}", 0)
    proof.at_most("turns of transcripts imported a second time", again, "turns", 0)
    proof.at_most("imported ledgers with a fault", faulty, f"of {count}", 0)
    proof.at_most("forged archives accepted", accepted, f"of {forged}", 0)


@asynccontextmanager
async def _opened(conninfo: str, home: Path, number: int) -> AsyncGenerator[Tree, None]:
    world = FakeClock(number)
    workspace = await prepare_database(conninfo, f"ledger-{number}", world.new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING, connections_max=2) as database:
        yield tree_on(database, Settings(home, user="ana", session="main"), world)


async def _live(tree: Tree, dice: random.Random, number: int, folder: Path) -> None:
    """Let a random history happen."""
    if not number % 40:
        await tell(tree, 1)
    labels = ["main"]
    await tree.turns.record("main", [user("begin")], [assistant("begun")], calls=CALLS)
    for step in range(dice.randrange(STEPS_MAX)):
        label = dice.choice(labels)
        try:
            await _step(tree, dice, label, labels, step)
        except (InvalidOperation, NotFound):
            continue  # There is nothing to undo, or nothing to rewind to.
    if not number % 5:
        await tell_files(tree, folder / f"work {number}", number)
    if not number % 7:
        await tree.turns.record("resources", [user("work")], [assistant("done")])
        await tell_resources(tree, "resources", 2)


def _samples(folder: Path) -> list[list[tuple[Importer, TranscriptRef]]]:
    """Return the transcripts of each tool, as an import finds them."""
    importers = load_importers()
    found: list[list[tuple[Importer, TranscriptRef]]] = []
    for name, write in SAMPLES.items():
        place = folder / "transcripts" / name
        place.mkdir(parents=True)
        importer = importers[name]
        found.append([(importer, bundle) for bundle in importer.open(write(place))])
        assert found[-1], f"{name}: the importer finds nothing in its own sample"
    return found


async def _bring(tree: Tree, found: list[tuple[Importer, TranscriptRef]]) -> int:
    """Import transcripts, and return how many turns are new."""
    done = await importing_on(tree.archives.database, tree.revisions.world).run(found)
    assert not done.failed, done.failed
    return done.turns_added


async def _erase_imported(tree: Tree, dice: random.Random) -> None:
    """Erase a message together with the records that it was made from."""
    sessions = [one for one in await tree.sessions.ledger.list_page(limit=99) if one.origin]
    await tree.turns.erase(dice.choice(sessions).label, 0, reason="asked for")


async def _step(tree: Tree, dice: random.Random, label: str, labels: list[str], step: int) -> None:
    word = dice.choice(WORDS) + f" {step}"
    match dice.randrange(12):
        case 0 | 1 | 2:
            await tree.turns.record(label, [user(word)], USED, calls=CALLS[: dice.randrange(3)])
        case 3:
            large = word * PART_INLINE_MAX_BYTES
            await tree.turns.record(label, [user(large)], [assistant("large")])
        case 4:
            labels.append(f"fork-{step}")
            await tree.sessions.fork(label, labels[-1])
        case 5:
            await tree.sessions.rewind(label, f"{label}~1")
        case 6:
            await tree.sessions.undo(label)
        case 7:
            await tree.turns.tag(label, f"tag-{step % 3}")
        case 8:
            await tree.sessions.alias(label, f"alias-{step}")
        case 9:
            await tree.turns.erase(label, dice.randrange(2), reason=word)
        case 10:
            secret = {"visibility": "private"} if dice.random() < 0.5 else {}
            labels.append(f"own-{step}")
            await tree.programs.create("session", labels[-1], {}, **secret)  # type: ignore[arg-type]
            await tree.turns.record(labels[-1], [user(word)], [assistant("x")], key=f"k{step}")
        case _:
            config = {"provider_type": "toy", "key": "${KEY}"}
            await tree.programs.create("provider", f"gateway-{step}", config)
            await tree.programs.configure(
                f"gateway-{step}", {"base_url": f"https://{step}.example"}
            )


async def _export(tree: Tree) -> bytes:
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    return b"".join(lines)


def _forge(archive: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(archive))
    return (
        archive[:place] + bytes([archive[place] ^ (1 << dice.randrange(7))]) + archive[place + 1 :]
    )


async def _accepts(tree: Tree, archive: bytes) -> bool:
    try:
        await tree.archives.load(io.BytesIO(archive))
    except TurntreeError:
        return False
    return True


async def _prove_backup(proof: Proof, server: str, folder: Path) -> None:
    source, home = _clone(server, "source"), folder / "source"
    for number in WORKSPACES:
        async with _opened(source, home, number) as tree:
            await tell(tree, number)
            await tell_files(tree, folder / f"kept {number}", number)
    path = folder / "ledger.zip"
    await create_backup(source, home, path, FakeClock(START_MS).now(), _unheard)
    verify_backup(path, _unheard)
    path.with_suffix(".bad").write_bytes(_forge(path.read_bytes(), random.Random(proof.seed)))
    proof.at_most("damaged backups that pass", _passes(path.with_suffix(".bad")), "of 1", 0)
    target = await ensure_database(server, "restored")
    await _compare(proof, "PostgreSQL 18", path, source, target, folder / "restored")
    if proof.quick:
        return  # Another server takes a third of the time that the quick form has.
    if not DEBIAN_15.is_dir():
        proof.note("PostgreSQL 15 is not on this machine", 0, "servers")
        return
    with _fifteen(folder) as fifteen:
        await _compare(proof, "PostgreSQL 15", path, source, fifteen, folder / "restored 15")


async def _compare(
    proof: Proof, name: str, path: Path, source: str, target: str, home: Path
) -> None:
    _, left_out = await restore_backup(path, target, home, _unheard)
    before, after = [_digests(conninfo) for conninfo in (source, target)]
    proof.at_least(f"{name}: digests restored", len(before & after), "digests", len(before))
    proof.at_most(f"{name}: digests that differ", len(before ^ after), "digests", 0)
    proof.note(f"{name}: tables left out", len(left_out), "tables")
    faults = 0
    for number in WORKSPACES:
        async with _opened(target, home, number) as tree:
            faults += len(await tree.checks.fsck())
    proof.at_most(f"{name}: faults that fsck finds", faults, "faults", 0)


def _clone(server: str, name: str) -> str:
    """Return a database with an empty ledger, which costs a tenth of creating the schema."""
    with psycopg.connect(server, autocommit=True) as connection:
        names = map(sql.Identifier, (name, READY))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    return make_conninfo(server, dbname=name)


def _digests(conninfo: str) -> set[str]:
    with psycopg.connect(conninfo) as connection:
        return {row[0] for row in connection.execute(SQL["digests"]).fetchall()}


def _passes(path: Path) -> bool:
    try:
        verify_backup(path, _unheard)
    except InvalidOperation:
        return False
    return True


def _unheard(_done: int, _total: int) -> None:
    pass


@contextmanager
def _fifteen(folder: Path) -> Generator[str, None, None]:
    """Lend a PostgreSQL 15 without pgvector."""
    home = folder / "fifteen"
    home.mkdir()
    # initdb asks for the name of its account, which the uid of a home has not.
    account = lent_account(LENT_ID) if is_root() else find_account(folder)
    account.give(home)
    made = account.run(
        [DEBIAN_15 / "initdb", "-D", home / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
         "--locale=C", "--no-sync"], cwd=home,
    )  # fmt: skip
    assert made.code == 0, made.output
    options = f"-c listen_addresses='' -c unix_socket_directories='{home}' -c fsync=off"
    control: list[str | Path] = [DEBIAN_15 / "pg_ctl", "-D", home / "data", "-w"]
    started = account.run([*control, "-l", home / "log", "-o", options, "start"], cwd=home)
    assert started.code == 0, (home / "log").read_text()
    try:
        yield make_conninfo(host=str(home), user="postgres", dbname="postgres")
    finally:
        account.run([*control, "-m", "immediate", "stop"], cwd=home)


if __name__ == "__main__":
    run(prove, __doc__ or "", numbers="ledgers")
