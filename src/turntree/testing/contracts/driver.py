"""The contract of resource drivers, as checks that authors can run on their own resources.

    from turntree.testing.contracts.driver import check_keeper
    check_keeper(MyKeeper(home), MyScene(folder))

A *fixture* creates and changes resources of the driver's kind; ``driver_fixtures`` has those for
folders and files. A failed check raises ``AssertionError`` and says which promise was broken. A
driver must refuse what it cannot do, and is not checked for it. Needs a system that can fork.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Protocol, TypeGuard, cast

from turntree.core.errors import InvalidOperation, NotFound, TurntreeError, Unsupported
from turntree.core.ref import ExtRef
from turntree.resources.driver import HasFiles, ResourceDriver, TakenSnapshot
from turntree.resources.resource import CAPABILITIES, FileChange
from turntree.testing.crash_points import CRASHES_MAX, dies_before

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_UNKNOWN = "sha256:" + "0" * 64


class DriverFixture(Protocol):
    """Resources of one kind, with contents that a snapshot holds."""

    def free_place(self) -> str:
        """Return an unused location, another one each time."""
        ...

    def make(self) -> str:
        """Create a resource with contents and return its location."""
        ...

    def change(self, place: str, step: int) -> None:
        """Change a resource; each step leads to another state."""
        ...

    def describe(self, place: str) -> object:
        """Return what a snapshot should hold of a location, None if nothing exists there.

        A resource made of paths that change one by one is described as a mapping of them.
        """
        ...


def check_keeper(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check every promise."""
    assert keeper.kind, "a keeper says for which kind it is"
    assert re.fullmatch(r"[\w-]+/\d+", keeper.method), "a method has a name and a version"
    assert keeper.capabilities <= set(CAPABILITIES), "capabilities are the known ones"
    check_unsupported(keeper, scene)
    if "snapshot" not in keeper.capabilities:
        return
    check_snapshot(keeper, scene)
    if "restore" in keeper.capabilities:
        check_restore(keeper, scene)
    if "fork" in keeper.capabilities:
        check_fork(keeper, scene)
    if looks_into(keeper):
        check_entries(keeper, scene)
    check_crashes(keeper, scene)


def looks_into(keeper: ResourceDriver) -> TypeGuard[HasFiles]:
    """Whether a driver's snapshots are made of files that can be listed."""
    return all(hasattr(keeper, name) for name in ("list_entries", "read", "compare"))


def check_unsupported(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check that unsupported operations are refused and change nothing."""
    place = scene.make()
    before = scene.describe(place)
    state = ExtRef("unknown", _UNKNOWN)
    attempts: dict[str, Callable[[], object]] = {
        "snapshot": lambda: keeper.snapshot(place),
        "restore": lambda: keeper.restore(state, place),
        "fork": lambda: keeper.fork(state, scene.free_place()),
    }
    for capability, attempt in attempts.items():
        if capability not in keeper.capabilities:
            with _refused(Unsupported, f"what has no {capability} says so"):
                attempt()
    assert scene.describe(place) == before, "what is unsupported changes nothing"


def check_snapshot(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check that a snapshot's id is the same for the same state, and different otherwise."""
    nowhere, place = scene.free_place(), scene.make()
    assert keeper.probe(nowhere) == "dead", "where nothing is, nothing lives"
    with _refused(NotFound, "where nothing is, nothing can be kept"):
        keeper.snapshot(nowhere)
    with _refused(NotFound, "where nothing is, nothing can be measured"):
        keeper.measure(nowhere)
    assert keeper.probe(place) == "alive", "what was made is there"
    before = scene.describe(place)
    cost = keeper.measure(place)
    first = keeper.snapshot(place)
    assert _DIGEST.fullmatch(first.external.id), "a state ends in the sha256 of what it names"
    assert (first.size, first.files) == (cost.size, cost.files), "measured as it was taken"
    again = keeper.snapshot(place)
    assert again.external == first.external, "an unchanged place is in the same state"
    assert again.stored == 0, "an unchanged place is not kept twice"
    scene.change(place, 1)
    assert scene.describe(place) != before, "the scene changes what it is asked to change"
    assert keeper.snapshot(place).external != first.external, "another state has another name"
    with _refused(NotFound, "where nothing is, nothing can be kept"):
        keeper.snapshot(nowhere)


def check_restore(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check that a snapshot restores its state, however often."""
    place = scene.make()
    states: list[tuple[TakenSnapshot, object]] = []
    for step in range(4):
        scene.change(place, step)
        states.append((keeper.snapshot(place), scene.describe(place)))
    for taken, described in (*reversed(states), *states):
        keeper.restore(taken.external, place)
        assert scene.describe(place) == described, "a state comes back as it was"
        assert keeper.snapshot(place).external == taken.external, "and is the same state"
        assert keeper.restore(taken.external, place) == [], "asked again, nothing has to change"
    before = scene.describe(place)
    with _refused(NotFound, "an unknown snapshot is not found"):
        keeper.restore(ExtRef(states[0][0].external.kind, _UNKNOWN), place)
    assert keeper.restore(states[0][0].external, place, only=()) == [], "no path, no change"
    assert scene.describe(place) == before, "what is not found changes nothing"


def check_fork(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check that a fork is a resource of its own, created and removed as a whole."""
    place, new = scene.make(), scene.free_place()
    taken, described = keeper.snapshot(place), scene.describe(place)
    keeper.fork(taken.external, new)
    assert scene.describe(new) == described, "a fork begins in the state it was made from"
    with _refused(InvalidOperation, "where something is, nothing is forked"):
        keeper.fork(taken.external, new)
    assert scene.describe(new) == described, "what is refused changes nothing"
    scene.change(new, 1)
    assert scene.describe(place) == described, "what is done in a fork stays there"
    with _refused(NotFound, "an unknown snapshot is not found"):
        keeper.fork(ExtRef(taken.external.kind, _UNKNOWN), scene.free_place())
    keeper.discard(new)
    assert scene.describe(new) is None, "what is discarded is gone"
    keeper.discard(new)
    with _refused(InvalidOperation, "what fork did not make is not discarded"):
        keeper.discard(place)
    assert scene.describe(place) == described, "and stays as it is"


def check_entries(keeper: HasFiles, scene: DriverFixture) -> None:
    """Check that entries, bytes and changes agree."""
    place = scene.make()
    old = keeper.snapshot(place)
    scene.change(place, 1)
    new = keeper.snapshot(place)
    entries = list(keeper.list_entries(new.external))
    order = [entry.path.encode(errors="surrogateescape") for entry in entries]
    assert order == sorted(set(order)), "entries come in the order of paths, each once"
    assert sum(entry.size for entry in entries) == new.size, "sizes add up"
    assert sum(entry.kind != "directory" for entry in entries) == new.files, "files add up"
    for entry in entries:
        if entry.kind != "directory":
            assert len(keeper.read(new.external, entry.path)) == entry.size, "bytes are there"
    with _refused(NotFound, "a path that is not there is not found"):
        keeper.read(new.external, "no/such/path")
    there, back = (
        keeper.compare(old.external, new.external),
        keeper.compare(new.external, old.external),
    )
    assert there, "two states that differ have changes"
    assert [(one.path, one.old, one.new) for one in back] == [
        (one.path, one.new, one.old) for one in there
    ], "changes read backwards are the way back"
    assert keeper.compare(old.external, old.external) == [], "a state does not differ from itself"
    assert [one.new for one in keeper.compare(None, new.external)] == entries, "all is new"
    assert {one.kind for one in keeper.compare(new.external, None)} <= {"removed"}
    if "restore" in keeper.capabilities:
        _check_some_paths(keeper, place, old.external, there)


def _check_some_paths(
    keeper: HasFiles, place: str, state: ExtRef, changes: list[FileChange]
) -> None:
    """Check that a restore of some paths changes only those."""
    chosen = {change.path for change in changes if change.old is not None}
    chosen = set(sorted(chosen)[:1])
    before = keeper.snapshot(place)
    keeper.restore(state, place, only=chosen)
    moved = {one.path for one in keeper.compare(before.external, keeper.snapshot(place).external)}
    assert moved <= chosen, "paths that were not named stay as they are"


def check_crashes(keeper: ResourceDriver, scene: DriverFixture) -> None:
    """Check that a crash between two writes leaves old or new, and a retry completes it."""
    place = scene.make()
    first, old = keeper.snapshot(place), scene.describe(place)
    second, new = first, old
    died, step = True, 0
    while died:
        assert step < CRASHES_MAX, "the work ends after some number of writes"
        scene.change(place, step)
        new = scene.describe(place)
        died = dies_before(step, lambda: keeper.snapshot(place))
        assert scene.describe(place) == new, "taking a snapshot changes nothing"
        second = keeper.snapshot(place)
        step += 1
    if "restore" in keeper.capabilities:
        for _ in _crashes(lambda: keeper.restore(first.external, place)):
            _assert_each_is_old_or_new(scene.describe(place), new, old)
            keeper.restore(first.external, place)
            assert scene.describe(place) == old, "asked again, the rest follows"
            keeper.restore(second.external, place)
    if "fork" in keeper.capabilities:
        _check_fork_crashes(keeper, scene, first.external, old)


def _check_fork_crashes(
    keeper: ResourceDriver, scene: DriverFixture, state: ExtRef, described: object
) -> None:
    place = scene.free_place()
    for _ in _crashes(lambda: keeper.fork(state, place)):
        assert scene.describe(place) in (None, described), "a fork is whole or not there"
        if scene.describe(place) is None:
            keeper.fork(state, place)
        assert scene.describe(place) == described, "asked again, it is whole"
        keeper.discard(place)
        assert scene.describe(place) is None, "and can be discarded"
    keeper.discard(place)
    keeper.fork(state, place)
    for _ in _crashes(lambda: keeper.discard(place)):
        assert scene.describe(place) in (None, described), "it goes as a whole"
        keeper.discard(place)
        assert scene.describe(place) is None, "asked again, it is gone"
        keeper.fork(state, place)
    keeper.discard(place)


def _crashes(work: Callable[[], object]) -> Iterator[int]:
    """Crash before the first write, the second, and so on, until the work completes."""
    for step in count():
        assert step < CRASHES_MAX, "the work ends after some number of writes"
        if not dies_before(step, work):
            return
        yield step


def _assert_each_is_old_or_new(now: object, before: object, wanted: object) -> None:
    if not isinstance(now, Mapping):
        assert now in (before, wanted), "a place that is one thing changes at once"
        return
    is_now = cast("Mapping[object, object]", now)
    was = cast("Mapping[object, object]", before)
    will = cast("Mapping[object, object]", wanted)
    for path in {*is_now, *was, *will}:
        found = is_now.get(path)
        assert found in (was.get(path), will.get(path), None), f"{path} is a mixture"


@contextmanager
def _refused(kind: type[TurntreeError], promise: str) -> Generator[None, None, None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(promise)
