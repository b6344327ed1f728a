"""Canonical bytes of a value, and digests of bytes. No other module computes either.

Changing what this module returns changes every digest ever issued: the vectors in
``tests/core/golden`` pin it. The bytes are RFC 8785. This module does not know turns, events or
objects, and it never parses bytes: a digest is checked against the bytes that were stored, never
against a second serialization of the value.

Some values that RFC 8785 accepts are refused: integers and floats of 2**53 or more. Their canonical
form parses as another number in most languages, so other implementations could not compute the
same digest. They must be passed as strings.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast

import orjson
import rfc8785

from turntree.core.errors import NotCanonical
from turntree.core.ids import Digest

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""A JSON value. At run time, containers must be ``dict``, ``list`` or ``tuple``."""

INTEGER_MAX: Final = 2**53 - 1
NESTING_MAX: Final = 128
"""Deeper values are refused: each parser has its own limit."""

_Path: TypeAlias = tuple[str | int, ...]
_ALGORITHM: Final = "sha256:"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SHOWN_MAX: Final = 40
_PATH_SHOWN_MAX: Final = 160
_INTEGER_SHOWN_BITS_MAX: Final = 128
# For integers out of range, lone surrogates and other types orjson raises, which leads to the slow
# path and its message. Without the passthrough options it would choose an encoding of its own.
_OPTIONS: Final = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_PLAIN: Final = frozenset({str, int, bool, type(None)})


def canonical(value: Json) -> bytes:
    """Return the RFC 8785 bytes of ``value``: equal values, equal bytes, on any machine.

    Raises:
        NotCanonical: a member has no canonical form; the message names it.
    """
    if _is_plain(value, NESTING_MAX):
        try:
            return orjson.dumps(value, option=_OPTIONS)
        except orjson.JSONEncodeError:
            # The slow path below finds the reason and the member.
            pass
    _check(value, ())
    return rfc8785.dumps(value)


def as_text(value: Json) -> str:
    """Return a string as it is, and any other value as canonical JSON.

    Raises:
        NotCanonical: The value has no canonical form; the message names the place.
    """
    return value if isinstance(value, str) else canonical(value).decode()


def digest(value: Json) -> Digest:
    """Return the digest of the canonical bytes of ``value``.

    Raises:
        NotCanonical: as ``canonical`` does.
    """
    return digest_bytes(canonical(value))


def digest_bytes(data: bytes) -> Digest:
    """Return the digest of bytes as they are stored."""
    return Digest(_ALGORITHM + hashlib.sha256(data).hexdigest())


def digest_raw(digest: Digest) -> bytes:
    """Return the 32 raw bytes of a digest."""
    return bytes.fromhex(digest[len(_ALGORITHM) :])


def digest_from_raw(raw: bytes) -> Digest:
    """Return the digest whose stored form is ``raw``.

    Raises:
        NotCanonical: it is not 32 bytes long.
    """
    if len(raw) != hashlib.sha256().digest_size:
        raise NotCanonical(f"a sha256 digest has 32 bytes, not {len(raw)}")
    return Digest(_ALGORITHM + raw.hex())


def is_digest(text: str) -> bool:
    """Return whether a text is written like a whole digest."""
    return _DIGEST.fullmatch(text) is not None


def parse_digest(text: str) -> Digest:
    """Return ``text`` as a digest; one digest has one spelling, so capitals are refused.

    Raises:
        NotCanonical: another algorithm, another length or other characters.
    """
    if not is_digest(text):
        raise NotCanonical(f"{_shown(text)} is not sha256: followed by 64 digits of 0-9 and a-f")
    return Digest(text)


def _is_plain(value: Any, nesting_left: int) -> bool:
    """Return whether orjson, if it accepts ``value``, writes the same bytes as RFC 8785.

    The two differ on floats and on the order of keys: orjson sorts by code point, RFC 8785 by
    UTF-16 code unit. For ASCII keys both orders are the same. This runs for each turn and event,
    hence exact types, no ``isinstance`` and no recursive call for scalar members.
    """
    kind: type[object] = value.__class__
    if kind is dict:
        for key, member in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if type(member) not in _PLAIN and not (
                nesting_left and _is_plain(member, nesting_left - 1)
            ):
                return False
        return True
    if kind is list or kind is tuple:
        for member in value:
            if type(member) not in _PLAIN and not (
                nesting_left and _is_plain(member, nesting_left - 1)
            ):
                return False
        return True
    return kind in _PLAIN


def _check(value: Any, path: _Path) -> None:
    """Refuse the first member that has no canonical form. Speed does not matter here."""
    kind: type[object] = value.__class__
    if kind is dict:
        for key in value:
            _check_key(key, path)
        _check_members(value.items(), path)
    elif kind is list or kind is tuple:
        members: Sequence[Json] = value
        _check_members(enumerate(members), path)
    elif isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, int):
        _check_integer(value, path)
    elif isinstance(value, float):
        _check_float(value, path)
    elif value is not None:
        _refuse(path, f"a {kind.__name__} is not JSON")


def _check_members(members: Iterable[tuple[str | int, Json]], path: _Path) -> None:
    if len(path) > NESTING_MAX:
        _refuse(path, f"nested deeper than {NESTING_MAX} levels")
    for place, member in members:
        _check(member, (*path, place))


def _check_key(key: object, path: _Path) -> None:
    if not isinstance(key, str):
        _refuse(path, f"a key must be a string, not a {type(key).__name__}")
    _check_text(key, (*path, key))


def _check_text(text: str, path: _Path) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        _refuse(path, f"a lone surrogate at character {error.start} is not Unicode text")


def _check_integer(number: int, path: _Path) -> None:
    if abs(number) > INTEGER_MAX:
        _refuse(path, f"{_shown_integer(number)} is beyond 2^53 - 1; write it as a string")


def _check_float(number: float, path: _Path) -> None:
    if not math.isfinite(number):
        _refuse(path, f"{number} is not a number in JSON")
    if abs(number) > INTEGER_MAX:
        _refuse(path, f"{number} is not below 2^53; write it as a string")


def _refuse(path: _Path, what: str) -> NoReturn:
    raise NotCanonical(f"{_shown_path(path)}: {what}")


def _shown_path(path: _Path) -> str:
    """Return ``parts[0].args.n``, and ``the value`` for the value as a whole."""
    shown = "".join(_shown_place(place) for place in path).removeprefix(".") or "the value"
    if len(shown) <= _PATH_SHOWN_MAX:
        return shown
    half = _PATH_SHOWN_MAX // 2
    return f"{shown[:half]}...{shown[-half:]}"


def _shown_place(place: str | int) -> str:
    if isinstance(place, int):
        return f"[{place}]"
    if place.isascii() and place.isidentifier() and len(place) <= _SHOWN_MAX:
        return f".{place}"
    return f"[{_shown(place)}]"


def _shown(text: str) -> str:
    """Return ``text`` quoted, in ASCII and shortened to fit a line."""
    return ascii(text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}...")


def _shown_integer(number: int) -> str:
    # Python itself refuses to write integers of more than 4300 digits.
    bits = number.bit_length()
    return str(number) if bits <= _INTEGER_SHOWN_BITS_MAX else f"an integer of {bits} bits"


TOO_DEEP: Final = "nested beyond reason"
"""Replaces a value that is nested too deeply: encoding it would exhaust the stack."""


_NESTING_LEFT: Final = NESTING_MAX - 16


def tidy(value: object, nesting_left: int = _NESTING_LEFT) -> Json:
    """Return a value with a canonical form; what has none becomes text."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case bool() | None:
            return value
        case int():
            return value if -INTEGER_MAX <= value <= INTEGER_MAX else str(value)
        case float():
            whole = math.isfinite(value) and abs(value) <= INTEGER_MAX
            return value if whole else str(value)
        case dict():
            members = cast("dict[object, object]", value)
            if not nesting_left:
                return TOO_DEEP
            return {
                cast("str", tidy(str(name))): tidy(member, nesting_left - 1)
                for name, member in members.items()
            }
        case list() | tuple():
            entries = cast("Sequence[object]", value)
            if not nesting_left:
                return TOO_DEEP
            return [tidy(entry, nesting_left - 1) for entry in entries]
        case _:
            return str(value)
