"""Replicas: what this machine remembers of the turns of a folder, beside the ledger.

    home/replica/<workspace>/<digest>.json   the newest turns with snapshots of one folder

With it, and with the snapshots, which are files anyway, a turn can be taken back while the database
is stopped. It is written whenever turns of the folder get their snapshots and whenever one of them
is taken back. It may be lost at any time: then the database is needed.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from turntree.core.event import Event
from turntree.core.event import from_json as event_from_json
from turntree.core.event import to_json as event_to_json
from turntree.core.ids import TurnId
from turntree.core.message import user
from turntree.core.principal import Principal
from turntree.core.ref import ExtRef
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Header, Turn
from turntree.core.value import value
from turntree.resources.resource import (
    CallStates,
    ResolvedTurnSnapshot,
    Resource,
    Scope,
    Snapshot,
    TurnSnapshot,
)

FOLDER: Final = "replica"
VERSION: Final = 1
NAME_DIGITS: Final = 40
TITLE_CHARS_MAX: Final = 200


@value
class ReplicaTurn:
    """A turn with snapshots of a folder, and all that taking it back needs to know."""

    pinned: ResolvedTurnSnapshot
    """With the states around its tool calls."""
    placed: ThreadTurn | None
    """Its header and its title; None if it is hidden from the user."""
    written: tuple[str, ...] = ()
    """The paths that it reports writing, as its tools spelled them."""
    spawned_by: tuple[TurnId, ...] = ()
    """The turns whose subagent took it, directly or not."""


@value
class Replica:
    """The newest turns of one folder."""

    resource: Resource
    turns: tuple[ReplicaTurn, ...] = ()
    """Newest first."""
    merges: tuple[tuple[Event, ...], ...] = ()
    """The events of each revert and pick, oldest first."""


@value
class Replicas:
    """The replicas of one workspace."""

    folder: Path

    @classmethod
    def of(cls, home: Path, workspace: str) -> "Replicas":
        """Return those of a workspace, by its name."""
        # A name may hold any character.
        return cls(home / FOLDER / sha256(workspace.encode()).hexdigest()[:NAME_DIGITS])

    def read(self, place: str) -> Replica | None:
        """Return what is remembered of a folder; None if nothing is."""
        try:
            document = json.loads(self._path(place).read_bytes())
            is_ours = document["version"] == VERSION
            return _from_json(document) if is_ours else None
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            # Another version may have written it. The ledger has everything that it says.
            return None

    def write(self, replica: Replica) -> None:
        """Remember the turns of a folder, instead of what was remembered before."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(replica.resource.place)
        fresh = path.with_suffix(f".{os.getpid()}.new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(_to_json(replica), file)
        fresh.replace(path)

    def _path(self, place: str) -> Path:
        named = os.fsencode(place)
        return self.folder / f"{sha256(named).hexdigest()[:NAME_DIGITS]}.json"


def forget_replicas(home: Path) -> None:
    """Delete all replicas: they hold titles, and a message was erased."""
    shutil.rmtree(home / FOLDER, ignore_errors=True)


def without_messages(placed: ThreadTurn) -> ThreadTurn:
    """Return a turn with its title as its only message."""
    turn = placed.turn
    title = turn.title[:TITLE_CHARS_MAX]
    return replace(placed, turn=replace(turn, query_count=1, messages=(user(title),)))


def resource_to_json(resource: Resource) -> dict[str, Any]:
    """Return a resource as a document."""
    return {**asdict(resource), "capabilities": sorted(resource.capabilities)}


def resource_from_json(told: Mapping[str, Any]) -> Resource:
    """Return the resource that a document describes."""
    members: dict[str, Any] = {**told, "capabilities": frozenset(told["capabilities"])}
    members["scope"] = Scope(**told["scope"])
    return Resource(**members)


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a document."""
    return asdict(snapshot)


def snapshot_from_json(told: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot that a document describes."""
    members: dict[str, Any] = {**told, "external": ExtRef(**told["external"])}
    return Snapshot(**members)


def _to_json(replica: Replica) -> dict[str, Any]:
    return {
        "version": VERSION,
        "resource": resource_to_json(replica.resource),
        "turns": [_turn_to_json(one) for one in replica.turns],
        "merges": [[event_to_json(event) for event in merge] for merge in replica.merges],
    }


def _from_json(document: Mapping[str, Any]) -> Replica:
    resource = resource_from_json(document["resource"])
    return Replica(
        resource,
        tuple(_turn_from_json(told, resource) for told in document["turns"]),
        tuple(tuple(map(event_from_json, merge)) for merge in document["merges"]),
    )


def _turn_to_json(one: ReplicaTurn) -> dict[str, Any]:
    before, placed = one.pinned.before, one.placed
    return {
        "pin": asdict(one.pinned.pin),
        "before": None if before is None else snapshot_to_json(before),
        "after": snapshot_to_json(one.pinned.after),
        "placed": None if placed is None else _placed_to_json(placed),
        "written": list(one.written),
        "spawned_by": list(one.spawned_by),
    }


def _turn_from_json(told: Mapping[str, Any], resource: Resource) -> ReplicaTurn:
    calls = tuple(
        CallStates(call["began_at"], call["ended_at"], ExtRef(**call["before"]),
                   ExtRef(**call["after"]))
        for call in told["pin"]["calls"]
    )  # fmt: skip
    before, placed = told["before"], told["placed"]
    members: dict[str, Any] = {**told["pin"], "calls": calls}
    pinned = ResolvedTurnSnapshot(
        TurnSnapshot(**members),
        resource,
        snapshot_from_json(told["after"]),
        None if before is None else snapshot_from_json(before),
    )
    return ReplicaTurn(
        pinned,
        None if placed is None else _placed_from_json(placed),
        tuple(told["written"]),
        tuple(told["spawned_by"]),
    )


def _placed_to_json(placed: ThreadTurn) -> dict[str, Any]:
    turn, header = placed.turn, placed.turn.header
    return {
        "id": turn.id,
        "digest": turn.digest,
        "above": header.parent,
        "by": header.by.to_json(),
        "started_at": header.started_at,
        "sealed_at": header.sealed_at,
        "outcome": header.outcome,
        "title": turn.title[:TITLE_CHARS_MAX],
        "depth": placed.depth,
        "parent": placed.parent,
    }


def _placed_from_json(told: Mapping[str, Any]) -> ThreadTurn:
    header = Header(
        told["id"], told["above"], Principal.from_json(told["by"]), told["started_at"],
        told["sealed_at"], told["outcome"],
    )  # fmt: skip
    turn = Turn(header, 1, (user(told["title"]),), told["digest"])
    return ThreadTurn(turn, told["depth"], told["parent"])
