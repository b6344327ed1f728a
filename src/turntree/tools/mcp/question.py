"""Questions that a server asks a person during a call, and their answers. Pure.

A question is known by its digest: text and schema. Answers are kept with the call, so that a call
that has to begin anew, because its server forgot it, is given them without asking a person again.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.value import value

QUESTION_CHARS_MAX: Final = 4000
STATE_CHARS_MAX: Final = 65_536
"""Of what a server gives a client to keep: it is recorded in the journal."""
ASKED_MAX: Final = 10
"""Questions of one call."""


@value
class ServerQuestion:
    """One question of a server."""

    text: str
    schema: Mapping[str, Json] | None
    """The schema of the answer's members; None where a confirmation is enough."""
    url: str | None = None

    @property
    def digest(self) -> str:
        """What tells it from other questions."""
        schema = None if self.schema is None else dict(self.schema)
        document: dict[str, Json] = {"text": self.text, "schema": schema, "url": self.url}
        return digest_bytes(canonical(document))

    def shown(self, server: str) -> str:
        """Return the text for a person, who has to know that a server wrote it."""
        asked = f"{server} asks: {self.text[:QUESTION_CHARS_MAX]}"
        return asked if self.url is None else f"{asked}\nopen {self.url}"


@value
class CallState:
    """What a call needs to continue: the server's state, and the answers so far."""

    request_state: str | None = None
    """Opaque: only the server reads it."""
    asked: str | None = None
    """The digest of the question that a person is asked now."""
    keys: Mapping[str, str] | None = None
    """The names that the server gave its open questions, by their digests."""
    answers: Mapping[str, Json] | None = None
    """The answers so far, by the digests of their questions."""

    def to_json(self) -> dict[str, Json]:
        """Return the document that is recorded with the question."""
        members: dict[str, Json] = {
            "request_state": self.request_state,
            "asked": self.asked,
            "keys": None if self.keys is None else dict(self.keys),
            "answers": None if self.answers is None else dict(self.answers),
        }
        return {name: member for name, member in members.items() if member is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "CallState":
        """Return the state that a document describes."""
        return cls(
            document.get("request_state"),
            document.get("asked"),
            document.get("keys"),
            document.get("answers"),
        )


def read_answer(answer: Json, schema: Mapping[str, Any] | None) -> dict[str, Json]:
    """Return the members of an answer: a document as it is, a text as the only member asked for."""
    if isinstance(answer, Mapping):
        return dict(answer)
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping) or not properties or answer is None:
        return {}
    required = (schema or {}).get("required")
    members = cast("Mapping[str, Any]", properties)
    names = (
        cast("list[object]", required) if isinstance(required, list) and required else [*members]
    )
    name = str(names[0])
    member = members.get(name)
    kind = cast("Mapping[str, Any]", member).get("type") if isinstance(member, Mapping) else None
    return {name: _typed(answer, str(kind))}


def _typed(answer: Json, kind: str) -> Json:
    """Return an answer as the type that is asked for, if it can be read as one."""
    text = str(answer).strip().lower()
    if isinstance(answer, str):
        if kind == "boolean" and text in _WORDS:
            return _WORDS[text]
        try:
            if kind == "integer":
                return int(text)
            if kind == "number":
                return float(text)
        except ValueError:
            return answer
    return answer


_WORDS: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}
