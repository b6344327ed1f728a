"""Execute the steps of a plan on resources, and roll them back.

It uses drivers and the resource store, and does not know which step comes next. A rollback reverts
only what the plan itself did: content that the plan neither found nor wrote stays as it is.
"""

from collections.abc import Collection
from functools import partial

from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, TurntreeError, Unsupported
from turntree.core.ids import Digest, SnapshotId, Timestamp
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.ledger.store import Ledger
from turntree.resources.attribution import of_paths, untouched_since
from turntree.resources.driver import HasFiles, HasIgnoreRules, ResourceDriver
from turntree.resources.plans.plan import StepResult
from turntree.resources.plans.steps import ForkResource, RestoreResource, StepTarget, TakeSnapshot
from turntree.resources.resource import Snapshot
from turntree.resources.service import FindKeeper, find_files, in_thread
from turntree.resources.store import AttachmentStore, ResourceStore

ERROR_CHARS_MAX = 500
_SEPARATOR = b"\0"
"""The one byte that no path contains."""


@value
class StepExecutor:
    """Executes steps on the resources of this machine."""

    resources: ResourceStore
    attachments: AttachmentStore
    ledger: Ledger
    keepers: FindKeeper
    host: str
    world: Clock

    async def keep(self, step: TakeSnapshot, by: str) -> StepResult:
        """Take a snapshot of the present state and record it."""
        try:
            snapshot = await self._keep(step.site, by)
        except (TurntreeError, OSError) as error:
            # Errors become results, because a plan records each outcome before it decides what to
            # take back. An exception would leave a step without an outcome, and a restart could not
            # tell whether it ran.
            return failed(error, untouched=True)
        if step.expected is not None and snapshot.external.id != step.expected:
            said = f"{step.site.place} has changed since the plan was made"
            return StepResult("error", snapshot.id, snapshot.external, said, untouched=True)
        return StepResult("ok", snapshot.id, snapshot.external)

    async def is_free(self, step: ForkResource) -> bool:
        """Return whether the location of a fork is free."""
        keeper = self.keepers(step.site.kind)
        return await in_thread(keeper.probe, step.site.place) == "dead"

    async def fork(self, step: ForkResource, snapshot: SnapshotId, external: ExtRef) -> StepResult:
        """Create a copy from a snapshot."""
        keeper = self.keepers(step.site.kind)
        try:
            await in_thread(keeper.fork, external, step.site.place)
        except Unsupported as error:
            return StepResult("unsupported", error=told(error), untouched=True)
        except TurntreeError as error:
            return failed(error, untouched=True)
        except OSError as error:
            # The driver may have written a part of the copy.
            return failed(error, untouched=False)
        return StepResult("ok", snapshot, external)

    async def restore(self, step: RestoreResource) -> StepResult:
        """Restore a snapshot in place."""
        if not step.supported:
            return StepResult("unsupported", untouched=True)
        try:
            only = await self.paths(step.only)
            await _restore(self.keepers(step.site.kind), step.external, step.site.place, only)
        except Unsupported as error:
            return StepResult("unsupported", error=told(error), untouched=True)
        except (TurntreeError, OSError) as error:
            # A restore that failed may have changed some files, so the plan takes it back from its
            # snapshot.
            return failed(error, untouched=False)
        return StepResult("ok", step.snapshot, step.external)

    async def discard(self, step: ForkResource, external: ExtRef, since: Timestamp) -> list[str]:
        """Remove a fork's copy, unless a session attached to it since; return what stays.

        Sessions attached earlier worked on a resource that was gone already.

        Raises:
            TurntreeError, OSError: It could not be removed.
        """
        site = step.site
        if await self.is_free(step):
            return []
        known = await self.resources.find(site.kind, self.host, site.place)
        if known is not None and await self.attachments.has_holders(known.id, since=since):
            return [site.place]
        return await self.unmake(site, external)

    async def unmake(self, site: StepTarget, made: ExtRef) -> list[str]:
        """Remove a copy that a plan created and that is unchanged since; return what stays.

        Raises:
            TurntreeError, OSError: It could not be removed.
        """
        keeper = self.keepers(site.kind)
        if not await self.is_as_made(site, made):
            return [site.place]
        try:
            await in_thread(keeper.discard, site.place)
        except InvalidOperation:
            return [site.place]  # Another program created it.
        return []

    async def is_as_made(self, site: StepTarget, made: ExtRef) -> bool:
        """Return whether a resource holds what it was created with, and nothing else."""
        keeper = self.keepers(site.kind)
        if (await in_thread(keeper.snapshot, site.place)).external != made:
            return False
        if not isinstance(keeper, HasIgnoreRules):
            return True
        return not await in_thread(keeper.list_left_out, site.place, made)

    async def take_back(self, step: RestoreResource, safety: ExtRef, by: str) -> list[str]:
        """Restore what a restore replaced; return the paths that others changed since.

        Raises:
            TurntreeError, OSError: It could not be restored.
        """
        keeper, place = self.keepers(step.site.kind), step.site.place
        only, files = await self.paths(step.only), find_files(keeper)
        is_there = await in_thread(keeper.probe, place) != "dead"
        if files is None or not is_there:
            if is_there:
                await self._keep(step.site, by)  # Paths cannot be compared, so keep all of it.
            await _restore(keeper, safety, place, only)
            return []
        ours, theirs = await in_thread(_tell_apart, files, step, safety, only)
        if ours:
            await _restore(keeper, safety, place, ours)
        return theirs

    async def put_paths(self, paths: Collection[str]) -> Digest:
        """Store a list of paths as an object."""
        listed = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
        return await self.ledger.put_object(_SEPARATOR.join(listed))

    async def paths(self, digest: Digest | None) -> frozenset[str] | None:
        """Return a stored list of paths; None means all of them."""
        if digest is None:
            return None
        listed = await self.ledger.get_object(digest)
        names = listed.split(_SEPARATOR) if listed else []
        return frozenset(name.decode("utf-8", "surrogateescape") for name in names)

    async def _keep(self, site: StepTarget, by: str) -> Snapshot:
        keeper = self.keepers(site.kind)
        taken = await in_thread(keeper.snapshot, site.place)
        resource = await self.resources.get(site.resource)
        snapshot = Snapshot(
            SnapshotId(self.world.new_id()),
            site.resource,
            keeper.method,
            taken.external,
            taken.size,
            self.world.now(),
            "restore" in resource.capabilities,
            taken.consistency,
        )
        return await self.resources.keep(snapshot, by=by)


def failed(error: Exception, *, untouched: bool) -> StepResult:
    """Return the result of a step that failed."""
    return StepResult("error", error=told(error), untouched=untouched)


def told(error: Exception) -> str:
    """Return an error's message as valid, bounded UTF-8."""
    said = str(error).encode("utf-8", "backslashreplace").decode()
    return said[:ERROR_CHARS_MAX] or type(error).__name__


async def _restore(
    keeper: ResourceDriver, external: ExtRef, place: str, only: Collection[str] | None
) -> None:
    await in_thread(partial(keeper.restore, external, place, only=only))


def _tell_apart(
    files: HasFiles, step: RestoreResource, safety: ExtRef, only: Collection[str] | None
) -> tuple[frozenset[str], list[str]]:
    """Return which paths to restore, and which hold content that no step of this plan wrote."""
    now = files.snapshot(step.site.place).external
    changes = of_paths(files.compare(now, safety), only)
    brought = {one.path: one.new for one in files.compare(safety, step.external)}
    known: dict[str, set[Digest | None]] = {}
    for change in changes:
        worlds = (change.new, brought.get(change.path))
        known[change.path] = {entry.digest for entry in worlds if entry is not None}
    ours = untouched_since(changes, known)
    return ours, [change.path for change in changes if change.path not in ours]
