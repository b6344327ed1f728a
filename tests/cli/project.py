"""A project that turns work on: each edits files, and pins what it found and left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.core.message_context import TouchedFile

Edit = str | bytes | None
"""What a file holds from now on; None removes it."""


@dataclass(frozen=True, slots=True)
class Project:
    """A folder, and the settings of whoever works in it."""

    folder: Path
    settings: Settings

    def write(self, files: Mapping[str, Edit]) -> None:
        """Change files by hand."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def turn(
        self,
        words: str,
        files: Mapping[str, Edit] | None = None,
        *,
        session: str = "main",
        act: Callable[[Path], None] = lambda _: None,
        late_ms: int | None = None,
    ) -> str:
        """Take a turn that changes files and pins what it found and left; return its digest."""

        async def work() -> str:
            async with open_tree(self.settings) as tree:
                return await self._turn(tree, words, files or {}, session, act, late_ms)

        return anyio.run(work)

    async def _turn(
        self,
        tree: Tree,
        words: str,
        files: Mapping[str, Edit],
        session: str,
        act: Callable[[Path], None],
        late_ms: int | None,
    ) -> str:
        await tree.sessions.get_or_create(session)
        resource = await tree.resources.ensure_directory(str(self.folder), session)
        keeper, world = tree.resources.keeper_of(resource), tree.revisions.world
        began, before = world.now(), keeper.snapshot(resource.place)
        self.write(files)
        act(self.folder)
        after = keeper.snapshot(resource.place)
        written = [TouchedFile("written", name).to_json() for name in files]
        reply = replace(assistant("done"), context={"files": list(written)})
        placed = await tree.turns.record(session, [user(words)], [reply])
        await tree.resources.pin(
            placed.turn.id, resource, before, after, began, world.now(), late_ms=late_ms
        )
        return placed.turn.digest.removeprefix("sha256:")

    def say(self, words: str, *, session: str = "main") -> TurnId:
        """Take a turn that pins nothing."""

        async def work() -> TurnId:
            async with open_tree(self.settings) as tree:
                return (await tree.turns.record(session, [user(words)], [assistant("yes")])).turn.id

        return anyio.run(work)
