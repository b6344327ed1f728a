"""Serve the tools over standard input and output.

The words that a client sends to its model with every request are here: they are few on purpose.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Final, ParamSpec

import mcp.types as protocol
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from turntree.core.errors import TurntreeError
from turntree.memory.memory import Memory, OpenTree

P = ParamSpec("P")
INSTRUCTIONS: Final = (
    "The recorded history of this user's coding agents, word for word. Ask it before you solve"
    " something that may have been solved or decided before. Answers quote turns and cite them in"
    " brackets; give such a citation to read, fork, diff or why, and name it when you rely on it."
)

Turn = Annotated[str, Field(description="A citation such as 3f2a9c1b04de, or a session's label.")]
Skip = Annotated[int, Field(description="Results to leave out, as the last answer said.", ge=0)]
Start = Annotated[int, Field(description="Character to begin with, as the last answer said.", ge=0)]


def make_server(open_tree: OpenTree, version: str) -> MCPServer[None]:
    """Return a server whose tools open the ledger at each call."""
    server: MCPServer[None] = MCPServer(
        "turntree", instructions=INSTRUCTIONS, version=version, log_level="WARNING"
    )
    memory = Memory(open_tree)
    reads = protocol.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    adds = protocol.ToolAnnotations(
        read_only_hint=False, destructive_hint=False, open_world_hint=False
    )

    def tool(
        annotations: protocol.ToolAnnotations,
    ) -> Callable[[Callable[P, Awaitable[str]]], Callable[P, Awaitable[str]]]:
        def add(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
            # A second copy of the answer, as a document, would double what it costs.
            named = server.tool(annotations=annotations, structured_output=False)
            return named(_explaining(function))

        return add

    @tool(reads)
    async def search(
        query: Annotated[
            str,
            Field(
                description='Words, a "phrase", file:PATH, tool:NAME, in:SESSION, after:2026-11-01.'
            ),
        ],
        skip: Skip = 0,
    ) -> str:
        """Find past turns of all agents by what was asked, answered, run or printed."""
        return await memory.search(query, skip)

    @tool(reads)
    async def read(
        turn: Turn,
        near: Annotated[str, Field(description="Words to begin near.")] = "",
        start: Start = 0,
    ) -> str:
        """Read a turn: what was said, every tool call and its whole result."""
        return await memory.read(turn, near, start)

    @tool(reads)
    async def list(
        session: Annotated[str, Field(description="Its turns; empty lists all sessions.")] = "",
        skip: Skip = 0,
    ) -> str:
        """List sessions, or the turns of one; newest first."""
        return await memory.list(session, skip)

    @tool(reads)
    async def blame(
        path: Annotated[str, Field(description="A file, or FILE:LINE, or FILE:FIRST-LAST.")],
        skip: Skip = 0,
    ) -> str:
        """Find the turns that used a file, or the turn that wrote a line."""
        return await memory.blame(path, skip)

    @tool(adds)
    async def fork(
        turn: Turn, label: Annotated[str, Field(description="Name of the new session.")]
    ) -> str:
        """Begin a new session at a past turn; nothing is copied or changed."""
        return await memory.fork(turn, label)

    @tool(reads)
    async def diff(
        left: Turn,
        right: Turn,
        files: Annotated[bool, Field(description="Compare files, not words.")] = False,  # noqa: FBT002  (clients name it)
        start: Start = 0,
    ) -> str:
        """Compare the words of two turns, or the files that they left."""
        return await memory.diff(left, right, files=files, start=start)

    @tool(adds)
    async def send(
        to: Annotated[str, Field(description="A session, a turn, or an agent as @(NAME).")],
        message: str,
    ) -> str:
        """Queue a message for another session or agent; does not wait for the answer."""
        return await memory.send(to, message)

    @tool(reads)
    async def why(turn: Turn, skip: Skip = 0) -> str:
        """Show what led to a turn: the turns, forks and calls before it."""
        return await memory.why(turn, skip)

    return server


def _explaining(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    """Return a tool that answers with the reason if it fails."""

    @wraps(function)
    async def call(*args: P.args, **named: P.kwargs) -> str:
        try:
            return await function(*args, **named)
        except TurntreeError as error:
            raise ToolError(str(error)) from error

    return call
