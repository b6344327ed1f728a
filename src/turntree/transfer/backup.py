"""Backups: a whole server, all workspaces and the files of snapshots, in one file.

A backup is a ZIP file: one member per table in PostgreSQL's text format, one per file of the
snapshot store, and last a manifest with the sha256 of every member. It holds rows and no schema:
a restore creates the schema of this release and copies the rows into it. A dump of ``pg_dump``
holds the schema of its server instead, and so failed on an older PostgreSQL, on one without
pgvector, and on one whose roles have other names.
"""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final, LiteralString, Self

import orjson
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from turntree.core.errors import Hint, InvalidOperation
from turntree.core.ids import Timestamp
from turntree.core.value import value
from turntree.db.database import ErrorTranslator, Row
from turntree.db.migrate import migrate
from turntree.db.schema import NUMBER
from turntree.db.sql import load_statements
from turntree.resources.snapshots.store import ObjectStore

SQL = load_statements(__file__)
FORMAT: Final = "backup/1"
MANIFEST: Final = "manifest.json"
STORE: Final = "shadow"
OPTIONAL: Final = frozenset({"embeddings"})
"""Tables that a server without pgvector does not have. They can be rebuilt."""
CHUNK_BYTES: Final = 1 << 20
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_DAMAGED: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError,
)  # fmt: skip
"""What a wrong byte can raise: it may ask for a password or for a compression we do not have."""

Report = Callable[[int, int], None]


@value
class BackupManifest:
    """What a backup holds."""

    created_at: str
    turntree: str
    """The version of the package that wrote it."""
    schema: int
    postgresql: str
    members: tuple[Mapping[str, Any], ...]
    """Name, bytes and sha256 of each member; the columns and the number of rows of a table."""

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(member.get("rows", 0) for member in self.members)

    @property
    def files(self) -> int:
        """The files of the snapshot store."""
        return sum("rows" not in member for member in self.members)

    @property
    def size(self) -> int:
        """The bytes of all members, before they were compressed."""
        return sum(member["bytes"] for member in self.members)


async def create_backup(
    conninfo: str, home: Path, path: Path, now: Timestamp, report: Report
) -> BackupManifest:
    """Write a backup to a new file; nothing is left of it if that fails.

    Raises:
        InvalidOperation: The login is not a superuser, or the file exists or cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Created now, so that no other process can take the name meanwhile.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise InvalidOperation(
            f"{path} exists already, and is not replaced", hint=Hint("backup.create")
        ) from error
    except OSError as error:
        raise InvalidOperation(f"{path} cannot be written: {error.strerror}") from error
    is_whole = False
    try:
        # It holds everything that was ever said: only its owner may read it.
        with os.fdopen(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
            with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
                manifest = await _write(conninfo, home, archive, now, report)
            raw.flush()
            os.fsync(raw.fileno())
        unfinished.replace(path)
        is_whole = True
    except OSError as error:
        raise InvalidOperation(f"{path} cannot be written: {error.strerror}") from error
    finally:
        for leftover in () if is_whole else (unfinished, path):
            leftover.unlink(missing_ok=True)
    return manifest


async def _write(
    conninfo: str, home: Path, archive: zipfile.ZipFile, now: Timestamp, report: Report
) -> BackupManifest:
    store, members = ObjectStore(str(home / STORE)), list[dict[str, Any]]()
    async with (
        ErrorTranslator(),
        await AsyncConnection[Row].connect(conninfo) as connection,
        connection.transaction(),
    ):
        await connection.execute(SQL["backup_begin"])
        server = await _require_superuser(connection)
        tables = await (await connection.execute(SQL["backup_tables"])).fetchall()
        if not tables:
            raise InvalidOperation("this database holds no ledger to back up")
        with ExitStack() as stack:
            files = list[Path]()
            if (home / STORE).is_dir():
                # Packs are only added while these are held, so the files hold at least what the
                # rows of the snapshot, which was taken before, refer to.
                for lock in ("store", "merge"):
                    stack.enter_context(store.lock(lock, exclusive=False))
                files = sorted(_store_files(home / STORE))
            total = sum(rows for *_, rows in tables) + len(files)
            done = 0
            for table, columns, _ in tables:
                with _Member(archive, f"tables/{table}") as member:
                    query = _copy(table, columns, "TO STDOUT")
                    async with connection.cursor().copy(query) as copy:
                        async for data in copy:
                            member.write(bytes(data))
                members.append({**member.document(), "columns": columns, "rows": member.lines})
                done += member.lines
                report(done, max(done, total))
            for file in files:
                with (
                    _Member(archive, str(file.relative_to(home))) as member,
                    file.open("rb") as content,
                ):
                    while chunk := content.read(CHUNK_BYTES):
                        member.write(chunk)
                members.append(member.document())
                done += 1
                report(done, max(done, total))
    manifest = BackupManifest(now, version("turntree"), NUMBER, server, tuple(members))
    archive.writestr(
        zipfile.ZipInfo(MANIFEST, _EPOCH),
        orjson.dumps(
            {
                "format": FORMAT, "created_at": manifest.created_at, "turntree": manifest.turntree,
                "schema": NUMBER, "postgresql": server, "members": members,
            },
            option=orjson.OPT_INDENT_2,
        ),
    )  # fmt: skip
    return manifest


def read_manifest(path: Path) -> BackupManifest:
    """Return what a backup holds, by its manifest.

    Raises:
        InvalidOperation: It is not a backup, or was written by a newer version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            document = orjson.loads(archive.read(MANIFEST))
    except (*_DAMAGED, OSError) as error:
        raise InvalidOperation(f"{path} is not a complete backup of Turntree") from error
    if document.get("format") != FORMAT:
        raise InvalidOperation(
            f"{path} has the format {document.get('format')!r}; upgrade to read it"
        )
    return BackupManifest(
        document["created_at"], document["turntree"], document["schema"], document["postgresql"],
        tuple(document["members"]),
    )  # fmt: skip


def verify_backup(path: Path, report: Report) -> BackupManifest:
    """Read a backup, compare every member with its checksum, and return its manifest.

    Raises:
        InvalidOperation: A member is missing or damaged.
    """
    manifest = read_manifest(path)
    with zipfile.ZipFile(path) as archive:
        done = 0
        for member in manifest.members:
            digest = hashlib.sha256()
            try:
                with archive.open(member["name"]) as data:
                    while chunk := data.read(CHUNK_BYTES):
                        digest.update(chunk)
            except _DAMAGED as error:
                raise InvalidOperation(f"{member['name']} of {path} is damaged") from error
            if digest.hexdigest() != member["sha256"]:
                raise InvalidOperation(f"{member['name']} of {path} does not match its checksum")
            done += member["bytes"]
            report(done, manifest.size)
    return manifest


async def holds_ledger(conninfo: str) -> bool:
    """Return whether a database holds a ledger with anything in it."""
    async with ErrorTranslator(), await AsyncConnection[Row].connect(conninfo) as connection:
        ((holds,),) = await (await connection.execute(SQL["backup_finds_ledger"])).fetchall()
        if holds:
            ((holds,),) = await (await connection.execute(SQL["backup_holds_ledger"])).fetchall()
        return bool(holds)


async def restore_backup(
    path: Path, conninfo: str, home: Path, report: Report, *, owner: str | None = None
) -> tuple[BackupManifest, frozenset[str]]:
    """Restore a verified backup into an empty database; return it, and the tables left out.

    ``owner`` is the conninfo of the role that will own the schema; by default the superuser.

    Raises:
        InvalidOperation: The database is not empty, the backup is damaged or from a newer version,
            or the login is not a superuser.
    """
    manifest = read_manifest(path)
    if manifest.schema > NUMBER:
        raise InvalidOperation(
            f"{path} was written by Turntree {manifest.turntree}, which is newer; upgrade first"
        )
    if await holds_ledger(conninfo):
        raise InvalidOperation("this database already holds a ledger")
    async with ErrorTranslator():
        async with await AsyncConnection[Row].connect(owner or conninfo, autocommit=True) as schema:
            await migrate(schema)
        async with await AsyncConnection[Row].connect(conninfo) as connection:
            async with connection.transaction():
                left_out = await _fill(path, manifest, connection, home, report)
            await connection.commit()
            await connection.set_autocommit(True)
            await connection.execute(SQL["restore_analyze"])
    return manifest, left_out


async def _fill(
    path: Path,
    manifest: BackupManifest,
    connection: AsyncConnection[Row],
    home: Path,
    report: Report,
) -> frozenset[str]:
    await _require_superuser(connection)
    await connection.execute(SQL["restore_begin"])
    await connection.execute(SQL["restore_empty"])
    here = {
        table: set(columns)
        for table, columns, _ in await (await connection.execute(SQL["backup_tables"])).fetchall()
    }
    left_out, done = set[str](), 0
    with zipfile.ZipFile(path) as archive:
        for member in manifest.members:
            name = str(member["name"])
            done += member["bytes"]
            if not name.startswith("tables/"):
                _put_file(archive, name, home)
            elif (table := name.removeprefix("tables/")) in here:
                if not set(member["columns"]) <= here[table]:
                    raise InvalidOperation(f"this version has no place for all columns of {table}")
                await _copy_in(archive, name, connection, table, member)
            elif table in OPTIONAL:
                left_out.add(table)
            else:
                raise InvalidOperation(f"this version has no table {table}")
            report(done, manifest.size)
    await connection.execute(SQL["restore_sequences"])
    if "embeddings" in left_out:
        await connection.execute(SQL["restore_without_vectors"])
    return frozenset(left_out)


async def _copy_in(
    archive: zipfile.ZipFile,
    name: str,
    connection: AsyncConnection[Row],
    table: str,
    member: Mapping[str, Any],
) -> None:
    cursor = connection.cursor()
    digest = hashlib.sha256()
    with archive.open(name) as data:
        async with cursor.copy(_copy(table, member["columns"], "FROM STDIN")) as copy:
            while chunk := data.read(CHUNK_BYTES):
                digest.update(chunk)
                await copy.write(chunk)
    if digest.hexdigest() != member["sha256"] or cursor.rowcount != member["rows"]:
        raise InvalidOperation(f"{name} does not match its checksum; nothing was restored")


def _put_file(archive: zipfile.ZipFile, name: str, home: Path) -> None:
    """Add a file of the snapshot store; what is there has the same content or is newer."""
    target = (home / name).resolve()
    if not target.is_relative_to((home / STORE).resolve()) and name != f"{STORE}.began":
        raise InvalidOperation(f"{name} does not belong into a data directory")
    if target.exists():
        return
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.tmp")
    with archive.open(name) as data, fresh.open("wb") as file:
        while chunk := data.read(CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(target)


async def _require_superuser(connection: AsyncConnection[Row]) -> str:
    """Return the server's version; only a superuser sees every row."""
    ((is_super, server),) = await (await connection.execute(SQL["backup_role"])).fetchall()
    if not is_super:
        raise InvalidOperation("a backup needs a login that is a superuser")
    return str(server)


def _store_files(folder: Path) -> Iterator[Path]:
    """Yield the files of the snapshot store without its locks, caches and unfinished packs."""
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix not in {".lock", ".tmp"}:
            yield path
    if (beside := folder.with_name(f"{STORE}.began")).exists():
        yield beside


def _copy(table: str, columns: list[str], direction: LiteralString) -> sql.Composed:
    named = sql.SQL(", ").join(map(sql.Identifier, columns))
    target = sql.Identifier("turntree", table)
    return sql.SQL("COPY {} ({}) ").format(target, named) + sql.SQL(direction)


class _Member:
    """A member that is being written, counted and hashed."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.name, self.size, self.lines, self._hash = name, 0, 0, hashlib.sha256()
        info = zipfile.ZipInfo(name, _EPOCH)
        # Packs and their like are compressed already.
        is_table = name.startswith("tables/")
        info.compress_type = zipfile.ZIP_DEFLATED if is_table else zipfile.ZIP_STORED
        self._file: IO[bytes] = archive.open(info, "w", force_zip64=True)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)
        # In PostgreSQL's text format a line break in a value is written as two characters.
        self.lines += data.count(b"\n")

    def document(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        return {"name": self.name, "bytes": self.size, "sha256": self._hash.hexdigest()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


async def restore_server(
    path: Path, owner: str, superuser: str, home: Path, report: Report
) -> tuple[BackupManifest, frozenset[str]]:
    """Replace the ledger of an embedded server by a backup; both are conninfos of its database.

    The backup is restored beside the ledger, which is replaced when everything has succeeded.

    Raises:
        InvalidOperation: As ``restore_backup`` says. The ledger is unchanged.
    """
    beside = make_conninfo(superuser, dbname="turntree_restored")
    main = make_conninfo(superuser, dbname="postgres")
    async with (
        ErrorTranslator(),
        await AsyncConnection[Row].connect(main, autocommit=True) as connection,
    ):
        await connection.execute(SQL["drop_restored"])
        await connection.execute(SQL["create_restored"])
        try:
            new_owner = make_conninfo(owner, dbname="turntree_restored")
            done = await restore_backup(path, beside, home, report, owner=new_owner)
            # Other processes connect again by themselves, to the restored ledger.
            await connection.execute(SQL["drop_replaced"])
            await connection.execute(SQL["end_connections"])
            await connection.execute(SQL["rename_current"])
            await connection.execute(SQL["rename_restored"])
            await connection.execute(SQL["drop_replaced"])
        finally:
            await connection.execute(SQL["drop_restored"])
    return done
