"""PostgreSQL keeps the contract, and writes the bytes that the domain would have written."""

import orjson
import psycopg
import pytest

from turntree.core import event as events
from turntree.core.canonical import canonical, digest_raw
from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.session import Origin, Spawn
from turntree.db.database import Database
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.store import Ledger, Tags
from turntree.ledger.thread_store import ThreadStore
from turntree.testing.contracts.ledger import (
    LedgerContract,
    SessionsContract,
    begin,
    grow,
    id_of,
    moment,
)
from turntree.testing.scenarios import OtherWriter

pytestmark = pytest.mark.anyio

AWKWARD = [
    'say "hi"',
    "back\\slash",
    "slash/",
    "tab\tline\nreturn\rform\fback\b",
    "".join(chr(n) for n in range(1, 0x20)),
    "\x7f\x80\x9f",
    "\u2028\u2029\ufeff\uffff",
    "é e\u0301 ß İ",
    "\U0001f600\U00010000\U0010ffff",
    "東京",
    "",
]


@pytest.fixture
def neighbours(database: Database) -> OtherWriter:
    return OtherWriter(
        Ledger(database),
        SessionStore(database),
        ReflogStore(database),
        ThreadStore(database),
    )


class TestLedger(LedgerContract):
    """The ledger on PostgreSQL."""


class TestSessions(SessionsContract):
    """Sessions and threads on PostgreSQL."""


@pytest.mark.parametrize("text", AWKWARD)
async def test_sql_escapes_text_as_the_domain_does(conninfo: str, text: str) -> None:
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        found = await connection.execute("SELECT turntree.canonical_text(%s)", [text])
        assert await found.fetchone() == (canonical(text).decode(),)


async def test_sql_writes_the_bytes_of_every_event_as_the_domain_does(
    neighbours: OtherWriter, database: Database, conninfo: str
) -> None:
    """Every kind of event that SQL writes, with awkward words wherever words may stand."""
    session = await begin(neighbours, "main")
    (first, second) = await grow(neighbours, session, 1, 2)
    marks = Tags(database)
    for number, text in enumerate(AWKWARD[:-1]):
        await every_verb(neighbours, text, 1000 + 10 * number, session, second.turn.id)
        for turn in (first.turn.id, second.turn.id):
            await marks.set_tag(turn, text, on=True, by=text, at=moment(3))
            await marks.set_tag(turn, text, on=False, by=text, at=moment(3))
    await marks.erase(first.turn.id, 0, reason=AWKWARD[0], by=AWKWARD[1], at=moment(4))
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        found = await connection.execute(
            "SELECT id, kind, stream_id, seq, body FROM turntree.events"
        )
        rows = await found.fetchall()
    for id, kind, stream, seq, body in rows:
        recorded = events.record(events.from_json(orjson.loads(body)))
        assert recorded.body == body
        assert digest_raw(recorded.id) == id
        assert recorded.event.kind == kind
        assert (recorded.event.stream, recorded.event.seq) == (str(stream), seq)
    assert {row[1] for row in rows} == {
        "session.created", "session.head_moved", "session.renamed", "session.aliased",
        "session.merged", "session.archived", "session.unarchived", "session.spawned",
        "node.tagged", "node.untagged", "message.erased",
    }  # fmt: skip


async def every_verb(
    neighbours: OtherWriter, text: str, number: int, parent: SessionId, turn: TurnId
) -> None:
    """Do everything that can be done with sessions, under awkward names."""
    sessions, at = neighbours.sessions, moment(5)
    one, two = SessionId(id_of(number)), SessionId(id_of(number + 1))
    spawn = Spawn(parent, turn, f"call {text}", "fork", text)
    await sessions.create(
        one, Label(f"one {text}"), by=text, at=at, head=turn, spawn=spawn, key=f"k {text}"
    )
    await sessions.create(two, Label(f"two {text}"), by=text, at=at, origin=Origin(text, text))
    await sessions.move(two, "reset", turn, by=text, at=at)
    await sessions.move(two, "undo", None, by=text, at=at)
    await sessions.name(one, Label(f"three {text}"), by=text, at=at, as_label=True)
    await sessions.name(one, Label(f"four {text}"), by=text, at=at, as_label=False)
    await sessions.set_status(one, "archived", by=text, at=at)
    await sessions.set_status(one, "active", by=text, at=at)
    await sessions.merge(one, two, Label(f"five {text}"), by=text, at=at)
