"""Files of a run: which ones its tools wrote, and the folder's state before and after them.

A snapshot is taken before the first call that may write, after the calls of each step, and at the
end of the turn. The first and the last are recorded with the turn, in the transaction that seals
it; the others only tell which files a step wrote. A folder that cannot be read costs its record,
never the run.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from time import monotonic
from typing import Any, Final, Protocol, cast

from turntree.core.canonical import Json
from turntree.core.errors import TurntreeError
from turntree.core.ids import RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message, ToolResult, tool
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.ref import ExtRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.value import value
from turntree.resources.driver import TakenSnapshot
from turntree.resources.resource import AttachMode, Resource
from turntree.resources.service import Resources, find_files, in_thread
from turntree.runs.attempt import Attempt

STEP_SCAN_MAX_S: Final = 0.5
"""A folder whose scan takes longer is not scanned after each step, only at the end of the turn."""
FILES_NAMED_MAX: Final = 200
"""A step that writes more files, such as an installation, names the first ones."""
_LOG = logging.getLogger(__name__)


class FileRecorder(Protocol):
    """Records what the tools of a run do to files."""

    async def begin(self, attempt: Attempt) -> Mapping[str, Json]:
        """Take the state before the first call that may write; return what its event records."""
        ...

    async def describe(self, attempt: Attempt, result: ToolResult, *, is_last: bool) -> Message:
        """Return the message of a result; that of a step's last one names the files written."""
        ...

    async def finish(self, attempt: Attempt) -> None:
        """Take the state at the end of the turn, before it is sealed."""
        ...

    async def record(self, attempt: Attempt, by: Principal, ended_at: Timestamp) -> None:
        """Record the states with the turn, in the transaction that seals it."""
        ...


class NoFiles:
    """Records nothing about files: for runs without a folder. Implements ``FileRecorder``."""

    async def begin(self, attempt: Attempt) -> Mapping[str, Json]:
        """Return nothing to record."""
        del attempt
        return {}

    async def describe(self, attempt: Attempt, result: ToolResult, *, is_last: bool) -> Message:
        """Return the message of a result."""
        del attempt, is_last
        return tool(result)

    async def finish(self, attempt: Attempt) -> None:
        """Do nothing."""

    async def record(self, attempt: Attempt, by: Principal, ended_at: Timestamp) -> None:
        """Do nothing."""


@dataclass(slots=True)
class RunFolder:
    """A folder that a run works in."""

    resource: Resource
    mode: AttachMode
    before: TakenSnapshot
    began_at: Timestamp
    latest: TakenSnapshot
    is_slow: bool = False


@value
class RunFiles:
    """Records files of the folders attached to a session. Implements ``FileRecorder``."""

    resources: Resources
    user: Principal | None
    """The worker's user. Folders that another person attached are not read: they may be the
    user's own, which that person could not look into otherwise."""
    _folders: dict[RunId, list[RunFolder]] = field(default_factory=dict[RunId, list[RunFolder]])

    async def begin(self, attempt: Attempt) -> Mapping[str, Json]:
        """Take the state before the first call that may write; return what its event records."""
        session = attempt.session
        if session is None:
            return {}
        if attempt.run.id in self._folders or _recorded(attempt):
            return {}
        at = attempt.moment(attempt.run.id, attempt.run.seq)
        folders: list[RunFolder] = []
        for resource, mode in await self.list_attached(session):
            if (taken := await self._take(resource)) is not None:
                folders.append(RunFolder(resource, mode, taken, at, taken))
        self._folders[attempt.run.id] = folders
        return {"files_before": [_describe(one) for one in folders]} if folders else {}

    async def describe(self, attempt: Attempt, result: ToolResult, *, is_last: bool) -> Message:
        """Return the message of a result; that of a step's last one names the files written.

        Calls of one step run at the same time, so it is not known which of them wrote a file.
        """
        message = tool(result)
        if not is_last:
            return message
        touched: list[TouchedFile] = []
        for folder in await self._find(attempt):
            if not folder.is_slow:
                touched += await self._list_written(folder)
        if not touched:
            return message
        files: list[Json] = [one.to_json() for one in touched[:FILES_NAMED_MAX]]
        return replace(message, context={"files": files})

    async def finish(self, attempt: Attempt) -> None:
        """Take the state at the end of the turn, before it is sealed."""
        for folder in await self._find(attempt):
            folder.latest = await self._take(folder.resource) or folder.latest

    async def record(self, attempt: Attempt, by: Principal, ended_at: Timestamp) -> None:
        """Record the states with the turn, in the transaction that seals it."""
        resources = replace(self.resources, by=by)
        for one in self._folders.pop(attempt.run.id, []):
            await resources.pin(
                TurnId(attempt.run.id), one.resource, one.before, one.latest, one.began_at,
                ended_at, one.mode,
            )  # fmt: skip

    async def _find(self, attempt: Attempt) -> list[RunFolder]:
        """Return the folders of a run; after a takeover, as their first state was recorded."""
        run = attempt.run.id
        if run not in self._folders:
            recorded = _recorded(attempt)
            if not recorded:
                return []
            session = attempt.session
            attached = [] if session is None else await self.list_attached(session)
            by_id = {str(folder[0].id): folder for folder in attached}
            self._folders[run] = [
                RunFolder(*by_id[id], taken, at, taken) for id, taken, at in recorded if id in by_id
            ]
        return self._folders[run]

    async def list_attached(self, session: SessionId) -> list[tuple[Resource, AttachMode]]:
        """Return the folders of a session that this user attached to be written to."""
        attachments = self.resources.attachments
        own = await attachments.list_attached_by(session, str(self.user))
        return [
            (resource, mode)
            for resource, mode in await attachments.list_attached(session)
            if resource.id in own
            and resource.host == self.resources.host
            and mode == "rw"
            and "snapshot" in resource.capabilities
        ]

    async def _take(self, resource: Resource) -> TakenSnapshot | None:
        try:
            driver = self.resources.keeper_of(resource)
            return await in_thread(driver.snapshot, resource.place)
        except (TurntreeError, OSError) as error:
            _LOG.warning("no snapshot of %s: %s", resource.name, error)
            return None

    async def _list_written(self, folder: RunFolder) -> list[TouchedFile]:
        """Return the files that differ from the folder's latest state, which they become."""
        driver = find_files(self.resources.keeper_of(folder.resource))
        begun = monotonic()
        now = await self._take(folder.resource)
        folder.is_slow = monotonic() - begun > STEP_SCAN_MAX_S
        if now is None or driver is None:
            return []
        then, folder.latest = folder.latest, now
        try:
            changes = await in_thread(driver.compare, then.external, now.external)
        except (TurntreeError, OSError) as error:
            _LOG.warning("files of %s not compared: %s", folder.resource.name, error)
            return []
        place = PurePosixPath(folder.resource.place)
        return [
            TouchedFile("written", str(place / one.path))
            for one in changes
            if all(side is None or side.kind != "directory" for side in (one.old, one.new))
        ]


def _describe(folder: RunFolder) -> Json:
    taken = folder.before
    return {
        "resource_ref": folder.resource.id,
        "external_ref": ref_to_json(taken.external),
        "size_bytes": taken.size,
        "files": taken.files,
        "consistency": taken.consistency,
        "at": folder.began_at,
    }


def _recorded(attempt: Attempt) -> list[tuple[str, TakenSnapshot, Timestamp]]:
    """Return the first states of a run's folders, as an earlier attempt recorded them."""
    for fact in attempt.facts:
        told = fact.event.data.get("files_before")
        if fact.event.kind == "tool_call.started" and isinstance(told, list | tuple):
            return [read for one in told if (read := _read(one)) is not None]
    return []


def _read(document: Json) -> tuple[str, TakenSnapshot, Timestamp] | None:
    match document:
        case {
            "resource_ref": str(resource),
            "external_ref": {"kind": str(kind), "id": str(id)},
            "size_bytes": int(size),
            "files": int(files),
            "consistency": "exact" | "crash_consistent" | "inconsistent" as consistency,
            "at": str(at),
        }:
            taken = TakenSnapshot(ExtRef(kind, id), size, files, 0, cast("Any", consistency))
            return resource, taken, Timestamp(at)
        case _:
            return None
