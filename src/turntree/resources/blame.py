"""Find the turn that wrote each line, by following a file through its turn snapshots.

The snapshots of one directory are read in time order, whichever session they belong to, because
two agents in one directory write the same file. Blame never guesses: a line that several turns may
have written is reported as ``mixed``. It never names a turn that is hidden from the viewer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from turntree.core.clock import Clock
from turntree.core.errors import DataMissing, Hint, NotFound, Unsupported
from turntree.core.ids import ResourceId, Timestamp, TurnId, unix_ms
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.core.value import Facet, value
from turntree.ledger.thread_store import ID_MIN
from turntree.resources.attribution import ChangedByTurn
from turntree.resources.changes_since import ChangeAttribution
from turntree.resources.commit_blame import RepositoryPart, find_part, trace_files
from turntree.resources.commits import CommitFiles, Repository
from turntree.resources.driver import HasFiles
from turntree.resources.file_diff import LARGE_BYTES_MAX
from turntree.resources.file_history import ChangeAuthor, StateChange, TurnInterval, list_steps
from turntree.resources.files import Files, Report
from turntree.resources.line_diff import is_binary, split_lines
from turntree.resources.line_origins import BEFORE, LineOrigin
from turntree.resources.line_trace import find_likeness, trace_lines
from turntree.resources.lineage import list_origins, origin_of
from turntree.resources.resource import ResolvedTurnSnapshot, Resource
from turntree.resources.service import Resources, in_thread
from turntree.search.results import SnapshotChange

FIRST_INSTANT: Final = Timestamp("0001-01-01T00:00:00.000Z")
# Blame reads one version after another. Of a longer history it reads the newest ones.
STATES_READ_MAX: Final = 4_000
LIKE_FILES_READ_MAX: Final = 40
"""How many deleted files are compared with one that appeared, to detect a rename."""


@value
class FileLine:
    """One line of a file and its author."""

    number: int
    """From 1."""
    text: bytes
    writer: ChangeAuthor
    path: str
    """The file's path when the line was written."""


@value
class AmbiguousChange:
    """A path that changed while a turn ran and that another turn may have changed."""

    path: str
    turns: tuple[TurnId, ...]
    """The other turns, as far as the viewer may see them."""
    is_theirs: bool
    """Whether this turn certainly did not change it."""


@value
class FileBlame:
    """The blame of one file, line by line."""

    resource: Resource
    path: str
    lines: tuple[FileLine, ...]
    is_cut: bool
    """Whether older snapshots exist that were not read."""

    @property
    def turns(self) -> list[TurnId]:
        """The turns that the lines name, each once."""
        return list(dict.fromkeys(turn for line in self.lines for turn in line.writer.turns))


@value
class CommitBlame:
    """The blame of some files of a commit, line by line."""

    files: Mapping[str, tuple[FileLine, ...]]
    """By path from the top of the repository."""
    is_cut: bool
    """Whether older snapshots exist that were not read."""


@value
class LineBlame(Facet):
    """``tree.blame``: the author of each line."""

    resources: Resources
    files: Files
    world: Clock

    async def __call__(
        self,
        resource: Resource,
        path: str,
        *,
        at: ResolvedTurnSnapshot | None = None,
        report: Report = lambda done, total: None,  # noqa: ARG005  (no progress wanted)
    ) -> FileBlame:
        """Return the author of each line of a file, as a turn left it or as it is now.

        Raises:
            NotFound: The file does not exist in that snapshot.
            Unsupported: The file is not text, or too large to read line by line.
        """
        steps = await self._list_steps(resource, at)
        read = steps[-STATES_READ_MAX:]
        is_cut = len(read) < len(steps)
        keeper = self.resources.file_keeper_of(resource)
        versions = await in_thread(partial(_follow, keeper, read, path, report))
        texts = [_lines_of(version, resource.name) for version in versions]
        if versions[-1].content is None:
            raise NotFound(f"{path} does not exist in {resource.name} then")
        returns = {place for place, step in enumerate(read) if not step.active}
        writers = trace_lines(texts, returns=returns)
        named = await self._name_open(
            {
                place: await self._writer(read[place], resource, versions[place].path)
                for place in set(writers)
            }
        )
        lines = tuple(
            FileLine(number, text, named[place], versions[place].path)
            for number, (text, place) in enumerate(zip(texts[-1], writers, strict=True), start=1)
        )
        return FileBlame(resource, path, lines, is_cut)

    async def of_commit(
        self,
        repository: Repository,
        commit: str,
        paths: Collection[str],
        *,
        report: Report = lambda done, total: None,  # noqa: ARG005
    ) -> CommitBlame:
        """Return the author of each line of some files of a git commit, by what turns wrote.

        Only the words of a line count, so it does not matter what git made of the commits: they may
        be rebased, squashed, amended or picked. Nor does it matter in which of the repository's
        folders a turn worked, or whether a formatter laid the lines out differently.

        Raises:
            NotFound: The commit or a file does not exist, or no turn has a snapshot here.
        """
        files = await in_thread(repository.get_files, commit)
        texts = dict[str, list[bytes]]()
        for path in paths:
            content = await in_thread(files.find, path)
            if content is None:
                raise NotFound(f"{path} does not exist in commit {commit}")
            texts[path] = _lines_of(_Version(path, content), f"commit {commit}")
        parts = await self._list_parts(repository, files)
        if not parts:
            raise NotFound(f"no turn has a snapshot of {repository.top}", hint=Hint("hook.install"))
        authors = [[_LineAuthor(_UNKNOWN, path)] * len(text) for path, text in texts.items()]
        is_cut = False
        for part, steps in parts:
            read = steps[-STATES_READ_MAX:]
            is_cut |= len(read) < len(steps)
            keeper = self.resources.file_keeper_of(part.resource)
            origins = await in_thread(
                partial(trace_files, keeper, read, part, texts, files, report)
            )
            named = await self._name_origins(part, read, {one for row in origins for one in row})
            authors = [
                [max(best, named[origin], key=_rank) for best, origin in zip(row, new, strict=True)]
                for row, new in zip(authors, origins, strict=True)
            ]
        return CommitBlame(
            {
                path: tuple(
                    FileLine(number, line, one.author, one.path)
                    for number, (line, one) in enumerate(zip(text, row, strict=True), start=1)
                )
                for (path, text), row in zip(texts.items(), authors, strict=True)
            },
            is_cut,
        )

    async def list_changes(
        self,
        resource: Resource,
        path: str,
        *,
        report: Report = lambda done, total: None,  # noqa: ARG005
    ) -> list[SnapshotChange]:
        """Return the changes that turns made to a file, found by comparing turn snapshots."""
        steps, _ = await self._steps_until(resource, self.world.now())
        read = (await self._with_origins(resource, steps))[-STATES_READ_MAX:]
        keeper = self.resources.file_keeper_of(resource)
        kinds = await in_thread(partial(list_kinds, keeper, read, path, report))
        named = await self._name_open(
            {place: await self._writer(read[place], resource, path) for place in kinds}
        )
        return [
            SnapshotChange(turn, kinds[place], path, writer.kind == "turn")
            for place, writer in named.items()
            if writer.kind in ("turn", "mixed")
            for turn in writer.turns
        ]

    async def list_doubts(self, pinned: ResolvedTurnSnapshot) -> list[AmbiguousChange]:
        """Return the paths that changed while a turn ran and that another turn may have changed.

        A subagent's changes also count as its parent's: the two are never rivals.
        """
        turn, resource = pinned.pin.turn, pinned.resource
        keeper = self.resources.file_keeper_of(resource)
        found = await ChangeAttribution(self.resources.all_pins).of_turn(keeper, resource, pinned)
        rivals = {
            path: {by.turn} if isinstance(by, ChangedByTurn) else {*by.turns}
            for path, by in found.items()
            if by != ChangedByTurn(turn)
        }
        named = sorted({other for turns in rivals.values() for other in turns} - {turn})
        kin = await self.list_kin(turn, named)
        sees = {one.pin.turn for one in await self.resources.pins.list_pins(named)}
        return [
            AmbiguousChange(path, tuple(sorted((turns & sees) - kin)), is_theirs=not turns & kin)
            for path, turns in rivals.items()
            if turns - kin
        ]

    async def list_kin(self, turn: TurnId, others: Sequence[TurnId]) -> frozenset[TurnId]:
        """Return a turn with those of ``others`` that spawned its session or that it spawned."""
        pins = self.resources.all_pins
        below = await pins.list_spawned(others, [turn])
        above = [one for one in others if await pins.list_spawned([turn], [one])]
        return frozenset({turn, *below, *above})

    async def has_history(self, resource: Resource) -> bool:
        """Return whether any turn has a snapshot of a resource or of the one it was forked from."""
        if origin_of(resource) is not None:
            return True
        now = self.world.now()
        return bool(await self.resources.pins.list_pins_between(resource.id, FIRST_INSTANT, now))

    async def _list_steps(
        self, resource: Resource, at: ResolvedTurnSnapshot | None
    ) -> list[StateChange]:
        until = self.world.now() if at is None else at.pin.ended_at
        steps, last = await self._steps_until(resource, until)
        if at is None:
            present = await self.files.keep_present(resource)
            if not steps or steps[-1].state != present:
                steps.append(StateChange(present, until, (), last, is_first=not steps))
        return await self._with_origins(resource, steps)

    async def _steps_until(
        self, resource: Resource, until: Timestamp
    ) -> tuple[list[StateChange], TurnId | None]:
        """Return the states of a resource up to a timestamp, and the turn that ended last.

        Whatever existed at that path before the resource was recreated is not part of its history.
        """
        is_made = origin_of(resource) is not None and resource.created_at <= until
        since = resource.created_at if is_made else FIRST_INSTANT
        pins = await self.resources.all_pins.list_pins_between(resource.id, since, until)
        ended = [pinned for pinned in pins if pinned.pin.ended_at <= until]
        last = ended[-1].pin.turn if ended else None
        return list_steps([_stay(pinned) for pinned in ended]), last

    async def _with_origins(
        self, resource: Resource, steps: list[StateChange]
    ) -> list[StateChange]:
        """Prepend the history of the resource it was forked from: a worktree's files are older."""
        for older in await list_origins(self.resources.ledger, resource):
            origin = origin_of(resource)
            assert origin is not None, "it has one"
            if older.created_at > resource.created_at:
                break  # Recreated since then, so its earlier states are not this fork's history.
            before, _ = await self._steps_until(older, resource.created_at)
            places = [place for place, step in enumerate(before) if step.state == origin[1]]
            if not places:
                break
            steps = [*before[: places[-1] + 1], *(replace(step, is_first=False) for step in steps)]
            resource = older
        return steps

    async def _list_parts(
        self, repository: Repository, files: CommitFiles
    ) -> list[tuple[RepositoryPart, list[StateChange]]]:
        """Return the folders of a repository that turns worked in, with their states."""
        folders = await in_thread(lambda: repository.folders)
        parts = dict[ResourceId, RepositoryPart]()
        after: str = ID_MIN
        while page := await self.resources.ledger.list_page(after=after):
            after = page[-1].id
            for resource in page:
                if (resource.kind, resource.host) != ("directory", self.resources.host):
                    continue
                part = find_part(resource, folders, files)
                origin = origin_of(resource)
                if part is None and origin is not None and origin[0] in parts:
                    part = replace(parts[origin[0]], resource=resource)
                if part is not None:
                    parts[resource.id] = part
        now = self.world.now()
        found = list[tuple[RepositoryPart, list[StateChange]]]()
        for part in parts.values():
            steps, _ = await self._steps_until(part.resource, now)
            steps = await self._with_origins(part.resource, steps)
            found += [(part, steps)] if steps else []
        return found

    async def _name_origins(
        self,
        part: RepositoryPart,
        steps: Sequence[StateChange],
        origins: Collection[LineOrigin | None],
    ) -> dict[LineOrigin | None, "_LineAuthor"]:
        """Return who made the states that wrote lines, as far as the viewer may know."""
        known = [origin for origin in origins if origin is not None and origin.state != BEFORE]
        writers = [await self._writer(steps[one.state], part.resource, one.path) for one in known]
        named = await self._name_open(dict(enumerate(writers)))
        found: dict[LineOrigin | None, _LineAuthor] = {
            origin: _LineAuthor(
                named[place], part.find_outside(origin.path) or origin.path, steps[origin.state].at
            )
            for place, origin in enumerate(known)
        }
        for origin in origins:
            if origin is None:
                found[None] = _LineAuthor(ChangeAuthor("outside"), "")
            elif origin.state == BEFORE:
                path = part.find_outside(origin.path) or origin.path
                found[origin] = _LineAuthor(ChangeAuthor("earlier"), path)
        return found

    async def _writer(self, step: StateChange, resource: Resource, path: str) -> ChangeAuthor:
        is_plain = len(step.active) <= 1 and not step.is_unseen
        naming = set[TurnId]() if is_plain else await self._naming(step.active, resource, path)
        return step.writer(naming.__contains__)

    async def _naming(self, turns: Sequence[TurnId], resource: Resource, path: str) -> set[TurnId]:
        """Return the turns whose own tool calls report writing a file."""
        names = {path, f"./{path}", f"{resource.place.rstrip('/')}/{path}"}
        written = await self.resources.all_pins.list_written(turns)
        return {turn for turn, paths in written.items() if names & paths}

    async def _name_open(self, writers: Mapping[int, ChangeAuthor]) -> dict[int, ChangeAuthor]:
        """Drop turns that are hidden from the viewer; their changes count as made outside."""
        turns = {turn for writer in writers.values() for turn in writer.turns}
        sees = {one.pin.turn for one in await self.resources.pins.list_pins(sorted(turns))}
        return {place: writer.told_to(sees) for place, writer in writers.items()}


@value
class _LineAuthor:
    """Who wrote a line of a commit, in which file, and when."""

    author: ChangeAuthor
    path: str
    at: Timestamp | None = None


_UNKNOWN: Final = ChangeAuthor("outside")


def _rank(one: _LineAuthor) -> tuple[int, int]:
    """Return how much a folder knows about a line: it may have come there from another folder.

    What one folder's turn wrote, git brings to the others, where it looks as if no turn wrote it.
    Of two turns the earlier one wrote it.
    """
    weight = {"turn": 3, "mixed": 2, "earlier": 1, "outside": 0}[one.author.kind]
    return weight, 0 if one.at is None else -unix_ms(one.at)


@value
class _Version:
    """A file in one state: its path there and its content, or None if it did not exist."""

    path: str
    content: bytes | None


def _stay(pinned: ResolvedTurnSnapshot) -> TurnInterval:
    pin = pinned.pin
    before = None if pinned.before is None else pinned.before.external
    return TurnInterval(pin.turn, pin.began_at, pin.ended_at, before, pinned.after.external)


def _lines_of(version: _Version, place: str) -> list[bytes]:
    content = version.content or b""
    if is_binary(content) or len(content) > LARGE_BYTES_MAX:
        why = "not text" if is_binary(content) else "too large to be read line by line"
        raise Unsupported(f"{version.path} in {place} is {why}")
    return split_lines(content)


def _follow(
    keeper: HasFiles, steps: Sequence[StateChange], path: str, report: Report
) -> list[_Version]:
    """Return a file in every state, oldest first, under the path it had there."""
    versions: list[_Version] = []
    for place in range(len(steps) - 1, -1, -1):
        report(len(steps) - 1 - place, len(steps))
        state = steps[place].state
        content = _find(keeper, state, path)
        if content is None and versions and versions[-1].content is not None:
            earlier = _earlier_name(keeper, state, steps[place + 1].state, versions[-1])
            if earlier is not None:
                path, content = earlier, _find(keeper, state, earlier)
        versions.append(_Version(path, content))
    return versions[::-1]


def list_kinds(
    keeper: HasFiles, steps: Sequence[StateChange], path: str, report: Report
) -> dict[int, ChangeKind]:
    """Return how a file differs from the state before, for each state in which it does."""
    kinds: dict[int, ChangeKind] = {}
    for place in range(1, len(steps)):
        report(place, len(steps))
        for change in keeper.compare(steps[place - 1].state, steps[place].state):
            if change.path == path:
                kinds[place] = change.kind
    return kinds


def _find(keeper: HasFiles, state: ExtRef, path: str) -> bytes | None:
    try:
        return keeper.read(state, path)
    except DataMissing:
        raise  # The file existed. Treating lost data as absence would blame the wrong turn.
    except NotFound:
        return None


def _earlier_name(keeper: HasFiles, old: ExtRef, new: ExtRef, version: _Version) -> str | None:
    """Return the earlier path of a file that appeared, if it was made from one that vanished."""
    changes = keeper.compare(old, new)
    digest = next((c.new.digest for c in changes if c.path == version.path and c.new), None)
    gone = [change for change in changes if change.kind == "removed" and change.old is not None]
    files = [c for c in gone if c.old is not None and c.old.kind == "file" and c.old.size]
    same = next((c.path for c in files if c.old is not None and c.old.digest == digest), None)
    if same is not None or version.content is None or is_binary(version.content):
        return same
    near = [c for c in files if c.old is not None and c.old.size <= LARGE_BYTES_MAX]
    near = near[:LIKE_FILES_READ_MAX]
    texts = [split_lines(_find(keeper, old, change.path) or b"") for change in near]
    found = find_likeness(split_lines(version.content), texts)
    return None if found is None else near[found].path
