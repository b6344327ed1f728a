"""Open a folder's turns without the database: to list them, take one back, and undo that."""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from turntree.boot.open import load_importers, tree_on
from turntree.core.errors import DatabaseUnavailable
from turntree.db.database import Connection, Database
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.hooks.spool import Spool
from turntree.hooks.unread_turns import UnreadTurns, list_unread_ids
from turntree.resources.offline.journal import FOLDER as OPERATIONS
from turntree.resources.offline.journal import OperationJournal
from turntree.resources.offline.recording import OfflineRecorder
from turntree.resources.offline.replica import Replica, Replicas
from turntree.resources.offline.stores import (
    OfflineLeases,
    OfflineObjects,
    OfflinePins,
    OfflinePlans,
    OfflineResources,
    OfflineRevisions,
    OfflineState,
    OfflineThreads,
)
from turntree.resources.plans.fork import ForkProposer
from turntree.resources.plans.merge import MergeProposer
from turntree.resources.plans.restore import RestoreProposer
from turntree.resources.plans.saga import PlanRunner
from turntree.resources.plans.service import Plans
from turntree.resources.plans.step_executor import StepExecutor
from turntree.system.processes import SystemProcesses

if TYPE_CHECKING:
    from turntree.api import Tree
    from turntree.boot.open import Settings
    from turntree.core.clock import Clock
    from turntree.transcripts.importer import ToolPaths


def journal_in(home: Path) -> OperationJournal:
    """Return the journal of a data directory."""
    return OperationJournal(home / SPOOL / OPERATIONS)


def recorder_on(tree: Tree, settings: Settings) -> OfflineRecorder:
    """Return what brings an open ledger and the files of this machine together."""
    replicas = Replicas.of(settings.home, settings.workspace)
    journal = journal_in(settings.home)
    return OfflineRecorder(journal, replicas, tree.resources, tree.plans.facts, tree.ledger)


def open_offline(
    settings: Settings, world: Clock, here: Path, places: ToolPaths
) -> tuple[Tree, Database] | None:
    """Return a tree of what is known of the folders around a path; None if nothing is.

    What needs the database raises ``DatabaseUnavailable``.
    """
    state = _read_state(settings, here, places)
    return None if state is None else _tree_of(state, settings, world)


def _read_state(settings: Settings, here: Path, places: ToolPaths) -> OfflineState | None:
    importers = cache(load_importers)
    spool, host = Spool(settings.home / SPOOL), platform.node()
    unread = UnreadTurns(spool, lambda tool: importers().get(tool), places, host)
    replicas = Replicas.of(settings.home, settings.workspace)
    found: list[Replica] = []
    unknown: list[Replica] = []
    for place in map(str, (here, *here.parents)):
        known = replicas.read(place)
        replica = unread.add_to(known, place)
        if replica is not None:
            found.append(replica)
            if known is None:
                unknown.append(replica)
    if not found:
        return None
    journal, new = journal_in(settings.home), frozenset(list_unread_ids(spool))
    return OfflineState(journal, found, [one.resource for one in unknown], new)


def _tree_of(state: OfflineState, settings: Settings, world: Clock) -> tuple[Tree, Database]:
    closed = Database("", UUID(int=0), ClosedConnections())
    plain = tree_on(closed, settings, world)
    threads, objects = OfflineThreads(closed, state), OfflineObjects(closed, state)
    known = plain.revisions
    revisions = OfflineRevisions(
        known.sessions, known.reflog, threads, known.index, world, state=state
    )
    pins = OfflinePins(closed, state)
    resources = replace(
        plain.resources, ledger=OfflineResources(closed, state), pins=pins, all_pins=pins,
        advice=OfflineLeases(closed, state), threads=threads, revisions=revisions,
    )  # fmt: skip
    tree = plain.with_facets(ledger=objects, revisions=revisions, resources=resources)
    facts = OfflinePlans(closed, state)
    steps = StepExecutor(
        resources.ledger, resources.attachments, objects, resources.keepers, resources.host, world
    )
    plans = Plans(
        facts,
        PlanRunner(facts, resources.advice, steps, SystemProcesses(), world),
        ForkProposer(resources),
        RestoreProposer(resources, facts, steps),
        MergeProposer(resources, facts, steps, tree.blame),
    )
    return tree.with_facets(plans=plans), closed


class ClosedConnections:
    """The connections of a database that is stopped: there are none."""

    async def getconn(self) -> NoReturn:
        """Refuse."""
        raise DatabaseUnavailable("the database is stopped, and this needs it")

    async def putconn(self, conn: Connection, /) -> None:
        """Do nothing: none was lent."""
