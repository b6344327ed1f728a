"""Where a message may be sent. Every target resolves to one route.

A sender whom nobody has identified is known by the channel: ``channel:telegram:42``. Once we know
who it is, ``entity:ana``. Both are labels of sessions, so that what was a stranger's session
becomes the person's by a new name, and the old one leads there still.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, assert_never

from turntree.core.canonical import Json
from turntree.core.errors import InvalidRevision
from turntree.core.ids import Label, TurnId
from turntree.core.revision import (
    LABEL_CHARS_MAX,
    ProgramRef,
    Revision,
    check_label,
    parse_revision,
)
from turntree.core.value import value

MAIN: Final = "main"
CHANNEL: Final = "channel"
ENTITY: Final = "entity"
_PERSONA: Final = "persona:"
_KEY: Final = re.compile(r"channel:[^:]+:.+|entity:.+", re.DOTALL)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]")
_DIGEST_CHARS: Final = 32


@value
class ToTurn:
    """Continue from this very turn, whatever came after it."""

    turn: TurnId


@value
class ToSession:
    """Continue wherever this session stands; the label may be an alias."""

    label: Label


@value
class ToPersona:
    """Continue the main session of a persona: ``atlas`` has ``atlas:main``."""

    name: str


@value
class ToSender:
    """Continue the session of whoever wrote, begun if there is none: direct, by alias, new."""

    key: Label


@value
class ToContent:
    """Continue the thread that fits best what the message says."""


Target = ToTurn | ToSession | ToPersona | ToSender | ToContent


@value
class Overrides:
    """Settings of a single message. They are merged over the thread's, for its turn alone."""

    model: Mapping[str, Json] = field(default_factory=dict[str, Json])
    permissions: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """They can narrow what the thread may do, never widen it."""

    def merged(self, other: "Overrides") -> "Overrides":
        """Return both, where the other wins."""
        return Overrides({**self.model, **other.model}, {**self.permissions, **other.permissions})


TriggerMode = Literal["persona", "session", "thread"]


@value
class TriggerRouting:
    """Where the messages of a trigger go: by default to a persona, which decides what to do."""

    mode: TriggerMode = "persona"
    target: str | None = None
    """A session's label or a turn's id; a persona is the trigger's own unless one is named."""

    def target_for(self, persona: str) -> Target:
        """Return the target of a trigger that belongs to a persona.

        Raises:
            InvalidRevision: It addresses a session or a turn and names none.
        """
        if self.mode == "persona":
            return ToPersona(self.target or persona)
        if not self.target:
            raise InvalidRevision(f"a trigger that addresses a {self.mode} names one")
        match self.mode:
            case "session":
                return ToSession(check_label(self.target))
            case "thread":
                return ToTurn(TurnId(self.target.removeprefix("turn:")))
            case _:
                assert_never(self.mode)


def parse_target(text: str) -> Target | Revision:
    """Return what a person addressed; a revision still has to be looked up.

    ``@(atlas)`` and ``persona:atlas`` are personas, ``channel:telegram:42`` and ``entity:ana`` are
    senders, nothing at all is the thread that fits, anything else is a revision.

    Raises:
        InvalidRevision: It is none of these.
    """
    if not text.strip():
        return ToContent()
    if text.startswith(_PERSONA):
        return ToPersona(check_label(text.removeprefix(_PERSONA)))
    if _KEY.fullmatch(text):
        return ToSender(check_label(text))
    revision = parse_revision(text)
    if isinstance(revision.base, ProgramRef) and not revision.steps and revision.part is None:
        return ToPersona(revision.base.id)
    return revision


def main_session(persona: str) -> Label:
    """Return the label of a persona's main session.

    Raises:
        InvalidRevision: No persona can be called that.
    """
    return check_label(f"{persona}:{MAIN}")


def channel_key(kind: str, id: str) -> Label:
    """Return the routing key of a sender whom only a channel knows."""
    return _key(CHANNEL, kind, id)


def entity_key(id: str) -> Label:
    """Return the routing key of somebody whom we know."""
    return _key(ENTITY, id)


def is_routing_key(label: str) -> bool:
    """Say whether a label was given by the router."""
    return _KEY.fullmatch(label) is not None


def _key(*pieces: str) -> Label:
    kind, *rest = pieces
    spelt = ":".join([kind, *map(_spelt, rest)])
    if len(spelt) > LABEL_CHARS_MAX or not all(rest):
        digest = hashlib.sha256("\0".join(rest).encode(errors="surrogatepass")).hexdigest()
        spelt = ":".join(
            [kind, *[_spelt(one)[:20] or "+" for one in rest[:-1]], digest[:_DIGEST_CHARS]]
        )
    return check_label(spelt)


def _spelt(text: str) -> str:
    """Return a text in signs that a label may have; no two texts are spelt alike.

    A sign that has no place there is its number between plus signs, and so is a plus sign.
    """
    return "".join(sign if _PLAIN.fullmatch(sign) else f"+{ord(sign):x}+" for sign in text)
