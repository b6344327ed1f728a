"""What the steps of a plan do to a place, and what takes them back.

Knows keepers and the facts about resources. Must never know which step comes next. What is taken
back is only what a plan itself did: bytes that it neither found nor brought stay where they are.
"""

from collections.abc import Collection
from functools import partial

from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, TurntreeError, Unsupported
from turntree.core.ids import Digest, SnapshotId, Timestamp
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.ledger.store_port import LedgerPort
from turntree.resources import store_port as ports
from turntree.resources.attribution import of_paths, untouched_since
from turntree.resources.driver import HasFiles, HasIgnoreRules, ResourceDriver
from turntree.resources.plans.plan import StepResult
from turntree.resources.plans.steps import ForkResource, RestoreResource, StepTarget, TakeSnapshot
from turntree.resources.resource import Snapshot
from turntree.resources.service import FindKeeper, find_files, in_thread

ERROR_CHARS_MAX = 500
_SEPARATOR = b"\0"
"""The one byte that no path holds."""


@value
class StepExecutor:
    """Acts on the places of this machine."""

    resources: ports.Resources
    attachments: ports.Attachments
    ledger: LedgerPort
    keepers: FindKeeper
    host: str
    world: Clock

    async def keep(self, step: TakeSnapshot, by: str) -> StepResult:
        """Keep the present state and note it."""
        try:
            snapshot = await self._keep(step.site, by)
        except (TurntreeError, OSError) as error:
            return failed(error, untouched=True)
        if step.expected is not None and snapshot.external.id != step.expected:
            said = f"{step.site.place} has changed since the plan was made"
            return StepResult("error", snapshot.id, snapshot.external, said, untouched=True)
        return StepResult("ok", snapshot.id, snapshot.external)

    async def is_free(self, step: ForkResource) -> bool:
        """Say whether nothing is at the place that a fork is to be made at."""
        keeper = self.keepers(step.site.kind)
        return await in_thread(keeper.probe, step.site.place) == "dead"

    async def fork(self, step: ForkResource, snapshot: SnapshotId, external: ExtRef) -> StepResult:
        """Make a new place in a state."""
        keeper = self.keepers(step.site.kind)
        try:
            await in_thread(keeper.fork, external, step.site.place)
        except Unsupported as error:
            return StepResult("unsupported", error=told(error), untouched=True)
        except TurntreeError as error:
            return failed(error, untouched=True)
        except OSError as error:
            return failed(error, untouched=False)
        return StepResult("ok", snapshot, external)

    async def restore(self, step: RestoreResource) -> StepResult:
        """Bring a state back into its place."""
        if not step.supported:
            return StepResult("unsupported", untouched=True)
        try:
            only = await self.paths(step.only)
            await _restore(self.keepers(step.site.kind), step.external, step.site.place, only)
        except Unsupported as error:
            return StepResult("unsupported", error=told(error), untouched=True)
        except (TurntreeError, OSError) as error:
            return failed(error, untouched=False)
        return StepResult("ok", step.snapshot, step.external)

    async def discard(self, step: ForkResource, external: ExtRef, since: Timestamp) -> list[str]:
        """Remove the place of a fork, unless somebody works there since; return what stays.

        Whoever worked there before worked on something that was gone.

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
        """Remove a place that a plan made and nobody has changed since; return what stays.

        Raises:
            TurntreeError, OSError: It could not be removed.
        """
        keeper = self.keepers(site.kind)
        if not await self.is_as_made(site, made):
            return [site.place]
        try:
            await in_thread(keeper.discard, site.place)
        except InvalidOperation:
            return [site.place]  # Somebody else made it.
        return []

    async def is_as_made(self, site: StepTarget, made: ExtRef) -> bool:
        """Say whether a place holds what it was made with, and nothing else."""
        keeper = self.keepers(site.kind)
        if (await in_thread(keeper.snapshot, site.place)).external != made:
            return False
        if not isinstance(keeper, HasIgnoreRules):
            return True
        return not await in_thread(keeper.list_left_out, site.place, made)

    async def take_back(self, step: RestoreResource, safety: ExtRef, by: str) -> list[str]:
        """Bring back what a restore replaced; return the paths that others have changed since.

        Raises:
            TurntreeError, OSError: It could not be brought back.
        """
        keeper, place = self.keepers(step.site.kind), step.site.place
        only, files = await self.paths(step.only), find_files(keeper)
        is_there = await in_thread(keeper.probe, place) != "dead"
        if files is None or not is_there:
            if is_there:
                await self._keep(step.site, by)  # Nobody can look inside, so all of it is kept.
            await _restore(keeper, safety, place, only)
            return []
        ours, theirs = await in_thread(_tell_apart, files, step, safety, only)
        if ours:
            await _restore(keeper, safety, place, ours)
        return theirs

    async def put_paths(self, paths: Collection[str]) -> Digest:
        """Keep a list of paths as an object."""
        listed = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
        return await self.ledger.put_object(_SEPARATOR.join(listed))

    async def paths(self, digest: Digest | None) -> frozenset[str] | None:
        """Return a list of paths that was kept; None means all of them."""
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
    """Return what is told of a step that failed."""
    return StepResult("error", error=told(error), untouched=untouched)


def told(error: Exception) -> str:
    """Return what an error says, as text that everybody can read."""
    said = str(error).encode("utf-8", "backslashreplace").decode()
    return said[:ERROR_CHARS_MAX] or type(error).__name__


async def _restore(
    keeper: ResourceDriver, external: ExtRef, place: str, only: Collection[str] | None
) -> None:
    await in_thread(partial(keeper.restore, external, place, only=only))


def _tell_apart(
    files: HasFiles, step: RestoreResource, safety: ExtRef, only: Collection[str] | None
) -> tuple[frozenset[str], list[str]]:
    """Return which paths to bring back, and which hold what no step of ours put there."""
    now = files.snapshot(step.site.place).external
    changes = of_paths(files.compare(now, safety), only)
    brought = {one.path: one.new for one in files.compare(safety, step.external)}
    known: dict[str, set[Digest | None]] = {}
    for change in changes:
        worlds = (change.new, brought.get(change.path))
        known[change.path] = {entry.digest for entry in worlds if entry is not None}
    ours = untouched_since(changes, known)
    return ours, [change.path for change in changes if change.path not in ours]
