"""The connections of a worker: one to each server, kept from call to call.

Starting a server takes seconds, a call milliseconds. A connection that was lost is opened again
with the next call. What a server tells between calls goes to the connector's stream.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import Conflict, DatabaseUnavailable, InvalidOperation, TurntreeError
from turntree.core.program import Program
from turntree.programs.changes import AddNotice
from turntree.programs.service import Programs
from turntree.tools.mcp.connection import ConnectionLostError, ServerConnection
from turntree.tools.mcp.description import ToolDescription, accepted_of, changed_of
from turntree.tools.mcp.reach import ServerReach

_REACHED_BY: Final = ("command", "url", "headers", "env", "sandbox", "protocol", "watch")
HIDDEN: Final = "•••"
_SECRET_CHARS_MIN: Final = 4


@dataclass(slots=True)
class ToolServer:
    """A server that this process is connected to."""

    connection: ServerConnection
    secrets: frozenset[str]

    def hide(self, text: str) -> str:
        """Return a text without the secrets that the server was given."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            if len(secret) >= _SECRET_CHARS_MIN:
                text = text.replace(secret, HIDDEN)
        return text


@dataclass(slots=True)
class ServerConnections:
    """The servers that this process is connected to."""

    reach: ServerReach
    _open: dict[tuple[str, str, str], ToolServer] = field(
        default_factory=dict[tuple[str, str, str], ToolServer]
    )
    _opening: dict[tuple[str, str, str], asyncio.Lock] = field(
        default_factory=dict[tuple[str, str, str], asyncio.Lock]
    )
    _telling: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    async def get(self, programs: Programs, program: Program) -> ToolServer:
        """Return the open connection of a connector.

        Raises:
            InvalidOperation: The server cannot be reached, or its command may not run here.
            PermissionDenied: It needs a secret that may not be sent there.
            NotFound: A secret does not exist.
        """
        parts: dict[str, Json] = {name: program.config.get(name) for name in _REACHED_BY}
        key = (program.id, program.version.by, digest_bytes(canonical(parts)))
        async with self._opening.setdefault(key, asyncio.Lock()):
            server = self._open.get(key)
            if server is not None and server.connection.is_open:
                return server
            if server is not None:
                await server.connection.close()
                del self._open[key]
            is_own = "command" in program.config and await programs.is_own(program)
            address = self.reach.locate(program, is_own=is_own)
            watch = program.config.get("watch")

            async def hear(what: str, told: Mapping[str, Json]) -> None:
                # Not waited for: the connection must go on while the ledger is written.
                task = asyncio.create_task(self._record(programs, program, what, told))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

            def lost(why: str) -> None:
                connection.note_lost(why)

            connection = ServerConnection(
                address.streams(lost),
                hear,
                program.config.get("protocol") == "handshake",
                tuple(map(str, watch)) if isinstance(watch, list) else (),
            )
            server = ToolServer(connection, address.secrets)
            is_listed = False
            try:
                await connection.open()
                told = await connection.list_tools()
                is_listed = True
            except (InvalidOperation, ConnectionLostError) as error:
                raise InvalidOperation(
                    f"{program.address} cannot be reached {address.place}: "
                    f"{server.hide(str(error))}",
                    hint=address.hint,
                ) from error
            finally:
                if not is_listed:
                    await connection.close()
            self._open[key] = server
            await self.note_changes(programs, program, told)
            return server

    async def note_changes(
        self, programs: Programs, program: Program, told: Mapping[str, ToolDescription]
    ) -> None:
        """Record which accepted tools a server describes otherwise now, and tell the owner.

        They are withheld until a person accepts them again.
        """
        accepted = accepted_of(program.config)
        changed: dict[str, Json] = {
            name: told[name].digest
            for name, tool in accepted.items()
            if name in told and told[name].digest != tool["digest"]
        }
        program = await programs.get(program.id)
        if changed == changed_of(program):
            return
        notice = None
        if changed:
            names = ", ".join(sorted(changed))
            person = program.owner
            text = (
                f"{program.address} now describes {names} differently from what you accepted;"
                f" agents no longer get what changed. Compare with: connector tools {program.name}"
            )
            refs: dict[str, Json] = {"program": program.name, "connector": program.name}
            key = f"connector:{program.id}:{digest_bytes(canonical(changed))}"
            notice = AddNotice(person, "question", text, refs, key)
        try:
            # Null removes what is described as accepted again.
            before = {name: None for name in changed_of(program) if name not in changed}
            await programs.tell(
                program.id,
                "connector.tools_changed",
                right="invoke",
                sets={"changed": {**changed} if changed else None},
                more={"tools": [*sorted({*changed, *before})]},
                notice=notice,
            )
        except Conflict:
            # Another worker saw the same.
            return

    async def _record(
        self, programs: Programs, program: Program, what: str, told: Mapping[str, Json]
    ) -> None:
        kinds = {"resources": "mcp.resource_list_changed", "resource": "mcp.resource_updated"}
        if what not in kinds:
            return
        more: dict[str, Json] = {"server": f"mcp:{program.name}", **told}
        try:
            await programs.tell(program.id, kinds[what], right="invoke", more=more)
        except (Conflict, DatabaseUnavailable, TurntreeError):
            # A notification is not repeated, and costs no run anything.
            return

    async def aclose(self) -> None:
        """Close all connections."""
        servers = [*self._open.values()]
        self._open.clear()
        await asyncio.gather(*(one.connection.close() for one in servers))
        for task in self._telling:
            task.cancel()
