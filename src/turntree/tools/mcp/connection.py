"""One connection to a server, held open by a task of its own.

The library has to enter and leave a connection in one task, and calls come from many. Nothing of a
caller's context reaches the connection: neither its credentials nor its permissions. The library is
imported with the first connection, because it takes as long as most commands.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, cast

import anyio
from anyio.abc import Process

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.tools.mcp.description import (
    DESCRIPTION_BYTES_MAX,
    TOOLS_MAX,
    ToolDescription,
    read_description,
)
from turntree.tools.mcp.question import ServerQuestion

CONNECT_S: Final = 60.0
"""How long a server may take to start and to answer for the first time."""
LISTING_MAX_AGE_S: Final = 60.0
"""After this time a server is asked again how it describes its tools."""
LINE_BYTES_MAX: Final = 64_000_000
STDERR_BYTES_MAX: Final = 2000
"""Kept of what a command wrote to its standard error last."""
ENDED_S: Final = 1.0
"""How long a command that closed its output may take to end."""
SAID_CHARS_MAX: Final = 400
_LOST_CODES: Final = (-32000, -32001)
"""The library's codes for a closed connection and a request that timed out."""

Streams = Any
OpenStreams = Callable[[], AbstractAsyncContextManager[Streams]]
Lost = Callable[[str], None]
"""Told why a server's process no longer answers."""
Hear = Callable[[str, Mapping[str, Json]], Awaitable[None]]
"""Told of a notification: ``tools``, ``resources`` or ``resource`` with its ``uri``."""


class ConnectionLostError(Exception):
    """The connection ended during a call, and it is not known whether the call was made."""


class RefusedStateError(Exception):
    """The server no longer accepts the state of a call that asked a question."""


@dataclass(slots=True)
class ServerAnswer:
    """What a server answered to a call: a result, or questions with its state."""

    result: Mapping[str, Any] | None = None
    questions: Mapping[str, ServerQuestion] = field(default_factory=dict[str, ServerQuestion])
    """By the keys that the server gave them."""
    request_state: str | None = None
    refused: str | None = None
    """What the server asked for that no person can answer."""


@dataclass(slots=True)
class ServerConnection:
    """A connection to a server."""

    open_streams: OpenStreams
    hear: Hear
    is_handshake: bool = False
    watch: tuple[str, ...] = ()
    tools: dict[str, ToolDescription] = field(default_factory=dict[str, ToolDescription])
    server_name: str = ""
    protocol: str = ""
    is_open: bool = False
    why_lost: str = ""
    """Why the server's process no longer answers, as far as it is known."""
    _session: Any = None
    _task: "asyncio.Task[None] | None" = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _listed_at: float = float("-inf")
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answers: Mapping[str, Json] | None = None
    """Answers to the questions of the call that is made now, in the older protocol."""
    _asked: "ServerQuestion | None" = None

    @property
    def is_modern(self) -> bool:
        """Whether a question comes as the answer to its call, and not while the call runs."""
        return self.protocol >= "2026"

    async def open(self) -> None:
        """Connect.

        Raises:
            InvalidOperation: The server cannot be reached, or does not speak the protocol.
        """
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # An empty context: what a server starts with must not depend on who calls first.
        self._task = asyncio.create_task(self._hold(ready), context=Context())
        try:
            async with asyncio.timeout(CONNECT_S):
                await ready
        except TimeoutError as error:
            await self.close()
            raise InvalidOperation(f"no answer within {CONNECT_S:g} seconds") from error

    async def close(self) -> None:
        """Disconnect, and end a command that was started."""
        self._closing.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=10.0)
            if not done:
                self._task.cancel()

    def note_lost(self, why: str) -> None:
        """Take note that the server's process no longer answers."""
        self.is_open, self.why_lost = False, why

    async def list_tools(self, *, anew: bool = False) -> Mapping[str, ToolDescription]:
        """Return how the server describes its tools, at most a minute ago.

        Raises:
            ConnectionLostError: The connection ended.
        """
        from mcp_types import PaginatedRequestParams  # noqa: PLC0415 - loaded with a connection

        async with self._listing:
            if not anew and monotonic() - self._listed_at < LISTING_MAX_AGE_S:
                return self.tools
            told: dict[str, ToolDescription] = {}
            cursor = None
            while True:
                params = PaginatedRequestParams(cursor=cursor)
                page = await self._ask(self._session.list_tools(params=params))
                for one in page.tools:
                    document = one.model_dump(mode="json", by_alias=True, exclude_none=True)
                    if len(str(document)) <= DESCRIPTION_BYTES_MAX and len(told) < TOOLS_MAX:
                        told[one.name] = read_description(document)
                cursor = page.next_cursor
                if cursor is None or len(told) >= TOOLS_MAX:
                    break
            self.tools, self._listed_at = told, monotonic()
            return told

    async def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        answers: Mapping[str, Json],
        *,
        responses: Mapping[str, Json] | None = None,
        request_state: str | None = None,
    ) -> ServerAnswer:
        """Call a tool.

        ``answers`` are by the digests of their questions; ``responses`` are the same by the keys
        that the server gave them, with its state.

        Raises:
            ConnectionLostError: The connection ended; the call may have been made.
            RefusedStateError: The server does not accept the state.
            InvalidOperation: The server refused the call.
        """
        if self.is_modern:
            return await self._call(tool, args, responses, request_state)
        # In the older protocol a question does not say which call it belongs to.
        async with self._one_by_one:
            self._answers, self._asked = answers, None
            try:
                answer = await self._call(tool, args, None, None)
            finally:
                asked, self._answers, self._asked = self._asked, None, None
            return answer if asked is None else ServerAnswer(questions={"question": asked})

    async def _call(
        self,
        tool: str,
        args: Mapping[str, Any],
        responses: Mapping[str, Json] | None,
        request_state: str | None,
    ) -> ServerAnswer:
        from mcp_types import ElicitResult  # noqa: PLC0415 - loaded with a connection

        given = (
            None
            if responses is None
            else {key: ElicitResult.model_validate(one) for key, one in responses.items()}
        )
        try:
            result = await self._ask(
                self._session.call_tool(
                    tool,
                    dict(args),
                    input_responses=given,
                    request_state=request_state,
                    allow_input_required=True,
                )
            )
        except InvalidOperation as error:
            if request_state is not None and "state" in str(error).lower():
                raise RefusedStateError(str(error)) from error
            raise
        document: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        if document.get("resultType") != "input_required":
            return ServerAnswer(document)
        questions: dict[str, ServerQuestion] = {}
        requests: Mapping[str, Any] = document.get("inputRequests") or {}
        for key, request in requests.items():
            if request.get("method") != "elicitation/create":
                return ServerAnswer(refused=str(request.get("method")))
            questions[key] = _question(request.get("params") or {})
        return ServerAnswer(questions=questions, request_state=document.get("requestState"))

    async def _ask(self, request: Awaitable[Any]) -> Any:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - loaded with a connection

        try:
            return await request
        except MCPError as error:
            text = str(error.error.message)
            if error.error.code in _LOST_CODES or not self.is_open or _is_lost(text):
                self.is_open = False
                raise ConnectionLostError(text) from error
            raise InvalidOperation(text) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self.is_open = False
            raise ConnectionLostError("the connection was closed") from error
        except (RuntimeError, ValueError) as error:
            # The library found that a result does not fit its own schema.
            raise InvalidOperation(str(error)) from error

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        try:
            from mcp import Client  # noqa: PLC0415 - takes as long as most commands
            from mcp_types import Implementation  # noqa: PLC0415

            async with Client(
                self._watched(),
                mode="legacy" if self.is_handshake else "auto",
                elicitation_callback=self._elicit,
                message_handler=self._notified,
                client_info=Implementation(name="turntree", version="1"),
                cache=None,
            ) as client:
                self._session, self.is_open = client.session, True
                self.protocol = client.protocol_version
                info = client.server_info
                self.server_name = "" if info is None else info.name
                async with anyio.create_task_group() as group:
                    if self.watch or self.is_modern:
                        group.start_soon(self._follow, client)
                    if not ready.done():
                        ready.set_result(None)
                    await self._closing.wait()
                    group.cancel_scope.cancel()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Any error of the library or of a server's process ends this connection, no other.
            if not ready.done():
                ready.set_exception(InvalidOperation(self.why_lost or _first_line(error)))
        finally:
            self.is_open = False
            if not ready.done():
                why = self.why_lost or "the connection was closed"
                ready.set_exception(InvalidOperation(why))

    @asynccontextmanager
    async def _watched(self) -> AsyncGenerator[Streams]:
        async with self.open_streams() as streams:
            yield streams

    async def _follow(self, client: Any) -> None:
        """Hear of changes: of the tools, of the list of resources, of the watched ones."""
        from mcp.client.subscriptions import (  # noqa: PLC0415
            ResourcesListChanged,
            ResourceUpdated,
            ToolsListChanged,
        )

        with suppress(Exception):
            if not self.is_modern:
                for uri in self.watch:
                    await client.session.subscribe_resource(uri)
                return
            async with client.listen(
                tools_list_changed=True,
                resources_list_changed=True,
                resource_subscriptions=list(self.watch) or None,
            ) as events:
                async for event in events:
                    match event:
                        case ToolsListChanged():
                            await self._heard("tools", {})
                        case ResourcesListChanged():
                            await self._heard("resources", {})
                        case ResourceUpdated(uri=uri):
                            await self._heard("resource", {"uri": str(uri)})
                        case _:
                            pass

    async def _notified(self, message: Any) -> None:
        """Take a notification of the older protocol."""
        match getattr(message, "method", None):
            case "notifications/tools/list_changed":
                await self._heard("tools", {})
            case "notifications/resources/list_changed":
                await self._heard("resources", {})
            case "notifications/resources/updated":
                await self._heard("resource", {"uri": str(message.params.uri)})
            case _:
                pass

    async def _heard(self, what: str, told: Mapping[str, Json]) -> None:
        if what == "tools":
            self._listed_at = float("-inf")
        await self.hear(what, told)

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Answer a question that comes during a call, if a person answered it before."""
        from mcp_types import ElicitResult  # noqa: PLC0415

        del context
        question = _question(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        answer = (self._answers or {}).get(question.digest)
        if answer is None:
            self._asked = self._asked or question
            return ElicitResult(action="cancel")
        return ElicitResult.model_validate(answer)


def _question(params: Mapping[str, Any]) -> ServerQuestion:
    schema = params.get("requestedSchema")
    url = params.get("url")
    return ServerQuestion(
        str(params.get("message") or ""),
        dict(cast("Mapping[str, Json]", schema)) if isinstance(schema, Mapping) else None,
        None if url is None else str(url),
    )


def _is_lost(text: str) -> bool:
    return "terminated" in text.lower() or "connection closed" in text.lower()


def _first_line(error: BaseException) -> str:
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    return (str(inner).strip() or type(inner).__name__).splitlines()[0][:SAID_CHARS_MAX]


@asynccontextmanager
async def process_streams(process: Process, lost: Lost) -> AsyncGenerator[Streams]:
    """Yield the streams of a process that reads and writes one JSON document a line.

    ``lost`` is called when its output ends.
    """
    from mcp.shared.message import SessionMessage  # noqa: PLC0415
    from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)
    complaint, drained = bytearray(), anyio.Event()

    async def receive() -> None:
        buffer = b""
        assert process.stdout is not None, "it was started with pipes"
        async with incoming:
            with suppress(
                anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError
            ):
                while len(buffer) <= LINE_BYTES_MAX:
                    buffer += await process.stdout.receive()
                    *lines, buffer = buffer.split(b"\n")
                    for line in lines:
                        if not line.strip():
                            continue
                        try:
                            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        except ValueError as error:
                            await incoming.send(error)
                        else:
                            await incoming.send(SessionMessage(message))
            # Before the stream ends, so that the reader of its end finds the reason.
            with anyio.move_on_after(ENDED_S):
                await drained.wait()
                await process.wait()
            lost(_why_ended(process.returncode, bytes(complaint)))

    async def send() -> None:
        assert process.stdin is not None, "it was started with pipes"
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            async with outgoing:
                async for message in outgoing:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(text.encode() + b"\n")

    async def drain() -> None:
        assert process.stderr is not None, "it was started with pipes"
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, OSError):
            while True:
                complaint.extend(await process.stderr.receive())
                del complaint[:-STDERR_BYTES_MAX]
        drained.set()

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        group.start_soon(drain)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            group.cancel_scope.cancel()


def _why_ended(status: int | None, complaint: bytes) -> str:
    """Return why a command no longer answers; the last line of its errors usually says it."""
    lines = complaint.decode(errors="replace").strip().splitlines()
    told = f": {lines[-1].strip()[:SAID_CHARS_MAX]}" if lines else ""
    if status is None:
        return f"its command closed its output{told}"
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"its command ended {how}{told}"
