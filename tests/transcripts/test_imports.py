"""Importing: what a transcript tells of arrives once, and people win over importers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from turntree.api import Tree
from turntree.boot.open import importing_on
from turntree.core.errors import NotFound
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.message import ToolUse, assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    Database,
    ensure_database,
    open_database,
    prepare_database,
)
from turntree.db.embedded.server import EmbeddedServer
from turntree.integrity.fsck import fsck
from turntree.ledger.raw_codec import RawBlock, RawRecord
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.turn_rows import TurnRows
from turntree.testing.contracts.importer import check_importer
from turntree.testing.fakes import FakeClock
from turntree.transcripts.drafts import (
    DraftCompaction,
    DraftSession,
    DraftSpawn,
    DraftTurn,
    Key,
    Projection,
)
from turntree.transcripts.handoff_store import HandoffStore
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import (
    mapping,
    moment,
    parse,
    read_lines,
    text,
)
from turntree.transcripts.imports import ImportService, Progress
from turntree.transcripts.incoming import ImportCursor
from turntree.transcripts.store import ImportStore

pytestmark = pytest.mark.anyio
KEY = "sk-ant-" + "a1B2" * 12
EPOCH = Timestamp("2026-01-01T00:00:00.000Z")


@dataclass(frozen=True)
class Toy:
    """Reads lines of ``{id, parent, ask, answer, at}``, a file a session."""

    version: int = 1
    origin: str = "toy"

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Find them."""
        yield from self.open(places.home)

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Find them in a folder."""
        for file in sorted(path.glob("*.jsonl")):
            stamp, size = stamp_of([file])
            yield TranscriptRef(self.origin, file.stem, (file,), stamp, size)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Read lines."""
        for file in bundle.files:
            yield from read_lines(file, file.name)

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Take a line for a turn."""
        turns: dict[str, DraftTurn] = {}
        unknown: dict[str, int] = {}
        broken = 0
        for place, record in enumerate(records):
            said = parse(record.data)
            if said is None:
                broken += 1
            elif not isinstance(said.get("ask"), str) or text(said.get("id")) in turns:
                unknown["other\x00"] = unknown.get("other\x00", 0) + 1
            else:
                turns[said["id"]] = self._turn(place, mapping(said), turns)
        head = Key(next(reversed(turns))) if turns else None
        sessions = [DraftSession(bundle.id, f"toy/{bundle.id}", head, title="sample\x00")]
        for turn in turns.values():
            if any(isinstance(part, ToolUse) for said in turn.reply for part in said.parts):
                spawn = DraftSpawn(bundle.id, turn.key, "c1")
                id = f"{bundle.id}-{turn.key}"
                sessions.append(DraftSession(id, f"toy/{id}", turn.key, spawn=spawn))
        return Projection(list(turns.values()), sessions, unknown, broken=broken)

    def _turn(self, place: int, said: object, turns: dict[str, DraftTurn]) -> DraftTurn:
        told = mapping(said)
        parent = text(told.get("parent"))
        answer = text(told.get("answer"))
        reply = assistant(answer + ("!" if self.version > 1 else ""))
        if told.get("tool"):
            reply = assistant(answer, ToolUse("c1", "look", {}))
        at = moment(told.get("at")) or EPOCH
        return DraftTurn(
            Key(text(told.get("id"))),
            Key(parent) if parent in turns else None,
            (user(text(told.get("ask"))),),
            (reply,) if answer else (),
            at,
            at,
            outcome="completed" if answer else "interrupted",
            open=not answer,
            records=(place,),
        )


class Unkeyed(Toy):
    """Names one turn so that no column holds the name."""

    def _turn(self, place: int, said: object, turns: dict[str, DraftTurn]) -> DraftTurn:
        draft = super()._turn(place, said, turns)
        long = len(draft.key) > 9
        return replace(draft, key=Key("\x00")) if long else draft


class Contradictory(Toy):
    """Says of one compaction that it summarized the very turn that it kept."""

    def _turn(self, place: int, said: object, turns: dict[str, DraftTurn]) -> DraftTurn:
        draft = super()._turn(place, said, turns)
        if draft.key != "kept":
            return draft
        compaction = DraftCompaction(Key("1"), first_kept=Key("1"))
        return replace(draft, kind="compaction", compaction=compaction)


class Forgetful(Toy):
    """Finds a file that is gone when it is read."""

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Read what is not there."""
        yield from super().read(replace(bundle, files=(bundle.files[0].with_name("gone"),)))


LINES = (
    '{"id":"1","ask":"how?","answer":"so","at":"2026-02-03T04:05:06Z"}',
    '{"id":"2","parent":"1","ask":"why?","answer":"because","at":1770091600,"tool":1}',
    '{"id":"3","parent":"1","ask":"my key is ' + KEY + '","answer":"noted","at":1770091700}',
    '{"type":"mystery"}',
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one transcript; sample data."""
    (tmp_path / "one.jsonl").write_text("\n".join(LINES) + "\n")
    return tmp_path


async def bring(
    database: Database,
    folder: Path,
    toy: Toy | None = None,
    *,
    hold_open: bool = False,
    seed: int = 99,
) -> Progress:
    """Import a folder."""
    importer = toy or Toy()
    importing = ImportService(
        ImportStore(database),
        HandoffStore(database),
        SessionStore(database),
        ReflogStore(database),
        FakeClock(seed),
        hold_open=hold_open,
    )
    return await importing.run([(importer, bundle) for bundle in importer.open(folder)])


def test_the_toy_keeps_the_contract(folder: Path) -> None:
    assert len(check_importer(Toy(), folder)) == 3


async def test_a_transcript_becomes_turns_and_a_session(
    database: Database, tree: Tree, folder: Path
) -> None:
    done = await bring(database, folder)
    assert (done.turns_added, done.sessions_begun, done.unknown) == (3, 2, {"other\x00": 1})
    assert done.repaired == 1, "the call that was never answered"
    session = await tree.sessions.get("toy/one")
    assert session.origin is not None
    assert (session.depth, session.origin.tool) == (2, "toy")
    assert await fsck(database) == []


async def test_importing_twice_changes_nothing(database: Database, folder: Path) -> None:
    await bring(database, folder)
    again = await bring(database, folder)
    assert (again.bundles_unchanged, again.bundles_read, again.turns_added) == (1, 0, 0)
    (folder / "one.jsonl").touch()
    touched = await bring(database, folder)
    assert (touched.bundles_read, touched.turns_added, touched.turns_known) == (1, 0, 3)
    (cursor,) = await ImportStore(database).list_cursors()
    assert len(cursor.blocks) == 1, "nothing is kept twice"


async def test_a_copied_prefix_is_one_ancestry(database: Database, folder: Path) -> None:
    (folder / "two.jsonl").write_text(
        LINES[0] + '\n{"id":"x","parent":"1","ask":"else?","answer":"yes","at":1770091900}\n'
    )
    done = await bring(database, folder)
    assert (done.turns_added, done.turns_known) == (4, 1)


async def test_what_grew_is_added_and_the_session_goes_on(
    database: Database, tree: Tree, folder: Path
) -> None:
    await bring(database, folder)
    with (folder / "one.jsonl").open("a") as file:
        file.write('{"id":"4","parent":"3","ask":"and?","answer":"more","at":1770091800}\n')
    done = await bring(database, folder)
    assert (done.turns_added, done.sessions_moved) == (1, 1)
    assert (await tree.sessions.get("toy/one")).depth == 3
    (cursor,) = await ImportStore(database).list_cursors()
    records = await ImportStore(database).read_records(cursor.blocks)
    assert len(cursor.blocks) == 2, "only the new line was kept anew"
    assert b'"and?"' in records[-1].data
    assert len(records) == 5


async def test_a_record_that_stands_elsewhere_now_is_kept_where_it_stands(
    database: Database, folder: Path
) -> None:
    await bring(database, folder)
    file = folder / "one.jsonl"
    file.write_text("\n" + file.read_text())
    await bring(database, folder)
    (cursor,) = await ImportStore(database).list_cursors()
    records = await ImportStore(database).read_records(cursor.blocks)
    (bundle,) = Toy().open(folder)
    assert [found.offset for found in records] == [found.offset for found in Toy().read(bundle)]


async def test_people_win_over_importers(database: Database, tree: Tree, folder: Path) -> None:
    await bring(database, folder)
    moved = await tree.sessions.rewind("toy/one", "toy/one~1")
    with (folder / "one.jsonl").open("a") as file:
        file.write('{"id":"4","parent":"3","ask":"and?","answer":"more","at":1770091800}\n')
    done = await bring(database, folder)
    assert (done.turns_added, done.sessions_moved, done.sessions_kept) == (1, 0, 1)
    assert (await tree.sessions.get("toy/one")).head == moved.head


async def test_a_move_that_was_taken_back_lets_a_session_follow_again(
    database: Database, tree: Tree, folder: Path
) -> None:
    await bring(database, folder)
    await tree.sessions.rewind("toy/one", "toy/one~1")
    await tree.sessions.undo("toy/one")
    for place in (4, 5):
        with (folder / "one.jsonl").open("a") as file:
            told = f'"id":"{place}","parent":"{place - 1}","ask":"and?","answer":"more"'
            file.write(f'{{{told},"at":{1770091800 + place}}}\n')
        done = await bring(database, folder)
        assert (done.turns_added, done.sessions_moved, done.sessions_kept) == (1, 1, 0)
    assert (await tree.sessions.get("toy/one")).depth == 4


async def test_a_secret_is_taken_out_before_anything_is_stored(
    database: Database, tree: Tree, folder: Path
) -> None:
    done = await bring(database, folder)
    assert done.secrets == 1
    (cursor,) = await ImportStore(database).list_cursors()
    records = await ImportStore(database).read_records(cursor.blocks)
    placed = await tree.turns.get("toy/one")
    for kept in (placed.turn.messages[0].text.encode(), b"\n".join(r.data for r in records)):
        assert KEY.encode() not in kept
        assert b"[redacted:" in kept


async def test_an_erased_message_takes_its_records_along(
    database: Database, tree: Tree, folder: Path
) -> None:
    await bring(database, folder)
    imports = ImportStore(database)
    thread = await tree.threads.read("toy/one")
    (cursor,) = [c for c in await imports.list_cursors() if c.bundle == "one"]
    before = await imports.read_records(cursor.blocks)
    assert await tree.turns.erase(thread[0].turn.id, 0, reason="a name")
    after = await imports.read_records(cursor.blocks)
    changed = [old.data for old, new in zip(before, after, strict=True) if old != new]
    assert changed, "the records it was made of are gone"
    assert all(b"erased" in new.data for new in after if new not in before)
    assert before[-1] in after, "and nobody else's are"
    assert await fsck(database) == []
    # The same transcript again, somewhere else: what was taken out stays out.
    (folder / "copy.jsonl").write_bytes((folder / "one.jsonl").read_bytes())
    await bring(database, folder)
    (copied,) = [c for c in await imports.list_cursors() if c.bundle == "copy"]
    held = b"".join(record.data for record in await imports.read_records(copied.blocks))
    assert not any(data in held for data in changed)
    assert await fsck(database) == []


async def test_records_that_were_changed_are_found(
    database: Database, conninfo: str, folder: Path
) -> None:
    await bring(database, folder)
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("ALTER TABLE turntree.raw_blocks DISABLE TRIGGER refuse_update")
        owner.execute("UPDATE turntree.raw_blocks SET data = substr(data, 2), needs_bodies = false")
        owner.execute("ALTER TABLE turntree.raw_blocks ENABLE TRIGGER refuse_update")
    found = await fsck(database)
    assert {finding.invariant for finding in found} == {"I1"}
    (cursor, *_) = await ImportStore(database).list_cursors()
    with pytest.raises(NotFound):
        await ImportStore(database).read_records(cursor.blocks)


async def test_a_turn_that_is_still_being_taken_can_wait(
    database: Database, tree: Tree, folder: Path
) -> None:
    with (folder / "one.jsonl").open("a") as file:
        file.write('{"id":"4","parent":"3","ask":"and?","at":1770091800}\n')
    held = await bring(database, folder, hold_open=True)
    assert (held.turns_added, (await tree.sessions.get("toy/one")).depth) == (3, 2)


async def test_the_cursors_wait_for_the_disk_and_nothing_else_does(
    database: Database, folder: Path
) -> None:
    hurried: list[bool] = []

    class Watched(ImportStore):
        async def keep(self, blocks: Sequence[RawBlock], turns: Sequence[TurnRows] = ()) -> None:
            hurried.append(await self._hurries())
            await super().keep(blocks, turns)

        async def mark(self, cursors: Sequence[ImportCursor], at: Timestamp) -> None:
            hurried.append(await self._hurries())
            await super().mark(cursors, at)

        async def _hurries(self) -> bool:
            async with self.database.connection() as connection:
                row = await (await connection.execute("SHOW synchronous_commit")).fetchone()
            return row == ("off",)

    careful = make_conninfo(database.conninfo, options="-c synchronous_commit=local")
    async with open_database(
        careful, WorkspaceId(str(database.workspace)), sight=EVERYTHING
    ) as patient:
        importing = importing_on(patient, FakeClock(97))
        importing.imports = Watched(patient)
        done = await importing.run([(Toy(), bundle) for bundle in Toy().open(folder)])
    assert (done.turns_added, hurried) == (3, [True, False])


@pytest.mark.slow
async def test_what_an_import_told_of_outlasts_the_server(place: Path, folder: Path) -> None:
    server = EmbeddedServer(place / "mortal", {"fsync": "off"})
    try:
        conninfo = await ensure_database(server.ensure_running(), "mortal")
        workspace = await prepare_database(conninfo, "tests", FakeClock().new_id())
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            importing = importing_on(database, FakeClock(96))
            done = await importing.run([(Toy(), bundle) for bundle in Toy().open(folder)])
        server.stop(mode="immediate")
        conninfo = await ensure_database(server.ensure_running(), "mortal")
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            again = await importing_on(database, FakeClock(95)).run(
                [(Toy(), bundle) for bundle in Toy().open(folder)]
            )
            assert (done.turns_added, again.bundles_unchanged) == (3, 1)
            assert await SessionStore(database).find("toy/one") is not None
            assert await fsck(database) == []
    finally:
        server.stop(mode="immediate")


async def test_better_readers_seal_new_turns_beside_the_old(
    database: Database, tree: Tree, folder: Path
) -> None:
    await bring(database, folder)
    before = (await tree.sessions.get("toy/one")).head
    importing = ImportService(
        ImportStore(database),
        HandoffStore(database),
        SessionStore(database),
        ReflogStore(database),
        FakeClock(98),
    )
    done = await importing.reproject({"toy": Toy(version=2)})
    assert (done.turns_added, done.sessions_moved) == (3, 2)
    after = await tree.turns.get("toy/one")
    assert after.turn.id != before
    assert after.turn.reply[-1].text == "noted!"
    assert await fsck(database) == []
    again = await importing.reproject({"toy": Toy(version=2)})
    assert again.bundles_unchanged == 1
    # The records were packed before this turn was made of them, and go with it all the same.
    await tree.turns.erase(after.turn.id, 0, reason="a name")
    (cursor,) = await ImportStore(database).list_cursors()
    records = await ImportStore(database).read_records(cursor.blocks)
    assert [b'"erased"' in record.data for record in records] == [False, False, True, True]
    assert await fsck(database) == []


async def test_a_session_stood_where_it_began_another_once(
    database: Database, tree: Tree, folder: Path
) -> None:
    await bring(database, folder)
    child = await tree.sessions.get("toy/one-2")
    parent = await tree.sessions.get("toy/one")
    assert child.spawn is not None
    assert (child.spawn.parent_session, child.spawn.call_id) == (parent.id, "c1")
    assert child.spawn.parent_turn == child.head != parent.head, "its tool has left that way"
    assert await fsck(database) == []


async def test_who_was_moved_away_by_a_person_is_not_moved_to_begin_another(
    database: Database, tree: Tree, folder: Path
) -> None:
    lines = (folder / "one.jsonl").read_text().replace('"tool":1', '"tool":0')
    (folder / "one.jsonl").write_text(lines)
    await bring(database, folder)
    moved = await tree.sessions.rewind("toy/one", "toy/one~1")
    with (folder / "one.jsonl").open("a") as file:
        file.write('{"id":"4","parent":"3","ask":"and?","answer":"more","at":1770091800,"tool":1}')
    await bring(database, folder, seed=97)
    assert (await tree.sessions.get("toy/one")).head == moved.head
    assert (await tree.sessions.get("toy/one-4")).spawn is None
    assert await fsck(database) == []


async def test_one_bad_transcript_fails_alone(database: Database, tree: Tree, folder: Path) -> None:
    (folder / "bad.jsonl").write_text('{"id":"' + "k" * 99 + '","ask":"?","answer":"!"}\n')
    (folder / "two.jsonl").write_text(LINES[0])
    done = await bring(database, folder, Unkeyed())
    assert list(done.failed) == ["toy/bad"]
    assert (done.turns_added, done.turns_known, done.bundles_read) == (3, 1, 3)
    cursors = {cursor.bundle: cursor for cursor in await ImportStore(database).list_cursors()}
    assert "error" in cursors["bad"].report
    assert len(await ImportStore(database).read_records(cursors["bad"].blocks)) == 1
    again = await bring(database, folder, Unkeyed())
    assert again.bundles_unchanged == 3
    assert await fsck(database) == []


async def test_a_transcript_that_a_table_refuses_fails_alone(
    database: Database, folder: Path
) -> None:
    refused = '{"id":"kept","parent":"1","ask":"?","answer":"!"}'
    (folder / "bad.jsonl").write_text(LINES[0] + "\n" + refused + "\n")
    (folder / "two.jsonl").write_text(LINES[0])
    done = await bring(database, folder, Contradictory())
    assert list(done.failed) == ["toy/bad"]
    assert (done.turns_added, done.bundles_read) == (3, 3)
    assert await fsck(database) == []


async def test_a_transcript_that_is_gone_is_told_and_tried_again(
    database: Database, folder: Path
) -> None:
    done = await bring(database, folder, Forgetful())
    assert list(done.failed) == ["toy/one"]
    done = await bring(database, folder)
    assert (done.failed, done.turns_added) == ({}, 3)
