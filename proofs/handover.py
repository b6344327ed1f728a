"""The claim: a thread can be handed to a person with another machine, and no secret leaves with it.

Threads of every tool that is imported, some with files, are shared by one person and imported by
another with a ledger, a home and a name of their own. The digests must be equal, the checks of the
second ledger find nothing, the folder is as the last turn left it, and each tool that a session can
be handed to gets as many messages and tool calls as it would have got here. Secrets are planted in
messages that were imported as they are and in files; none may be in the page, nor in the archive
inside it. A page that was cut anywhere must be refused.

A long session is pushed to a folder and pulled from it, continued on both sides and moved again:
digests must be equal, and a pull of new turns may read little more than an archive of these alone.
Pushes that stop at any byte and pulls of files that were cut must add all of a part or none of it.
"""

import json
import random
import zlib
from base64 import b64decode
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, Final
from uuid import UUID

from proofs.figures import Proof, run, temporary_server
from proofs.secrets import make_secrets
from proofs.transcripts.claude_code import Tape, save
from proofs.transcripts.samples import SAMPLES
from turntree.api import Tree
from turntree.boot.handoffs import plan_copy
from turntree.boot.open import Settings, importing_on, load_exporters, load_importers, open_tree
from turntree.boot.remotes import FolderAsRemote, pull, push
from turntree.boot.sharing import share_thread
from turntree.boot.thread_objects import read_whole
from turntree.core.errors import TurntreeError
from turntree.core.message import assistant, user
from turntree.core.thread import ThreadTurn
from turntree.db.database import ensure_database
from turntree.integrity.fsck import fsck
from turntree.system.clock import SystemClock
from turntree.transfer.archive import BaseTurn
from turntree.transfer.folder_remote import FolderRemote
from turntree.transfer.share_page import open_shared_page

COMMAND: Final = "turntree import FILE"
SECRETS, SECRETS_QUICK = 500, 60
CUTS, CUTS_QUICK = 200, 20
TURNS, TURNS_QUICK = 100_000, 1_200
NEW, NEW_QUICK = 100, 100
REMOTE: Final = "team"
PER_TURN: Final = 10
SESSION: Final = str(UUID(int=7 << 96))
FILES: Final[Mapping[str, bytes]] = {
    "cart.py": b"total = 2\n", "docs/read me.txt": "Grüße\n".encode(), "logo": bytes(range(256)),
    "large.log": b"one more line\n" * 200_000,
}  # fmt: skip


async def prove(proof: Proof) -> None:
    """Show every figure."""
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    with temporary_server(settings) as (server, folder):
        here = Settings(folder / "ana", await ensure_database(server, "ana"), user="ana")
        there = Settings(folder / "bob", await ensure_database(server, "bob"), user="bob")
        if proof.begins("pairs"):
            await _prove_pairs(proof, here, there, folder)
        if proof.begins("secrets"):
            await _prove_secrets(proof, here, there, folder)
        if proof.begins("remotes"):
            here = Settings(folder / "eve", await ensure_database(server, "eve"), user="eve")
            there = Settings(folder / "kim", await ensure_database(server, "kim"), user="kim")
            await _prove_remotes(proof, here, there, folder)


async def _prove_pairs(proof: Proof, here: Settings, there: Settings, folder: Path) -> None:
    exporters = load_exporters()
    shared, different, pairs, poorer = 0, 0, 0, 0
    async with open_tree(here) as ours, open_tree(there) as theirs:
        labels = await _import_samples(ours, folder / "transcripts")
        labels.append(await _work_on_files(ours, folder / "anas-work", FILES))
        for label in labels:
            page = folder / "thread.html"
            page.write_text((await share_thread(ours, label, COMMAND)).page, encoding="utf-8")
            arrived = await _load(theirs, page)
            shared += 1
            before = await read_whole(ours, label, visible=True)
            after = await read_whole(theirs, arrived, visible=True)
            different += [placed.turn.digest for placed in before.turns] != [
                placed.turn.digest for placed in after.turns
            ]
            for exporter in exporters.values():
                pairs += 1
                kept, given = (
                    plan_copy(exporter, thread, folder, "handed over", SystemClock())
                    for thread in (before, after)
                )
                poorer += given.tool_calls != kept.tool_calls or given.messages < kept.messages
        plan = await theirs.plans.propose_worktree(labels[-1], str(folder / "bob's work"))
        (await theirs.plans.carry_out(plan)).check()
        wrong = [
            name
            for name, content in FILES.items()
            if (folder / "bob's work" / name).read_bytes() != content
        ]
        faults = await fsck(theirs.archives.database)
    proof.at_least("threads handed over", shared, "threads", len(SAMPLES) + 1)
    proof.at_most("threads whose digests differ", different, f"of {shared}", 0)
    proof.at_least("pairs of a thread and a tool", pairs, "pairs", 4 * shared)
    proof.at_most("pairs with fewer messages or calls than here", poorer, f"of {pairs}", 0)
    proof.at_most("files that differ in the new folder", len(wrong), f"of {len(FILES)}", 0)
    proof.at_most("faults in the ledger that received them", len(faults), "faults", 0)


async def _prove_secrets(proof: Proof, here: Settings, there: Settings, folder: Path) -> None:
    draw = random.Random(proof.seed)
    planted = list(make_secrets(draw, SECRETS_QUICK if proof.quick else SECRETS))
    half = len(planted) // 2
    files = {f".env.{n}": f"{text}\n".encode() for n, (text, _) in enumerate(planted[:half])}
    page = folder / "secrets.html"
    async with open_tree(here) as ours, open_tree(there) as theirs:
        talk = await _talk_about(ours, folder / "talk", [text for text, _ in planted[half:]])
        work = await _work_on_files(ours, folder / "secret-work", files)
        leaked, cuts, accepted = 0, 0, 0
        for label in (talk, work):
            text = (await share_thread(ours, label, COMMAND)).page
            page.write_text(text, encoding="utf-8")
            with open_shared_page(page) as archive:
                inside = b"\n".join(_contents(archive)).decode(errors="replace")
            leaked += sum(secret in text or secret in inside for _, secret in planted)
            whole = page.read_bytes()
            for _ in range((CUTS_QUICK if proof.quick else CUTS) // 2):
                cuts += 1
                page.write_bytes(whole[: draw.randrange(len(whole) - len("</body>\n</html>\n"))])
                try:
                    await _load(theirs, page)
                    accepted += 1
                except (TurntreeError, UnicodeDecodeError):
                    continue
            page.write_bytes(whole)
            await _load(theirs, page)
        faults = await fsck(theirs.archives.database)
    proof.at_least("secrets planted in messages and files", len(planted), "secrets", len(planted))
    proof.at_most("secrets in a page or in its archive", leaked, f"of {len(planted)}", 0)
    proof.at_most("pages accepted that were cut", accepted, f"of {cuts}", 0)
    proof.at_most("faults in the ledger without the secrets", len(faults), "faults", 0)


async def _prove_remotes(proof: Proof, here: Settings, there: Settings, folder: Path) -> None:
    old, new = (TURNS_QUICK, NEW_QUICK) if proof.quick else (TURNS, NEW)
    place, label = folder / "team", "long"
    async with open_tree(here) as ours, open_tree(there) as theirs:
        await _record_many(ours, folder / "long", label, old)
        await push(ours, FolderAsRemote(place), REMOTE, label)
        await pull(theirs, FolderAsRemote(place), REMOTE)
        base = (await read_whole(ours, label, visible=False)).turns[-1]
        for number in range(new):
            words = f"new question {number}: {_words(number)}"
            await ours.turns.record(label, [user(words)], [assistant(_words(number + new))])
        pushed = await push(ours, FolderAsRemote(place), REMOTE, label)
        remote = FolderAsRemote(place)
        pulled = await pull(theirs, remote, REMOTE)
        needed = await _weigh(ours, label, base)
        ratio = remote.moved_bytes / needed
        await theirs.turns.record(f"{REMOTE}/{label}", [user("and back")], [assistant("yes")])
        await push(theirs, FolderAsRemote(place), REMOTE, f"{REMOTE}/{label}")
        await pull(ours, FolderAsRemote(place), REMOTE)
        again = await push(ours, FolderAsRemote(place), REMOTE, label)
        different = await _differ(ours, label, theirs, f"{REMOTE}/{label}")
        cuts, torn = await _cut_remotes(proof, ours, theirs, folder)
        faults = [*await fsck(ours.archives.database), *await fsck(theirs.archives.database)]
    proof.at_least("turns in the ledger that pulls", old, "turns", old)
    proof.at_most("turns pushed besides the new ones", pushed.turns - new, "turns", 0)
    proof.at_most("turns pulled besides the new ones", pulled.heads[0].turns - new, "turns", 0)
    proof.at_most("bytes of a pull, to an archive of the new turns alone", ratio, "times", 1.2)
    proof.at_most("turns moved again after push, pull, push", again.turns, "turns", 0)
    proof.at_most("turns whose digests differ between the homes", different, f"of {old + new}", 0)
    proof.at_most("cut pushes and pulls that left something torn", torn, f"of {cuts}", 0)
    proof.at_most("faults in the ledgers after all cuts", len(faults), "faults", 0)


async def _record_many(tree: Tree, folder: Path, label: str, turns: int) -> None:
    """Import a session of many turns, which is faster than recording them."""
    tape = Tape(str(UUID(int=8 << 96)))
    for number in range(turns):
        tape.exchange(f"question {number}: {_words(number)}", _words(-number))
    save(folder, tape)
    importer = load_importers()["claude-code"]
    await importing_on(tree.archives.database, SystemClock()).run(
        [(importer, one) for one in importer.open(folder)]
    )
    (session,) = [one async for one in tree.sessions.list_all()]
    await tree.sessions.rename(session.label, label)


def _words(seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"{draw.choice('abcdefgh')}{draw.getrandbits(24):x}" for _ in range(60))


async def _weigh(tree: Tree, label: str, base: ThreadTurn) -> int:
    """Return the bytes of an archive of the turns after a base, compressed as a remote does."""
    thread = (await read_whole(tree, label, visible=False)).turns[base.depth :]
    above = BaseTurn(base.turn.id, base.turn.digest, base.depth)
    archive = await tree.archives.share(thread, label, tree.runs.redactor, base=above)
    return len(zlib.compress(archive.data))


async def _differ(left: Tree, label: str, right: Tree, other: str) -> int:
    ours = [placed.turn.digest for placed in (await read_whole(left, label, visible=False)).turns]
    theirs = [
        placed.turn.digest for placed in (await read_whole(right, other, visible=False)).turns
    ]
    return sum(a != b for a, b in zip_longest(ours, theirs))


class _CutRemote(FolderRemote):
    """A folder whose writer stops after a number of bytes, in the middle of a file."""

    def __init__(self, folder: Path, bytes_left: int) -> None:
        super().__init__(folder)
        self.bytes_left = bytes_left

    @contextmanager
    def _written(self, path: Path, data: bytes) -> Generator[Path]:
        if len(data) > self.bytes_left:
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / f".cut-{self.bytes_left}").write_bytes(data[: self.bytes_left])
            raise OSError("the machine stopped")
        self.bytes_left -= len(data)
        with super()._written(path, data) as fresh:
            yield fresh


async def _cut_remotes(proof: Proof, ours: Tree, theirs: Tree, folder: Path) -> tuple[int, int]:
    """Stop pushes and cut files at random bytes; return how often, and how often that showed."""
    draw, place, label = random.Random(proof.seed), folder / "cut", "cuts"
    cuts, torn, size = (CUTS_QUICK if proof.quick else CUTS) // 2, 0, 4000
    theirs_label = f"{REMOTE}/{label}"
    await _work_on_files(ours, folder / label, {"a.txt": b"a", "b.txt": b"b"})
    await push(ours, FolderAsRemote(place), REMOTE, label)
    await pull(theirs, FolderAsRemote(place), REMOTE)
    for number in range(cuts):
        known = set(place.rglob("*"))
        content = {f"{number}.txt": draw.randbytes(1000)}
        await _add_turn(ours, label, folder / label, content)
        before = await _count(theirs, theirs_label)
        cut = FolderAsRemote(place)
        cut.folder = _CutRemote(place, draw.randrange(size))
        with suppress(OSError):
            await push(ours, cut, REMOTE, label)
        await pull(theirs, FolderAsRemote(place), REMOTE)
        torn += await _count(theirs, theirs_label) not in (before, before + 1)
        size = (await push(ours, FolderAsRemote(place), REMOTE, label)).bytes or size
        fresh = [path for path in place.rglob("*") if path.is_file() and path not in known]
        damaged = draw.choice([path for path in fresh if "turns" not in path.parts])
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[: draw.randrange(max(len(whole), 1))])
        before = await _count(theirs, theirs_label)
        with suppress(TurntreeError):
            await pull(theirs, FolderAsRemote(place), REMOTE)
            # What was cut is not needed if the earlier pull brought it, or if it was left behind.
            torn += await _count(theirs, theirs_label) != await _count(ours, label)
        damaged.write_bytes(whole)
        await pull(theirs, FolderAsRemote(place), REMOTE)
        torn += bool(await _differ(ours, label, theirs, theirs_label))
    plan = await theirs.plans.propose_worktree(theirs_label, str(folder / "cut files"))
    (await theirs.plans.carry_out(plan)).check()
    torn += any(
        (folder / "cut files" / path.name).read_bytes() != path.read_bytes()
        for path in (folder / label).iterdir()
    )
    return 2 * cuts, torn


async def _count(tree: Tree, label: str) -> int:
    session = await tree.sessions.get(label)
    assert session.head is not None, "it was pulled with turns"
    return (await tree.threads.threads.get_turn(session.head)).depth


def _contents(archive: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of an archive, and what those of files and objects hold."""
    for line in archive:
        yield line
        document = json.loads(line)
        if "bytes" in document:
            yield b64decode(document["bytes"])


async def _load(tree: Tree, page: Path) -> str:
    with open_shared_page(page) as archive:
        done = await tree.archives.load(archive)
    assert done.session is not None, "a shared thread gets a session"
    return done.session.label


async def _import_samples(tree: Tree, folder: Path) -> list[str]:
    """Import a transcript of every tool, and return the session of each with the most turns."""
    importers, labels = load_importers(), list[str]()
    for name, write in SAMPLES.items():
        place = folder / name
        place.mkdir(parents=True)
        before = {session.id async for session in tree.sessions.list_all()}
        found = [(importers[name], one) for one in importers[name].open(write(place))]
        done = await importing_on(tree.archives.database, SystemClock()).run(found)
        assert not done.failed, done.failed
        fresh = [one async for one in tree.sessions.list_all() if one.id not in before]
        labels.append(max(fresh, key=lambda session: session.version).label)
    return labels


async def _talk_about(tree: Tree, folder: Path, texts: list[str]) -> str:
    """Import a session that holds secrets, as a person does who wants to keep them."""
    tape = Tape(SESSION)
    for place in range(0, len(texts), PER_TURN):
        tape.exchange(
            f"question {place}", "Use these:\n" + "\n".join(texts[place : place + PER_TURN])
        )
    save(folder, tape)
    importer = load_importers()["claude-code"]
    importing = importing_on(tree.archives.database, SystemClock())
    importing.redacting = False
    known = {session.id async for session in tree.sessions.list_all()}
    await importing.run([(importer, one) for one in importer.open(folder)])
    (fresh,) = [one async for one in tree.sessions.list_all() if one.id not in known]
    return fresh.label


async def _work_on_files(tree: Tree, folder: Path, files: Mapping[str, bytes]) -> str:
    """Write files in two turns that pin them, and return the session."""
    label = folder.name
    await tree.sessions.create(label)
    _write(folder, {})
    names = list(files)
    for part in (names[: len(names) // 2], names[len(names) // 2 :]):
        await _add_turn(tree, label, folder, {name: files[name] for name in part})
    return label


async def _add_turn(tree: Tree, label: str, folder: Path, files: Mapping[str, bytes]) -> None:
    resource = await tree.resources.ensure_directory(str(folder), label)
    keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
    began, before = world.now(), keeper.snapshot(resource.place)
    _write(folder, files)
    after = keeper.snapshot(resource.place)
    placed = await tree.turns.record(label, [user("write files")], [assistant("done")])
    await tree.resources.pin(placed.turn.id, resource, before, after, began, world.now())


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    run(prove, __doc__ or "")
