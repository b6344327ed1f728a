"""Tools, called: whatever happens inside becomes a result that the model can read.

A call ends after the time its tool was given. Who made it, and whether it may be made again after
a crash, is the tool's own word. It must never know the journal.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import anyio

from turntree.domain.message import ToolResult, ToolUse
from turntree.domain.prompt import ToolSpec
from turntree.ports.tools import Occasion, Toolset
from turntree.runtime.ending import first_of

CALLS_AT_ONCE_MAX = 16


@dataclass(frozen=True, slots=True)
class Calling:
    """The tools that a worker has."""

    toolsets: tuple[Toolset, ...] = ()
    at_once_max: int = CALLS_AT_ONCE_MAX
    offered: frozenset[str] | None = None
    """Those that the model was told of, where that is known: no other may be called."""

    def among(self, names: Iterable[str] | None) -> "Calling":
        """Return the same tools, of which only those may be called that a model was told of."""
        return self if names is None else replace(self, offered=frozenset(names))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What models are told of them, in a lasting order."""
        return tuple(spec for toolset in self.toolsets for spec in toolset.specs)

    def is_repeatable(self, tool: str) -> bool:
        """Say whether a call that was lost may be made again; nobody vouches for unknown tools."""
        found = self._find(tool)
        return found is not None and found[1].is_repeatable

    async def call_all(
        self,
        calls: Sequence[tuple[ToolUse, Occasion]],
        record: Callable[[ToolResult], Awaitable[None]],
    ) -> None:
        """Make calls at once and hand each result over as it arrives.

        Raises:
            TurntreeError: A result could not be recorded; the calls still under way are ended.
        """
        places = anyio.Semaphore(self.at_once_max)

        async def make(use: ToolUse, occasion: Occasion) -> None:
            async with places:
                result = await self._call(use, occasion)
            await record(result)

        try:
            async with anyio.create_task_group() as group:
                for use, occasion in calls:
                    group.start_soon(make, use, occasion)
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors

    async def _call(self, use: ToolUse, occasion: Occasion) -> ToolResult:
        found = self._find(use.tool)
        # A model may know of a tool from elsewhere, or guess: what it was not given it has not got.
        if found is None or (self.offered is not None and use.tool not in self.offered):
            names = [spec.name for spec in self.specs] if self.offered is None else self.offered
            known = ", ".join(sorted(names)) or "none"
            return ToolResult(
                use.call_id, "error", f"there is no tool {use.tool!r}; there are: {known}"
            )
        toolset, spec = found
        with anyio.move_on_after(spec.timeout_s):
            # Gathered, not caught: a tool may raise anything, and only an error of its own is ours
            # to tell the model. What ends the process passes.
            (ended,) = await asyncio.gather(toolset.call(use, occasion), return_exceptions=True)
            if isinstance(ended, ToolResult):
                return ended
            if isinstance(ended, Exception | asyncio.CancelledError):
                return ToolResult(use.call_id, "error", f"{type(ended).__name__}: {ended}")
            raise ended
        return ToolResult(use.call_id, "timeout", f"no result after {spec.timeout_s:g} seconds")

    def _find(self, tool: str) -> tuple[Toolset, ToolSpec] | None:
        for toolset in self.toolsets:
            for spec in toolset.specs:
                if spec.name == tool:
                    return toolset, spec
        return None
