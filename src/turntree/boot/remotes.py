"""Push sessions to a remote and pull them: a folder, or another ledger.

Only turns and objects that the other side lacks are moved. What arrives is checked as any archive
is, and a head moves only to a turn that continues it. Knows both sides. Removes secrets before
anything leaves, even where the user keeps them in the ledger.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, Final, Literal, Protocol

import anyio.to_thread

from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.canonical import digest_raw
from turntree.core.errors import Conflict, InvalidOperation, NotFound, PermissionDenied
from turntree.core.ids import Digest, TurnId
from turntree.core.program import Visibility
from turntree.core.revision import check_label
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.ledger.thread_store import ThreadStore
from turntree.resources.snapshots.store import ObjectStore
from turntree.transfer.archive import BaseTurn, SharedThread
from turntree.transfer.folder_remote import FolderRemote
from turntree.transfer.remote import RemoteHead, check_owner, split_archive
from turntree.transfer.share import RedactionReport

PART_TURNS_MAX: Final = 500
"""Turns that are moved at once: what is interrupted continues after the last complete part."""
LANDINGS_MAX: Final = 5
"""How often a push tries to move a session that others move at the same time."""
Report = Callable[[int, int], None]
Landing = Literal["created", "moved", "unchanged", "ahead", "diverged"]


@value
class PushResult:
    """What a push moved, or would move."""

    session: str
    """The name in the remote."""
    turns: int
    known: int
    """Turns that the remote had."""
    bytes: int
    report: RedactionReport
    landing: Landing
    stands_at: str
    """The name in the remote that has the head: another one if both sides have continued."""


@value
class PulledHead:
    """What became of one head of a remote."""

    session: str
    owner: str
    landing: Landing
    label: str
    """The session here that stands at it, or has gone beyond it."""
    turns: int
    """Turns that were added for it."""
    beside: str | None = None
    """The session here that has continued otherwise."""


@value
class PullResult:
    """What a pull moved, or would move."""

    heads: tuple[PulledHead, ...]
    bytes: int


class Remote(Protocol):
    """A folder or a ledger that sessions are pushed to and pulled from."""

    has_files: bool

    @property
    def moved_bytes(self) -> int:
        """Bytes that were read or written so far."""
        ...

    async def list_heads(self) -> list[RemoteHead]:
        """Return the heads that can be pulled."""
        ...

    async def prepare(self) -> None:
        """Get ready to be pushed to."""
        ...

    async def has_turn(self, turn: TurnId) -> bool:
        """Return whether the remote holds a turn, and so every turn above it."""
        ...

    async def add(self, turns: tuple[TurnId, ...], base: TurnId | None, data: bytes, /) -> None:
        """Store the archive of some turns in a row."""
        ...

    async def set_head(
        self, head: RemoteHead, continues: Callable[[TurnId], Awaitable[bool]], /
    ) -> tuple[Landing, str]:
        """Record where a session stands; return what that changed, and its name there."""
        ...

    async def withdraw(self, session: str, owner: str, head: TurnId) -> None:
        """Take back the last record of a head."""
        ...

    def fetch(
        self, head: RemoteHead, has_turn: Callable[[TurnId], Awaitable[bool]],
        has_object: Callable[[str, Digest], bool], /,
    ) -> AsyncIterator[AbstractContextManager[IO[bytes]]]:  # fmt: skip
        """Yield archives of the turns that are missing here, oldest first."""
        ...


async def push(
    tree: Tree,
    remote: Remote,
    name: str,
    revision: str,
    report: Report = lambda _done, _total: None,
    *,
    dry_run: bool = False,
) -> PushResult:
    """Push a session to a remote.

    Raises:
        NotFound: There is no such session, or it has no turn.
        InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
    """
    session = await tree.sessions.get(revision)
    if session.head is None:
        raise NotFound(f"{session.label} has no turns to push")
    owner, label = owner_of(tree), session.label.removeprefix(f"{name}/")
    redactor = replace(tree.runs.redactor, is_on=True)
    if redactor.redact(f"{label}\n{owner}".encode())[1]:
        raise InvalidOperation("the name of the session holds a secret, so it cannot be pushed")
    threads = tree.threads.threads
    head = await threads.get_turn(session.head)
    if not dry_run:
        await remote.prepare()
    known = await _find_shared_depth(threads, head, remote.has_turn)
    missing, removed = head.depth - known, RedactionReport()
    if dry_run:
        return PushResult(label, missing, known, 0, removed, "unchanged", label)
    before = remote.moved_bytes
    async for part, base in _list_parts(threads, head, known):
        archive = await tree.archives.share(
            part, label, redactor, base=base, has_files=remote.has_files
        )
        removed = removed + archive.report
        ids = tuple([placed.turn.id for placed in part])
        await remote.add(ids, None if base is None else base.id, archive.data)
        report(part[-1].depth - known, missing)
    told = RemoteHead(
        label, owner, head.turn.id, head.turn.digest, head.depth, tree.revisions.world.now()
    )

    async def continues(turn: TurnId) -> bool:
        return await _is_here(threads, turn) and await threads.is_ancestor(turn, head.turn.id)

    landing, stands_at = await remote.set_head(told, continues)
    moved = remote.moved_bytes - before
    return PushResult(label, missing, known, moved, removed, landing, stands_at)


async def withdraw(tree: Tree, remote: Remote, name: str, revision: str) -> str:
    """Take back the last push of a session; its turns stay in the remote.

    Raises:
        NotFound: The session was not pushed as it is now.
    """
    session = await tree.sessions.get(revision)
    if session.head is None:
        raise NotFound(f"{session.label} has no turns, so it was not pushed")
    label = session.label.removeprefix(f"{name}/")
    await remote.withdraw(label, owner_of(tree), session.head)
    return label


async def pull(
    tree: Tree,
    remote: Remote,
    name: str,
    session: str | None = None,
    report: Report = lambda _done, _total: None,
    *,
    visibility: Visibility | None = None,
    dry_run: bool = False,
) -> PullResult:
    """Pull the sessions of a remote, or one of them.

    Raises:
        NotFound: The remote has no such session.
        InvalidOperation: Something in the remote was cut off, changed or forged.
    """
    wanted = None if session is None else session.removeprefix(f"{name}/")
    heads = [one for one in await remote.list_heads() if wanted in (None, one.session)]
    if wanted is not None and not heads:
        raise NotFound(f"the remote has no session {wanted!r}")
    # The longest first: the others may be on its way.
    heads.sort(key=lambda one: (one.session, -one.depth, one.owner))
    everything = ThreadStore(tree.archives.database.seen_by(EVERYTHING))
    objects = ObjectStore(str(tree.archives.home / "shadow"))
    pulled, before = list[PulledHead](), remote.moved_bytes

    async def has_turn(turn: TurnId) -> bool:
        return await _is_here(everything, turn)

    def has_object(kind: str, digest: Digest) -> bool:
        return kind == "file" and digest_raw(digest) in objects

    for head in heads:
        assert head.head is not None, "a remote lists no withdrawn heads"
        added = 0
        if dry_run:
            is_here = await has_turn(head.head)
            landing: Landing = "unchanged" if is_here else "moved"
            pulled.append(PulledHead(head.session, head.owner, landing, head.session, 0))
            continue
        async for opened in remote.fetch(head, has_turn, has_object):
            with opened as archive:
                done = await tree.archives.load(archive, begins_session=False)
            added += done.added.get("turn", 0)
            report(added, max(added, head.depth))
        await _check_head(everything, head)
        pulled.append(await _land_here(tree, name, head, added, visibility))
    return PullResult(tuple(pulled), remote.moved_bytes - before)


def owner_of(tree: Tree) -> str:
    """Return the name under which a tree's user pushes.

    Raises:
        InvalidRevision: It cannot be a part of a label.
    """
    return check_owner(str(tree.sessions.by).partition(":")[2])


class FolderAsRemote:
    """A folder that sessions are pushed to and pulled from."""

    has_files = True

    def __init__(self, folder: Path) -> None:
        """Use a folder, which the first push creates."""
        self.folder = FolderRemote(folder)
        self._parts: dict[TurnId, str] | None = None

    @property
    def moved_bytes(self) -> int:
        """Bytes that were read or written so far."""
        return self.folder.read_bytes + self.folder.written_bytes

    async def list_heads(self) -> list[RemoteHead]:
        """Return the heads of all sessions and owners."""
        self.folder.check()
        return await anyio.to_thread.run_sync(self.folder.list_heads)

    async def prepare(self) -> None:
        """Create the folder if it does not exist."""
        await anyio.to_thread.run_sync(self.folder.create)

    async def has_turn(self, turn: TurnId) -> bool:
        """Return whether a part holds a turn."""
        if self._parts is None:
            self._parts = await anyio.to_thread.run_sync(self.folder.read_indexes)
        return turn in self._parts

    async def add(self, turns: tuple[TurnId, ...], base: TurnId | None, data: bytes, /) -> None:
        """Store a part, and the objects of it that are missing."""
        assert self._parts is not None, "it was looked up what is missing"
        part = split_archive(data, turns, None if base is None else self._parts[base])
        stored = await anyio.to_thread.run_sync(self.folder.add_part, part)
        self._parts.update((turn, stored) for turn in turns)

    async def set_head(
        self, head: RemoteHead, continues: Callable[[TurnId], Awaitable[bool]], /
    ) -> tuple[Landing, str]:
        """Record where a session stands."""
        assert self._parts is not None, "its turns were added"
        assert head.head is not None, "a session is pushed with its head"
        told = replace(head, part=self._parts[head.head])
        known = [one.head for one in await self.list_heads() if one.head is not None]
        continued = {turn for turn in known if await continues(turn)}
        is_new = await anyio.to_thread.run_sync(self.folder.set_head, told, continued)
        return ("moved" if is_new else "unchanged"), head.session

    async def withdraw(self, session: str, owner: str, head: TurnId) -> None:
        """Take back the last record of a head."""
        self.folder.check()
        await anyio.to_thread.run_sync(self.folder.withdraw, session, owner, head)

    async def fetch(
        self, head: RemoteHead, has_turn: Callable[[TurnId], Awaitable[bool]],
        has_object: Callable[[str, Digest], bool], /,
    ) -> AsyncIterator[AbstractContextManager[IO[bytes]]]:  # fmt: skip
        """Yield the parts that are missing here, oldest first."""
        missing, part = dict[str, None](), head.part
        turn = head.head
        while part is not None and part not in missing and turn and not await has_turn(turn):
            opening = await anyio.to_thread.run_sync(self.folder.read_opening, part)
            missing[part] = None
            turn, part = opening.base, opening.before
        for name in reversed(missing):
            yield self.folder.open_part(name, has_object)


class LedgerAsRemote:
    """Another ledger, with the rights of the login there. It takes no files: those are on disks."""

    has_files = False

    def __init__(self, tree: Tree) -> None:
        """Use a tree that was opened on the other ledger."""
        self.tree, self.moved_bytes = tree, 0
        self._threads = ThreadStore(tree.archives.database.seen_by(EVERYTHING))

    async def list_heads(self) -> list[RemoteHead]:
        """Return the heads of the sessions that the login sees there."""
        heads, owner = list[RemoteHead](), owner_of(self.tree)
        async for session in self.tree.sessions.list_all():
            if session.head is not None:
                turn = await self.tree.threads.threads.get_turn(session.head)
                told = (session.label, owner, turn.turn.id, turn.turn.digest, turn.depth)
                heads.append(RemoteHead(*told, session.updated_at))
        return heads

    async def prepare(self) -> None:
        """Do nothing: a ledger that was opened is ready."""

    async def has_turn(self, turn: TurnId) -> bool:
        """Return whether the ledger holds a turn."""
        return await _is_here(self._threads, turn)

    async def add(self, _: tuple[TurnId, ...], _base: TurnId | None, data: bytes, /) -> None:
        """Import the archive of some turns."""
        self.moved_bytes += len(data)
        await self.tree.archives.load(BytesIO(data), begins_session=False)

    async def set_head(
        self, head: RemoteHead, _continues: Callable[[TurnId], Awaitable[bool]], /
    ) -> tuple[Landing, str]:
        """Move the session there if the head continues it, or create one."""
        for attempt in range(LANDINGS_MAX):
            try:
                landing, label, _ = await land(
                    self.tree, head, (head.session,), head.session,
                    f"{head.session}+{head.owner}", None,
                )  # fmt: skip
            except Conflict:
                # It was moved while we looked, by the same person from another machine: look again.
                if attempt + 1 == LANDINGS_MAX:
                    raise
            else:
                return landing, label
        raise AssertionError("the last attempt returns or raises")

    async def withdraw(self, session: str, owner: str, head: TurnId) -> None:
        """Undo the last move of the session there, or archive it if it has no other one."""
        for label in (session, f"{session}+{owner}"):
            there = await self.tree.sessions.ledger.find(label)
            if there is None or there.head != head:
                continue
            moves = await self.tree.sessions.list_moves(label, limit=2)
            if len(moves) > 1:
                await self.tree.sessions.undo(label, expected_head=head)
            else:
                await self.tree.sessions.set_status(label, "archived")
            return
        raise NotFound(f"you have not pushed {session} as it is now")

    async def fetch(
        self, head: RemoteHead, has_turn: Callable[[TurnId], Awaitable[bool]],
        _has_object: Callable[[str, Digest], bool], /,
    ) -> AsyncIterator[AbstractContextManager[IO[bytes]]]:  # fmt: skip
        """Yield archives of the turns that are missing here, oldest first."""
        threads = self.tree.threads.threads
        assert head.head is not None, "it was listed with its head"
        top = await threads.get_turn(head.head)
        known = await _find_shared_depth(threads, top, has_turn)
        redactor = replace(self.tree.runs.redactor, is_on=True)
        async for part, base in _list_parts(threads, top, known):
            archive = await self.tree.archives.share(
                part, head.session, redactor, base=base, has_files=False
            )
            self.moved_bytes += len(archive.data)
            yield _opened(archive.data)


@asynccontextmanager
async def open_remote(place: str, settings: Settings) -> AsyncGenerator["Remote"]:
    """Open a remote: a folder by its path, or a ledger by the URL of its PostgreSQL.

    Raises:
        DatabaseUnavailable: The database does not answer.
    """
    if not is_url(place):
        yield FolderAsRemote(Path(place))
        return
    # Neither the token nor the current session of this ledger means anything in that one.
    there = replace(
        settings, database_url=place, shards=None, token=None, context=None, session=None
    )
    async with open_tree(there) as tree:
        yield LedgerAsRemote(tree)


def is_url(place: str) -> bool:
    """Return whether a remote is a database and not a folder."""
    return place.startswith(("postgresql://", "postgres://"))


@contextmanager
def _opened(data: bytes) -> Generator[IO[bytes]]:
    with BytesIO(data) as file:
        yield file


async def _check_head(threads: ThreadStore, head: RemoteHead) -> None:
    """Raise unless what arrived has the head that the remote names."""
    assert head.head is not None, "a remote lists no withdrawn heads"
    stored = await threads.find_stored(head.head)
    if stored is None or stored[0] != head.digest:
        raise InvalidOperation(f"the remote's head of {head.session} is not among its turns")


async def _land_here(
    tree: Tree, name: str, head: RemoteHead, added: int, visibility: Visibility | None
) -> PulledHead:
    """Move the session that a head continues, or create one beside it."""
    fresh = f"{name}/{head.session}"
    landing, label, beside = await land(
        tree, head, (head.session, fresh), fresh, f"{fresh}+{head.owner}", visibility
    )
    return PulledHead(head.session, head.owner, landing, label, added, beside)


async def land(
    tree: Tree,
    head: RemoteHead,
    counterparts: tuple[str, ...],
    fresh: str,
    diverged: str,
    visibility: Visibility | None,
) -> tuple[Landing, str, str | None]:
    """Give a head that arrived a session, and return what happened, which, and beside which.

    The first counterpart that shares a turn with it is moved if the head continues it. If both have
    continued, the head gets a session of its own.

    Raises:
        Conflict: The session moved meanwhile.
    """
    assert head.head is not None, "what arrives has a head"
    threads, sessions, beside = tree.threads.threads, tree.sessions, None
    for label in counterparts:
        session = await sessions.ledger.find(label)
        if session is None or session.head is None:
            continue
        if await threads.find_common_ancestor(session.head, head.head) is None:
            continue
        beside = session.label
        if session.head == head.head:
            return "unchanged", session.label, None
        if await threads.is_ancestor(head.head, session.head):
            return "ahead", session.label, None
        if await threads.is_ancestor(session.head, head.head):
            try:
                await sessions.replay(session.label, head.head, expected_head=session.head)
            except PermissionDenied:
                # It belongs to another person, who alone may move it.
                break
            return "moved", session.label, None
        break
    wanted = check_label(fresh if beside is None else diverged)
    there = await sessions.ledger.find(wanted)
    if there is not None and there.head is not None:
        if await threads.is_ancestor(head.head, there.head):
            return "unchanged", there.label, beside
        if await threads.is_ancestor(there.head, head.head):
            await sessions.replay(there.label, head.head, expected_head=there.head)
            return "moved", there.label, beside
    session = await tree.archives.begin_session(SharedThread(head.head, wanted), visibility)
    return ("created" if beside is None else "diverged"), session.label, beside


async def _list_parts(
    threads: ThreadStore, head: ThreadTurn, known: int
) -> AsyncIterator[tuple[tuple[ThreadTurn, ...], BaseTurn | None]]:
    """Yield the turns of a thread below a depth, with the turn above each part."""
    base = None
    if known:
        turn = await threads.find_at_depth(head.turn.id, known)
        assert turn is not None, "the depth is one of the thread"
        base = BaseTurn(turn, (await threads.get_turn(turn)).turn.digest, known)
    for low in range(known + 1, head.depth + 1, PART_TURNS_MAX):
        high = min(low + PART_TURNS_MAX - 1, head.depth)
        part = await threads.list_range(head.turn.id, low=low, high=high)
        yield part, base
        base = BaseTurn(part[-1].turn.id, part[-1].turn.digest, part[-1].depth)


async def _find_shared_depth(
    threads: ThreadStore, head: ThreadTurn, has_turn: Callable[[TurnId], Awaitable[bool]]
) -> int:
    """Return the depth of the deepest turn of a thread that the other side has, or 0.

    Where it has a turn it has every turn above, so a few look-ups find it in any thread.
    """
    low, high = 0, head.depth
    if await has_turn(head.turn.id):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        turn = await threads.find_at_depth(head.turn.id, middle)
        assert turn is not None, "the depth is one of the thread"
        low, high = (middle, high) if await has_turn(turn) else (low, middle)
    return low


async def _is_here(threads: ThreadStore, turn: TurnId) -> bool:
    return await threads.find_stored(turn) is not None
