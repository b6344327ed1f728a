"""What a tool of a server returns, as a result that is recorded. Pure.

Texts stay texts. Images, sounds and embedded files become objects. A link is named and never
followed: the server chose its address.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from turntree.core.canonical import Json, as_text, tidy
from turntree.core.message import ToolResult, ToolStatus
from turntree.tools.toolset import ToolFile, ToolReply

FILE_BYTES_MAX: Final = 20_000_000
FILES_MAX: Final = 20


def read_result(call_id: str, result: Mapping[str, Any]) -> ToolResult | ToolReply:
    """Return the outcome of a call from the document that a server returned."""
    status: ToolStatus = "error" if result.get("isError") else "ok"
    blocks = result.get("content")
    pieces = [
        piece
        for block in (cast("list[object]", blocks) if isinstance(blocks, list) else [])
        if isinstance(block, Mapping)
        for piece in _pieces(cast("Mapping[str, Any]", block))
    ]
    if any(isinstance(piece, ToolFile) for piece in pieces):
        return ToolReply(call_id, status, tuple(pieces))
    texts = [str(piece) for piece in pieces]
    structured = result.get("structuredContent")
    # A server repeats a structured result as text, for clients that read only texts.
    output: Json = tidy(structured) if structured is not None else "\n".join(texts)
    return ToolResult(call_id, status, output if status == "ok" else as_text(output))


def _pieces(block: Mapping[str, Any]) -> Iterator[str | ToolFile]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(media_type)}:
            yield _file(kind, media_type, data, None)
        case {"type": "resource", "resource": {"text": str(text), "uri": uri}}:
            yield f"[{uri}]\n{text}"
        case {"type": "resource", "resource": {"blob": str(data), "uri": str(uri), **rest}}:
            media_type = str(rest.get("mimeType") or "application/octet-stream")
            kind = "image" if media_type.startswith("image/") else "file"
            yield _file(kind, media_type, data, uri.rpartition("/")[2] or None)
        case {"type": "resource_link", "uri": uri}:
            yield f"[{block.get('name') or 'resource'}: {uri}]"
        case _:
            yield as_text(tidy(dict(block)))


def _file(kind: Any, media_type: str, data: str, name: str | None) -> str | ToolFile:
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{kind} {media_type}: not base64]"
    if len(raw) > FILE_BYTES_MAX:
        return f"[{kind} {media_type}: {len(raw):,} bytes, too large]"
    return ToolFile(kind, media_type, raw, name)
