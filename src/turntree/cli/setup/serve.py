"""``serve``: put the ledger on the network, for the members of its workspaces."""

import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

import anyio
import click
import uvicorn

from turntree.boot.shards import ShardContent, ShardDatabases
from turntree.cli.command import Terminal, verb
from turntree.cli.common.http_server import HttpServer, try_listen
from turntree.cli.common.metrics_listener import (
    METRICS_HELP,
    MetricsListener,
    listening_for_metrics,
)
from turntree.cli.common.shard_text import describe_content
from turntree.cli.common.tracing import tracing
from turntree.cli.context import CliContext, load_settings, open_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.text import clean
from turntree.cli.settings import find_setting, read_rate
from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.value import value
from turntree.db.shard import Shard
from turntree.server.access.network_callers import NetworkCallers, make_callers
from turntree.server.access.oidc.config import IdentityProviderConfig, read_providers
from turntree.server.access.open_streams import OpenStreams
from turntree.server.access.proxies import TrustedProxies, read_proxies
from turntree.server.access.rate_limits import RateLimits
from turntree.server.access.session_cookie import LOOPBACK_NAMES
from turntree.server.app import make_network_app, make_network_door
from turntree.server.keys import SECRET_BYTES, AccessKeys
from turntree.server.security import Measure

HOST_DEFAULT: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8744
DRAIN_S: Final = 20.0
READY_S_MAX: Final = 2.0
"""A database that takes longer to answer counts as one that does not."""


@value
class ServeOptions:
    """What the command was asked for."""

    host: str
    names: tuple[str, ...]
    has_worker: bool
    drain_s: float
    providers: tuple[IdentityProviderConfig, ...]
    rates: RateLimits
    proxies: TrustedProxies
    figures: MetricsListener | None = None
    """Where the figures of the process are told."""


class DrainState:
    """Whether the server is about to stop."""

    def __init__(self) -> None:
        """Begin as a server that stays."""
        self.is_draining = False

    def begin(self) -> None:
        """Take no new work: readiness is denied, and streams end."""
        self.is_draining = True


@verb()
@click.option("--host", default=HOST_DEFAULT, show_default=True,
              help="Address to listen on; by default this machine only.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=PORT_DEFAULT, show_default=True,
              help="Port to listen on; 0 takes a free one.")  # fmt: skip
@click.option("--name", "names", multiple=True,
              help="Host name that clients use, such as your proxy's; repeatable.")  # fmt: skip
@click.option("--identity-providers", "providers_file", metavar="FILE",
              help="TOML file with the identity providers that people log in with.")  # fmt: skip
@click.option("--no-worker", is_flag=True,
              help="Server only; messages wait for another worker.")  # fmt: skip
@click.option("--rate-limit", type=click.FloatRange(0), metavar="RATE",
              help="Requests per second of one caller; 50 by default, 0 for any.")  # fmt: skip
@click.option("--stranger-rate-limit", type=click.FloatRange(0), metavar="RATE",
              help="The same for an address whose sender is not known; 10 by default.")  # fmt: skip
@click.option("--trusted-proxy", "trusted_proxies", multiple=True, metavar="ADDRESS",
              help="Proxy, or network of them, that is believed whose requests it passes on; "
                   "repeatable.")  # fmt: skip
@click.option("--metrics", metavar="ADDRESS", help=METRICS_HELP)
@click.option("--drain-s", type=click.FloatRange(0), default=DRAIN_S, show_default=True,
              help="Seconds that requests and turns get to end after a signal.")  # fmt: skip
def serve(
    terminal: Terminal,
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
    providers_file: str | None,
    no_worker: bool,
    rate_limit: float | None,
    stranger_rate_limit: float | None,
    trusted_proxies: tuple[str, ...],
    metrics: str | None,
    drain_s: float,
) -> None:
    """Put the ledger on the network, for the members of its workspaces.

    Every workspace of the database is served below /w/NAME/api/v1, to callers with an API key or a
    token of that workspace. The messages to the current workspace are answered here too, where
    models can be asked. Requests for another host name are refused. Keys travel as they are: beyond
    this machine, put a proxy with TLS in front, and name it with --name. If you are an admin, a
    link is printed that works once, on this machine, within an hour, and gives you a key.
    """
    settings = load_settings(terminal)
    if settings.token is not None:
        raise InvalidOperation(
            "a server cannot run with a token: leave --token out, and unset TURNTREE_TOKEN"
        )
    if not names and not _is_loopback(host):
        raise InvalidOperation(
            f"{host} is not loopback: give the host name that clients use",
            hint=command_hint(f"turntree serve --host {host} --name NAME"),
        )
    providers = _read_providers(providers_file or find_setting("identity_providers").value)
    rates = RateLimits(
        _find_rate("rate_limit", rate_limit), _find_rate("stranger_rate_limit", stranger_rate_limit)
    )
    proxies = read_proxies(",".join(trusted_proxies) or find_setting("trusted_proxies").value or "")
    listener = try_listen(host, port)
    if listener is None:
        raise InvalidOperation(
            f"cannot listen on {host}, port {port}: it is taken, or not this machine's",
            hint=command_hint("turntree serve --port 0"),
        )
    with listener, listening_for_metrics(metrics) as figures:
        chosen = ServeOptions(
            host, names, not no_worker and _can_run(), drain_s, providers, rates, proxies, figures
        )
        anyio.run(
            _serve, terminal, listener, chosen,
            backend_options={"use_uvloop": find_spec("uvloop") is not None},
        )  # fmt: skip
    terminal.note("stopped")


async def _serve(terminal: Terminal, listener: socket.socket, chosen: ServeOptions) -> None:
    port, drain = listener.getsockname()[1], DrainState()
    keys = AccessKeys(secrets.token_bytes(SECRET_BYTES), secrets.token_hex(8), port, time.time)
    async with contextlib.AsyncExitStack() as stack:
        figures, spans = chosen.figures, await stack.enter_async_context(tracing(terminal))
        observers = (None if figures is None else figures.runs, spans)
        opened = await stack.enter_async_context(
            open_ledger(terminal, observers=[one for one in observers if one is not None])
        )
        tree = opened.running.tree if chosen.has_worker else opened.tree
        callers = await make_callers(
            tree, opened.database, opened.settings, keys, stack,
            is_draining=lambda: drain.is_draining, can_run=chosen.has_worker,
            providers=chosen.providers, rates=chosen.rates, proxies=chosen.proxies,
        )  # fmt: skip
        if chosen.has_worker:
            await opened.running.load_libraries()
            await stack.enter_async_context(
                opened.running.serving(drain_s=chosen.drain_s, stays_here=True, oversees=True)
            )
        shards, followed, measure = callers.workspaces.shards, OpenStreams(), None
        if figures is not None:
            measure = _measure_with(figures, callers, followed)
            await stack.enter_async_context(figures.telling(shards.list_open))
        app = make_network_app(
            callers, partial(_is_ready, shards, drain), followed=followed,
            trace=None if spans is None else spans.trace_request,
        )  # fmt: skip
        config = uvicorn.Config(
            make_network_door(app, keys, _hosts(chosen, port), measure=measure),
            log_level="warning", access_log=False, lifespan="off", ws="none",
            server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(chosen.drain_s)),
        )  # fmt: skip
        server = HttpServer(config)
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    if drain.is_draining:
                        server.force_exit = True
                    drain.begin()
                    server.should_exit = True
                    terminal.note(f"stopping; what was begun has {chosen.drain_s:g} s to end")

        tasks.start_soon(stop_on_signal)
        await _tell(terminal, opened, chosen, keys, port, shards)
        await server.serve([listener])
        tasks.cancel_scope.cancel()


def _measure_with(
    figures: MetricsListener, callers: NetworkCallers, followed: OpenStreams
) -> Measure:
    """Tell of the streams of a server, and return what counts its requests."""
    from turntree.telemetry.metrics import Figure, RequestMetrics

    figures.metrics.add(
        Figure(
            "turntree_streams_open", "Streams that clients read now.",
            lambda: {
                ("workspace",): sum(stream.clients for stream in callers.streams),
                ("run",): followed.count,
            },
            ("kind",),
        ),
        Figure(
            "turntree_stream_deliveries", "Messages that clients of workspaces were sent.",
            lambda: {(): sum(stream.deliveries for stream in callers.streams)}, is_total=True,
        ),
        Figure(
            "turntree_stream_cuts", "Clients that were cut off because they read too slowly.",
            lambda: {(): sum(stream.cuts for stream in callers.streams)}, is_total=True,
        ),
        Figure(
            "turntree_feed_lag_seconds", "Age of what clients of workspaces were told last.",
            lambda: {(): max((stream.lag_s for stream in callers.streams), default=0.0)},
        ),
    )  # fmt: skip
    return RequestMetrics(figures.metrics).measure


async def _is_ready(databases: ShardDatabases, drain: DrainState) -> bool:
    """Return whether new requests can be answered: this process stays, and a database answers.

    Of several databases one is enough. A server that is taken away because of one of them would
    serve no workspace of the others either.
    """
    if drain.is_draining:
        return False
    return await databases.answers(within_s=READY_S_MAX)


async def _find_content(databases: ShardDatabases, shard: Shard) -> ShardContent | None:
    """Return the workspaces of a shard, or None if its database does not answer."""
    try:
        with anyio.fail_after(READY_S_MAX):
            return await databases.read_content(shard)
    except (DatabaseUnavailable, TimeoutError):
        return None


async def _tell(
    terminal: Terminal,
    opened: CliContext,
    chosen: ServeOptions,
    keys: AccessKeys,
    port: int,
    databases: ShardDatabases,
) -> None:
    workspace, user = opened.settings.workspace, opened.settings.user
    near = _find_near(chosen.host)
    host = near or chosen.names[0]
    at = f"[{host}]" if ":" in host else host
    url = f"http://{at}:{port}/w/{quote(workspace, safe='')}"
    is_admin = await opened.tree.members.find_role(user) == "admin"
    # Never by a name that others use: the key would cross the network unencrypted.
    link = f"{url}/welcome#code={keys.issue_key()}" if is_admin and near is not None else None
    shards = () if opened.settings.shards is None else opened.settings.shards.shards
    contents = [(shard, await _find_content(databases, shard)) for shard in shards]
    if terminal.as_json:
        terminal.document({
            "url": f"{url}/api/v1", "host": chosen.host, "port": port, "workspace": workspace,
            "worker": chosen.has_worker, "link": link,
            "metrics": None if chosen.figures is None else chosen.figures.url,
            "shards": [
                {"shard": shard.number, "workspaces": None if one is None else len(one.names)}
                for shard, one in contents
            ],
        })  # fmt: skip
        return
    terminal.say(f"{clean(url)}/api/v1")
    for shard, content in contents:
        terminal.say(f"  {shard}: {describe_content(content)}")
    if chosen.figures is not None:
        terminal.say(f"  figures: {chosen.figures.url}")
    if link is not None:
        terminal.say(f"  your key: {clean(link)}")
        terminal.note("the link works once, on this machine, within an hour")
    elif is_admin:
        terminal.note("next: turntree key create NAME")
    else:
        terminal.note(f"{clean(user)} is not an admin of {clean(workspace)}: there is no link")
        terminal.note("next: turntree member list")
    if not chosen.has_worker:
        terminal.note("messages wait for another process: turntree worker")
    terminal.note("Ctrl-C or SIGTERM stops it")


def _find_rate(key: str, given: float | None) -> float:
    """Return a limit: the option, or the setting.

    Raises:
        InvalidOperation: The setting is not a number of requests per second.
    """
    return given if given is not None else read_rate(find_setting(key).value or "0")


def _read_providers(file: str | None) -> tuple[IdentityProviderConfig, ...]:
    """Return the identity providers of a file; none without one.

    Raises:
        InvalidOperation: The file cannot be read, or says something that is not allowed.
    """
    if not file:
        return ()
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOperation(f"cannot read the identity providers in {file}: {error}") from error
    return read_providers(text, os.environ)


def _hosts(chosen: ServeOptions, port: int) -> frozenset[str]:
    """Return the Host headers that are ours; behind a proxy a name has its port or none."""
    own = {f"{name}:{port}" for name in LOOPBACK_NAMES}
    given = [name.lower() for name in chosen.names]
    return frozenset({*own, *given, *(f"{name}:{port}" for name in given)})


def _find_near(host: str) -> str | None:
    """Return by which address this machine reaches the server; None if only by the network's."""
    if _is_loopback(host):
        return host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not address.is_unspecified:
        return None
    return "127.0.0.1" if isinstance(address, ipaddress.IPv4Address) else "::1"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _can_run() -> bool:
    return find_spec("pydantic_ai") is not None
