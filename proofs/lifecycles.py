"""The claim: a program moves as its lifecycle allows, and is what its events tell of.

Every pair of states of every kind is tried once: what is lawful happens and leaves one event, what
is not is refused with the lawful ones named, and leaves none. Then Hypothesis walks through
programs of all kinds, with a model beside them that counts facts: moves, configs, grants,
visibility, tags, and strangers who meddle. After every step the row, the fold of the events and the
model must agree. At the end ``fsck`` reads everything once more. Faults are planted, each in a
database of its own, to see that a walk would find them.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import hypothesis
from anyio.from_thread import start_blocking_portal
from anyio.to_thread import run_sync
from hypothesis.stateful import run_state_machine_as_test

from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.program_machine import ProgramMachine, Stage, list_pairs, try_pair
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
STEPS_MAX = 25
_TELLS = r"(FUNCTION turntree\.change_program\(.*?)  PERFORM turntree\.insert_event\([^;]*;"
PLANTS = (
    Plant("a change that leaves no event", ((f"(?s){_TELLS}", r"\1"),)),
    Plant(
        "a move that does not happen",
        ((r"SET state = coalesce\(p_to, state\)", "SET state = state"),),
    ),
    Plant(
        "every member edits what is public",
        ((r"= 'public' AND \(p_right <> 'configure' OR p_by = p_owner\)", "= 'public'"),),
    ),
)


async def prove(proof: Proof) -> None:
    """Try every pair, walk, and plant."""
    with temporary_server(QUICK) as (server, _):
        conninfo = await ensure_database(server, "walked")
        await run_sync(walk, proof, conninfo, 40 if proof.quick else 400)
        for number, plant in enumerate(PLANTS):
            if not proof.wants("planted"):
                continue
            broken = await ensure_database(server, f"broken_{number}")
            await prepare_database(broken, "walked", FakeClock(number).new_id())
            await install(broken, plant)
            found = await run_sync(is_found, broken)
            proof.at_least(f"planted and found: {plant.name}", int(found), "of 1", 1)


def walk(proof: Proof, conninfo: str, examples: int) -> None:
    """Show that no step of any walk is otherwise than the model says."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(conninfo)) as (database, tree),
    ):
        pairs = list(list_pairs())
        right = [portal.call(try_pair, tree, *pair, number) for number, pair in enumerate(pairs)]
        proof.at_least("pairs of states", sum(right), f"of {len(pairs)} as declared", len(pairs))
        stage = Stage(portal, tree)
        take_walks(stage, examples)
        proof.note("programs walked through", stage.made, "programs")
        proof.at_least("steps after which all three agreed", stage.steps, "steps", 5 * examples)
        proof.note("events told in walks", stage.facts, "events")
        findings = portal.call(fsck, database)
        proof.at_most("what fsck finds afterwards", len(findings), "findings", 0)


def is_found(conninfo: str) -> bool:
    """Say whether walks fail in a database in which a fault was planted."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(conninfo)) as (_, tree),
    ):
        try:
            take_walks(Stage(portal, tree), 20)
        except AssertionError:
            return True
    return False


def take_walks(stage: Stage, examples: int) -> None:
    """Walk through so many programs.

    Raises:
        AssertionError: A step led elsewhere than the model says.
    """
    machine = type("Walk", (ProgramMachine,), {"stage": stage})
    chosen = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=STEPS_MAX,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        # One failing walk is enough here; to find the shortest would take minutes.
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    run_state_machine_as_test(machine, settings=chosen)


@asynccontextmanager
async def opened(conninfo: str) -> AsyncGenerator[tuple[Database, Tree], None]:
    """Open a database whose clock and ids repeat themselves."""
    world = FakeClock(7)
    workspace = await prepare_database(conninfo, "walked", world.new_id())
    async with open_database(conninfo, workspace, connections_max=2, sight=EVERYTHING) as database:
        settings = Settings(Path(), user="ana", session="main")
        yield database, tree_on(database, settings, world)


if __name__ == "__main__":
    run(prove, __doc__ or "")
