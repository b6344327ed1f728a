"""The databases of a ledger that is spread over several, each opened when it is first needed.

Without a map of shards there is one, and everything is in it. A database that does not answer fails
the requests that need it, and no others.
"""

import asyncio
import math
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import anyio

from turntree.boot.open import Settings
from turntree.core.errors import DatabaseUnavailable, InvalidOperation, TurntreeError
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, upgrade_database
from turntree.db.shard import Shard

NO_WORKSPACE: Final = WorkspaceId("00000000-0000-0000-0000-000000000000")
"""That of a database of which no workspace is named yet."""


@value
class ShardContent:
    """The workspaces of a shard."""

    shard: Shard
    names: tuple[str, ...]
    misplaced: tuple[str, ...]
    """Those whose id or name leads to another shard; they are not served."""


@dataclass(slots=True, eq=False)
class ShardDatabases:
    """The open databases of a process, with one pool for each."""

    own: Database
    """That of the workspace that the process was started for."""
    settings: Settings
    closing: AsyncExitStack
    """Closes what was opened."""
    _opened: dict[int, Database] = field(default_factory=dict[int, Database])
    _opening: dict[int, anyio.Lock] = field(default_factory=dict[int, anyio.Lock])
    _failed: dict[int, tuple[float, str]] = field(default_factory=dict[int, tuple[float, str]])
    """When a database last did not answer, and what was said."""
    _looking: set[asyncio.Task[bool]] = field(default_factory=set[asyncio.Task[bool]])

    async def find(self, workspace: str) -> Database:
        """Return the database that a workspace is in, if it exists, by its id.

        Raises:
            DatabaseUnavailable: That database does not answer, or is another shard's.
        """
        shards = self.settings.shards
        return self.own if shards is None else await self._open(shards.find(workspace))

    async def find_named(self, name: str) -> Database:
        """Return the database that a workspace is in, if it exists, by its name.

        Raises:
            DatabaseUnavailable: That database does not answer, or is another shard's.
        """
        shards = self.settings.shards
        return self.own if shards is None else await self._open(shards.find_named(name))

    def holds(self, workspace: str, name: str) -> bool:
        """Return whether the id and the name of a workspace lead to the same database."""
        shards = self.settings.shards
        return shards is None or shards.find(workspace) == shards.find_named(name)

    async def open(self, shard: Shard) -> Database:
        """Return the database of a shard.

        Raises:
            DatabaseUnavailable: It does not answer.
            InvalidOperation: It is another shard's.
        """
        if self.settings.shard == shard:
            return self.own
        asked = time.monotonic()
        # One lock for each: one that does not answer must not hold up the others.
        async with self._opening.setdefault(shard.number, anyio.Lock()):
            if shard.number not in self._opened:
                failed, said = self._failed.get(shard.number, (-math.inf, ""))
                if failed >= asked:
                    # It did not answer while this call waited. To try for each call in turn would
                    # let a hundred calls wait for as many timeouts.
                    raise DatabaseUnavailable(said)
                try:
                    await upgrade_database(shard.database_url, shard)
                    opening = open_database(shard.database_url, NO_WORKSPACE)
                    self._opened[shard.number] = await self.closing.enter_async_context(opening)
                except DatabaseUnavailable as error:
                    self._failed[shard.number] = time.monotonic(), str(error)
                    raise
        return self._opened[shard.number]

    async def _open(self, shard: Shard) -> Database:
        try:
            return await self.open(shard)
        except InvalidOperation as error:
            # The caller did nothing wrong: only an operator can act on it.
            raise DatabaseUnavailable(str(error)) from error

    def list_open(self) -> list[tuple[int, Database]]:
        """Return the databases that were opened so far, each with the number of its shard."""
        own = 1 if self.settings.shard is None else self.settings.shard.number
        return sorted({**self._opened, own: self.own}.items())

    async def answers(self, *, within_s: float) -> bool:
        """Return whether any database answers, as soon as one does.

        One that does not answer holds up nothing: a proxy that asks for readiness waits for less
        time than a connection takes to fail.
        """
        shards = self.settings.shards
        opening = [self._own()] if shards is None else [self.open(one) for one in shards.shards]
        looks = {asyncio.create_task(_answers(one, within_s)) for one in opening}
        self._looking |= looks
        for look in looks:
            look.add_done_callback(self._looking.discard)
        while looks:
            done, looks = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            if any(look.result() for look in done):
                return True
        return False

    async def _own(self) -> Database:
        return self.own

    async def read_content(self, shard: Shard) -> ShardContent:
        """Return the workspaces of a shard.

        Raises:
            DatabaseUnavailable: It does not answer.
            InvalidOperation: It is another shard's.
        """
        return await read_content(await self.open(shard), shard)


async def _answers(opening: Awaitable[Database], within_s: float) -> bool:
    try:
        with anyio.fail_after(within_s):
            await (await opening).seen_by(EVERYTHING).list_workspaces()
    except (TurntreeError, TimeoutError):
        return False
    return True


async def read_content(database: Database, shard: Shard) -> ShardContent:
    """Return the workspaces of a shard whose database is open."""
    rows = await database.seen_by(EVERYTHING).list_workspaces()
    return ShardContent(
        shard,
        tuple(name for id, name in rows if shard.holds(id, name)),
        tuple(name for id, name in rows if not shard.holds(id, name)),
    )
