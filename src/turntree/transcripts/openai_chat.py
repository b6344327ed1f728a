"""Convert chat completions, the format most agent loops already use, to our values.

Knows the JSON of OpenAI's chat completions and of compatible servers. Everything here is a pure
function, and the openai library is not needed; its objects are accepted, because they have
``model_dump``.

What Turntree has a name for gets it: text, images, reasoning, tool calls and results, tokens. The
rest is stored in the message's ``meta``, or as an ``OpaquePart`` part, so that
``to_chat(messages_from(chat))`` is equal to ``chat``, with two exceptions: a null member becomes an
absent one, and the arguments of a call are serialized again, equal as JSON.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, cast

from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Part,
    Reasoning,
    Role,
    Source,
    Text,
    ToolResult,
    ToolUse,
)
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import value
from turntree.models.portable_thread import objects_of
from turntree.transcripts.exporters.chat_request import META, PART, to_chat

__all__ = [
    "META",
    "PART",
    "ChatExchange",
    "Document",
    "exchange",
    "messages_from",
    "objects_of",
    "to_chat",
]  # fmt: skip

CALL_ID_CHARS_MIN = 20
"""A shorter id of a completion is not assumed to be unique."""

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# Where servers other than OpenAI's put the model's reasoning.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class HasModelDump(Protocol):
    """An object of the openai library, or anything else made with pydantic."""

    def model_dump(self, *, mode: str = ...) -> dict[str, Any]:
        """Return the object as a dictionary."""
        ...


Document: TypeAlias = Mapping[str, Any] | HasModelDump


@value
class ChatExchange:
    """The content of one turn: the query, the reply and the usage."""

    query: tuple[Message, ...]
    reply: tuple[Message, ...]
    calls: tuple[ModelCall, ...]


def exchange(
    messages: Sequence[Document],
    completions: Sequence[Document],
    *,
    provider: str | None = "openai",
    source: Source | None = "human",
) -> ChatExchange:
    """Return the exchange of an agent loop, ready to be recorded.

    ``messages`` are those the loop appended since the last exchange, its question first;
    ``completions`` the responses it got on the way, in order. Some servers give one id to several
    calls; all but the first get another, here and in their results.

    Raises:
        InvalidOperation: A message has a role that chat completions do not define.
    """
    said = messages_from(_told_apart(map(_dump, messages)), source=source)
    answers = [_dump(completion) for completion in completions]
    first = next((i for i, m in enumerate(said) if m.role == "assistant"), len(said))
    calls = tuple(
        ModelCall(
            str(answer.get("model") or "unknown"),
            _usage(_members(answer, "usage")),
            provider,
            _call_id(answer.get("id"), answer.get("created")),
        )
        for answer in answers
    )
    return ChatExchange(tuple(said[:first]), tuple(_annotated(said[first:], answers)), calls)


def messages_from(
    messages: Iterable[Document], *, source: Source | None = "human"
) -> list[Message]:
    """Return chat messages as ours; ``source`` is the source of user messages.

    Raises:
        InvalidOperation: A message has a role that chat completions do not define.
    """
    return [_message_from(_present(_dump(document)), source) for document in messages]


def _dump(document: Document) -> dict[str, Any]:
    return dict(document) if isinstance(document, Mapping) else document.model_dump(mode="json")


def _present(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def _told_apart(messages: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Give every call of an exchange a unique id, and every result its call's."""
    taken: set[str] = set()
    waiting: dict[str, list[str]] = {}
    for said in messages:
        calls: Iterable[Mapping[str, Any]] = said.get("tool_calls") or ()
        renamed: list[Mapping[str, Any]] = []
        for call in calls:
            id = free = str(call.get("id"))
            while free in taken:
                free = f"{id}#{len(taken)}"
            taken.add(free)
            waiting.setdefault(id, []).append(free)
            renamed.append({**call, "id": free})
        if renamed:
            yield {**said, "tool_calls": renamed}
        elif waiting.get(said.get("tool_call_id", "")):
            yield {**said, "tool_call_id": waiting[said["tool_call_id"]].pop(0)}
        else:
            yield said


def _members(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return document.get(name) or {}


def _message_from(rest: dict[str, Any], source: Source | None) -> Message:
    """Remove from ``rest`` the members with a field of ours; what is left becomes meta."""
    name = rest.pop("role", None)
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise InvalidOperation(f"{name!r} is not a role of chat completions: {', '.join(_ROLES)}")
    meta: dict[str, Json] = {} if name == role else {"role": name}
    parts = [*_reasoning_from(rest, meta), *_content_from(rest, meta, role)]
    if role == "assistant":
        parts += _calls_from(rest, meta)
    if rest:
        meta["fields"] = rest
    return Message(
        role,
        tuple(parts),
        source if role == "user" else None,
        meta={META: meta} if meta else None,
    )


def _reasoning_from(rest: dict[str, Any], meta: dict[str, Json]) -> list[Part]:
    for field in _REASONING_FIELDS:
        if isinstance(rest.get(field), str):
            meta["reasoning"] = field
            return [Reasoning(rest.pop(field))]
    return []


def _content_from(rest: dict[str, Any], meta: dict[str, Json], role: Role) -> list[Part]:
    content = rest.pop("content", None)
    if role == "tool" and "tool_call_id" in rest:
        return [ToolResult(rest.pop("tool_call_id"), "ok", content)]
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    meta["content"] = "parts"
    return [_part_from(part) for part in content]


def _part_from(part: Mapping[str, Any]) -> Part:
    match dict(part):
        case {"type": "text", "text": str(text), **rest} if not rest:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url), **more}, **rest} if not (
            more or rest
        ):
            return Media("image", _media_type(url), url=url)
        case document:
            return OpaquePart({"kind": PART, "part": document})


def _media_type(url: str) -> str:
    head = url.removeprefix("data:").partition(",")[0] if url.startswith("data:") else ""
    return head.partition(";")[0] or "image/*"


def _calls_from(rest: dict[str, Any], meta: dict[str, Json]) -> list[Part]:
    parts: list[Part] = []
    more: dict[str, Json] = {}
    for call in map(_present, rest.pop("tool_calls", ())):
        call_id, kind = str(call.pop("id")), str(call.pop("type", "function"))
        body = _present(call.pop(kind, {}))
        asked = body.pop("arguments" if kind == "function" else "input", "")
        args = _args_from(asked) if kind == "function" else asked
        parts.append(ToolUse(call_id, str(body.pop("name", "")), args))
        left = {**call, **({kind: body} if body else {})}
        if left or kind != "function":
            more[call_id] = {"type": kind, **left}
    if more:
        meta["calls"] = more
    return parts


def _args_from(text: str) -> Json:
    """Return the arguments as an object, or the text itself if they are not one.

    Only objects are parsed: a JSON string could not be distinguished from a text that is not JSON
    when it is written again.
    """
    try:
        args = json.loads(text, object_pairs_hook=_once_each)
        canonical(args)
    except (ValueError, RecursionError):
        # A model may send arguments that are not JSON. They stay text, so that a replay sends the
        # same bytes.
        return text
    return cast("Json", args) if isinstance(args, dict) else text


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NotCanonical("a member is named twice")
    return members


def _call_id(id: str | None, created: int | None) -> str | None:
    """Return a unique name of a call.

    Usage is counted once per name. Some local servers number their answers from a small range, so
    a short id needs its timestamp.
    """
    return f"{id}@{created}" if id and created and len(id) < CALL_ID_CHARS_MIN else id or None


def _usage(usage: Mapping[str, Any]) -> Usage:
    """Return the tokens as we count them: the vendor's input includes cached tokens."""
    into = _members(usage, "prompt_tokens_details")
    out = _members(usage, "completion_tokens_details")
    cached = into.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    written = into.get("cache_write_tokens") or 0
    return Usage(
        input=max(0, (usage.get("prompt_tokens") or 0) - cached - written),
        output=usage.get("completion_tokens") or 0,
        cached_input=cached,
        cache_write=written,
        reasoning=out.get("reasoning_tokens") or 0,
    )


def _annotated(
    reply: Sequence[Message], completions: Sequence[Mapping[str, Any]]
) -> Iterable[Message]:
    """Give each assistant message the other members of its completion."""
    answers = iter(completions)
    for said in reply:
        completion = next(answers, None) if said.role == "assistant" else None
        if completion is None:
            yield said
            continue
        meta = {**_members(said.meta or {}, META), "completion": _beside(completion)}
        yield replace(said, meta={META: meta})


def _beside(completion: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion without its first message and without its tokens.

    Tokens belong to the journal, not to the message: two people may be billed differently for the
    same answer.
    """
    rest = {k: v for k, v in _present(completion).items() if k not in ("usage", "object")}
    choices: list[dict[str, Any]] = rest.pop("choices", [])
    for first in choices[:1]:
        rest |= {k: v for k, v in _present(first).items() if k not in ("message", "index")}
    return {**rest, **({"choices": choices[1:]} if len(choices) > 1 else {})}
