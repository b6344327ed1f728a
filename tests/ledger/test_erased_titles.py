"""What was erased is not told by a title or a path."""

from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from turntree.api import Tree
from turntree.core.canonical import Json, digest_bytes
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.core.message_context import TouchedFile
from turntree.core.principal import Principal
from turntree.core.turn import Header, seal
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.ledger.turn_rows import TurnSource
from turntree.testing.fakes import FakeClock
from turntree.transcripts.incoming import ImportCursor, ImportedTurn
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio

WORD = "xylophone"
COUNT = sql.SQL("SELECT count(*) FROM turntree.{table} t WHERE to_jsonb(t)::text LIKE %s")


async def test_erased_text_is_removed_from_titles_and_paths(
    tree: Tree, database: Database, conninfo: str, world: FakeClock
) -> None:
    now = world.now()
    files: dict[str, Json] = {"files": [TouchedFile("read", f"{WORD}.py").to_json()]}
    header = Header(TurnId(world.new_id()), None, Principal("agent", "toy"), now, now)
    sealed = seal(header, [replace(user(WORD), context=files)], [assistant("yes")])
    imports = ImportStore(database)
    source = TurnSource("toy", "one", "1", 0, 0, 1)
    await imports.store_turns([ImportedTurn(sealed, None, source=source)])
    heads = {"s": {"head": sealed.turn.id, "title": WORD}, "t": {"head": None, "title": None}}
    cursor = ImportCursor("toy", "one", "", 1, 1, 1, 2, digest_bytes(b"{}"), (), heads)
    await imports.mark([cursor], now)
    assert count_words(conninfo) == {"import_cursors": 1, "message_files": 1}
    assert await tree.turns.erase(sealed.turn.id, 0, reason="asked")
    assert count_words(conninfo) == {"import_cursors": 0, "message_files": 0}
    # The transcript still says it, and is read again.
    await imports.mark([cursor], now)
    assert count_words(conninfo) == {"import_cursors": 0, "message_files": 0}
    assert [found for found in await fsck(database) if found.severity == "fault"] == []


def count_words(conninfo: str) -> dict[str, int]:
    found: dict[str, int] = {}
    with psycopg.connect(conninfo) as connection:
        for table in ("import_cursors", "message_files"):
            query = COUNT.format(table=sql.Identifier(table))
            row = connection.execute(query, (f"%{WORD}%",)).fetchone()
            assert row is not None
            found[table] = row[0]
    return found
