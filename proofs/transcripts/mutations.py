"""Records that no tool would write, made from some that it could.

Knows JSON and bytes. Must never know what a record means: the same strokes fall on every tool's.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from proofs.transcripts.mangle import STRANGE
from turntree.ledger.raw_codec import RawRecord

STROKES_MAX = 4
NESTED = 400
SURROGATE = "\ud800"
BYTES = (
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b'"',
    b"\\",
    b"{",
    b"]",
    b"\r",
    b"\\u0000",
    b"1e999",
)
MORE_STRANGE: list[Any] = [
    SURROGATE, f"half {SURROGATE} a pair", "a\x00b", "\x00" * 20, 2**31, 2**53 + 1, 2**63, -(2**63),
    10**400, -1e-300, 9e15, "9" * 400, "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999+00:00", 253402300800000, -62135596800, "x" * 9000, "data:;base64,=",
    "{" * NESTED, "..", "/", "@{1}", "~1", " ", "\u202e", "\U0001f600" * 3, {"": ""}, {"\x00": 1},
    {SURROGATE: SURROGATE}, [None] * 50, False, float("inf"), float("nan"),
]  # fmt: skip

Place = tuple[Any, ...]
Stroke = Callable[[list[RawRecord], random.Random], None]


def mutated(records: Sequence[RawRecord], dice: random.Random) -> list[RawRecord]:
    """Return records with a few things about them changed."""
    told = list(records)
    for _ in range(dice.randint(1, STROKES_MAX)):
        if told:
            dice.choice(STROKES)(told, dice)
    return told


def mutated_bytes(data: bytes, dice: random.Random) -> bytes:
    """Return bytes with a piece of them cut, doubled, or overwritten by something strange."""
    at = dice.randrange(len(data) + 1)
    end = min(at + dice.choice((1, 2, 8, 100, 5000)), len(data))
    return dice.choice(
        (
            data[:at],
            data[:at] + data[end:],
            data[:end] + data[at:],
            data[:at] + dice.choice(BYTES) + data[at:],
            data[:at] + dice.choice(BYTES) + data[end:],
            data[:at] + dice.randbytes(end - at) + data[end:],
        )
    )


def _retype(told: list[RawRecord], dice: random.Random) -> None:
    strange = dice.choice(STRANGE) if dice.random() < 0.5 else dice.choice(MORE_STRANGE)
    _edit(told, dice, lambda within, last: _put(within, last, strange))


def _delete_member(told: list[RawRecord], dice: random.Random) -> None:
    _edit(told, dice, lambda within, last: within.pop(last))


def _double_member(told: list[RawRecord], dice: random.Random) -> None:
    def double(within: Any, last: Any) -> None:
        if isinstance(within, list):
            within.insert(last, within[last])
        else:
            within[f"{last}2"] = within[last]

    _edit(told, dice, double)


def _shuffle_members(told: list[RawRecord], dice: random.Random) -> None:
    def shuffle(within: Any, _: Any) -> None:
        if isinstance(within, list):
            dice.shuffle(within)

    _edit(told, dice, shuffle)


def _nest(told: list[RawRecord], dice: random.Random) -> None:
    def nest(within: Any, last: Any) -> None:
        for _ in range(dice.choice((3, 60, 120, 240))):
            within[last] = [within[last]] if dice.random() < 0.5 else {"a": within[last]}

    _edit(told, dice, nest)


def _relink(told: list[RawRecord], dice: random.Random) -> None:
    """Let something point at something else that has a name, perhaps at itself."""
    names = [name for record in told for name in _names(_loaded(record.data))]
    if not names:
        return
    place = dice.randrange(len(told))
    document = _loaded(told[place].data)
    spots = [spot for spot in _places(document) if spot and _is_name(document, spot)]
    if spots:
        within, last = _at(document, dice.choice(spots))
        _put(within, last, dice.choice(names))
        told[place] = replace(told[place], data=_head(told[place].data) + _dumped(document))


def _cut(told: list[RawRecord], dice: random.Random) -> None:
    place = dice.randrange(len(told))
    told[place] = replace(told[place], data=mutated_bytes(told[place].data, dice))


def _drop(told: list[RawRecord], dice: random.Random) -> None:
    del told[dice.randrange(len(told))]


def _double(told: list[RawRecord], dice: random.Random) -> None:
    told.insert(dice.randrange(len(told) + 1), dice.choice(told))


def _reorder(told: list[RawRecord], dice: random.Random) -> None:
    if dice.random() < 0.3:
        dice.shuffle(told)
    else:
        one, other = dice.randrange(len(told)), dice.randrange(len(told))
        told[one], told[other] = told[other], told[one]


def _misplace(told: list[RawRecord], dice: random.Random) -> None:
    """Let a record stand in another file, or at the offset of another."""
    one, other = dice.randrange(len(told)), dice.choice(told)
    told[one] = replace(told[one], file=other.file, offset=other.offset)


def _swap_data(told: list[RawRecord], dice: random.Random) -> None:
    told[dice.randrange(len(told))] = replace(
        told[dice.randrange(len(told))], data=dice.choice(told).data
    )


STROKES: Sequence[Stroke] = (
    _retype, _retype, _retype, _retype, _delete_member, _delete_member, _double_member,
    _shuffle_members, _nest, _relink, _relink, _relink, _cut, _drop, _double, _reorder, _misplace,
    _swap_data,
)  # fmt: skip


def _edit(told: list[RawRecord], dice: random.Random, change: Callable[[Any, Any], object]) -> None:
    place = dice.randrange(len(told))
    document = _loaded(told[place].data)
    spots = [spot for spot in _places(document) if spot]
    if spots:
        change(*_at(document, dice.choice(spots)))
        told[place] = replace(told[place], data=_head(told[place].data) + _dumped(document))


def _loaded(data: bytes) -> Any:
    """Return a document; what stands in it as text that is a document is one, too."""
    try:
        return _opened(orjson.loads(data[len(_head(data)) :]))
    except ValueError:
        return None


def _head(data: bytes) -> bytes:
    """Return the line before a document, as a row has that is told by its key."""
    key, found, _ = data.partition(b"\n{")
    return key + b"\n" if found and not key.startswith((b"{", b"[")) else b""


class _Inner(dict[str, Any]):
    """A document that its tool writes as a text within another."""


def _opened(value: Any, depth: int = 0) -> Any:
    match value:
        case dict():
            return {name: _opened(member, depth + 1) for name, member in value.items()}
        case list():
            return [_opened(entry, depth + 1) for entry in value]
        case str() if value.startswith("{") and depth:
            try:
                inner = orjson.loads(value)
            except ValueError:
                return value
            return _Inner(_opened(inner)) if isinstance(inner, dict) else value
        case _:
            return value


def _closed(value: Any) -> Any:
    match value:
        case _Inner():
            return json.dumps({name: _closed(member) for name, member in value.items()})
        case dict():
            return {name: _closed(member) for name, member in value.items()}
        case list():
            return [_closed(entry) for entry in value]
        case _:
            return value


def _dumped(document: Any) -> bytes:
    return json.dumps(_closed(document)).encode()


def _places(value: Any, way: Place = ()) -> Iterator[Place]:
    yield way
    steps = value.items() if isinstance(value, dict) else ()
    for step, member in enumerate(value) if isinstance(value, list) else steps:
        yield from _places(member, (*way, step))


def _at(document: Any, place: Place) -> tuple[Any, Any]:
    *way, last = place
    for step in way:
        document = document[step]
    return document, last


def _put(within: Any, last: Any, value: Any) -> None:
    within[last] = value


def _is_name(document: Any, place: Place) -> bool:
    within, last = _at(document, place)
    named = isinstance(last, str) and last.lower().endswith(("id", "uuid", "parent", "node", "to"))
    return named and not isinstance(within[last], dict | list)


def _names(document: Any) -> Iterator[str]:
    for place in _places(document):
        if place and _is_name(document, place):
            within, last = _at(document, place)
            if isinstance(within[last], str):
                yield within[last]
