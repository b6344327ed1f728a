"""What fsck finds: nothing in a sound ledger, and each kind of fault by the name of its rule."""

import random
import re
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from proofs import fsck_files
from proofs.fsck_plants import RULES
from proofs.fsck_story import tell_approvals, tell_conversation, tell_policy
from tests.ledger.planted_events import plant, planting, told_in
from tests.transcripts.test_bulk_copy import grow
from turntree.api import Tree
from turntree.auth.identities.identity import ProvenAccount
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.event import Event, SealedEvent, record
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    PART_INLINE_MAX_BYTES,
    ToolResult,
    ToolUse,
    assistant,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.usage import ModelCall, Usage
from turntree.core.usage import to_json as call_to_json
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.integrity import fsck as fscks
from turntree.integrity import invariants
from turntree.integrity import scan as passage
from turntree.integrity import scan_ranges as ranges
from turntree.integrity import verify as verifies
from turntree.integrity.findings import VerifyResult, Violation
from turntree.integrity.fsck import fsck
from turntree.integrity.invariants import INVARIANTS
from turntree.integrity.repair import repair_derived
from turntree.integrity.verify import verify_thread
from turntree.testing.fakes import FakeClock
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CALLS = [
    ModelCall("opus", Usage(10, 20, 30, 40, 5), "anthropic", "call-1"),
    ModelCall("o", Usage()),
]
LATER = Timestamp("2099-01-01T00:00:00.000Z")
USE = ToolUse("use-1", "read", {"path": "a"})


async def tell(tree: Tree) -> None:
    """A small history with one of everything that fsck knows."""
    first = await tree.turns.record("main", [user("one")], [assistant("1")], calls=CALLS, key="k")
    used = [assistant(USE), tool(ToolResult("use-1", "ok", "text")), assistant("2")]
    second = await tree.turns.record("main", [user("two")], used, model="opus")
    third = await tree.turns.record("main", [user("three")], [assistant("3")])
    await tree.turns.record("main", [user("x" * 2 * PART_INLINE_MAX_BYTES)], [assistant("big")])
    await tree.sessions.fork(first.turn.id, "fork")
    for depth in range(5):
        # Each begins a segment, for the place after its parent is taken.
        await tree.turns.record(f"nest-{depth}", [user("root")], [assistant("r")])
        head = "fork" if depth == 0 else f"deep-{depth - 1}"
        await tree.turns.record(head, [user("on")], [assistant("on")])
        await tree.turns.record(head, [user("on")], [assistant("on")])
        await tree.sessions.fork(f"{head}~1", f"deep-{depth}")
    await tree.turns.record("deep-4", [user("end")], [assistant("end")])
    await tree.sessions.rewind("main", second.turn.id)
    await tree.sessions.undo("main")
    await tree.sessions.replay("main", first.turn.id)
    await tree.sessions.undo("main")
    summary = Compaction(second.turn.id, third.turn.id, 2, tokens_before=100)
    await tree.turns.record("main", [user("sum up")], [assistant("so far")], compaction=summary)
    await tree.sessions.rename("main", "trunk")
    await tree.sessions.alias("trunk", "also")
    await tree.sessions.merge("trunk", "nest-0")
    await tree.sessions.set_status("nest-1", "archived")
    await tree.turns.tag("trunk", 'good"one"')
    await tree.sessions.create("empty")
    await tree.sessions.undo("nest-2")
    await tree.turns.record("last", [user("leaf")], [assistant("leaf")])
    await tree.members.add("bob")
    await tell_conversation(tree, "talk")
    await tell_approvals(tree, "judged")
    await tree.programs.create("agent", "keeper", {})
    await tell_policy(tree, "keeper")
    await tree.invitations.create("carl", expires_at=LATER)
    await tree.keys.create("ci", expires_at=LATER)
    await tree.passwords.set("correct horse battery")
    ana = Principal("human", "ana")
    _, code = await tree.login_sessions.begin(ana, method="invitation", verified_at=LATER)
    login = await tree.login_sessions.verify(code)
    await tree.identities.link(ProvenAccount("https://id.example.net", "s-ana"), login)


@pytest.fixture(scope="module")
def template(server: str, template: str) -> str:
    """A database in which the story was told, so that every test here begins after it."""
    return told_in(server, template, tell)


async def test_a_sound_ledger_gives_no_finding(database: Database) -> None:
    assert await fsck(database) == []
    assert await fsck(database, full=False) == []


async def test_an_empty_workspace_is_sound(conninfo: str) -> None:
    workspace = await prepare_database(conninfo, "empty", FakeClock(1).new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as empty:
        assert await fsck(empty) == []


@pytest.mark.parametrize("turns_max", [1, 2, 3, 7])
async def test_the_size_of_a_page_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, turns_max: int
) -> None:
    monkeypatch.setattr(passage, "PAGE_TURNS_MAX", turns_max)
    monkeypatch.setattr(passage, "PAGE_EVENTS_MAX", turns_max)
    monkeypatch.setattr(ranges, "RANGE_TURNS_MIN", 2 * turns_max)
    stages: dict[str, tuple[int, int]] = {}

    def note(stage: str, done: int, total: int) -> None:
        stages[stage] = (done, total)

    assert await fsck(database, report=note) == []
    assert stages.keys() == {"tree", "sessions", "programs", "walks", "turns", "objects"}
    assert all(done == total for done, total in stages.values())


@pytest.mark.parametrize("seed", range(3))
async def test_a_forest_grown_by_import_and_by_hand_is_sound(
    database: Database, tree: Tree, seed: int
) -> None:
    chance = random.Random(seed)
    # Few roots and many forks of forks, so that jump pointers get long.
    parents = [max(0, n - chance.choice((1, 1, 2, 5))) if n else None for n in range(120)]
    grown = grow(FakeClock(seed + 20), parents)
    facts = [replace(item, journal=[tell_usage(item)]) for item in grown]
    await import_turns(database, facts, batch_turns=50)
    for n in range(20):
        at = chance.choice(grown).sealed.turn.id
        await tree.sessions.fork(at, f"{seed}-{n}")
        for _ in range(chance.randrange(3)):
            await tree.turns.record(f"{seed}-{n}", [user("on")], [assistant("on")])
    assert await fsck(database) == []


def tell_usage(item: ImportedTurn) -> SealedEvent:
    turn = item.sealed.turn
    data: dict[str, Json] = {"calls": [*map(call_to_json, item.calls)], "turn": turn.digest}
    return record(Event(turn.id, 0, "turn.recorded", turn.header.sealed_at, data))


async def test_a_root_that_claims_a_parent_is_not_imported(
    database: Database, world: FakeClock
) -> None:
    _, child = grow(FakeClock(30), [None, 0])
    with pytest.raises(InvalidOperation):
        await import_turns(database, [replace(child, parent=None)])


async def test_writers_may_go_on_meanwhile(database: Database, tree: Tree) -> None:
    found: list[list[Violation]] = []
    recorder = await tree.recorder("trunk")

    async def look() -> None:
        found.extend([await fsck(database) for _ in range(3)])

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        for n in range(60):
            await recorder.record([user(f"{n}")], [assistant("more")], calls=CALLS)
    assert found == [[], [], []]


FAULTS = {
    # Events and objects.
    "the event's id is not the digest of its body": (
        "I1 UPDATE turntree.events SET id = sha256('') WHERE kind = 'node.tagged'"
    ),
    "the event's body is not written canonically": (
        "I2 UPDATE turntree.events SET body = body || ' ',"
        " id = sha256(convert_to(body || ' ', 'UTF8')) WHERE kind = 'node.tagged'"
    ),
    "the body is not written canonically": (
        "I2 UPDATE turntree.turn_bodies SET body = body || ' ' WHERE turn_id = {leaf}"
    ),
    "the event's body cannot be read": (
        "I2 UPDATE turntree.events SET body = 'no', id = sha256('no') WHERE kind = 'node.tagged'"
    ),
    "a column says something else than the event": (
        "I2 UPDATE turntree.events SET kind = 'node.untagged' WHERE kind = 'node.tagged'"
    ),
    "its bytes have another digest": "I1 UPDATE turntree.objects SET bytes = 'other'",
    "the records cannot be unpacked": (
        "I1 INSERT INTO turntree.raw_blocks SELECT (SELECT id FROM turntree.workspaces),"
        " sha256(''), NULL, false, 'no', '{{}}', '{{}}', '{{}}'"
    ),
    "records were taken out without a receipt": (
        "I12 INSERT INTO turntree.raw_blocks SELECT (SELECT id FROM turntree.workspaces),"
        " sha256(''), sha256(''), false, 'no', '{{}}', '{{}}', '{{}}'"
    ),
    "the records are missing": (
        "I37 INSERT INTO turntree.import_cursors SELECT (SELECT id FROM turntree.workspaces),"
        " 'toy', 'one', '', 1, 1, 1, 1, sha256(''), ARRAY[sha256('')], '{{}}', '{{}}', now()"
    ),
    # The tree.
    "its parent does not exist": (
        "I7 UPDATE turntree.turns SET parent_id = gen_random_uuid() WHERE depth = 3"
    ),
    "its depth is not one more than its parent's": (
        "I8 UPDATE turntree.turns SET depth = 9 WHERE depth = 4"
    ),
    "two turns hold this place": (
        "I9 ALTER TABLE turntree.turns DROP CONSTRAINT turns_workspace_id_segment_id_depth_key;"
        "UPDATE turntree.turns SET segment_id = {root} WHERE id = {leaf}"
    ),
    "it stands outside its segment": (
        "I10 UPDATE turntree.turns SET segment_id = gen_random_uuid() WHERE id = {leaf}"
    ),
    "its parent is not the turn above it in its segment": (
        "I10 UPDATE turntree.turns SET parent_id = {root} WHERE depth = 4"
    ),
    "the segment does not fit below the one it forks from": (
        "I10 UPDATE turntree.segments SET ordinal = ordinal + 1 WHERE id = {deepest}"
    ),
    "the segment's jump pointer is not the one that the rule gives": (
        "I10 UPDATE turntree.segments SET jump_id = {root} WHERE id = {deepest}"
    ),
    "it is a child by its parent or by its segment, not by both": (
        "I11 UPDATE turntree.segments SET fork_depth = fork_depth - 1 WHERE id = {deepest}"
    ),
    # The bodies.
    "there is a turn without a body, or a body without a turn": (
        "I12 DELETE FROM turntree.turn_bodies WHERE turn_id = {leaf}"
    ),
    "facts could be changed here": (
        "I12 ALTER TABLE turntree.idempotency_keys DISABLE TRIGGER refuse_delete"
    ),
    "the body does not prove the digest, or not after this parent": (
        "I12 UPDATE turntree.turn_bodies SET body = replace(body, 'leaf', 'lead')"
        " WHERE turn_id = {leaf}"
    ),
    "the body cannot be read": (
        "I12 UPDATE turntree.turn_bodies SET body = 'no' WHERE turn_id = {leaf}"
    ),
    "a column says something else than the header": (
        "I2 UPDATE turntree.turns SET model = 'grander' WHERE id = {leaf}"
    ),
    "two things share this": (
        "I13 ALTER TABLE turntree.turns DROP CONSTRAINT turns_workspace_id_digest_key;"
        "UPDATE turntree.turns SET digest = (SELECT digest FROM turntree.turns WHERE id = {root})"
        " WHERE id = {leaf}"
    ),
    "a message was taken out without a receipt": (
        'I12 UPDATE turntree.turn_bodies SET body = \'{{"erased":"sha256:\' ||'
        " encode(sha256(convert_to(split_part(body, E'\\n', 1), 'UTF8')), 'hex')"
        " || E'\"}}\\n' || split_part(body, E'\\n', 2)"
        " WHERE turn_id = {leaf}"
    ),
    # What was projected.
    "it was sealed before it started": (
        "I14 ALTER TABLE turntree.turns DROP CONSTRAINT turns_check1;"
        "UPDATE turntree.turns SET started_at = sealed_at + interval '1s' WHERE id = {leaf}"
    ),
    "there is no such turn": ("I14 UPDATE turntree.tool_calls SET turn_id = gen_random_uuid()"),
    "the tool calls are not those of the body": (
        "I14 UPDATE turntree.tool_calls SET status = 'error'"
    ),
    "the model calls are not those of the run's events": (
        "I14 UPDATE turntree.model_calls SET output_tokens = 1 WHERE call_id = 'call-1'"
    ),
    "the files are not those of the messages": "I14 DELETE FROM turntree.message_files",
    "the objects it refers to are not those noted": "I14 DELETE FROM turntree.object_holders",
    "objects are noted under it, and it is neither a turn nor a run": (
        "I14 INSERT INTO turntree.object_holders SELECT workspace_id, gen_random_uuid(), digest"
        " FROM turntree.objects LIMIT 1"
    ),
    "the compaction's row is not what the header says": (
        "I14 UPDATE turntree.compactions SET tokens_before = 99"
    ),
    "what it says of two things is not what stands beside it": (
        "I14 UPDATE turntree.event_links SET to_id = 'elsewhere' WHERE seq >= 0"
    ),
    # Sessions.
    "its head does not exist": (
        "I26 UPDATE turntree.sessions SET head_id = gen_random_uuid() WHERE id = {last}"
    ),
    "its reflog has a gap": (
        "I27 DELETE FROM turntree.session_history WHERE session_id = {trunk} AND version = 3"
    ),
    "it stands elsewhere than its newest move says": (
        "I27 UPDATE turntree.sessions SET version = version + 1 WHERE id = {last}"
    ),
    "the move begins elsewhere than the one before it ended": (
        "I27 UPDATE turntree.session_history SET before_id = {leaf}"
        " WHERE session_id = {trunk} AND kind = 'reset'"
    ),
    "the move and the event that tells of it differ, or one is missing": (
        "I27 UPDATE turntree.session_history SET by = 'human:eve' WHERE session_id = {last}"
    ),
    "how deep the session stood here is not what its reflog says": (
        "I27 UPDATE turntree.session_reach SET max_depth = max_depth + 1 WHERE session_id = {last}"
    ),
    "the key was answered with a move that does not exist": (
        "I27 UPDATE turntree.idempotency_keys SET version = 99"
    ),
    "a move of this kind cannot stand or lead here": (
        "I28 UPDATE turntree.session_history SET kind = 'create'"
        " WHERE session_id = {trunk} AND version = 2"
    ),
    "it does not go back to where the move it takes back began": (
        "I28 UPDATE turntree.session_history SET after_id = {leaf}"
        " WHERE session_id = {trunk} AND kind = 'undo'"
    ),
    "it rewound to a turn that is no ancestor": (
        "I28 UPDATE turntree.session_history SET after_id = {leaf}"
        " WHERE session_id = {trunk} AND kind = 'rewind'"
    ),
    "the session advanced to a turn that does not follow its head": (
        "I29 UPDATE turntree.session_history SET before_id = {leaf}"
        " WHERE session_id = {trunk} AND version = 3"
    ),
    "two moves left from one version": (
        "I29 ALTER TABLE turntree.session_history DROP CONSTRAINT session_history_pkey;"
        "INSERT INTO turntree.session_history SELECT * FROM turntree.session_history"
        " WHERE session_id = {trunk} AND version = 3"
    ),
    "the session has no label, or several": (
        "I30 UPDATE turntree.session_names SET reason = 'manual' WHERE name = 'last'"
    ),
    "the name leads to no session, or to several": (
        "I30 UPDATE turntree.session_names SET session_id = gen_random_uuid() WHERE name = 'also'"
    ),
    "the stream has a gap": (
        "I34 DELETE FROM turntree.events WHERE stream_id = {trunk} AND seq = 2"
    ),
    "the session's next place is not the end of its stream": (
        "I34 UPDATE turntree.sessions SET event_seq = event_seq + 1 WHERE id = {last}"
    ),
    "the object * is missing": "I37 DELETE FROM turntree.objects",
    "what the open run said here is missing, or something else": (
        "I37 DELETE FROM turntree.run_payloads"
    ),
    # What was added to them.
    "the event stands twice": (
        "I3 UPDATE turntree.events SET id = sha256('')"
        " WHERE kind IN ('node.tagged', 'message.erased')"
    ),
    "it refers to a thing of another kind": (
        "I6 UPDATE turntree.tags SET node_id = {last} WHERE tag = 'often'"
    ),
    "a file stands twice beside a message": (
        "I20 INSERT INTO turntree.message_files SELECT workspace_id, turn_id, message, 9,"
        " line_start, line_end, kind, path FROM turntree.message_files"
    ),
    "it is a compaction without details, or has details without being one": (
        "I23 DELETE FROM turntree.compactions"
    ),
    "it does not summarise its ancestors and keep what follows them": (
        "I24 UPDATE turntree.compactions SET first_kept = NULL"
    ),
    "it does not summarise as many turns as it says": (
        "I24 UPDATE turntree.compactions SET turns_summarized = 3"
    ),
    "the session, the call that began it and the event of it do not agree": (
        "I31 DELETE FROM turntree.spawns"
    ),
    "its parent's session never held the turn that began it": (
        "I31 UPDATE turntree.spawns SET parent_session_id = {last}"
    ),
    "two sessions come from here": (
        "I32 DROP INDEX turntree.sessions_origin;"
        "UPDATE turntree.sessions SET origin = 'a', origin_session_id = 'b'"
    ),
    "the run did not start once, finish once and leave its turn": (
        "I35 UPDATE turntree.runs SET status = 'finished'"
    ),
    "the run went on after it was interrupted, or did not end so": (
        "I38 UPDATE turntree.turns SET outcome = 'failed' WHERE outcome = 'interrupted'"
    ),
    "the call * had no result and did not end interrupted": (
        "I38 UPDATE turntree.tool_calls SET status = 'ok' WHERE status = 'interrupted'"
    ),
    # Resources.
    "what is attached is not what its events tell of": (
        "I43 UPDATE turntree.resource_attachments SET mode = 'rw' WHERE mode = 'ro'"
    ),
    "the state is not one that could be kept, or not as its event says": (
        "I44 UPDATE turntree.resources SET capabilities = ARRAY['fork'] WHERE kind = 'directory'"
    ),
    "something was brought back that cannot be": (
        "I45 UPDATE turntree.resources SET capabilities = ARRAY['snapshot']"
        " WHERE kind = 'directory'"
    ),
    "the fork does not say once of each resource what becomes of it": (
        "I46 UPDATE turntree.resources SET imperative = true WHERE kind = 'directory'"
    ),
    "the handle claims that it can be brought back": (
        "I47 ALTER TABLE turntree.handles DROP CONSTRAINT handles_never_come_back;"
        "UPDATE turntree.handles SET restorable = true"
    ),
    "advice stands in a fact": (
        "I48 UPDATE turntree.events SET body = replace(body, '\"data\":{{',"
        ' \'"data":{{"lease":"a",\') WHERE kind = \'turn.snapshotted\''
    ),
    "the bytes of a resource stand in a fact": (
        "I49 UPDATE turntree.events SET body = replace(body, '\"data\":{{',"
        ' \'"data":{{"content":"a",\') WHERE kind = \'snapshot.created\''
    ),
    "its status is not the one that its events tell of": (
        "I59 UPDATE turntree.sessions SET status = 'active' WHERE status = 'archived'"
    ),
    # Programs.
    "two programs have this name": (
        "I57 ALTER TABLE turntree.programs DROP CONSTRAINT programs_workspace_id_name_key;"
        "UPDATE turntree.programs SET name = 'same'"
    ),
    "its config cannot be read": (
        "I57 UPDATE turntree.objects SET bytes = 'no' WHERE digest IN"
        " (SELECT digest FROM turntree.program_versions)"
    ),
    "what it names is not what stands beside it": "I57 DELETE FROM turntree.program_refs",
    "its lifecycle does not allow the move": (
        "I58 UPDATE turntree.events SET"
        ' body = replace(body, \'"to":"published"\', \'"to":"deprecated"\')'
        " WHERE kind = 'provider.state_changed'"
    ),
    "it is otherwise than its events tell": (
        "I59 UPDATE turntree.programs SET visibility = 'public' WHERE visibility = 'private'"
    ),
    "its events cannot be those of a program": (
        "I59 DELETE FROM turntree.events WHERE kind = 'model.created'"
    ),
    "its events tell of a program that is not there": (
        "I59 DELETE FROM turntree.programs WHERE kind = 'agent'"
    ),
    "search keeps the words of a turn that does not exist": (
        "I62 INSERT INTO turntree.search_documents"
        " SELECT workspace_id, gen_random_uuid(), 1, '' FROM turntree.turns LIMIT 1"
    ),
    "the vector is of no turn, or not as long as its embedder's others": (
        "I62 INSERT INTO turntree.embeddings SELECT workspace_id, id, 'toy', array_fill("
        "1::real, ARRAY[CASE WHEN id = {leaf} THEN 2 ELSE 3 END]) FROM turntree.turns"
    ),
    "its tags are not those that its events tell of": (
        "I63 DELETE FROM turntree.tags WHERE tag = 'often'"
    ),
    "it refers to something that is not in its workspace": (
        "I65 UPDATE turntree.runs SET session_id = gen_random_uuid() WHERE status = 'open'"
    ),
    "the table does not keep workspaces apart": (
        "I65 CREATE POLICY all_of_it ON turntree.turns USING (true)"
    ),
    "the function lends the rights of another than the searcher": (
        "I65 ALTER FUNCTION turntree.unindex_turn OWNER TO CURRENT_USER"
    ),
    "the foreign key could lead into another workspace": (
        "I65 ALTER TABLE turntree.workspaces ADD head uuid;"
        "CREATE UNIQUE INDEX alone ON turntree.spawns (session_id);"
        "ALTER TABLE turntree.workspaces ADD FOREIGN KEY (head)"
        " REFERENCES turntree.spawns (session_id)"
    ),
    # What is sent to sessions.
    "the message and the run that it began do not agree": (
        "I67 UPDATE turntree.queued_messages SET payload = payload || ' '"
    ),
    "the session counts other messages than it was sent, or sleeps": (
        "I67 UPDATE turntree.session_queues SET awake = false"
    ),
    "two runs are open in the session": (
        "I67 DROP INDEX turntree.runs_one_open; UPDATE turntree.runs SET status = 'open',"
        " session_id = (SELECT session_id FROM turntree.runs WHERE status <> 'finished' LIMIT 1)"
    ),
    "the run is parked, and its events do not say so": (
        "I67 UPDATE turntree.runs SET status = 'parked' WHERE status = 'open'"
    ),
    # Who talks with whom.
    "who takes part is not who the events name": (
        "I50 UPDATE turntree.participants SET removed_by = NULL, removed_at = NULL"
    ),
    "the post and the event that describes it differ, or one is missing": (
        "I51 UPDATE turntree.posts SET author = 'human:bob' WHERE author LIKE 'human:%'"
    ),
    "its author took no part when it was posted": (
        "I51 DELETE FROM turntree.events WHERE kind = 'participant.added'"
    ),
    "its words have another digest": (
        "I51 UPDATE turntree.posts SET body = replace(body, 'hello', 'hullo')"
    ),
    "it is no session in which one agent answers one conversation": (
        "I52 UPDATE turntree.programs SET visibility = 'public' WHERE owner = 'system:conversation'"
    ),
    "no post of the conversation led to this message": (
        "I52 UPDATE turntree.queued_messages SET options = options - 'conversation'"
    ),
    "the turn and the posts of its conversation do not agree": (
        "I52 UPDATE turntree.posts SET turn_id = (SELECT id FROM turntree.turns LIMIT 1)"
    ),
    "the post was erased without an event, or by another than may erase it": (
        "I53 DELETE FROM turntree.events WHERE kind = 'post.erased'"
    ),
    "a system agent was removed": (
        "I54 UPDATE turntree.participants SET removed_at = now(), removed_by = 'human:ana'"
        " WHERE principal = 'agent:warden'"
    ),
    "it has no mention, and nothing was decided about it": (
        "I55 DELETE FROM turntree.post_decisions"
    ),
    "the decision about it and the event that describes it differ": (
        "I55 UPDATE turntree.post_decisions SET agents = ARRAY['agent:eve']"
    ),
    "the decision is about no person's post, or no turn of triage made it": (
        "I55 UPDATE turntree.post_decisions SET method = 'model',"
        " turn_id = (SELECT id FROM turntree.turns LIMIT 1)"
    ),
    "a call began that was not judged with these arguments, or was denied": (
        "I42 UPDATE turntree.events SET kind = 'acme.judged'"
        " WHERE kind = 'tool_call.judged' AND seq = 3"
    ),
    "what was decided is not what its event says": (
        "I70 UPDATE turntree.approvals SET state = 'answered', used_at = NULL WHERE state = 'used'"
    ),
    "it was decided by another than a person who was asked": (
        "I70 UPDATE turntree.approvals SET answerers = ARRAY['human:eve']"
    ),
    "the call did not start once, as it was allowed": (
        "I70 UPDATE turntree.approvals SET call_id = 'other'"
    ),
    "it waits for a run that is over, or keeps the arguments of one": (
        "I70 UPDATE turntree.runs SET status = 'finished' WHERE id IN"
        " (SELECT run_id FROM turntree.approvals)"
    ),
    "the conversation has another last post, or a gap before it": (
        "I56 DELETE FROM turntree.posts WHERE seq = 1"
    ),
    "the version is not the one that was proposed": (
        "I41 UPDATE turntree.policies SET source = replace(source, 'ask', 'allow')"
    ),
    "another policy is in force than the one that was activated last": (
        "I41 UPDATE turntree.policies SET is_active = false"
    ),
    # Who may do what.
    "the member's role is not the one that the events describe": (
        "I69 UPDATE turntree.members SET role = 'guest' WHERE principal = 'human:bob'"
    ),
    "the invitation did not end as the events describe": (
        "I69 UPDATE turntree.invitations SET revoked_by = 'human:eve', ended_at = now()"
    ),
    "the key is not the one that the events describe": (
        "I69 UPDATE turntree.api_keys SET scopes = jsonb_build_object('tools', 'all')"
    ),
    "the login session is not the one that the events describe": (
        "I69 UPDATE turntree.login_sessions SET expires_at = expires_at + interval '1 day'"
    ),
    "the linked account is not the one that the events describe": (
        "I69 UPDATE turntree.identities SET principal = 'human:eve'"
    ),
    "the events and the table disagree about a password": (
        "I69 UPDATE turntree.passwords SET principal = 'human:eve'"
    ),
    "the workspace has members, and none of them is an admin": (
        "I69 UPDATE turntree.members SET role = 'member'"
    ),
    # Beyond the formats of domain.secrets.
    "what looks like a secret key stands in it": (
        "I61 INSERT INTO turntree.objects SELECT workspace_id, sha256(b), b FROM ("
        " SELECT workspace_id, convert_to('key: AKI' || 'AIOSFODNN7EXAMPLE', 'UTF8') AS b"
        " FROM turntree.objects LIMIT 1) x"
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
async def test_a_planted_fault_is_found_by_name(
    database: Database, conninfo: str, sentence: str
) -> None:
    invariant, statement = FAULTS[sentence].split(" ", 1)
    plant(conninfo, statement)
    wanted = re.compile(re.escape(sentence).replace(r"\*", ".*"))
    assert [
        finding
        for finding in await fsck(database)
        if finding.invariant == invariant and wanted.fullmatch(finding.sentence)
    ]


def test_every_check_and_every_rule_has_a_fault_of_its_own() -> None:
    checks = (
        *invariants.TREE, *invariants.SESSIONS, *invariants.PROGRAMS, *invariants.WALKS,
        *invariants.OBJECTS,
    )  # fmt: skip
    assert {check.sentence for check in checks} <= FAULTS.keys()
    assert {*RULES, fsck_files.RULE} == INVARIANTS.keys()


def test_the_reference_lists_every_invariant() -> None:
    page = Path(__file__).parents[2] / "docs/reference/invariants.md"
    # A row of the table of rules has four cells; those that wait have two.
    row = re.compile(r"^\| (I\d+) \| (.*?) \| .* \| .* \|$", re.MULTILINE)
    rows = row.findall(page.read_text(encoding="utf-8"))
    assert dict(rows) == INVARIANTS


async def test_the_vectors_that_search_cannot_use_are_named_and_no_others(
    database: Database, tree: Tree, conninfo: str
) -> None:
    stray = FakeClock(8).new_id()
    with planting(conninfo) as connection:
        connection.execute(
            "INSERT INTO turntree.embeddings SELECT workspace_id, id, 'toy',"
            " array_fill(1::real, ARRAY[3]) FROM turntree.turns"
            " UNION ALL SELECT workspace_id, id, 'other', array_fill(1::real, ARRAY[4])"
            " FROM turntree.turns"
            " UNION ALL SELECT id, %s::uuid, 'toy', array_fill(1::real, ARRAY[3])"
            " FROM turntree.workspaces",
            (stray,),
        )
        leaf = (await tree.turns.get("last")).turn.id
        connection.execute(
            "UPDATE turntree.embeddings SET vector = array_fill(1::real, ARRAY[4])"
            " WHERE embedder = 'toy' AND node_id = %s",
            (leaf,),
        )
    found = await fsck(database, full=False)
    assert {one.invariant for one in found} == {"I62"}
    assert {one.subject for one in found} == {f"meaning of {id} by toy" for id in (leaf, stray)}


async def test_a_database_without_vectors_is_sound(database: Database, conninfo: str) -> None:
    plant(conninfo, "DROP TABLE turntree.embeddings")
    assert await fsck(database, full=False) == []
    assert repair_derived(conninfo, database.workspace, dry_run=False) == []


async def test_a_quick_look_does_not_hash(database: Database, conninfo: str) -> None:
    plant(conninfo, "UPDATE turntree.turn_bodies SET body = replace(body, 'leaf', 'lead')")
    assert await fsck(database, full=False) == []
    assert {finding.invariant for finding in await fsck(database)} == {"I12"}


async def test_a_ring_of_jumps_does_not_hang_it(database: Database, conninfo: str) -> None:
    plant(conninfo, "UPDATE turntree.segments SET jump_id = id, parent_id = id WHERE ordinal > 0")
    with anyio.fail_after(30):
        assert {"I10", "I11"} <= {finding.invariant for finding in await fsck(database)}


async def test_a_hopeless_ledger_ends_the_search(
    database: Database, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fscks, "FINDINGS_MAX", 5)
    monkeypatch.setattr(ranges, "RANGE_TURNS_MIN", 2)
    monkeypatch.setattr(ranges, "RANGES_WANTED", 1000)
    plant(conninfo, "UPDATE turntree.turn_bodies SET body = body || ' '")
    assert 5 <= len(await fsck(database)) < 20


@pytest.mark.parametrize("sequence", range(4))
async def test_an_erased_message_is_neither_broken_nor_a_finding(
    database: Database, tree: Tree, sequence: int
) -> None:
    # Its reply asks for a tool, tells the result and ends: each may be taken out alone.
    assert await tree.turns.erase(":/two", sequence, reason="asked")
    assert await fsck(database) == []
    head = (await tree.turns.get("trunk")).turn.id
    assert await verify_thread(database, head) == VerifyResult(whole=4, erased=1)


async def test_a_thread_proves_itself_by_pages(
    database: Database, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await tree.turns.get("deep-4")
    for turns_max in (1, 2, 3, 500):
        monkeypatch.setattr(verifies, "PAGE_TURNS_MAX", turns_max)
        verified = await verify_thread(database, head.turn.id)
        assert verified == VerifyResult(whole=head.depth)
        assert verified.turns == head.depth


TAMPERED = {
    "a word": "UPDATE turntree.turn_bodies SET body = replace(body, 'three', 'seven')",
    "a header": "UPDATE turntree.turn_bodies SET header = replace(header, 'human', 'agent')",
    "a whole body": "UPDATE turntree.turn_bodies SET body = '{{\"erased\":'",
    "no body": "DELETE FROM turntree.turn_bodies",
}


@pytest.mark.parametrize("what", TAMPERED)
async def test_a_changed_turn_is_named_as_broken(
    database: Database, tree: Tree, conninfo: str, what: str
) -> None:
    thread = await tree.threads.read("trunk")
    third = thread[2].turn.id
    plant(conninfo, f"{TAMPERED[what]} WHERE turn_id = '{third}'")
    verified = await verify_thread(database, thread[-1].turn.id)
    assert verified == VerifyResult(whole=4, broken=[third])


async def test_a_missing_turn_shows_in_its_child(
    database: Database, tree: Tree, conninfo: str
) -> None:
    thread = await tree.threads.read("trunk")
    third = thread[2].turn.id
    with planting(conninfo) as connection:
        connection.execute("DELETE FROM turntree.turns WHERE id = %s", (third,))
    verified = await verify_thread(database, thread[-1].turn.id)
    assert verified == VerifyResult(whole=3, broken=[thread[3].turn.id])


async def test_a_thread_that_is_not_there_cannot_be_verified(
    database: Database, world: FakeClock
) -> None:
    with pytest.raises(NotFound):
        await verify_thread(database, TurnId(world.new_id()))
