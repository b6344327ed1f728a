"""Read nodes of ChatGPT's export: one message each, of many content types.

Knows the content types, the roles and the metadata of a message, not the tree.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolStatus,
    ToolUse,
)
from turntree.core.message_context import TouchedFile
from turntree.core.value import value
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, text, word
from turntree.transcripts.importers.shared.message_tree import MessageNode, ToolResultNode

ASSET: Final = re.compile(r"file[-_][A-Za-z0-9]{8,}")
_ASSET_BYTES: Final = re.compile(ASSET.pattern.encode())
_INSTRUCTIONS: Final = frozenset({"user_editable_context", "model_editable_context"})
_WORDS: Final = (
    "text", "result", "output_str", "output", "content", "summary", "user_profile",
    "user_instructions", "model_set_context",
)  # fmt: skip
_PLAIN: Final = frozenset(
    {
        "execution_output", "tether_browsing_display", "tether_quote", "sonic_webpage",
        "system_error", "citable_code_output", "computer_output", "user_editable_context",
        "model_editable_context",
    }
)  # fmt: skip
"""Types whose text is in members of their own; their other members become opaque parts."""
_META: Final = ("channel", "end_turn", "weight")
_META_INSIDE: Final = (
    "finish_details", "finished_duration_sec", "reasoning_status", "initial_text", "finished_text",
    "command", "request_id_kind", "voice_mode_message", "is_complete",
)  # fmt: skip
_CARRIED: Final = ("citations", "content_references", "search_result_groups", "aggregate_result")
_UNFINISHED: Final = frozenset({"in_progress", "finished_partial_completion"})


@value
class Assets:
    """The export's files that a conversation names, by their ids."""

    names: Mapping[str, str]
    places: Mapping[str, int]


def asset_ids(data: bytes) -> set[str]:
    """Return what may be file ids in the bytes of a conversation."""
    return {found.decode() for found in _ASSET_BYTES.findall(data)}


def node_of(
    id: str, parent: str | None, message: Mapping[str, Any], assets: Assets, place: int
) -> tuple[MessageNode, str | None]:
    """Return a node, and its content type if that is unknown."""
    if not message:
        return MessageNode(id, parent), None
    author, inside = mapping(message.get("author")), mapping(message.get("metadata"))
    content = mapping(message.get("content"))
    kind, at = text(content.get("content_type")), moment(message.get("create_time"))
    parts, unknown = _parts(content, assets)
    parts += _attachments(inside, assets)
    parts += [
        OpaquePart({"kind": f"chatgpt/{name}", "value": tidy(inside[name])})
        for name in _CARRIED
        if inside.get(name)
    ]
    role, meta = text(author.get("role")), _meta(message, author, inside)
    names = {part.name or "" for part in parts if isinstance(part, Media)}
    ended = text(mapping(inside.get("finish_details")).get("type"))
    node = MessageNode(
        id,
        parent,
        at=at,
        until=moment(message.get("update_time")),
        model=word(inside.get("model_slug")),
        unfinished=text(message.get("status")) in _UNFINISHED or ended == "interrupted",
        places=(place, *sorted(assets.places[name] for name in names if name in assets.places)),
    )
    if role == "tool" and kind not in _INSTRUCTIONS:
        result = _result(word(author.get("name")) or "tool", kind, parts, inside, message, meta)
        return replace(node, result=result), unknown
    if role == "assistant" and kind not in _INSTRUCTIONS:
        said = _said(id, parts, content, message, at, meta)
        return replace(node, messages=(said,) if said.parts else ()), unknown
    if role not in ("user", "system", "assistant", "tool"):
        unknown = f"role {role[:40]}"
    if role == "user" and kind not in _INSTRUCTIONS:
        named = (word(mapping(told).get("name")) for told in entries(inside.get("attachments")))
        files = [TouchedFile("attached", name).to_json() for name in named if name is not None]
        asked = Message(
            "user", tuple(parts), "human", at, {"files": files} if files else None, meta
        )
        return replace(node, asks=True, messages=(asked,)), unknown
    # Added by the service: hidden instructions, custom instructions, memories.
    told = Message("system", tuple(parts), None, at, None, meta)
    return replace(node, asks=True, messages=(told,) if parts else ()), unknown


def _said(
    id: str,
    parts: list[Part],
    content: Mapping[str, Any],
    message: Mapping[str, Any],
    at: Timestamp | None,
    meta: Mapping[str, Json] | None,
) -> Message:
    """Return the model's message; with a recipient other than ``all`` it is a tool call."""
    recipient = word(message.get("recipient")) or "all"
    if recipient != "all":
        words = text(content.get("text")) or "".join(p.text for p in parts if isinstance(p, Text))
        call = ToolUse(f"call_{word(id)}", recipient, _args(words, content))
        parts = [*(part for part in parts if not isinstance(part, Text)), call]
    return Message("assistant", tuple(parts), None, at, None, meta)


def _args(words: str, content: Mapping[str, Any]) -> Json:
    if words.lstrip()[:1] == "{":
        try:
            return tidy(orjson.loads(words))
        except ValueError:
            # Code may also begin with a brace.
            pass
    language = word(content.get("language"))
    return words if language in (None, "unknown") else {"language": language, "text": words}


def _result(
    tool: str,
    kind: str,
    parts: list[Part],
    inside: Mapping[str, Any],
    message: Mapping[str, Any],
    meta: Mapping[str, Json] | None,
) -> ToolResultNode:
    ended = text(mapping(inside.get("aggregate_result")).get("status"))
    status: ToolStatus = "ok"
    if kind == "system_error" or "fail" in ended or "exception" in ended:
        status = "error"
    elif "timeout" in ended:
        status = "timeout"
    elif text(message.get("status")) in _UNFINISHED:
        status = "interrupted"
    words = "\n".join(part.text for part in parts if isinstance(part, Text))
    rest = tuple(part for part in parts if not isinstance(part, Text))
    return ToolResultNode(tool, status, words, rest, meta)


def _parts(content: Mapping[str, Any], assets: Assets) -> tuple[list[Part], str | None]:
    """Return a content as parts, and its type if that is unknown."""
    kind = text(content.get("content_type"))
    match kind:
        case "text" | "multimodal_text":
            return [p for one in entries(content.get("parts")) for p in _part(one, assets)], None
        case "code":
            code = text(content.get("text"))
            language = (word(content.get("language")) or "").strip("`\n ")
            mark = "" if language == "unknown" else language
            return [Text(f"```{mark}\n{code}\n```")] if code else [], None
        case "thoughts":
            return [*map(_thought, entries(content.get("thoughts")))], None
        case "reasoning_recap":
            return [OpaquePart({"kind": "chatgpt/reasoning_recap", "value": tidy(content)})], None
        case _ if kind in _PLAIN:
            return _plain(kind, content, assets), None
        case _ if not content:
            return [], None
        case _:
            name = (word(kind) or "nameless")[:80]
            return [
                OpaquePart({"kind": f"chatgpt/{name}", "value": tidy(content)})
            ], f"content {name}"


def _part(value: object, assets: Assets) -> list[Part]:
    if isinstance(value, str):
        return [Text(value)] if value else []
    told = mapping(value)
    match told.get("content_type"):
        case "image_asset_pointer":
            return [_media("image", told, assets)]
        case "audio_asset_pointer":
            return [_media("audio", told, assets)]
        case "audio_transcription":
            words = text(told.get("text"))
            return [Text(words)] if words else []
        case "real_time_user_audio_video_asset_pointer":
            sound = mapping(told.get("audio_asset_pointer"))
            frames = entries(told.get("frames_asset_pointers"))
            seen = [_media("image", _pointer(frame), assets) for frame in frames]
            return [*([_media("audio", sound, assets)] if sound else []), *seen]
        case _ if not told:
            return []
        case kind:
            name = (word(kind) or "part")[:80]
            return [OpaquePart({"kind": f"chatgpt/{name}", "value": tidy(told)})]


def _plain(kind: str, content: Mapping[str, Any], assets: Assets) -> list[Part]:
    words = [text(content.get(name)) for name in _WORDS]
    parts: list[Part] = [Text("\n\n".join(told))] if (told := [w for w in words if w]) else []
    if screen := mapping(content.get("screenshot")):
        parts.append(_media("image", screen, assets))
    spoken = {*_WORDS, "content_type", "screenshot"}
    rest = {name: tidy(value) for name, value in content.items() if name not in spoken and value}
    return [*parts, OpaquePart({"kind": f"chatgpt/{kind}", "value": rest})] if rest else parts


def _thought(value: object) -> Part:
    told = mapping(value)
    words = [text(told.get(name)) for name in ("summary", "content")]
    chunks = [chunk for chunk in entries(told.get("chunks")) if isinstance(chunk, str)]
    words[1] = words[1] or "".join(chunks)
    return Reasoning("\n".join(one for one in words if one))


def _pointer(value: object) -> Mapping[str, Any]:
    return {"asset_pointer": value} if isinstance(value, str) else mapping(value)


def _media(kind: str, told: Mapping[str, Any], assets: Assets) -> Part:
    address = word(told.get("asset_pointer"))
    found = ASSET.search(address or "")
    name = assets.names.get(found[0]) if found is not None else None
    suffix = (word(told.get("format")) or (name or "").rpartition(".")[2]).lower()
    known = suffix if suffix.isalnum() and suffix not in ("", "dat") else "*"
    if kind == "audio":
        return Media("audio", f"audio/{known}", url=address, name=name)
    return Media("image", f"image/{'jpeg' if known == 'jpg' else known}", url=address, name=name)


def _attachments(inside: Mapping[str, Any], assets: Assets) -> list[Part]:
    parts: list[Part] = []
    for told in map(mapping, entries(inside.get("attachments"))):
        mime = word(told.get("mime_type")) or word(told.get("mimeType")) or "application/*"
        id = text(told.get("id"))
        name = assets.names.get(id) or word(told.get("name"))
        # Images are in the content as well, under the same id.
        if name is not None and not mime.startswith("image/"):
            parts.append(Media("file", mime, name=name))
    return parts


def _meta(
    message: Mapping[str, Any], author: Mapping[str, Any], inside: Mapping[str, Any]
) -> dict[str, Json] | None:
    meta: dict[str, Json] = {
        name: tidy(message[name]) for name in _META if message.get(name) not in (None, 1, 1.0, True)
    }
    meta |= {name: tidy(inside[name]) for name in _META_INSIDE if inside.get(name)}
    if message.get("status") not in (None, "finished_successfully"):
        meta["status"] = tidy(message["status"])
    if inside.get("is_visually_hidden_from_conversation") or message.get("weight") == 0:
        meta["hidden"] = True
    if name := word(author.get("name")):
        meta["name"] = name
    return {"chatgpt": meta} if meta else None
