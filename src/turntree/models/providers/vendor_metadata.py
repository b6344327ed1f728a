"""What a message remembers for its author alone: ids, signatures, details, in ``meta["vendor"]``.

Knows who an author is. Must never be needed to read a message: whoever leaves all of it out has
the same words, calls and results.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from turntree.core.canonical import Json
from turntree.core.message import Message
from turntree.core.value import value

NATIVE: Final = "vendor"
"""The member of ``Message.meta``."""
NATIVE_KIND: Final = "vendor.part"
"""The kind of an opaque part that goes back to its author."""


@value
class ReplyAuthor:
    """Whoever wrote an answer, and can be given back what only they understand."""

    api: str
    """In whose words: ``anthropic``, ``openai-responses``."""
    vendor: str
    """Whose service it is."""
    system: str
    """What the library calls it."""

    def to_json(self) -> dict[str, Json]:
        """Return what a message keeps of it."""
        return {"api": self.api, "vendor": self.vendor}

    def wrote(self, document: Mapping[str, Json]) -> bool:
        """Say whether a document names this author."""
        return document.get("api") == self.api and document.get("vendor") == self.vendor


def native_meta(author: ReplyAuthor, parts: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the meta of a message whose parts have these members besides."""
    if not any(parts):
        return {NATIVE: author.to_json()}
    return {NATIVE: {**author.to_json(), "parts": [dict(part) for part in parts]}}


def native_parts(message: Message, author: ReplyAuthor) -> list[Mapping[str, Json]] | None:
    """Return what each part has besides, or None if somebody else wrote the message."""
    native = (message.meta or {}).get(NATIVE)
    if not isinstance(native, Mapping):
        return None
    if not author.wrote(native):
        return None
    nothing: list[Mapping[str, Json]] = [{} for _ in message.parts]
    parts = native.get("parts", nothing)
    if not isinstance(parts, list | tuple):
        return None
    found = [one for one in parts if isinstance(one, Mapping)]
    return found if len(found) == len(message.parts) else None
