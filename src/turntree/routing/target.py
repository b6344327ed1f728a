"""Targets: where a message can be sent. Every target resolves to one route.

An unidentified sender is addressed by channel, ``channel:telegram:42``; an identified one as
``entity:ana``. Both are session labels, so that the session of an unknown sender becomes the
person's by a rename, and the old label stays as an alias.
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
    """Continue from this turn, whatever came after it."""

    turn: TurnId


@value
class ToSession:
    """Continue at this session's head; the label may be an alias."""

    label: Label


@value
class ToPersona:
    """Continue the main session of a persona: ``atlas`` has ``atlas:main``."""

    name: str


@value
class ToSender:
    """Continue the sender's session: by label, else by alias, else a new one."""

    key: Label


@value
class ToContent:
    """Continue the thread that best matches the message."""


Target = ToTurn | ToSession | ToPersona | ToSender | ToContent


@value
class Overrides:
    """Settings of a single message, merged over the thread's for its turn only."""

    model: Mapping[str, Json] = field(default_factory=dict[str, Json])
    permissions: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """They can narrow the thread's permissions, never widen them."""

    def merged(self, other: "Overrides") -> "Overrides":
        """Return both merged; ``other`` takes precedence."""
        return Overrides({**self.model, **other.model}, {**self.permissions, **other.permissions})


TRIGGERS: Final = ("trigger", "webhook", "cron", "event")
"""Sources of messages that no person or agent wrote."""
TriggerMode = Literal["persona", "session", "thread"]


@value
class TriggerRouting:
    """Where the messages of a trigger go: by default to a persona, which decides what to do."""

    mode: TriggerMode = "persona"
    target: str | None = None
    """A session's label or a turn's id; for a persona, None means the trigger's own."""

    def target_for(self, persona: str) -> Target:
        """Return the target of a trigger that belongs to a persona.

        Raises:
            InvalidRevision: The mode requires a session or a turn, and none is named.
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
    """Return the target that a text denotes; a revision still has to be resolved.

    ``@(atlas)`` and ``persona:atlas`` are personas, ``channel:telegram:42`` and ``entity:ana`` are
    senders, an empty text means the best matching thread, anything else is a revision.

    Raises:
        InvalidRevision: The text is none of these.
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
        InvalidRevision: It is not a valid name of a persona.
    """
    return check_label(f"{persona}:{MAIN}")


def own_session(persona: str, sender: str) -> Label:
    """Return the label of a sender's own session with a persona: ``atlas:with-bob``."""
    kind, _, id = sender.partition(":")
    return _key(persona, *([f"with-{id}"] if kind == "human" else [f"with-{kind}", id]))


def channel_key(kind: str, id: str) -> Label:
    """Return the routing key of a sender known only by channel."""
    return _key(CHANNEL, kind, id)


def entity_key(id: str) -> Label:
    """Return the routing key of an identified sender."""
    return _key(ENTITY, id)


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
    """Return a text encoded in characters that a label may have; the encoding is injective.

    Any other character, and the plus sign, becomes its code point between plus signs.
    """
    return "".join(sign if _PLAIN.fullmatch(sign) else f"+{ord(sign):x}+" for sign in text)
