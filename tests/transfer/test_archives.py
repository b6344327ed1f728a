"""Archives: what is exported comes back with the same ids, digests and bytes, or is refused."""

import io
import json
from base64 import b64decode
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from proofs.fsck_files import tell_files
from proofs.fsck_story import tell, tell_conversation
from proofs.transcripts.samples import SAMPLES
from tests.databases import Databases, as_owner
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings, importing_on, load_importers, tree_on
from turntree.core.canonical import canonical
from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.ref import ExtRef
from turntree.core.viewer import EVERYTHING, Sight
from turntree.db.database import Database, open_database
from turntree.integrity.fsck import fsck
from turntree.runs.engines.inline import InlineEngine
from turntree.testing.fakes import FakeClock
from turntree.transfer.archive import ORDER, ArchiveWriter, line_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def empty(
    databases: Databases, template: str, workspace_id: WorkspaceId, tmp_path: Path
) -> AsyncGenerator[Tree, None]:
    """Another ledger, with another data directory."""
    with databases.lend(template) as lent:
        async with open_database(as_owner(lent), workspace_id, sight=EVERYTHING) as opened:
            yield tree_on(
                opened, Settings(tmp_path / "home", user="ana", session="main"), FakeClock(7)
            )


async def export(tree: Tree) -> bytes:
    lines: list[bytes] = []
    await tree.archives.export(lines.append)
    return b"".join(lines)


async def load(tree: Tree, archive: bytes) -> dict[str, int]:
    return dict((await tree.archives.load(io.BytesIO(archive))).added)


async def test_archive_of_everything_comes_back_byte_for_byte(tree: Tree, empty: Tree) -> None:
    for copy in range(2):
        await tell(tree, copy)
    archive = await export(tree)
    await load(empty, archive)
    assert await export(empty) == archive
    assert await fsck(empty.archives.database) == []
    kinds = {json.loads(line)["kind"] for line in archive.splitlines()}
    assert {"turn", "event", "object", "move", "tag", "program", "grant", "snapshot"} <= kinds
    assert not any((await load(empty, archive)).values())


def forge(archive: bytes, old: bytes, new: bytes) -> bytes:
    """Change a word, and prove the file again, as a careful forger would."""
    assert old in archive
    *lines, _ = archive.replace(old, new).splitlines(keepends=True)
    writer = ArchiveWriter()
    for line in lines:
        writer.add("line", line)
    return b"".join(lines) + writer.end()


async def test_archive_refuses_forged_lines_and_stores_nothing(tree: Tree, empty: Tree) -> None:
    long = "large " * 4000
    await tree.turns.record("main", [user("pay 10"), user(long)], [assistant("paid")])
    await tree.sessions.fork("main", "side")
    archive = await export(tree)
    before = await export(empty)
    lines = archive.splitlines(keepends=True)
    tampered = {
        "turn": forge(archive, b"pay 10", b"pay 99"),
        "event": forge(archive, b'"move":"advance"', b'"move":"rewind"'),
        "object": forge(archive, b'{"bytes":"eyJ', b'{"bytes":"eyK'),
        "file": archive.replace(b'"name":"side"', b'"name":"slide"'),
        "cut off": b"".join(lines[:-1]),
        "without its parent": b"".join(line for line in lines if b'"kind":"turn"' not in line),
        "contradicts itself": forge(archive, b'"status":"active"', b'"status":"archived"'),
        "cannot be read": b"".join(lines[:-1]) + b"{\n",
        "more after the end": archive + lines[1],
    }
    for what, forged in tampered.items():
        with pytest.raises(InvalidOperation) as refused:
            await load(empty, forged)
        assert "archive" in str(refused.value), what
    assert await export(empty) == before


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("run", {"status": "open"}),
        ("queued_message", {"payload": "{}", "digest": None}),
        ("plan", {"outcome": None}),
    ],
)
async def test_archive_with_unfinished_work_is_refused(
    empty: Tree, kind: str, row: dict[str, Any]
) -> None:
    before = await export(empty)
    first, *_ = before.splitlines(keepends=True)
    with pytest.raises(InvalidOperation, match="not finished"):
        await load(empty, first + line_of(kind, {"row": row}))
    assert await export(empty) == before


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("move", b'"version":1', b'"version":"x"'),
        ("move", b'"version":1', b'"version":null'),
        ("move", b'"by":"', b'"by":["x"],"nothing":"'),
        ("session", b'"status":"active"', b'"status":"asleep"'),
        ("session", b'"created_at":"2', b'"created_at":"x2'),
        ("session", b'"head":"', b'"hea$":"'),
        ("session", b'"origin":null', b'"origin":"x"'),
        ("move", b'"session_id":"', b'"session_ie":"'),
    ],
)
async def test_archive_with_a_damaged_row_is_refused(
    tree: Tree, empty: Tree, kind: str, old: bytes, new: bytes
) -> None:
    await tree.turns.record("main", [user("hello")], [assistant("hello")])
    archive, before = await export(tree), await export(empty)
    (line, *_) = [x for x in archive.splitlines() if f'"kind":"{kind}"'.encode() in x and old in x]
    with pytest.raises(InvalidOperation, match="archive"):
        await load(empty, forge(archive, line, line.replace(old, new)))
    assert await export(empty) == before


async def test_archive_whose_records_unpack_to_gigabytes_is_refused(
    tree: Tree, empty: Tree, tmp_path: Path
) -> None:
    importer = load_importers()["codex"]
    found = [(importer, bundle) for bundle in importer.open(SAMPLES["codex"](tmp_path))]
    await importing_on(tree.archives.database, FakeClock(3)).run(found)
    archive, before = await export(tree), await export(empty)
    (line, *_) = [x for x in archive.splitlines() if b'"kind":"raw_block"' in x]
    # A header of zstd that promises 2^40 bytes, and nothing after it.
    frame = bytes.fromhex("28b52ffd e0 0000000000010000 010000")
    packed = json.loads(line)["row"]["data"].removeprefix("\\x").encode()
    with pytest.raises(InvalidOperation, match="claim to unpack to more than"):
        await load(empty, forge(archive, packed, frame.hex().encode()))
    assert await export(empty) == before


async def test_archive_brings_files_of_snapshots(tree: Tree, empty: Tree, place: Path) -> None:
    folder = place / "archived"
    folder.mkdir(exist_ok=True)
    # Above the size at which a file is stored in pieces.
    (folder / "big.bin").write_bytes(Random(1).randbytes(5_000_000))
    states = await tell_files(tree, folder, seed=7)
    archive = await export(tree)
    added = await load(empty, archive)
    assert added["file"] > 40
    assert await export(empty) == archive
    assert await empty.checks.fsck() == []
    resource = await empty.resources.ensure_directory(str(folder))
    state = ExtRef("shadow-tree", states[0])
    assert len(await empty.files.read(resource, state, "big.bin")) == 5_000_000


async def test_archive_leaves_out_private_sessions_of_others(tree: Tree, empty: Tree) -> None:
    await tree.turns.record("main", [user("hello")], [assistant("hi")])
    await tree.programs.create("session", "secret", {}, visibility="private")
    await tree.turns.record("secret", [user("CANARY " * 3000)], [assistant("CANARY")])
    bob = replace(tree.archives, database=tree.archives.database.seen_by(Sight("human:bob")))
    lines: list[bytes] = []
    done = await bob.export(lines.append)
    assert done.is_partial
    assert b"CANARY" not in b"".join(lines)
    assert b"secret" not in b"".join(lines)
    await load(empty, b"".join(lines))
    assert [one.label for one in await empty.sessions.ledger.list_page(limit=9)] == ["main"]


async def test_archive_goes_on_with_what_the_ledger_has(tree: Tree, empty: Tree) -> None:
    await tree.turns.record("main", [user("one")], [assistant("1")])
    await tree.turns.tag("main", "old")
    older = await export(tree)
    await tree.turns.record("main", [user("two")], [assistant("2")])
    await tree.turns.untag("main~1", "old")
    await tree.sessions.rename("main", "renamed")
    newer = await export(tree)
    await load(empty, older)
    await load(empty, newer)
    assert sorted((await export(empty)).splitlines()) == sorted(newer.splitlines())
    await load(empty, older)
    assert sorted((await export(empty)).splitlines()) == sorted(newer.splitlines())
    assert await fsck(empty.archives.database) == []


async def test_archive_names_what_conflicts(tree: Tree, empty: Tree) -> None:
    await tree.turns.record("main", [user("here")], [assistant("1")])
    await empty.turns.record("main", [user("there")], [assistant("2")])
    before = await export(empty)
    with pytest.raises(Conflict, match="name main"):
        await load(empty, await export(tree))
    assert await export(empty) == before


async def test_archive_does_not_give_a_private_agent_a_main_session_of_others(
    tree: Tree, empty: Tree
) -> None:
    await empty.turns.record("atlas:main", [user("say it here")], [assistant("to all")])
    theirs = await export(empty)
    await tree.programs.create("agent", "atlas", {}, visibility="private")
    before = await export(tree)
    with pytest.raises(Conflict, match="atlas:main"):
        await load(tree, theirs)
    assert await export(tree) == before


async def test_archive_does_not_bring_back_what_was_erased(tree: Tree, empty: Tree) -> None:
    said = "a regretted word " * 1000
    await tree.turns.record("main", [user(said)], [assistant("ok")])
    whole = await export(tree)
    await load(empty, whole)
    await empty.turns.erase("main", 0, reason="asked for")
    await load(empty, whole)
    assert b"regretted" not in b64decoded(await export(empty))
    with pytest.raises(Conflict, match="erased"):
        await load(tree, await export(empty))


def b64decoded(archive: bytes) -> bytes:
    """The lines, and the bytes of every object."""
    objects = [json.loads(line) for line in archive.splitlines()]
    return archive + b"".join(b64decode(one["bytes"]) for one in objects if "bytes" in one)


async def test_a_conversation_comes_back_and_goes_on(
    tree: Tree, empty: Tree, database: Database
) -> None:
    await tell_conversation(tree, "talk")
    archive = await export(tree)
    await load(empty, archive)
    assert await export(empty) == archive
    there = await empty.conversations.list_posts("talk")
    assert [one.content for one in there] == ["hello", "@[Bot](agent:talk-bot) what now?", None]
    talk = replace(tree.conversations, engine=InlineEngine(database.lend))
    await talk.post("talk", "later")
    await tree.members.add("bob")
    await talk.add("talk", "human:bob")
    await talk.remove("talk", "human:bob")
    later = await export(tree)
    await load(empty, later)
    assert await export(empty) == later
    present = await empty.conversations.list_participants("talk", all=True)
    assert present[-1].removed_by == "human:ana"
    await talk.erase("talk", 4, reason="asked for")
    with pytest.raises(Conflict, match="post"):
        await load(empty, await export(tree))


async def test_no_post_is_put_into_another_mouth(tree: Tree, empty: Tree) -> None:
    await tell_conversation(tree, "talk")
    archive = await export(tree)
    for ours, theirs in ((b'\\"hello\\"', b'\\"hullo\\"'), (b'"hops":0', b'"hops":3')):
        assert ours in archive
        lines = archive.replace(ours, theirs).splitlines(keepends=True)
        writer = ArchiveWriter()
        for line in lines[:-1]:
            writer.add(orjson.loads(line)["kind"], line)
        with pytest.raises(InvalidOperation):
            await load(empty, b"".join([*lines[:-1], writer.end()]))


async def test_an_archive_opens_no_session_to_a_conversation(tree: Tree, empty: Tree) -> None:
    """What a session says is not for those who take part in a conversation of another ledger."""
    await tell_conversation(tree, "talk")
    archive = await export(tree)
    private = await empty.sessions.create("diary", visibility="private")
    lines = archive.splitlines(keepends=True)
    bound = next(line for line in lines if b'"kind":"bound_session"' in line)
    row = {**orjson.loads(bound)["row"], "session_id": private.id, "agent": None}
    lines.insert(lines.index(bound), line_of("bound_session", {"row": row}))
    writer = ArchiveWriter()
    for line in lines[:-1]:
        writer.add(orjson.loads(line)["kind"], line)
    with pytest.raises(Conflict, match="which no conversation has"):
        await load(empty, b"".join([*lines[:-1], writer.end()]))


def add_row(archive: bytes, kind: str, row: dict[str, Any], *, is_partial: bool) -> bytes:
    """Add a row where it belongs, and prove the file again, as a careful forger would."""
    first, *lines = [orjson.loads(line) for line in archive.splitlines()[:-1]]
    lines = [{**first, "partial": is_partial}, *lines]
    lines.append({"kind": kind, "row": row})
    lines.sort(key=lambda line: ORDER[line["kind"]])
    writer = ArchiveWriter()
    kept = [writer.add(one["kind"], canonical(one) + b"\n") for one in lines]
    return b"".join(kept) + writer.end()


def rows_of(archive: bytes, kind: str) -> list[dict[str, Any]]:
    lines = [orjson.loads(line) for line in archive.splitlines()]
    return [one["row"] for one in lines if one["kind"] == kind]


@pytest.mark.parametrize("is_partial", [False, True])
async def test_an_archive_tells_no_agent_of_a_post_of_another_ledger(
    tree: Tree, *, is_partial: bool
) -> None:
    """An agent would miss a post that it is said to know, those that are still to come too."""
    await tell_conversation(tree, "talk")
    archive = await export(tree)
    eve = tree.act_as(ExecutionContext.begin(Principal("human", "eve")))
    (bound, *_) = rows_of(archive, "bound_session")
    for seq in (2, 50):
        row = {"conversation_id": bound["conversation_id"], "seq": seq, "message_seq": 9}
        row["session_id"] = bound["session_id"]
        forged = add_row(archive, "post_delivery", row, is_partial=is_partial)
        with pytest.raises(Conflict, match=f"was told of post {seq}"):
            await load(eve, forged)


async def test_an_archive_adds_nothing_to_what_it_does_not_go_on_with(tree: Tree) -> None:
    """A partial archive is not judged as a whole: it could name others than the events do."""
    await tell_conversation(tree, "talk")
    await tree.programs.create("agent", "mine", {}, visibility="private")
    await tree.programs.invite("mine", "bob")
    archive = await export(tree)
    eve = tree.act_as(ExecutionContext.begin(Principal("human", "eve")))
    forgeries: dict[str, dict[str, Any]] = {
        "participant": {"number": 99, "principal": "human:eve"},
        "grant": {"grantee": "human:eve"},
        "post": {"id": FakeClock(9).new_id(), "seq": 99, "turn_id": None},
        "post_decision": {"seq": 2, "turn_id": None},
    }
    for kind, members in forgeries.items():
        row = {**rows_of(archive, kind)[0], **members}
        await load(eve, add_row(archive, kind, row, is_partial=True))
        assert await export(tree) == archive, kind


async def test_an_archive_does_not_go_on_with_what_is_private_to_another(
    tree: Tree, empty: Tree
) -> None:
    await tree.programs.create("agent", "mine", {}, visibility="private")
    await load(empty, await export(tree))
    await tree.programs.invite("mine", "eve")
    later = await export(tree)
    eve = empty.act_as(ExecutionContext.begin(Principal("human", "eve")))
    with pytest.raises(Conflict, match="agent mine, which another created"):
        await load(eve, later)
    await load(empty, later)


async def test_only_its_creator_continues_a_conversation_from_an_archive(
    tree: Tree, empty: Tree, database: Database
) -> None:
    await tell_conversation(tree, "talk")
    await load(empty, await export(tree))
    await replace(tree.conversations, engine=InlineEngine(database.lend)).post("talk", "later")
    later = await export(tree)
    eve = empty.act_as(ExecutionContext.begin(Principal("human", "eve")))
    with pytest.raises(Conflict, match="conversation talk, which another created"):
        await load(eve, later)
    await load(empty, later)
