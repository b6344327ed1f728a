"""What only sealing refuses, forged so that it proves itself: fsck names it all the same."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import psycopg
import pytest

from proofs.fsck_plants import EVENTS, KEYS, RULES, TURNS, Documents, forge
from proofs.fsck_plants import plant as plant_rule
from proofs.fsck_story import USE
from tests.ledger.planted_events import planting, told_in
from turntree.api import Tree
from turntree.core import turn as turns
from turntree.core.canonical import canonical, digest_bytes, digest_raw
from turntree.core.ids import Digest
from turntree.core.message import (
    Message,
    assistant,
    line_of,
    user,
)
from turntree.core.redaction import Redactor, find_keys
from turntree.core.turn import Header
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def template(server: str, template: str) -> str:
    """A database in which the story was told, so that every test here begins after it."""
    return told_in(server, template)


FORGED: dict[str, tuple[str, list[Message], list[Message], int]] = {
    "it answers nothing": ("I16", [], [assistant("hi")], 0),
    "it is completed without a reply": ("I16", [user("hi")], [], 0),
    "an assistant's message stands in the query": (
        "I16", [user("hi"), assistant("I")], [assistant("hi")], 0,
    ),
    "the reply holds what was sent in": ("I16", [user("hi")], [assistant("hi"), user("so")], 0),
    "a tool call has no result": ("I17", [user("hi")], [assistant(USE)], 0),
    "the header counts 3 messages, the body holds 2": (
        "I15", [user("hi")], [assistant("hi")], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", FORGED)
async def test_a_forged_turn_that_proves_itself_is_found(
    database: Database, tree: Tree, conninfo: str, sentence: str
) -> None:
    invariant, query, reply, uncounted = FORGED[sentence]
    leaf = (await tree.turns.get("worker-77")).turn
    body, digest = seal_unchecked(leaf.header, query, reply, uncounted)
    with planting(conninfo) as connection:
        store_forged(connection, leaf.id, body, digest_raw(digest))
    found = {(finding.invariant, finding.sentence) for finding in await fsck(database)}
    assert (invariant, sentence) in found
    assert uncounted or "I12" not in {invariant for invariant, _ in found}


def seal_unchecked(
    header: Header, query: list[Message], reply: list[Message], uncounted: int
) -> tuple[str, Digest]:
    """A body that nobody checked, with a digest that it proves."""
    lines = [line_of(message) for message in (*query, *reply)]
    digests = [digest_bytes(line) for line in lines]
    more = [digest_bytes(b"")] * uncounted
    head = canonical(turns._header_to_json(header, len(query), [*digests, *more]))
    return b"\n".join((head, *lines)).decode(), digest_bytes(head)


def _turn(name: str, **members: object) -> tuple[str, str, Callable[[Documents], None]]:
    return name, "%", lambda documents: documents[0].update(members)


def _twice(documents: Documents) -> None:
    for said in documents[1:]:
        said["parts"] += [part for part in said["parts"] if part["kind"] == "tool_result"]


BODIES: dict[str, tuple[str, str, Callable[[Documents], None]]] = {
    "a moment is not written as one": _turn("I4", started_at="yesterday"),
    "the header is that of turn *": _turn("I2", id="01a1c000-0000-7000-8000-000000000002"),
    "a call was made twice or has two results": ("I18", '%"tool_result"%', _twice),
    "a compaction has no details, or another turn has": (
        "I23", '%"kind":"compaction"%', lambda documents: documents[0].pop("compaction"),
    ),
    "its manifest cannot be read": ("I37", "%object_ref%", lambda documents: documents[0].update(
        manifest=documents[1]["parts"][0]["object"]
    )),
    "what it was derived from is missing: *": _turn("I40", derived_from=["sha256:" + "1" * 64]),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BODIES)
async def test_a_forged_body_is_found(database: Database, conninfo: str, sentence: str) -> None:
    rule, like, change = BODIES[sentence]
    with planting(conninfo) as connection:
        turn, body = connection.execute(
            "SELECT turn_id, header || E'\\n' || body FROM turntree.turn_bodies"
            " WHERE header || body LIKE %s LIMIT 1",
            (like,),
        ).fetchall()[0]
        forged, digest = forge(str(body), change)
        store_forged(connection, turn, forged, digest)
    assert (rule, sentence) in await find(database, rule, sentence)


def store_forged(
    connection: "psycopg.Connection[Any]", turn: object, body: str, digest: bytes
) -> None:
    header, _, said = body.partition("\n")
    connection.execute("UPDATE turntree.turns SET digest = %s WHERE id = %s", (digest, turn))
    connection.execute(
        "UPDATE turntree.turn_bodies SET header = %s, body = %s WHERE turn_id = %s",
        (header, said, turn),
    )


FACTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a moment of the event is not written as one": ("I4", {"at": "2026-11-15T09:30:00Z"}),
    "the event is valid from its end on": (
        "I4", {"valid_from": "2026-11-15T09:30:00.000Z", "valid_to": "2026-11-15T09:30:00.000Z"},
    ),
    "the response answers no request": ("I36", {"correlation_id": "r2"}),
    "the fact replaces itself, or does so in the end": (
        "I39", {"data": {"original": "sha256:" + "1" * 64, "replacement": "sha256:" + "1" * 64}},
    ),
    "a fact of the replacement is missing: *": (
        "I39", {"data": {"original": "sha256:" + "1" * 64, "replacement": "sha256:" + "2" * 64}},
    ),
    "the grant goes beyond its chain of delegation": (
        "I60",
        {"data": {"by": {"kind": "human", "id": "ana"}, "permissions": {"tools": ["*"]},
                  "links": [{"kind": "human", "id": "ana", "rights": {"tools": ["read"]}}]}},
    ),
    "the grant names no chain of delegation": (
        "I60",
        {"data": {"by": {"kind": "agent", "id": "a"}, "permissions": {}, "links": []}},
    ),
    "it was recorded with another digest": (
        "I14", {"data": {"calls": [], "turn": "sha256:" + "1" * 64}},
    ),
}  # fmt: skip
KINDS = {"I36": "model_call.finished", "I39": "event.substituted", "I14": "turn.recorded",
         "I60": "permission.granted"}  # fmt: skip


@pytest.mark.parametrize("sentence", FACTS)
async def test_a_forged_event_is_found(database: Database, conninfo: str, sentence: str) -> None:
    rule, members = FACTS[sentence]
    with planting(conninfo) as connection:
        stream, seq, body = connection.execute(
            "SELECT stream_id, seq, body FROM turntree.events WHERE kind = %s LIMIT 1",
            (KINDS.get(rule, "node.tagged"),),
        ).fetchall()[0]
        forged = canonical({**orjson.loads(str(body)), **members})
        connection.execute(
            "UPDATE turntree.events SET body = %s, id = sha256(%s)"
            " WHERE stream_id = %s AND seq = %s",
            (forged.decode(), forged, stream, seq),
        )
    assert (rule, sentence) in await find(database, rule, sentence)


async def find(database: Database, rule: str, sentence: str) -> set[tuple[str, str]]:
    """What fsck finds, in which a sentence that fits the wanted one reads like it."""
    wanted = re.compile(re.escape(sentence).replace(r"\*", ".*"))
    return {
        (found.invariant, sentence if wanted.fullmatch(found.sentence) else found.sentence)
        for found in await fsck(database)
        if found.invariant == rule
    }


async def test_things_derived_in_a_circle_are_found(database: Database, conninfo: str) -> None:
    with planting(conninfo) as connection:
        rows = connection.execute(
            "SELECT turn_id, header || E'\\n' || body FROM turntree.turn_bodies LIMIT 3"
        ).fetchall()
        for place, (turn, body) in enumerate(rows):
            _, _, change = _turn("I40", derived_from=["sha256:" + str((place + 1) % 3) * 64])
            forged, _ = forge(str(body), change)
            store_forged(connection, turn, forged, bytes.fromhex(str(place) * 64))
    circle = ("I40", "it is derived from itself")
    found = [f for f in await fsck(database) if (f.invariant, f.sentence) == circle]
    assert {f.subject for f in found} == {str(turn) for turn, _ in rows}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_known_by_its_looks(key: str) -> None:
    said = [b"nothing", canonical({"text": f"first\n{key}, then"}), b"task-" + b"x" * 40]
    assert list(find_keys(said)) == [1]
    assert list(find_keys([said[0], said[2]])) == []
    assert list(find_keys([])) == []


async def test_a_secret_is_a_warning(database: Database, tree: Tree) -> None:
    turns = replace(tree.turns, redactor=Redactor(is_on=False))
    told = await turns.record("last", [user(f"use {KEYS[0]}")], [assistant("no")])
    (found,) = await fsck(database)
    assert (found.invariant, found.severity, found.subject) == ("I61", "warning", told.turn.id)


@pytest.mark.parametrize("rule", sorted({*TURNS, *EVENTS, *RULES}))
async def test_every_rule_is_named_when_it_is_broken(
    database: Database, conninfo: str, rule: str
) -> None:
    with planting(conninfo) as connection:
        other = connection.execute("INSERT INTO turntree.workspaces VALUES (%s, 'o') RETURNING id",
                                   (FakeClock(99).new_id(),)).fetchone()  # fmt: skip
        connection.execute(
            "INSERT INTO turntree.turns SELECT %s, gen_random_uuid(), parent_id, segment_id,"
            " started_at, sealed_at, depth, digest, kind, outcome, agent_role, model, provider"
            " FROM turntree.turns LIMIT 1",
            other,
        )
        subjects = plant_rule(connection, database.workspace, rule, 7, 1)
    told = [f"{f.subject} {f.sentence}" for f in await fsck(database) if f.invariant == rule]
    assert subjects
    assert all(any(subject in one for one in told) for subject in subjects)
