"""Events: a fact's id is the digest of its document, for ever."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import rfc8785
from hypothesis import given

from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.event import (
    KINDS,
    RESERVED_NOUNS,
    Event,
    Group,
    from_json,
    group_of,
    record,
    to_json,
)
from turntree.core.ids import Timestamp
from turntree.testing import strategies

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "golden/events.json").read_text(encoding="utf-8")
)["events"]
NOON, LATER = Timestamp("2026-09-21T12:00:00.000Z"), Timestamp("2026-09-21T13:00:00.000Z")
FACT = Event(
    "01a0c3a8-2001-7000-8000-000000000001", 0, "run.interrupted", NOON, {"reason": "crash"}
)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_the_bytes_and_id_of_an_event_never_change(case: dict[str, Any]) -> None:
    recorded = record(from_json(case["document"]))
    assert recorded.body == case["canonical"]
    assert recorded.id == case["digest"]
    assert group_of(recorded.event.kind) == case["group"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_independent_implementation_computes_same_id(case: dict[str, Any]) -> None:
    written = rfc8785.dumps(case["document"])
    assert written.decode() == case["canonical"]
    assert "sha256:" + hashlib.sha256(written).hexdigest() == case["digest"]


def test_vectors_cover_every_group_and_member() -> None:
    assert {case["group"] for case in GOLDEN} == set(get_args(Group)) == set(KINDS.values())
    members = {name for case in GOLDEN for name in case["document"]}
    assert members == {
        "turntree", "stream", "seq", "kind", "at", "data",
        "parents", "correlation_id", "valid_from", "valid_to",
    }  # fmt: skip


@given(strategies.events())
def test_an_event_reads_back(event: Event) -> None:
    recorded = record(event)
    assert from_json(json.loads(recorded.body)) == recorded.event == event
    assert record(from_json(to_json(event))) == recorded


@given(strategies.events())
def test_same_event_at_another_position_has_another_id(event: Event) -> None:
    assert record(event).id != record(replace(event, seq=event.seq + 1)).id
    assert record(event).id != record(replace(event, stream="elsewhere")).id


@pytest.mark.parametrize("noun", sorted(RESERVED_NOUNS | {"session", "tool_call"}))
def test_group_of_refuses_an_unknown_kind_of_a_reserved_noun(noun: str) -> None:
    with pytest.raises(InvalidOperation, match=f"the noun '{noun}' is reserved"):
        group_of(f"{noun}.exploded")


def test_group_of_an_unregistered_kind_needs_noun_and_verb() -> None:
    assert group_of("acme.deployed") == "observation"
    for kind in ("deployed", "", "run started"):
        with pytest.raises(InvalidOperation, match=r"use noun\.verb"):
            record(replace(FACT, kind=kind))


def test_event_validity_that_ends_before_start_is_refused() -> None:
    for end in (NOON, Timestamp("2026-09-21T11:59:59.999Z")):
        with pytest.raises(InvalidOperation, match="which is never"):
            record(replace(FACT, valid_from=NOON, valid_to=end))
    record(replace(FACT, valid_from=NOON, valid_to=LATER))
    record(replace(FACT, valid_to=NOON))


def test_data_without_a_canonical_form_cannot_be_recorded() -> None:
    with pytest.raises(NotCanonical, match=r"data\.n"):
        record(replace(FACT, data={"n": float("nan")}))


def test_absent_members_are_omitted() -> None:
    assert set(to_json(FACT)) == {"turntree", "stream", "seq", "kind", "at", "data"}
