"""References from an event to something outside it.

A reference is an id as it is, or one of four documents: an event, a URI, a path, or something in
another system. This module knows their forms, but not whether the target exists.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias, assert_never

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, EventId
from turntree.core.value import value

_SHAPES: Final = "{event_id}, {uri}, {path} or {kind, id}"
_LISTS: Final = ("affects", "input_refs")
_EVENTS: Final = ("at_event", "original", "replacement", "source_event")


@value
class EventRef:
    """An event. Without a position it is looked up in the stream of the referring event."""

    event_id: EventId
    stream: str | None = None
    seq: int | None = None


@value
class UriRef:
    """Something with a URI: ``resource://approval-policy/policy.py``."""

    uri: str


@value
class PathRef:
    """A file in a volume or a repository."""

    path: str


@value
class ExtRef:
    """Something that another system knows by an id of its own."""

    kind: str
    id: str


Ref: TypeAlias = EventRef | UriRef | PathRef | ExtRef


def to_json(ref: Ref) -> dict[str, Json]:
    """Return the document of a reference."""
    match ref:
        case EventRef(event_id, None, None):
            return {"event_id": event_id}
        case EventRef(event_id, stream, seq):
            return {"event_id": event_id, "stream": stream, "seq": seq}
        case UriRef(uri):
            return {"uri": uri}
        case PathRef(path):
            return {"path": path}
        case ExtRef(kind, id):
            return {"kind": kind, "id": id}
        case _:
            assert_never(ref)


def from_json(document: Json) -> Ref:
    """Return the reference that a document describes.

    Raises:
        InvalidOperation: It has none of the four forms.
    """
    match document:
        case {"event_id": str(event_id), "stream": str(stream), "seq": int(seq), **rest}:
            ref: Ref = EventRef(EventId(Digest(event_id)), stream, seq)
        case {"event_id": str(event_id), **rest}:
            ref = EventRef(EventId(Digest(event_id)))
        case {"uri": str(uri), **rest}:
            ref = UriRef(uri)
        case {"path": str(path), **rest}:
            ref = PathRef(path)
        case {"kind": str(kind), "id": str(id), **rest}:
            ref = ExtRef(kind, id)
        case _:
            raise InvalidOperation(f"{document!r} is not a reference; a reference is {_SHAPES}")
    if rest:
        raise InvalidOperation(
            f"{', '.join(map(str, rest))} is not part of a reference; a reference is {_SHAPES}"
        )
    return ref


def node_id(ref: Ref) -> str:
    """Return the id of the reference's target in the ledger's edges."""
    match ref:
        case EventRef(event_id, None, _) | EventRef(event_id, _, None):
            return event_id
        case EventRef(_, stream, seq):
            return f"{stream}/event/{seq}"
        case UriRef(uri):
            return uri
        case PathRef(path):
            return path
        case ExtRef(kind, id):
            return f"{kind}:{id}"
        case _:
            assert_never(ref)


def list_refs(data: Mapping[str, Json]) -> list[tuple[str, Ref | str]]:
    """Return the references in an event's data, with the names of their members: ids stay ids.

    Raises:
        InvalidOperation: A member that should be a reference is not one.
    """
    refs: list[tuple[str, Ref | str]] = []
    for name, member in data.items():
        if name in _LISTS:
            if not isinstance(member, list):
                raise InvalidOperation(f"{name} is a list of references, not {member!r}")
            refs += [(name, _read(item)) for item in member]
        elif (name.endswith("_ref") or name in _EVENTS) and member is not None:
            refs.append((name, _read(member)))
    return refs


def _read(value: Json) -> Ref | str:
    return value if isinstance(value, str) else from_json(value)
