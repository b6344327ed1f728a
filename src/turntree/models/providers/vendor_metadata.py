"""A message's vendor metadata: ids, signatures and details, in ``meta["vendor"]``.

It is only for the author of a reply, and must never be needed to read a message: without it, text,
calls and results are the same.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from turntree.core.canonical import Json
from turntree.core.message import Message
from turntree.core.value import value

NATIVE: Final = "vendor"
"""The member of ``Message.meta``."""
NATIVE_KIND: Final = "vendor.part"
"""The kind of opaque part that goes back to its author."""


@value
class ReplyAuthor:
    """The author of a reply, which gets back the metadata that only it understands."""

    api: str
    """The API: ``anthropic``, ``openai-responses``."""
    vendor: str
    """The vendor's name in price lists and turns."""
    system: str
    """The library's name for it."""

    def to_json(self) -> dict[str, Json]:
        """Return the document that a message stores."""
        return {"api": self.api, "vendor": self.vendor}

    def wrote(self, document: Mapping[str, Json]) -> bool:
        """Return whether a document names this author."""
        return document.get("api") == self.api and document.get("vendor") == self.vendor


def native_meta(author: ReplyAuthor, parts: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Return the meta of a message from the vendor metadata of its parts."""
    if not any(parts):
        return {NATIVE: author.to_json()}
    return {NATIVE: {**author.to_json(), "parts": [dict(part) for part in parts]}}


def native_parts(message: Message, author: ReplyAuthor) -> list[Mapping[str, Json]] | None:
    """Return the vendor metadata of each part, or None if another author wrote the message."""
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
