"""Look into snapshots: list and read their files, and compare them.

Works with any driver whose snapshots consist of files. It knows nothing about turns and never
changes a resource; the only write is the snapshot of the present state it compares with.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from turntree.core.ref import ExtRef
from turntree.core.value import Facet, value
from turntree.resources.driver import HasFiles
from turntree.resources.file_diff import FileDiff, diff_file, has_to_be_read, pair_renames
from turntree.resources.resource import FileChange, FileEntry, ResolvedTurnSnapshot, Resource
from turntree.resources.service import Resources, in_thread

Report = Callable[[int, int], None]
"""Called with the number of items done and the total."""


@value
class Files(Facet):
    """``tree.files``: the files in turn snapshots."""

    resources: Resources

    async def list_entries(self, resource: Resource, state: ExtRef) -> list[FileEntry]:
        """Return the entries of a snapshot, directories included, in path order.

        Raises:
            NotFound: The snapshot is not stored here.
        """
        keeper = self.resources.file_keeper_of(resource)
        return await in_thread(lambda: list(keeper.list_entries(state)))

    async def read(self, resource: Resource, state: ExtRef, path: str) -> bytes:
        """Return a file's bytes in a snapshot.

        Raises:
            NotFound: The snapshot does not exist, or has no such file.
        """
        return await in_thread(self.resources.file_keeper_of(resource).read, state, path)

    async def keep_present(self, resource: Resource) -> ExtRef:
        """Take a snapshot of the present state to look into it; the ledger does not record it.

        Raises:
            NotFound: The resource does not exist.
        """
        keeper = self.resources.file_keeper_of(resource)
        return (await in_thread(keeper.snapshot, resource.place)).external

    async def compare(
        self, resource: Resource, old: ExtRef | None, new: ExtRef | None
    ) -> list[FileChange]:
        """Return how two snapshots differ, path by path; None is an empty one."""
        return await in_thread(self.resources.file_keeper_of(resource).compare, old, new)

    async def diff(
        self,
        resource: Resource,
        old: ExtRef | None,
        new: ExtRef | None,
        *,
        only: Collection[FileChange] | None = None,
        with_lines: bool = True,
        report: Report = lambda done, total: None,  # noqa: ARG005  (no progress wanted)
    ) -> list[FileDiff]:
        """Return how two snapshots differ, line by line; with ``only``, just these changes.

        Without lines, no file is read.
        """
        keeper = self.resources.file_keeper_of(resource)

        def read_all() -> list[FileDiff]:
            changes = keeper.compare(old, new) if only is None else list(only)
            pairs = pair_renames(changes)
            diffs: list[FileDiff] = []
            for place, pair in enumerate(pairs):
                report(place, len(pairs))
                diffs.append(_diff_one(keeper, old, new, pair, with_lines=with_lines))
            return diffs

        return await in_thread(read_all)


def pair_states(
    old: Sequence[ResolvedTurnSnapshot], new: Sequence[ResolvedTurnSnapshot]
) -> Iterator[tuple[Resource, ExtRef | None, ExtRef | None]]:
    """Yield the resources of two turns and their states: the same one, or the only one of each."""
    if len(old) == len(new) == 1:
        # A worktree is another resource, but its files are comparable.
        yield new[0].resource, old[0].after.external, new[0].after.external
        return
    left = {pinned.resource.id: pinned for pinned in old}
    right = {pinned.resource.id: pinned for pinned in new}
    for id in {**left, **right}:
        before, after = left.get(id), right.get(id)
        known = after or before
        assert known is not None, "it stands in one of them"
        yield (
            known.resource,
            None if before is None else before.after.external,
            None if after is None else after.after.external,
        )


def _diff_one(
    keeper: HasFiles,
    old: ExtRef | None,
    new: ExtRef | None,
    pair: FileChange | tuple[FileChange, FileChange],
    *,
    with_lines: bool,
) -> FileDiff:
    if isinstance(pair, tuple):
        return diff_file(pair[1], None, None, moved_from=pair[0])
    sides = [None, None] if not (with_lines and has_to_be_read(pair)) else [
        None if state is None or entry is None or entry.kind == "directory"
        else keeper.read(state, entry.path)
        for state, entry in ((old, pair.old), (new, pair.new))
    ]  # fmt: skip
    return diff_file(pair, sides[0], sides[1])
