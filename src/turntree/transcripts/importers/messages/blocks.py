"""Convert content blocks of model vendors to parts.

Knows the blocks of Anthropic's messages and of OpenAI's chat completions and responses. An unknown
block becomes an opaque part under its vendor's name.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import orjson

from turntree.core.canonical import Json, tidy
from turntree.core.message import Media, OpaquePart, Part, Reasoning, Text, ToolResult, ToolUse
from turntree.core.usage import Usage
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

Vendor = Literal["anthropic", "openai"]

_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_BESIDE: Final = ("citations", "annotations", "logprobs")


def content_of(content: object, vendor: Vendor) -> list[Part]:
    """Return the parts of a message's content: a text, a list of blocks or nothing."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [part for block in entries(content) for part in _block(block, vendor)]


def words_of(content: object) -> str:
    """Return the text of a string or of a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n\n".join(text(mapping(block).get("text")) for block in entries(content))


def arguments_of(value: object) -> Json:
    """Return the arguments of a call: an object if the text is one, else the text."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            return tidy(orjson.loads(value))
        except ValueError:
            # Not JSON although it begins like it: a model may stop in the middle of its arguments.
            return tidy(value)
    return tidy(value)


def usage_of(told: Mapping[str, Any]) -> Usage:
    """Return the tokens as we count them: OpenAI's input includes cached tokens."""
    into = mapping(told.get("prompt_tokens_details")) or mapping(told.get("input_tokens_details"))
    out = mapping(told.get("completion_tokens_details")) or mapping(
        told.get("output_tokens_details")
    )
    cached = number(into.get("cached_tokens"))
    fresh = number(told.get("prompt_tokens")) or number(told.get("input_tokens"))
    return Usage(
        input=max(0, fresh - cached),
        output=number(told.get("completion_tokens")) or number(told.get("output_tokens")),
        cached_input=cached or number(told.get("cache_read_input_tokens")),
        cache_write=number(told.get("cache_creation_input_tokens")),
        reasoning=number(out.get("reasoning_tokens")),
    )


def result_of(block: Mapping[str, Any]) -> ToolResult:
    """Return the result in a block of Anthropic's."""
    failed = block.get("is_error") is True
    call_id = word(block.get("tool_use_id")) or "call"
    return ToolResult(call_id, "error" if failed else "ok", tidy(block.get("content")))


def opaque(vendor: Vendor, kind: object, value: object) -> OpaquePart:
    """Return a part that only its vendor understands."""
    return OpaquePart({"kind": f"{vendor}/{(word(kind) or 'block')[:80]}", "value": tidy(value)})


def _block(value: object, vendor: Vendor) -> list[Part]:
    if isinstance(value, str):
        return [Text(value)] if value else []
    block = mapping(value)
    match kind := block.get("type"):
        case str() if kind in _TEXTS:
            parts: list[Part] = [Text(words)] if (words := text(block.get("text"))) else []
            beside = [(name, block[name]) for name in _BESIDE if block.get(name)]
            return parts + [opaque(vendor, name, told) for name, told in beside]
        case "refusal":
            return [Text(text(block.get("refusal"))), opaque(vendor, "refusal", block)]
        case "thinking":
            signature = text(block.get("signature")) or None
            return [Reasoning(text(block.get("thinking")), signature)]
        case "tool_use":
            name = word(block.get("name")) or "tool"
            return [ToolUse(word(block.get("id")) or "call", name, tidy(block.get("input")))]
        case "image_url" | "input_image" | "image":
            return [_image(block, vendor)]
        case _ if not block:
            return []
        case _:
            return [opaque(vendor, kind, block)]


def _image(block: Mapping[str, Any], vendor: Vendor) -> Part:
    """Return an image by its URL; one with inline bytes is stored as it came."""
    source = mapping(block.get("source")) or mapping(block.get("image_url"))
    address = word(source.get("url")) or word(block.get("image_url"))
    if address is None or address.startswith("data:"):
        return opaque(vendor, block.get("type"), block)
    return Media("image", "image/*", url=address)
