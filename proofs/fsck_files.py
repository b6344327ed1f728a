"""Faults for ``proofs.fsck`` in the files that turns pin: objects are removed, others are damaged.

A workspace is kept state by state, and each state is pinned by a turn. Then objects are taken out
of the packs, or a byte of them is turned over on the disk. Must never know how fsck finds any of
it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from turntree.api import Tree
from turntree.core.message import assistant, user
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import FOLDER, TreeEntry, read_state, walk_nodes

RULE: Final = "I68"
FILES: Final = 40
STATES: Final = 4

Plant = Callable[[ObjectStore, bytes], None]


async def tell_files(tree: Tree, place: Path, seed: int) -> list[str]:
    """Let turns change a folder and pin it; return the states."""
    dice = Random(seed)
    states: list[str] = []
    resource = await tree.resources.ensure_directory(str(place))
    keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
    for round_ in range(STATES):
        for number in range(FILES):
            path = place / f"folder {number % 5}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            if round_ in {0, number % STATES}:
                path.write_bytes(f"{number} {round_}\n".encode() * 40 + dice.randbytes(200))
        taken, at = keeper.snapshot(resource.place), world.now()
        turn = (await tree.turns.record("files", [user("go")], [assistant("done")])).turn.id
        await tree.resources.pin(turn, resource, None, taken, at, at)
        states.append(taken.external.id)
    return states


def plant_files(home: Path, states: list[str], how: str, seed: int, count: int) -> list[str]:
    """Break files of the newest state and return their paths; all others stay as they are."""
    store = ObjectStore(str(home / "shadow"))
    top = read_state(store.get, bytes.fromhex(states[-1].removeprefix("sha256:")))
    files = [(path, node) for path, node in walk_nodes(store.get, top) if node.kind != FOLDER]
    chosen: list[tuple[bytes, TreeEntry]] = Random(seed).sample(files, count)
    for _, node in chosen:
        PLANTS[how](store, node.digest)
    return [path.decode() for path, _ in chosen]


def remove_object(store: ObjectStore, digest: bytes) -> None:
    """Write every pack anew without one object."""
    every = {one for pack in store.refresh().values() for one, _ in pack.objects()}
    store.rewrite(list(store.packs().values()), every - {digest})


def damage_object(store: ObjectStore, digest: bytes) -> None:
    """Turn the last byte of an object over where it lies."""
    found = store.find(digest)
    assert found is not None, "what is damaged was there"
    pack, placed = found
    with (Path(store.folder) / "packs" / pack.name).open("r+b") as file:
        file.seek(placed.offset + placed.length - 1)
        last = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([last ^ 0xFF]))


PLANTS: Final[Mapping[str, Plant]] = {"removed": remove_object, "damaged": damage_object}
