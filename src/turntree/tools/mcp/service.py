"""``tree.connectors``: what servers offer, and what of it a person accepted."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.program import Program
from turntree.core.value import Facet, value
from turntree.programs.service import Programs
from turntree.tools.mcp.connections import ServerConnections
from turntree.tools.mcp.description import ListedTool, ToolDescription, accepted_of, compare
from turntree.tools.mcp.reach import ServerReach


@value
class Connectors(Facet):
    """Servers of tools, reached by the Model Context Protocol."""

    programs: Programs
    reach: Callable[[], ServerReach]

    async def list_tools(self, connector: str) -> list[ListedTool]:
        """Return the tools of a connector's server, each compared with what was accepted.

        The server is asked now, so its command may be started.

        Raises:
            NotFound: There is no such connector.
            InvalidOperation: The server cannot be reached, or its command may not run here.
            PermissionDenied: This principal may not configure the connector.
        """
        async with self._asked(connector) as (_, program, told):
            return compare(program, [*told.values()])

    async def accept(self, connector: str, tools: Sequence[str] = ()) -> list[ListedTool]:
        """Accept tools as the server describes them now: those named, or all; return them all.

        Raises:
            NotFound: There is no such connector, or its server has no such tool.
            InvalidOperation: The server cannot be reached, or a tool is excluded by the config.
            PermissionDenied: This principal may not configure the connector.
        """
        async with self._asked(connector) as (connections, program, live):
            accepted = _accept(program, live, tools)
            config = {**program.config, "accepted": accepted}
            changed = await self.programs.rewrite(program, config)
            await connections.note_changes(self.programs, changed, live)
            return compare(changed, [*live.values()])

    @asynccontextmanager
    async def _asked(
        self, connector: str
    ) -> AsyncGenerator[tuple[ServerConnections, Program, Mapping[str, ToolDescription]]]:
        """Yield a connector, and how its server describes its tools now."""
        program = await self.programs.get(connector)
        if program.kind != "connector":
            raise NotFound(
                f"{program.address} is not a connector",
                hint=Hint("program.list_kind", {"kind": "connector"}),
            )
        await self.programs.check_right(program, "configure")
        connections = ServerConnections(self.reach())
        try:
            server = await connections.get(self.programs, program)
            yield connections, program, await server.connection.list_tools()
        finally:
            await connections.aclose()


def _accept(
    program: Program, live: Mapping[str, ToolDescription], tools: Sequence[str]
) -> dict[str, Json]:
    """Return the accepted tools of a config, with those named as they are described now."""
    allowed = program.config.get("tools")
    for name in tools:
        if name not in live:
            hint = Hint("connector.tools", {"connector": program.name})
            raise NotFound(f"the server of {program.address} has no tool {name!r}", hint=hint)
        if isinstance(allowed, list) and name not in allowed:
            raise InvalidOperation(f"{name!r} is not among the tools of {program.address}")
    chosen = tools or [name for name in live if not isinstance(allowed, list) or name in allowed]
    kept: dict[str, Json] = {
        name: dict(tool)
        for name, tool in accepted_of(program.config).items()
        if tools or name in live
    }
    return kept | {name: live[name].to_accepted() for name in chosen}
