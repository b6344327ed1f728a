"""Exports of ChatGPT, of our own making: the service's fields, and words of ours."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

START = 1_780_000_000.25


def node(id: str, parent: str | None, role: str, content: object, **more: Any) -> dict[str, Any]:
    """Return a node; a content that is no document is the words of a text."""
    told = content if isinstance(content, dict) else {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    message = {
        "id": id, "author": author, "create_time": more.pop("at", None), "update_time": None,
        "content": told, "status": "finished_successfully", "end_turn": None, "weight": 1.0,
        "metadata": {}, "recipient": "all", "channel": None, **more,
    }  # fmt: skip
    return {"id": id, "message": message, "parent": parent, "children": []}


def root(id: str = "root") -> dict[str, Any]:
    return {"id": id, "message": None, "parent": None, "children": []}


def conversation(*nodes: dict[str, Any], id: str = "c1", **more: Any) -> dict[str, Any]:
    mapping = {told["id"]: told for told in nodes}
    for told in nodes:
        if told["parent"] in mapping:
            mapping[told["parent"]]["children"].append(told["id"])
    return {
        "id": id, "conversation_id": id, "title": "A title", "create_time": START,
        "update_time": START, "mapping": mapping, "current_node": nodes[-1]["id"], **more,
    }  # fmt: skip


def write(folder: Path, conversations: Iterable[Any], name: str = "conversations.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(orjson.dumps(list(conversations)))
    return folder / name


def write_sample(folder: Path) -> Path:
    """Write a conversation with every kind of content, and a branch."""
    code = {"content_type": "code", "language": "python", "text": "1 + 1"}
    output = {"content_type": "execution_output", "text": "2"}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1",
               "size_bytes": 3, "width": 1, "height": 1}  # fmt: skip
    many = {"content_type": "multimodal_text", "parts": ["see", picture]}
    quote = {"content_type": "tether_quote", "url": "https://a", "text": "t", "title": "q"}
    about = {"model_slug": "gpt-5", "finish_details": {"type": "stop"},
             "citations": [{"metadata": {"url": "https://a"}}]}  # fmt: skip
    file = {"attachments": [{"id": "file-2", "name": "a.py", "mimeType": "text/x-python"}]}
    nodes = (
        root(),
        node("s", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        node("u1", "s", "user", many, at=START, metadata=file),
        node("t1", "u1", "assistant", thoughts),
        node("a1", "t1", "assistant", code, recipient="python", metadata=about),
        node("o1", "a1", "tool", output, name="python", metadata={"aggregate_result": {}}),
        node("a2", "o1", "assistant", "Two.", at=START + 9.5, metadata=about, end_turn=True),
        node("u2", "a2", "user", "And three?"),
        node("a3", "u2", "assistant", "Three.", status="in_progress"),
        node("u3", "a2", "user", "And four?"),
        node("q1", "u3", "tool", quote, name="browser"),
        node("a4", "q1", "assistant", {"content_type": "never_heard_of", "x": 1}),
    )
    (folder / "file-1-x.png").parent.mkdir(parents=True, exist_ok=True)
    (folder / "file-1-x.png").write_bytes(b"png")
    return write(folder, [conversation(*nodes), conversation(root(), id="c2")])
