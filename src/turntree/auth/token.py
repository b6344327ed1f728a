"""Tokens: a delegation chain that can travel, be narrowed on its way, and never be widened.

A token is a list of blocks and one signature. The first block is signed with a key that only the
issuer has; every later one with the signature before it, which the block then replaces:

    signature 0 = HMAC-SHA256(key, block 0)
    signature n = HMAC-SHA256(signature n-1, block n)

So a holder can add a block without any key and without asking the issuer, and cannot remove one:
that would need a signature that is no longer there. A token permits what all of its blocks permit,
so a block that claims more than the ones before it has no effect.

A token names permissions for credentials and never holds one. The time, the key and the nonce are
arguments: this module must never fetch them.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, cast

import orjson

from turntree.auth.delegation import (
    CHAIN_LINKS_MAX,
    DelegationChain,
    DelegationLink,
    check_holder,
    link_from_json,
)
from turntree.auth.permissions import Permissions
from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation, PermissionDenied
from turntree.core.event import Event
from turntree.core.ids import Timestamp, derived_id, is_instant
from turntree.core.principal import Principal
from turntree.core.value import value

RECIPE: Final = "tt1"
# As long as the HMAC's digest: a shorter key would be the easier target.
KEY_BYTES_MIN: Final = 32
# Checked before anything is parsed, because any client can send a token.
TOKEN_CHARS_MAX: Final = 65_536
BLOCKS_MAX: Final = CHAIN_LINKS_MAX
NONCE_CHARS_MIN: Final = 8

ISSUED: Final = "token.issued"
REVOKED: Final = "token.revoked"

_MEMBERS: Final = frozenset({"rights", "to", "audience", "expires_at", "config"})
_FIRST_MEMBERS: Final = frozenset(
    {"turntree", "nonce", "links", "audience", "expires_at", "config"}
)


@value
class TokenLimits:
    """The audience and the expiry of a token. Of several, every one applies."""

    audience: str | None = None
    """Its audience: a run, a session, a server."""
    expires_at: Timestamp | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members that are set."""
        named = {"audience": self.audience, "expires_at": self.expires_at}
        return {name: value for name, value in named.items() if value is not None}


@value
class OpenedToken:
    """The contents of a valid token."""

    chain: DelegationChain
    config: Mapping[str, Json]
    nonce: str
    """Identifies the token; revocation is by nonce."""
    expires_at: Timestamp


@value
class TokenRecord:
    """What a ledger knows about a token: never the token itself."""

    nonce: str
    holder: str | None
    """The principal that acts with it; None if it was issued without a record."""
    audience: str | None
    issued_by: str | None
    issued_at: Timestamp | None
    expires_at: Timestamp | None
    revoked_by: str | None = None
    revoked_at: Timestamp | None = None
    reason: str | None = None


def stream_of(nonce: str) -> str:
    """Return the stream of a token's events."""
    return derived_id(0, "token", nonce)


def fold_tokens(facts: Iterable[Event]) -> list[TokenRecord]:
    """Return the tokens of the events, in the order of their first event."""
    known: dict[str, TokenRecord] = {}
    for fact in facts:
        data: Mapping[str, Any] = fact.data
        nonce = str(data["nonce"])
        before = known.get(nonce, TokenRecord(nonce, None, None, None, None, None))
        if fact.kind == ISSUED:
            known[nonce] = replace(
                before,
                holder=data["holder"],
                audience=data["audience"],
                issued_by=data["by"],
                issued_at=fact.at,
                expires_at=Timestamp(data["expires_at"]),
            )
        elif before.revoked_at is None:
            # The first revocation counts; a second one must not change who did it and why.
            known[nonce] = replace(
                before, revoked_by=data["by"], revoked_at=fact.at, reason=data.get("reason")
            )
    return list(known.values())


@value
class _TokenContents:
    """The sum of the blocks so far."""

    links: tuple[DelegationLink, ...] = ()
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])


def issue(
    chain: DelegationChain,
    *,
    key: bytes,
    nonce: str,
    audience: str,
    expires_at: Timestamp,
    config: Mapping[str, Json] | None = None,
) -> str:
    """Return a token of a chain, for one audience and until a given time.

    Raises:
        InvalidOperation: The key or the nonce is too short to be secure, or the time is invalid.
    """
    if len(key) < KEY_BYTES_MIN:
        raise InvalidOperation(f"a key that signs tokens has at least {KEY_BYTES_MIN} bytes")
    if len(nonce) < NONCE_CHARS_MIN:
        raise InvalidOperation(f"a nonce has at least {NONCE_CHARS_MIN} characters")
    limits = _checked(TokenLimits(audience, expires_at))
    # Canonical bytes: the signature covers exactly what the reader parses.
    first = canonical({
        "turntree": "token/1",
        "nonce": nonce,
        "links": chain.to_json(),
        "config": dict(config or {}),
        **limits.to_json(),
    })  # fmt: skip
    return _spell([first], _sign(key, first))


def narrow(
    token: str,
    *,
    rights: Permissions | None = None,
    to: Principal | None = None,
    limits: TokenLimits | None = None,
    config: Mapping[str, Json] | None = None,
) -> str:
    """Return a token that permits less, or another principal; no key is needed.

    ``rights`` alone narrow what the holder may do. With ``to`` another principal acts on the
    holder's behalf, with those of its own permissions that the token permits too.

    Raises:
        PermissionDenied: The text is not a token.
        InvalidOperation: It has too many blocks already, nothing was asked for, or it would be
            delegated to a human or the system. A setting that an earlier block made is refused
            when the token is opened.
    """
    blocks, signature = _parse(token)
    if len(blocks) >= BLOCKS_MAX:
        raise InvalidOperation(f"a token is narrowed at most {BLOCKS_MAX - 1} times")
    document: dict[str, Any] = _checked(limits or TokenLimits()).to_json()
    if rights is not None:
        document["rights"] = rights.to_json()
    if to is not None:
        if rights is None or to.on_behalf_of is not None:
            raise InvalidOperation("a token is delegated to one principal, with permissions")
        check_holder(to.kind, to.id)
        document["to"] = {"kind": to.kind, "id": to.id}
    if config:
        document["config"] = dict(config)
    if not document:
        raise InvalidOperation("nothing to narrow")
    block = canonical(document)
    # The old signature is the key of the new block and is not passed on, so a block can be added
    # and none removed.
    return _spell([*blocks, block], _sign(signature, block))


def open_token(token: str, *, key: bytes, audience: str, now: Timestamp) -> OpenedToken:
    """Return what a token permits.

    Raises:
        PermissionDenied: It was not signed with the key, is for another audience, has expired, or
            is not a valid delegation chain.
    """
    blocks, signature = _parse(token)
    expected = key
    for block in blocks:
        # Parsed only after the signature is checked, since any client can send one.
        expected = _sign(expected, block)
    if not hmac.compare_digest(expected, signature):
        raise PermissionDenied("the token was not signed with this key, or was changed")
    documents = [_document(block) for block in blocks]
    expires_at = _check_limits(documents, audience, now)
    try:
        read = _TokenContents()
        for document in documents:
            read = _add(read, document)
        return OpenedToken(
            DelegationChain(read.links), read.config, str(documents[0]["nonce"]), expires_at
        )
    except InvalidOperation as error:
        raise PermissionDenied(f"the token is not a valid delegation chain: {error}") from error


def _add(read: _TokenContents, document: Mapping[str, Any]) -> _TokenContents:
    """Return the sum of the blocks with one more.

    Any holder of the token may have written it, so nothing in it is trusted, and unknown members
    are refused: they may have been meant to narrow.
    """
    if strangers := document.keys() - (_MEMBERS if read.links else _FIRST_MEMBERS):
        raise InvalidOperation(f"it holds an unknown member {min(strangers)!r}")
    said = document.get("config", {})
    if not isinstance(said, Mapping):
        raise InvalidOperation("settings must be an object")
    config = _add_config(read.config, cast("Mapping[str, Json]", said))
    match document:
        case {"links": [*links]}:
            return _TokenContents(tuple(link_from_json(link) for link in links), config)
        case {"to": {"kind": kind, "id": id}, "rights": rights}:
            link = link_from_json({"kind": kind, "id": id, "rights": rights})
            return _TokenContents((*read.links, link), config)
        case {"to": _} | {"links": _}:
            raise InvalidOperation("a block delegates the token to one principal, with permissions")
        case {"rights": rights} if read.links:
            last = read.links[-1]
            link = link_from_json({"kind": last.kind, "id": last.id, "rights": rights})
            return _TokenContents((*read.links, link), config)
        case _:
            return _TokenContents(read.links, config)


def _add_config(before: Mapping[str, Json], said: Mapping[str, Json]) -> dict[str, Json]:
    """Return settings with those of one more block, which may add some and replace none."""
    for name in said.keys() & before.keys():
        if said[name] != before[name]:
            raise InvalidOperation(f"it replaces the setting {name!r}, which an earlier block made")
    return {**before, **said}


def _check_limits(
    documents: Sequence[Mapping[str, Any]], audience: str, now: Timestamp
) -> Timestamp:
    """Return when a token expires, unless one of its blocks makes it invalid here."""
    moments: list[Timestamp] = []
    for document in documents:
        if document.get("audience", audience) != audience:
            raise PermissionDenied(
                f"the token is meant for {document['audience']}, not for {audience}"
            )
        if (moment := document.get("expires_at")) is not None:
            if not isinstance(moment, str) or not is_instant(moment):
                raise PermissionDenied(f"{moment!r} is not a valid expiry")
            moments.append(Timestamp(moment))
    if not moments or "audience" not in documents[0] or "nonce" not in documents[0]:
        raise PermissionDenied("the token names no audience or no expiry")
    if now >= min(moments):
        raise PermissionDenied(f"the token expired at {min(moments)}")
    return min(moments)


def _checked(limits: TokenLimits) -> TokenLimits:
    if limits.expires_at is not None and not is_instant(limits.expires_at):
        raise InvalidOperation(f"{limits.expires_at!r} is not a valid timestamp")
    if limits.audience == "":
        raise InvalidOperation("a token needs an audience")
    return limits


def _sign(key: bytes, block: bytes) -> bytes:
    return hmac.digest(key, block, hashlib.sha256)


def _spell(blocks: Sequence[bytes], signature: bytes) -> str:
    """Return ``tt1.block.block.signature``; blocks travel as the bytes that were signed."""
    token = ".".join((RECIPE, *map(_encode, blocks), _encode(signature)))
    if len(token) > TOKEN_CHARS_MAX:
        raise InvalidOperation(f"a token has at most {TOKEN_CHARS_MAX} characters")
    return token


def _parse(token: str) -> tuple[list[bytes], bytes]:
    recipe, *pieces = token.split(".") if len(token) <= TOKEN_CHARS_MAX else [""]
    if recipe != RECIPE or not 2 <= len(pieces) <= BLOCKS_MAX + 1:  # noqa: PLR2004  (block, signature)
        raise PermissionDenied("not a Turntree token")
    try:
        *blocks, signature = (_decode(piece) for piece in pieces)
    except (ValueError, binascii.Error) as error:
        raise PermissionDenied("not a Turntree token") from error
    return blocks, signature


def _document(block: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(block)
    except orjson.JSONDecodeError as error:
        raise PermissionDenied("a block of the token cannot be read") from error
    if not isinstance(document, dict):
        raise PermissionDenied("a block of the token is not a JSON object")
    return cast("Mapping[str, Any]", document)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    padded = text.encode("ascii") + b"=" * (-len(text) % 4)
    data = base64.b64decode(padded, altchars=b"-_", validate=True)
    # A token has exactly one encoding: bits beyond the last byte must be zero.
    if _encode(data) != text:
        raise ValueError(text)
    return data
