"""How a connector's server is reached: its address or command, its secrets, and what it may reach.

The machine's user decides what runs here. A command starts only for a connector that this user
alone has written, inside a sandbox profile of this machine; outside of one only if the user's own
settings name the connector, which nothing in the ledger can do. A server of another author is
reached at public addresses, and gets only secrets that the user allowed for its host.
"""

import shlex
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from subprocess import PIPE
from typing import Any, Final

import anyio
import httpx2
from anyio.abc import Process

from turntree.auth.execution_context import ExecutionContext
from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, PermissionDenied
from turntree.core.program import Program
from turntree.core.secret_refs import NAMED, SecretHosts, check_secret, is_public_only
from turntree.core.value import value
from turntree.sandbox.code import CommandLimits, CommandView
from turntree.sandbox.sandbox import Sandbox
from turntree.system.public_addresses import PublicTransport
from turntree.tools.mcp.connection import Lost, OpenStreams, Streams, process_streams

CONNECT_S: Final = 10.0
RETRY_S: Final = 5.0
"""How long a refused connection is tried again: nothing was sent, and servers restart."""
RETRY_PAUSE_S: Final = 0.1
ENDING_S: Final = 2.0
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_INHERITED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR")

FindView = Callable[[str | None], tuple[CommandView, CommandLimits]]
"""Returns what a sandbox profile of this machine allows; raises if it has none of that name."""


@value
class ToolServerAddress:
    """How to open the streams of a server, and the secrets that were filled in."""

    open_streams: Callable[[Lost], AbstractAsyncContextManager[Streams]]
    """Takes what is told when the server's process ends."""
    secrets: frozenset[str]
    place: str
    """Where the server is, as errors say it."""
    hint: Hint | None = None
    """What may help if it cannot be reached there."""

    def streams(self, lost: Lost) -> OpenStreams:
        """Return what opens the streams."""
        return lambda: self.open_streams(lost)


@value
class ServerReach:
    """What this machine's user allows connectors."""

    context: ExecutionContext
    """The context whose credentials are sent."""
    secret_hosts: SecretHosts
    find_view: FindView
    find_sandbox: Callable[[], Sandbox]
    unsandboxed: frozenset[str] = frozenset()
    """Names of connectors whose commands the user lets run outside of every sandbox."""

    def locate(self, program: Program, *, is_own: bool) -> ToolServerAddress:
        """Return how to reach a connector's server.

        Raises:
            InvalidOperation: Its command may not run here, or a secret would travel unencrypted.
            PermissionDenied: It needs a secret that may not be sent there.
            NotFound: A secret does not exist.
        """
        filled = _Secrets(self, program)
        config = program.config
        if (url := config.get("url")) is not None:
            headers = {
                name: filled.text(str(text)) for name, text in _texts(config, "headers").items()
            }
            address = str(url)
            parts = httpx2.URL(address)
            if filled.used and parts.scheme != "https" and parts.host not in _LOOPBACK:
                raise InvalidOperation(f"a secret is sent by https, not to {address!r}")
            return ToolServerAddress(
                lambda _: self._http(program, address, headers),
                frozenset(filled.used),
                f"at {address}",
            )
        if not is_own:
            raise PermissionDenied(
                f"{program.address} starts a command, and others than"
                f" {self.context.principal} wrote its config too"
            )
        env = {name: filled.text(str(text)) for name, text in _texts(config, "env").items()}
        words = shlex.split(str(config["command"]))
        if not words:
            raise InvalidOperation(f"{program.address} has an empty command")
        profile = config.get("sandbox")
        if program.name in self.unsandboxed and profile is None:
            return ToolServerAddress(
                lambda lost: _command(self._plain(words, env), lost),
                frozenset(filled.used),
                "outside of a sandbox",
            )
        sandbox = self.find_sandbox()
        if (fault := sandbox.find_fault()) is not None:
            raise InvalidOperation(
                f"{program.address} starts a command, and no sandbox can start here: {fault}",
                hint=Hint("connector.run_unsandboxed", {"connector": program.name}),
            )
        view, limits = self.find_view(None if profile is None else str(profile))
        return ToolServerAddress(
            lambda lost: _command(sandbox.open_command(words, view, limits, env), lost),
            frozenset(filled.used),
            "in a sandbox without your files" if profile is None else f"in the sandbox {profile!r}",
            # What a command needs most often is its own program's folder.
            Hint("connector.choose_sandbox", {"connector": program.name}),
        )

    @asynccontextmanager
    async def _http(
        self, program: Program, url: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[Streams]:
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        is_open = url.startswith("http://")
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_open else True
        transport: httpx2.AsyncBaseTransport = PatientTransport(
            httpx2.AsyncHTTPTransport(verify=trusted)
        )
        acts = str(self.context.principal)
        is_public = is_public_only(program.config, program.version.by, acts, self.secret_hosts)
        if is_public:
            transport = PublicTransport(
                transport, because=", and another person wrote this connector's config"
            )
        limit = program.config.get("timeout_s")
        silence_s = 300.0 + (float(limit) if isinstance(limit, int | float) else 0.0)
        async with (
            httpx2.AsyncClient(
                headers=dict(headers),
                timeout=httpx2.Timeout(silence_s, connect=CONNECT_S),
                transport=transport,
                follow_redirects=False,
                # A proxy would resolve names again, without the check for public addresses.
                trust_env=not is_public,
            ) as client,
            streamable_http_client(url, http_client=client) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _plain(self, words: list[str], env: Mapping[str, str]) -> AsyncGenerator[Process]:
        """Start a command as the user would, with few of the user's variables."""
        known = self.context.environment
        inherited = {name: known[name] for name in _INHERITED if name in known}
        yield await anyio.open_process(
            words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**inherited, **env},
            start_new_session=True,
        )  # fmt: skip


class PatientTransport(httpx2.AsyncBaseTransport):
    """Repeats a request that was never sent, because no connection was made."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        """Take the transport that connects."""
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        until = anyio.current_time() + RETRY_S
        while True:
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectError:
                if anyio.current_time() >= until:
                    raise
                await anyio.sleep(RETRY_PAUSE_S)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _Secrets:
    def __init__(self, reach: ServerReach, program: Program) -> None:
        self._reach, self._program = reach, program
        self.used: set[str] = set()

    def text(self, text: str) -> str:
        return NAMED.sub(lambda match: self._get(match[1]), text)

    def _get(self, name: str) -> str:
        reach, program = self._reach, self._program
        acts = str(reach.context.principal)
        check_secret(
            name, program.name, program.config, program.version.by, acts, reach.secret_hosts
        )
        found = reach.context.get_credential(name)
        self.used.add(found)
        return found


def _texts(config: Mapping[str, Json], member: str) -> Mapping[str, Any]:
    given = config.get(member)
    return given if isinstance(given, Mapping) else {}


@asynccontextmanager
async def _command(
    starting: AbstractAsyncContextManager[Process], lost: Lost
) -> AsyncGenerator[Streams]:
    """Start a server, and end it with the connection: by the end of its input, then by force."""
    async with starting as process:
        try:
            async with process_streams(process, lost) as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                if process.stdin is not None:
                    await process.stdin.aclose()
                with anyio.move_on_after(ENDING_S):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
                await process.aclose()
