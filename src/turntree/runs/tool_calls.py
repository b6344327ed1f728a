"""Calls tools; every outcome becomes a result that the model can read.

A call ends after its tool's timeout. The tool's spec says whether a call may be repeated after a
crash. This module must never know the journal.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import anyio

from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Decision, right
from turntree.core.canonical import Json, as_text
from turntree.core.errors import first_of
from turntree.core.ids import Digest
from turntree.core.message import ToolResult, ToolUse
from turntree.core.redaction import BY_FORMAT, Redactor, result_without_secrets
from turntree.core.value import value
from turntree.models.prompt import ToolSpec
from turntree.tools.toolset import (
    ToolContext,
    ToolFile,
    ToolOutcome,
    ToolQuestion,
    ToolReply,
    Toolset,
)

# A model may ask for hundreds of calls at once, each with a process or a connection.
CALLS_AT_ONCE_MAX = 16
ERROR_SIGNS_MAX = 400
"""Limit of an error's message in an event."""
ENDING_S = 1.0
"""How long a canceled call may take to end."""
TEXT_CHARS_MAX = 6000
"""Of the texts beside a file. A longer result becomes an object itself, and then the files in it
would be named by no message."""


@value
class ToolCaller:
    """Calls the tools of a worker."""

    toolsets: tuple[Toolset, ...] = ()
    at_once_max: int = CALLS_AT_ONCE_MAX
    offered: frozenset[str] | None = None
    """Names of the tools offered to the model, if known: no other may be called."""
    redactor: Redactor = BY_FORMAT
    """Removes secrets from results, before a model or the ledger gets them."""
    context: ExecutionContext | None = None
    """Who calls; None where no tool can be reached, in a replay."""
    note: Callable[[str, Decision], None] = lambda _call, _decision: None
    """Told of each credential that a call looks up."""
    store: Callable[[bytes], Awaitable[Digest]] | None = None
    """Stores the files of results; None where no tool returns any, in a replay."""

    def besides(self, own: Sequence[Toolset]) -> "ToolCaller":
        """Return a caller with a run's own tools in front, which take precedence."""
        return replace(self, toolsets=(*own, *self.toolsets)) if own else self

    def among(self, names: Iterable[str] | None) -> "ToolCaller":
        """Return a caller limited to the tools that were offered to the model."""
        return self if names is None else replace(self, offered=frozenset(names))

    def acting(self, context: ExecutionContext) -> "ToolCaller":
        """Return a caller whose tools run in a context and may do only what it permits."""
        return replace(self, context=context)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of all tools, in a stable order."""
        return tuple(spec for toolset in self.toolsets for spec in toolset.specs)

    def is_repeatable(self, tool: str) -> bool:
        """Return whether an interrupted call may be repeated; never for an unknown tool."""
        found = self._find(tool)
        return found is not None and found[1].is_repeatable

    def may_write(self, tool: str) -> bool:
        """Return whether a call may change files: not if it is refused or its tool only reads."""
        found = self._find(tool)
        return found is not None and not found[1].is_read_only and self._may_call(tool)

    def server_of(self, tool: str) -> str:
        """Return where a tool runs: the name of its toolset, or the worker itself."""
        found = self._find(tool)
        return str(getattr(found[0], "name", "worker")) if found is not None else "unknown"

    def find_spec(self, tool: str) -> ToolSpec | None:
        """Return the spec of a tool; None for an unknown one."""
        found = self._find(tool)
        return None if found is None else found[1]

    def refuse(self, use: ToolUse) -> ToolResult | None:
        """Return what a model reads that calls a tool which it may not call; None if it may."""
        # A model may guess the name of a tool or know it from elsewhere. One that was not offered
        # is reported as unknown, so that the result does not reveal what is installed.
        if self._find(use.tool) is not None and self._may_call(use.tool):
            return None
        names = [spec.name for spec in self.specs] if self.offered is None else self.offered
        known = ", ".join(sorted(names)) or "none"
        return ToolResult(
            use.call_id, "error", f"there is no tool {use.tool!r}; there are: {known}"
        )

    def explain(self, use: ToolUse, result: ToolResult) -> dict[str, Json] | None:
        """Return why a call failed, as its event records it; None for a success.

        The whole output is the result's; the message is its beginning.
        """
        if result.status == "ok":
            return None
        found = self._find(use.tool)
        code = (
            str(result.status)
            if result.status != "error"
            else "not_found"
            if found is None
            else "failed"
            if self._may_call(use.tool)
            else "denied"
        )
        message = as_text(result.output)
        return {"code": code, "message": message[:ERROR_SIGNS_MAX], "details": {"tool": use.tool}}

    def withholds(self, tool: str) -> bool:
        """Return whether a tool is installed but may not be called here."""
        return self._find(tool) is not None and not self._may_call(tool)

    async def call_all(
        self,
        calls: Sequence[tuple[ToolUse, ToolContext]],
        record: Callable[[ToolResult | ToolQuestion], Awaitable[None]],
    ) -> None:
        """Make calls concurrently, and pass each result or question to ``record`` as it arrives.

        Raises:
            TurntreeError: A result could not be recorded; the remaining calls are canceled.
        """
        slots = anyio.Semaphore(self.at_once_max)

        async def make(use: ToolUse, occasion: ToolContext) -> None:
            read: set[str] = set()
            async with slots:
                outcome = await self._call(use, occasion, read)
            if isinstance(outcome, ToolQuestion):
                await record(outcome)
                return
            result = await self._stored(outcome) if isinstance(outcome, ToolReply) else outcome
            # What an agent lists as a credential is secret, whatever its name looks like.
            redactor = self.redactor
            if self.context is not None:
                environment = self.context.environment
                redactor = redactor.knowing(environment.get(name, "") for name in read)
            await record(result_without_secrets(result, redactor))

        try:
            async with anyio.create_task_group() as group:
                for use, occasion in calls:
                    group.start_soon(make, use, occasion)
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors

    async def _stored(self, reply: ToolReply) -> ToolResult:
        """Return the result of a call with its files stored, each under its digest."""
        blocks: list[Json] = []
        room = TEXT_CHARS_MAX
        for piece in reply.pieces:
            if isinstance(piece, ToolFile):
                assert self.store is not None, "tools with files run where objects can be stored"
                file: dict[str, Json] = {"type": piece.kind, "media_type": piece.media_type}
                file |= {"object": await self.store(piece.data)}
                blocks.append(file | ({"name": piece.name} if piece.name else {}))
            elif room > 0 and piece:
                blocks.append({"type": "text", "text": piece[:room]})
                room -= len(piece)
        if room < 0:
            told = f"[{-room} more characters are not shown]"
            blocks.append({"type": "text", "text": told})
        return ToolResult(reply.call_id, reply.status, blocks)

    async def _call(self, use: ToolUse, occasion: ToolContext, read: set[str]) -> ToolOutcome:
        """Make a call, and add the credentials that it looks up to ``read``."""
        found = self._find(use.tool)
        if (refusal := self.refuse(use)) is not None or found is None:
            assert refusal is not None, "an unknown tool is refused"
            return refusal
        toolset, spec = found
        # A task copies the context in which it is created, and so do the threads it starts.
        with (
            nullcontext() if (context := self._context_of(use, read)) is None else context.entered()
        ):
            task = asyncio.ensure_future(_contained(toolset, use, occasion))
        try:
            await asyncio.wait({task}, timeout=spec.timeout_s)
        finally:
            is_late = not task.done()
            if is_late:
                task.cancel()
                # Retrieve the exception, or asyncio logs that it was never retrieved. A call that
                # ignores the cancellation is abandoned: Python cannot end it.
                task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
                with anyio.CancelScope(shield=True):
                    await asyncio.wait({task}, timeout=ENDING_S)
        if is_late:
            return ToolResult(use.call_id, "timeout", f"no result after {spec.timeout_s:g} seconds")
        if task.cancelled():
            return ToolResult(use.call_id, "error", "the tool canceled itself")
        return task.result()

    def _context_of(self, use: ToolUse, read: set[str]) -> ExecutionContext | None:
        if self.context is None:
            return None

        def note(decision: Decision) -> None:
            if decision.allowed:
                read.add(decision.right.partition(":")[2])
            self.note(use.call_id, decision)

        return replace(self.context, note=note)

    def _may_call(self, tool: str) -> bool:
        if self.offered is not None and tool not in self.offered:
            return False
        return self.context is None or self.context.decide(right("tool", tool)).allowed

    def _find(self, tool: str) -> tuple[Toolset, ToolSpec] | None:
        for toolset in self.toolsets:
            for spec in toolset.specs:
                if spec.name == tool:
                    return toolset, spec
        return None


async def _contained(toolset: Toolset, use: ToolUse, occasion: ToolContext) -> ToolOutcome:
    """Make a call. Whatever a tool raises is its result: the model reads it and continues."""
    try:
        return await toolset.call(use, occasion)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # A tool that calls ``sys.exit`` must not end the worker.
        return ToolResult(
            use.call_id, "error", f"{type(error).__name__}: {error}".removesuffix(": ")
        )
