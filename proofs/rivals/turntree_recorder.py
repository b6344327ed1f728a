"""Turntree itself, through its public door."""

from contextlib import AsyncExitStack
from typing import ClassVar

from proofs.rivals.contract import TURN_BY_TURN, Place
from proofs.workload import Exchange, record
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.ledger.recorder import Recorder

LABEL = "main"


class TurntreeRecorder:
    """A session, and the recorder that advances it."""

    distribution: ClassVar[str] = "turntree"
    forks_by: ClassVar[str] = "pointer"
    forks_max: ClassVar[int | None] = None
    cycle: ClassVar[int] = 1

    _tree: Tree
    _recorder: Recorder

    def __init__(self) -> None:
        self._open = AsyncExitStack()
        self._forks = 0

    async def open(self, place: Place) -> None:
        settings = Settings(place.folder, place.conninfo, user="proof")
        self._tree = await self._open.enter_async_context(open_tree(settings))
        self._recorder = await self._tree.recorder(LABEL)

    async def fill(self, exchanges: list[Exchange]) -> str:
        for exchange in exchanges:
            await record(self._recorder, exchange)
        return TURN_BY_TURN

    def prepare(self, exchange: Exchange) -> Exchange:
        return exchange

    async def append(self, prepared: Exchange) -> None:
        await record(self._recorder, prepared)

    async def load(self) -> int:
        return len(await self._tree.threads.read(LABEL))

    async def fork(self) -> None:
        self._forks += 1
        await self._tree.sessions.fork(LABEL, f"fork-{self._forks}")

    async def close(self) -> None:
        await self._open.aclose()
