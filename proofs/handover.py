"""The claim: a thread can be handed to a person with another machine, and no secret leaves with it.

Threads of every tool that is imported, some with files, are shared by one person and imported by
another with a ledger, a home and a name of their own. The digests must be equal, the checks of the
second ledger find nothing, the folder is as the last turn left it, and each tool that a session can
be handed to gets as many messages and tool calls as it would have got here. Secrets are planted in
messages that were imported as they are and in files; none may be in the page, nor in the archive
inside it. A page that was cut anywhere must be refused.
"""

import json
import random
from base64 import b64decode
from collections.abc import Iterator, Mapping
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
from turntree.boot.sharing import share_thread
from turntree.boot.thread_objects import read_whole
from turntree.core.errors import TurntreeError
from turntree.core.message import assistant, user
from turntree.db.database import ensure_database
from turntree.integrity.fsck import fsck
from turntree.system.clock import SystemClock
from turntree.transfer.share_page import open_shared_page

COMMAND: Final = "turntree import FILE"
SECRETS, SECRETS_QUICK = 500, 60
CUTS, CUTS_QUICK = 200, 20
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
    resource = await tree.resources.ensure_directory(str(folder), label)
    keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
    names = list(files)
    for part in (names[: len(names) // 2], names[len(names) // 2 :]):
        began, before = world.now(), keeper.snapshot(resource.place)
        _write(folder, {name: files[name] for name in part})
        after = keeper.snapshot(resource.place)
        placed = await tree.turns.record(label, [user("write files")], [assistant("done")])
        await tree.resources.pin(placed.turn.id, resource, before, after, began, world.now())
    return label


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    run(prove, __doc__ or "")
