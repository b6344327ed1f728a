"""Power cuts: what was acknowledged before the power failed is there when it is back.

Writers append to a session on the server as it is shipped, on a disk whose content can be kept as
it is at one instant (``proofs.drills.disk``). At random moments it is kept, which is what a power
cut would have left. Then each is started again, as ``turntree`` starts a server: every turn that
was acknowledged before that instant must be in the session, and ``fsck`` must find nothing.

A control shows that the drill can fail: a server with ``fsync = off`` is cut until it loses
something that it had acknowledged.

Needs root, loop devices and btrfs-progs. Elsewhere it says "cannot run here", and is not green.
"""

import random
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from proofs.drills.audit import audit_session, read_thread
from proofs.drills.crowd import STOP, Crowd, gather, split, write_alone
from proofs.drills.disk import Disk, find_obstacle, hide_mounts, lend_disk
from proofs.drills.history import Ack
from proofs.drills.processes import workers
from proofs.figures import Proof, run
from turntree.core.errors import TurntreeError
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database
from turntree.db.embedded.server import EmbeddedServer
from turntree.integrity.fsck import fsck

CUTS, CUTS_QUICK = 20, 3
CUTS_OF_CONTROL_MAX = 20
CONTROL_CUTS_AT_ONCE = 2
WRITERS = 8
WAIT_MIN_S, WAIT_MAX_S = 0.3, 1.3
"""How long writers write between two cuts."""
WAIT_FOR_WRITERS_S = 60.0
FORGETFUL = {"fsync": "off"}
SHOWN_MAX = 5


@dataclass(slots=True)
class Cut:
    """One cut, and what came back."""

    name: str
    at_ns: int
    is_back: bool = False
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list[str])
    damage: list[str] = field(default_factory=list[str])


async def prove(proof: Proof) -> None:
    """Cut the power of the server as it is shipped, then of one that does not wait for its disk."""
    obstacle = find_obstacle()
    if obstacle is not None:
        say(f"cannot run here: {obstacle}")
    proof.at_least("power can be cut here", int(obstacle is None), "of 1", 1)
    if obstacle is not None:
        return
    chance = random.Random(proof.seed)
    proof.note("seed", proof.seed, "")
    if proof.wants("cuts"):
        show(proof, await drill({}, CUTS_QUICK if proof.quick else CUTS, chance))
    if proof.wants("control"):
        await control(proof, chance)


def show(proof: Proof, cuts: list[Cut]) -> None:
    """Show what became of the server as it is shipped."""
    for cut in cuts:
        for problem in (*cut.lost, *cut.damage)[:SHOWN_MAX]:
            say(f"  {cut.name}: {problem}")
    wanted = CUTS_QUICK if proof.quick else CUTS
    proof.at_least("cuts under load", len(cuts), "cuts", wanted)
    proof.at_least("servers that came back", sum(cut.is_back for cut in cuts), "servers", wanted)
    fewest = min(cut.acknowledged for cut in cuts)
    proof.at_least("turns acknowledged before the first cut", fewest, "turns", 1)
    proof.note("turns acknowledged before the last cut", cuts[-1].acknowledged, "turns")
    lost = sum(len(cut.lost) for cut in cuts)
    proof.at_most("acknowledged turns that were lost", lost, "turns", 0)
    damage = sum(len(cut.damage) for cut in cuts)
    proof.at_most("what fsck and the audit find", damage, "findings", 0)


async def control(proof: Proof, chance: random.Random) -> None:
    """Cut the power of a server that does not wait, until it loses something."""
    made, lost = 0, 0
    while not lost and made < CUTS_OF_CONTROL_MAX:
        cuts = await drill(FORGETFUL, CONTROL_CUTS_AT_ONCE, chance)
        made += len(cuts)
        lost += sum(len(cut.lost) for cut in cuts)
    proof.note("control with fsync = off: cuts that were made", made, "cuts")
    proof.at_least("control with fsync = off: acknowledged turns lost", lost, "turns", 1)


async def drill(settings: Mapping[str, str], count: int, chance: random.Random) -> list[Cut]:
    """Make cuts under load, and start what each of them left."""
    with lend_disk() as disk:
        home = disk.place / "home"
        with disk.mounted("first"):
            server = EmbeddedServer(home, settings)
            database = await ensure_database(server.ensure_running(), "power")
            crowd = await gather(database, name="power", writers=WRITERS)
            # What is of no interest here is on the disk in any case: the cluster and the session.
            disk.flush()
            try:
                cuts, acks = cut_under_load(disk, crowd, count, chance)
            finally:
                server.stop(mode="immediate")
        for cut in cuts:
            with disk.mounted(cut.name):
                await look_at(cut, EmbeddedServer(home, settings), crowd, acks)
            say(
                f"{dict(settings) or 'as shipped'}: {cut.name}: {cut.acknowledged} acknowledged,"
                f" {len(cut.lost)} lost, {len(cut.damage)} findings"
            )
        return cuts


def cut_under_load(
    disk: Disk, crowd: Crowd, count: int, chance: random.Random
) -> tuple[list[Cut], list[Ack]]:
    """Let the crowd write, and keep what is on the disk at random moments."""
    cuts: list[Cut] = []
    with TemporaryDirectory() as flags:
        crowds = split(replace(crowd, flags=Path(flags)))
        with workers(len(crowds)) as pool:
            futures = [pool.submit(write_alone, part) for part in crowds]
            try:
                wait_for_writers(crowds)
                for number in range(count):
                    time.sleep(chance.uniform(WAIT_MIN_S, WAIT_MAX_S))
                    cuts.append(Cut(f"cut-{number + 1}", time.monotonic_ns()))
                    disk.cut(cuts[-1].name)
            finally:
                (Path(flags) / STOP).touch()
            return cuts, [ack for future in futures for ack in future.result()]


def wait_for_writers(crowds: list[Crowd]) -> None:
    """Return when every process has written something."""
    deadline = time.monotonic() + WAIT_FOR_WRITERS_S
    while not all((part.flags or Path()).joinpath(part.name).exists() for part in crowds):
        assert time.monotonic() < deadline, "the writers do not write"
        time.sleep(0.02)


async def look_at(cut: Cut, server: EmbeddedServer, crowd: Crowd, acks: list[Ack]) -> None:
    """Start a server on what a cut left, and compare."""
    wanted = [ack.turn for ack in acks if ack.ended_ns < cut.at_ns]
    cut.acknowledged = len(wanted)
    try:
        server.ensure_running()
        async with open_database(
            crowd.conninfo, crowd.workspace, connections_max=2, sight=EVERYTHING
        ) as database:
            thread = {placed.turn.id for placed in await read_thread(database, crowd.session)}
            cut.lost = [f"lost: {turn}" for turn in wanted if turn not in thread]
            cut.damage = await audit_session(database, crowd.session)
            cut.damage += [
                f"{one.invariant} {one.sentence}: {one.subject}" for one in await fsck(database)
            ]
        cut.is_back = True
    except (TurntreeError, psycopg.Error) as error:
        # What cannot be read is lost.
        cut.damage.append(f"it did not come back: {error}")
        cut.lost = cut.lost or [f"lost: {turn}" for turn in wanted]
    finally:
        server.stop(mode="immediate")


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    hide_mounts()
    run(prove, __doc__.partition("\n")[0])
