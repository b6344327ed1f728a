"""Export a thread as the messages of Anthropic's Messages API.

Pure: knows the JSON, not a client. Roles alternate and the first is a user's, tool results are in
the user's message, and thinking is sent back only where Anthropic signed it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.models.portable_thread import PortableMessage, fit, note_of, pieces_of
from turntree.transcripts.exporters.shared import arguments_of, find_data, tool_name

PROVIDER: Final = "anthropic"
CALL_PREFIX: Final = "toolu_"
BEGIN_TEXT: Final = "(The conversation begins here.)"
NOTHING_TEXT: Final = "(no output)"


def to_anthropic(told: Sequence[PortableMessage]) -> dict[str, Any]:
    """Return ``{"system": …, "messages": […]}``; without instructions there is no ``system``."""
    system = "\n\n".join(said.text for said in told if said.role == "system" and said.text)
    messages: list[dict[str, Any]] = []
    for said in fit((s for s in told if s.role != "system"), provider=PROVIDER,
                    call_prefix=CALL_PREFIX):  # fmt: skip
        role = "assistant" if said.role == "assistant" else "user"
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks_of(said)
        elif messages or role == "user":
            messages.append({"role": role, "content": blocks_of(said)})
        else:
            messages.append({"role": "user", "content": [{"type": "text", "text": BEGIN_TEXT}]})
            messages.append({"role": role, "content": blocks_of(said)})
    return {"system": system, "messages": messages} if system else {"messages": messages}


def blocks_of(said: PortableMessage) -> list[dict[str, Any]]:
    """Return the content blocks of one message that was fitted to Anthropic."""
    return [block for part in said.parts for block in _blocks(part)]


def _blocks(part: object) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text):
            yield {"type": "text", "text": text}
        case Reasoning(text, signature):
            yield {"type": "thinking", "thinking": text, "signature": signature}
        case ToolUse(call_id, tool, args):
            name = tool_name(tool)
            yield {"type": "tool_use", "id": call_id, "name": name, "input": arguments_of(args)}
        case ToolResult(call_id, status, output):
            content = [block for piece in pieces_of(output) for block in _blocks(piece)]
            yield {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": _content(content, "" if status == "ok" else f"[{status}]"),
                "is_error": status != "ok",
            }
        case Media() as media:
            yield _image(media) or {"type": "text", "text": note_of(media)}
        case _:
            raise AssertionError(f"{part} was handed over")


def _content(content: Sequence[dict[str, Any]], instead: str) -> str | list[dict[str, Any]]:
    if all(block["type"] == "text" for block in content):
        return "\n".join(str(block["text"]) for block in content) or instead or NOTHING_TEXT
    return list(content)


def _image(media: Media) -> dict[str, Any] | None:
    if media.kind != "image":
        return None
    if (data := find_data(media.url)) is not None:
        source = {"type": "base64", "media_type": data[0], "data": data[1]}
        return {"type": "image", "source": source}
    if media.url is not None and media.url.startswith("https://"):
        return {"type": "image", "source": {"type": "url", "url": media.url}}
    return None
