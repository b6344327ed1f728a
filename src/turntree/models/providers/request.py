"""Converts a prompt into the messages of the library that sends it to a vendor.

Pure: equal prompts give equal requests, byte for byte, even if a store reordered the members of a
document. What only the author of a reply understands (signatures, ids, opaque parts) goes back to
that author alone; another model gets the text and the calls.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, assert_never, cast

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from turntree.core import message as said
from turntree.core.canonical import Json, as_text, canonical
from turntree.core.errors import ProviderError
from turntree.core.ids import Digest
from turntree.core.message import (
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from turntree.core.value import value
from turntree.models.portable_thread import pieces_of
from turntree.models.prompt import Prompt
from turntree.models.providers.vendor_metadata import NATIVE_KIND, ReplyAuthor, native_parts

NOTHING: Final = "(nothing)"
"""Replaces an empty message, which vendors refuse."""
LOST_TOOL: Final = "unknown"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
"""The library requires a timestamp and does not send it; a fixed one keeps requests equal."""
_NATIVE: Final[TypeAdapter[ModelResponsePart]] = TypeAdapter(ModelResponsePart)


@value
class VendorRequest:
    """The library's arguments for one request."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters


def vendor_name(tool: str) -> str:
    """Return the name of a tool as vendors allow it: ``ledger_read`` for ``ledger.read``."""
    return tool.replace(".", "_")


def objects_in(prompt: Prompt) -> list[Digest]:
    """Return the objects that a prompt needs to be sent."""
    digests = [
        digest
        for message in prompt.messages
        for part in message.parts
        if not (isinstance(part, Media) and part.url is not None)
        for digest in said.list_objects(part)
    ]
    return list(dict.fromkeys(digests))


def asked(
    prompt: Prompt,
    author: ReplyAuthor,
    objects: Mapping[Digest, bytes],
    *,
    cache: Literal["5m", "1h"] | None = None,
) -> VendorRequest:
    """Return the library's arguments for a prompt.

    Raises:
        ProviderError: The prompt refers to an object that is not among ``objects``.
    """
    messages = [_whole(message, objects) for message in prompt.messages]
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    mapping = _Mapping(author, objects, cache, places[-1] if places else None)
    for place, message in enumerate(messages):
        mapping.add(place, message)
    tools = [
        ToolDefinition(
            name=vendor_name(tool.name),
            description=tool.description,
            parameters_json_schema=cast("dict[str, Any]", _plain(tool.parameters)),
        )
        for tool in prompt.tools
    ]
    # One text, because some servers accept only a single system message.
    system = "\n\n".join(text for text in prompt.system if text)
    parameters = ModelRequestParameters(
        function_tools=tools,
        instruction_parts=[InstructionPart(content=system)] if system else None,
    )
    return VendorRequest(mapping.messages, parameters)


@dataclass(slots=True)
class _Mapping:
    author: ReplyAuthor
    objects: Mapping[Digest, bytes]
    cache: Literal["5m", "1h"] | None
    query: int | None
    """Index of the last query: the cache keeps everything up to it."""
    messages: list[ModelMessage] = field(default_factory=list["ModelMessage"])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """The tool of each call so far, which a result does not name."""

    def add(self, place: int, message: Message) -> None:
        if message.role == "assistant":
            self._answered(message)
            return
        parts: list[ModelRequestPart] = []
        if message.role == "tool":
            parts += [
                self._result(result) for result in message.parts if isinstance(result, ToolResult)
            ]
        else:
            parts.append(self._spoken(message, is_kept=place == self.query))
        before = self.messages[-1] if self.messages else None
        if isinstance(before, ModelRequest):
            before.parts = [*before.parts, *parts]
        elif parts:
            self.messages.append(ModelRequest(parts=parts, timestamp=_EPOCH))

    def _answered(self, message: Message) -> None:
        native = native_parts(message, self.author)
        parts = [
            mapped
            for index, part in enumerate(message.parts)
            for mapped in self._part(part, None if native is None else native[index])
        ]
        if not parts:
            return
        response = ModelResponse(parts=parts, timestamp=_EPOCH)
        if native is not None:
            response.provider_name = self.author.system
        self.messages.append(response)

    def _part(self, part: Part, native: Mapping[str, Json] | None) -> Iterator[ModelResponsePart]:
        """Yield what is sent of a reply's part, without what only its author understands."""
        own: dict[str, Any] = {}
        if native is not None:
            own = {**cast("dict[str, Any]", _plain(native)), "provider_name": self.author.system}
        match part:
            case Text(text):
                if text or own.get("provider_details"):
                    yield TextPart(text, **own)
            case Reasoning(text, signature):
                # Reasoning is for its author: another model would take it for its own.
                if native is not None:
                    yield ThinkingPart(text, signature=signature, **own)
            case ToolUse(call_id, tool, args):
                self.tools[call_id] = tool
                arguments = as_text(args)
                yield ToolCallPart(vendor_name(tool), arguments, tool_call_id=call_id, **own)
            case OpaquePart(document):
                yield from _returned(document, self.author)
            case Media():
                yield TextPart(_named(part))
            case ToolResult() | ObjectRef():
                pass
            case _:
                assert_never(part)

    def _result(self, result: ToolResult) -> ToolReturnPart:
        output = result.output
        is_told = result.status in {"ok", "error"}
        content: str | list[str | UserContent]
        if said.list_objects(result):
            pieces = pieces_of(output)
            content = [one.text if isinstance(one, Text) else self._media(one) for one in pieces]
        else:
            text = as_text(output)
            content = (text or NOTHING) if is_told else f"{result.status}: {text}"
        return ToolReturnPart(
            vendor_name(self.tools.get(result.call_id, LOST_TOOL)),
            content,
            tool_call_id=result.call_id,
            timestamp=_EPOCH,
            outcome="success" if result.status == "ok" else "failed",
        )

    def _spoken(self, message: Message, *, is_kept: bool) -> UserPromptPart:
        content = [item for part in message.parts for item in self._content(part)]
        if message.role == "system":
            # Vendors would move it to the front, which would invalidate the cached prefix.
            content = ["<system>", *content, "</system>"]
        content = content or [NOTHING]
        if is_kept and self.cache is not None:
            content.append(CachePoint(ttl=self.cache))
        if len(content) == 1 and isinstance(content[0], str):
            return UserPromptPart(content[0], timestamp=_EPOCH)
        return UserPromptPart(content, timestamp=_EPOCH)

    def _content(self, part: Part) -> Iterator[UserContent]:
        match part:
            case Text(text):
                if text:
                    yield text
            case Media():
                yield self._media(part)
            case Reasoning() | ToolUse() | ToolResult() | ObjectRef() | OpaquePart():
                pass
            case _:
                assert_never(part)

    def _media(self, media: Media) -> UserContent:
        if media.url is not None:
            match media.kind:
                case "image":
                    return ImageUrl(media.url, media_type=media.media_type)
                case "audio":
                    return AudioUrl(media.url, media_type=media.media_type)
                case "file":
                    return DocumentUrl(media.url, media_type=media.media_type)
        data = self.objects.get(media.object) if media.object is not None else None
        if data is None:
            raise ProviderError(f"the bytes of {_named(media)} were not handed in", "refused")
        return BinaryContent(data, media_type=media.media_type)


def _whole(message: Message, objects: Mapping[Digest, bytes]) -> Message:
    """Return a message with its offloaded parts restored."""
    for part in message.parts:
        if isinstance(part, ObjectRef) and part.object not in objects:
            raise ProviderError(f"the object {part.object} was not handed in", "refused")
    return said.restore_parts(message, objects)


def _returned(document: Mapping[str, Json], author: ReplyAuthor) -> Iterator[ModelResponsePart]:
    """Yield an opaque part as it was received, if it goes back to its author."""
    if document.get("kind") != NATIVE_KIND or not author.wrote(document):
        return
    try:
        yield _NATIVE.validate_python(_plain(document.get("part")))
    except ValidationError:
        # Another version of the library wrote it; the thread continues without it.
        return


def _named(media: Media) -> str:
    return f"[{media.kind} {media.name or media.media_type}]"


def _plain(value: Any) -> Any:
    """Return a value with members in canonical order."""
    return orjson.loads(canonical(value))
