"""Processes that die once and for all, at a write or at a call of a keeper.

Whatever a dead process would still do, be it in a ``finally``, is not done. Knows how the parts
that carry plans out are put together. Must never know what a plan is about.
"""

import threading
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast

from turntree.core.ref import ExtRef
from turntree.resources.driver import HasFiles, ResourceDriver, SnapshotCost, TakenSnapshot
from turntree.resources.plans.service import Plans
from turntree.resources.resource import Capability, FileChange, Liveness
from turntree.testing.fakes import Crash

Moment = Literal["before", "within", "after"]
T = TypeVar("T")


@dataclass(slots=True)
class Mortal:
    """A process that dies around its n-th deed; with n = 0 it lives."""

    name: str
    at: int = 0
    moment: Moment = "before"
    deeds: int = 0
    dead: bool = False
    died_at: str | None = None
    log: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def me(self) -> str:
        """The name of this process."""
        return self.name

    def is_running(self, name: str) -> bool:
        """Say whether a process runs: of all that ever were, this one alone."""
        return name == self.name

    async def write(self, what: str, act: Callable[[], Awaitable[T]]) -> T:
        """Write something, or die."""
        fate = self._begin(what)
        result = await act()
        self._end(what, fate)
        return result

    def call(self, what: str, act: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Ask a keeper for something, or die; ``half`` is what is done by who dies within."""
        fate = self._begin(what)
        if fate == "within" and half is not None:
            half()
            self._die(what)
        result = act()
        self._end(what, fate)
        return result

    def port(self, port: T, *writes: str) -> T:
        """Return a port some of whose methods are deeds."""
        return cast("T", _Port(port, self, writes))

    def _begin(self, what: str) -> Moment | None:
        with self._lock:
            if self.dead:
                raise Crash
            self.deeds += 1
            self.log.append(what)
            fate = self.moment if self.deeds == self.at else None
        if fate == "before":
            self._die(what)
        return fate

    def _end(self, what: str, fate: Moment | None) -> None:
        if fate is not None:
            self._die(what)
        if self.dead:
            raise Crash

    def _die(self, what: str) -> None:
        self.dead = True
        self.died_at = what
        raise Crash


class _Port:
    def __init__(self, port: Any, mortal: Mortal, writes: Collection[str]) -> None:
        self._port, self._mortal, self._writes = port, mortal, writes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._writes:
            return found

        async def write(*args: Any, **options: Any) -> Any:
            what = name
            if name == "append":
                what = f"{name} {args[0].event.kind}"
            return await self._mortal.write(what, lambda: found(*args, **options))

        return write


@dataclass(frozen=True, slots=True)
class MortalKeeper:
    """Any keeper of files, in the hands of a process that dies. See ``ports.keepers``."""

    keeper: HasFiles
    mortal: Mortal

    @property
    def kind(self) -> str:
        return self.keeper.kind

    @property
    def method(self) -> str:
        return self.keeper.method

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.keeper.capabilities

    def probe(self, place: str) -> Liveness:
        return self.keeper.probe(place)

    def measure(self, place: str) -> SnapshotCost:
        return self.keeper.measure(place)

    def snapshot(self, place: str) -> TakenSnapshot:
        return self.mortal.call("keeper snapshot", lambda: self.keeper.snapshot(place))

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        def half() -> None:
            now = self.keeper.snapshot(place).external
            paths = [
                change.path
                for change in self.keeper.compare(now, external)
                if only is None or change.path in only
            ]
            self.keeper.restore(external, place, only=paths[: (len(paths) + 1) // 2])

        return self.mortal.call(
            "keeper restore", lambda: self.keeper.restore(external, place, only=only), half
        )

    def fork(self, external: ExtRef, place: str) -> None:
        self.mortal.call("keeper fork", lambda: self.keeper.fork(external, place))

    def discard(self, place: str) -> None:
        self.mortal.call("keeper discard", lambda: self.keeper.discard(place))

    def list_entries(self, external: ExtRef) -> Any:
        return self.keeper.list_entries(external)

    def read(self, external: ExtRef, path: str) -> bytes:
        return self.keeper.read(external, path)

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        return self.keeper.compare(old, new)


def in_hands_of(plans: Plans, mortal: Mortal) -> Plans:
    """Return the same facet, carried out by a process that dies."""
    facts = mortal.port(plans.facts, "begin", "append", "commit")
    saga, find = plans.saga, plans.saga.hands.keepers

    def find_mortal(kind: str) -> ResourceDriver:
        return MortalKeeper(cast("HasFiles", find(kind)), mortal)

    hands = replace(
        saga.hands, resources=mortal.port(saga.hands.resources, "keep"), keepers=find_mortal
    )
    advice = mortal.port(saga.advice, "lease", "release")
    saga = replace(saga, facts=facts, advice=advice, hands=hands, processes=mortal)
    return replace(plans, facts=facts, saga=saga)
