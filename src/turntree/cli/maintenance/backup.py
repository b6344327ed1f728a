"""``backup``: the whole server in one file, checked, and back."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from turntree.boot.open import Settings, embedded_conninfo
from turntree.cli.command import Terminal, verb
from turntree.cli.context import load_settings
from turntree.cli.output.progress import counting, no_progress
from turntree.cli.output.text import counted
from turntree.core.errors import Hint, InvalidOperation
from turntree.system.clock import SystemClock

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = "backups"
"""In the data directory, unless a file is named."""
_MB = 1e6


@click.group()
def backup() -> None:
    """Back up the whole server, and restore it.

    A backup holds all workspaces with everything private in them, and the files of snapshots. To
    move your own history in a readable form, use `turntree export --all`.
    """


@verb()
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
def create(terminal: Terminal, file: Path | None) -> None:
    """Write a backup to a new FILE; writers need not stop.

    Without FILE, it is written to the folder `backups` of the data directory.
    """
    settings = load_settings()
    path = (file or _default_file(settings, "backup")).resolve()
    with counting(terminal, "backing up") as report:
        manifest = anyio.run(partial(_create, terminal, settings, path, report))
    size = path.stat().st_size
    terminal.tell(
        f"{_contents(manifest)} in {path} ({size / _MB:.1f} MB)",
        {"file": str(path), "bytes": size, **_document(manifest)},
        undo=f"rm {path}",
        then=(f"next: turntree backup verify {path}",),
    )


@verb()
@click.argument("file", metavar="FILE", type=FILE)
def verify(terminal: Terminal, file: Path) -> None:
    """Compare every part of a backup with its checksum; nothing is restored."""
    from turntree.transfer.backup import verify_backup

    with counting(terminal, "verifying") as report:
        manifest = verify_backup(file, report)
    terminal.tell(
        f"{file} is complete: {_contents(manifest)} of {manifest.created_at[:10]}",
        {"file": str(file), **_document(manifest)},
        undo=None,
        then=(f"next: turntree backup restore {file}",),
    )


@verb()
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--replace", "replaces", is_flag=True,
              help="Replacement of the ledger that is there; it is backed up first.")  # fmt: skip
def restore(terminal: Terminal, file: Path, replaces: bool) -> None:
    """Restore a backup.

    A ledger that holds anything is replaced only with --replace, and is backed up before. With
    TURNTREE_DATABASE_URL, the backup is restored into that database, which must be empty, and the
    login must be a superuser. The server may be older, and need not have pgvector: embeddings are
    then left out and can be built again.
    """
    from turntree.transfer.backup import verify_backup

    with counting(terminal, "verifying") as report:
        verify_backup(file, report)
    settings = load_settings()
    with counting(terminal, "restoring") as report:
        manifest, left_out, before = anyio.run(
            partial(_restore, terminal, settings, file, report, replaces=replaces)
        )
    undo = None if before is None else f"turntree backup restore {before} --replace"
    if left_out:
        terminal.note("embeddings are not restored: this server has no pgvector 0.8")
    terminal.tell(
        f"restored {_contents(manifest)} of {manifest.created_at[:10]}",
        {"file": str(file), "left_out": sorted(left_out), "before": before and str(before),
         **_document(manifest)},
        undo=undo,
        then=("next: turntree fsck",),
    )  # fmt: skip


async def _create(terminal: Terminal, settings: Settings, path: Path, report: Any) -> Any:
    from turntree.db.embedded.logins import SUPERUSER, as_login
    from turntree.transfer.backup import create_backup

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    url = settings.database_url
    superuser = url or as_login(await embedded_conninfo(settings, terminal.note), SUPERUSER)
    return await create_backup(superuser, settings.home, path, SystemClock().now(), report)


async def _restore(
    terminal: Terminal, settings: Settings, file: Path, report: Any, *, replaces: bool
) -> tuple[Any, frozenset[str], Path | None]:
    from turntree.db.embedded.logins import SUPERUSER, as_login, read_passwords
    from turntree.db.embedded.provision import provision
    from turntree.transfer.backup import holds_ledger, restore_backup, restore_server

    if (url := settings.database_url) is not None:
        if replaces:
            raise InvalidOperation(
                "only the embedded server replaces its ledger; use an empty database"
            )
        return *await restore_backup(file, url, settings.home, report), None
    owner = await embedded_conninfo(settings, terminal.note)
    superuser, before = as_login(owner, SUPERUSER), None
    if await holds_ledger(superuser):
        if not replaces:
            raise InvalidOperation(
                "the server already holds a ledger",
                hint=Hint("backup.replace", {"file": str(file)}),
            )
        before = _default_file(settings, "before-restore")
        await _create(terminal, replace(settings, database_url=None), before, no_progress)
    done = await restore_server(file, owner, superuser, settings.home, report)
    # The new database gets the logins and the queue of the one that it replaces.
    await anyio.to_thread.run_sync(provision, superuser, read_passwords(settings.home.resolve()))
    return *done, before


def _default_file(settings: Settings, name: str) -> Path:
    stamp = SystemClock().now()[:19].replace("-", "").replace(":", "")
    return settings.home / FOLDER / f"{name}-{stamp}.zip"


def _contents(manifest: Any) -> str:
    return f"{counted(manifest.rows, 'row')} and {counted(manifest.files, 'file')}"


def _document(manifest: Any) -> dict[str, Any]:
    return {
        "created_at": manifest.created_at,
        "rows": manifest.rows,
        "files": manifest.files,
        "schema": manifest.schema,
        "postgresql": manifest.postgresql,
    }


for command in (create, verify, restore):
    backup.add_command(command)
