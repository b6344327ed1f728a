"""References: four shapes, one reading each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event, record
from turntree.core.ids import Digest, EventId, Timestamp
from turntree.core.ref import (
    EventRef,
    ExtRef,
    PathRef,
    Ref,
    UriRef,
    from_json,
    list_refs,
    node_id,
    to_json,
)

DIGEST = EventId(Digest("sha256:" + "0" * 64))
STREAM = "01a1c000-0000-7000-8000-000000000002"
REFS: st.SearchStrategy[Ref] = st.one_of(
    st.builds(EventRef, st.just(DIGEST)),
    st.builds(EventRef, st.just(DIGEST), st.just(STREAM), st.integers(0, 9)),
    st.builds(UriRef, st.text(min_size=1)),
    st.builds(PathRef, st.text(min_size=1)),
    st.builds(ExtRef, st.text(min_size=1), st.text(min_size=1)),
)


@given(REFS)
def test_a_reference_reads_back(ref: Ref) -> None:
    assert from_json(to_json(ref)) == ref


@pytest.mark.parametrize(
    ("ref", "document", "id"),
    [
        (EventRef(DIGEST), {"event_id": DIGEST}, DIGEST),
        (
            EventRef(DIGEST, STREAM, 3),
            {"event_id": DIGEST, "stream": STREAM, "seq": 3},
            f"{STREAM}/event/3",
        ),
        (UriRef("resource://p"), {"uri": "resource://p"}, "resource://p"),
        (PathRef("state/p.py"), {"path": "state/p.py"}, "state/p.py"),
        (ExtRef("tar", "7"), {"kind": "tar", "id": "7"}, "tar:7"),
    ],
)
def test_ref_becomes_its_document_and_its_node_id(
    ref: Ref, document: dict[str, Json], id: str
) -> None:
    assert to_json(ref) == document
    assert node_id(ref) == id


@pytest.mark.parametrize(
    "document", [{}, {"uri": 1}, {"id": "7"}, 3, None, ["x"], {"uri": "a", "path": "b"}]
)
def test_ref_from_invalid_document_is_refused(document: Json) -> None:
    with pytest.raises(InvalidOperation):
        from_json(document)


def test_an_event_says_what_it_refers_to() -> None:
    data: dict[str, Json] = {
        "resource_ref": "vol-1",
        "external_ref": {"kind": "tar", "id": "7"},
        "affects": [{"event_id": DIGEST}],
        "at_event": {"event_id": DIGEST},
        "mode": "rw",
    }
    assert list_refs(data) == [
        ("resource_ref", "vol-1"),
        ("external_ref", ExtRef("tar", "7")),
        ("affects", EventRef(DIGEST)),
        ("at_event", EventRef(DIGEST)),
    ]


@pytest.mark.parametrize("data", [{"resource_ref": {"name": "x"}}, {"affects": "all"}])
def test_own_event_with_invalid_reference_is_refused(data: dict[str, Json]) -> None:
    at = Timestamp("2026-11-15T09:31:02.000Z")
    with pytest.raises(InvalidOperation):
        record(Event(STREAM, 0, "run.interrupted", at, data))
    assert record(Event(STREAM, 0, "acme.interrupted", at, data)).event.data == data
