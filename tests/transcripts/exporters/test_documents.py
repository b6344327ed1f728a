"""Threads for people to read, and as the messages of a request."""

import json
from html.parser import HTMLParser

from tests.transcripts.exporters.threads import COMPACTED, THREAD, placed, told
from turntree.core.message import Message, Text, ToolResult, ToolUse, assistant, tool, user
from turntree.transcripts.exporters.anthropic import BEGIN_TEXT, to_anthropic
from turntree.transcripts.exporters.html import to_html
from turntree.transcripts.exporters.markdown import to_markdown
from turntree.transcripts.exporters.openai import to_chat

HOSTILE = '<script>alert(1)</script> ![x](https://example.com/x.png) <img src=x onerror="y">'


class Tags(HTMLParser):
    """Keeps every tag with its attributes, and which stayed open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_anthropic_messages_alternate_and_begin_with_a_user() -> None:
    document = to_anthropic(told())
    assert document["system"] == "Be brief."
    kinds = [message["role"] for message in document["messages"]]
    assert kinds == ["user", "assistant"] * 4
    bare = placed(1, [], [assistant("Hello?")])
    assert to_anthropic(told((bare,)))["messages"][0]["content"][0]["text"] == BEGIN_TEXT
    assert "system" not in to_anthropic(told((bare,)))


def test_anthropic_results_say_whether_they_failed() -> None:
    blocks = [b for m in to_anthropic(told())["messages"] for b in m["content"]]
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert [block["is_error"] for block in results] == [False, False, True]
    assert results[2]["content"] == "[error]"
    assert [b["input"] for b in blocks if b["type"] == "tool_use"][2] == {
        "input": "*** Begin Patch"
    }


def test_chat_messages_answer_every_call() -> None:
    chat = to_chat(told())
    assert [message["role"] for message in chat] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant", "tool",
        "assistant",
    ]  # fmt: skip
    calls = [call["id"] for message in chat for call in message.get("tool_calls", ())]
    assert calls == [m["tool_call_id"] for m in chat if m["role"] == "tool"]
    assert chat[1]["content"][1]["image_url"]["url"].startswith("data:image/png")
    assert json.loads(chat[7]["tool_calls"][0]["function"]["arguments"]) == {
        "input": "*** Begin Patch"
    }


def test_a_summary_begins_a_request() -> None:
    assert "We looked." in to_chat(told(COMPACTED))[0]["content"]


def test_markdown_has_a_heading_a_turn_and_folds_calls() -> None:
    text = to_markdown(THREAD, {})
    assert "\n## 1. What is here?\n" in text
    assert "\n## 2. Patch it.\n" in text
    assert "<details><summary><code>Bash</code> ls</summary>" in text
    assert "(error)</summary>" in text
    assert "\n> What is here?\n" in text


def test_no_fence_of_a_transcript_ends_early() -> None:
    use = ToolUse("c", "Bash", {"command": "cat readme"})
    output = "````\ninside\n````"
    thread = (
        placed(1, [user("a")], [assistant(use), tool(ToolResult("c", "ok", output))]),
    )  # fmt: skip
    assert f"`````\n{output}\n`````" in to_markdown(thread, {})


def test_a_page_is_whole_and_asks_no_network() -> None:
    page = to_html(THREAD, {})
    tags = Tags(page)
    assert tags.open == []
    assert not {"script", "link", "iframe"} & {tag for tag, _ in tags.tags}
    sources = [attributes["src"] for tag, attributes in tags.tags if tag == "img"]
    assert sources == ["data:image/png;base64,cG5n"]
    assert "default-src 'none'" in page
    assert "light-dark(" in page


def test_what_was_said_cannot_become_part_of_the_page() -> None:
    use = ToolUse("c", HOSTILE, {"command": HOSTILE})
    asked = Message("user", (Text(HOSTILE),))
    said = [assistant(HOSTILE, use), tool(ToolResult("c", "ok", HOSTILE))]
    page = to_html((placed(1, [asked], said, (HOSTILE, "anthropic"), by=HOSTILE),), {})
    tags = Tags(page)
    assert tags.open == []
    assert not {"script", "img"} & {tag for tag, _ in tags.tags}
    assert all(not name.startswith("on") for _, attributes in tags.tags for name in attributes)


def test_a_page_marks_summaries_and_failures() -> None:
    page = to_html((COMPACTED[0], THREAD[1]), {})
    assert 'class="summary"' in page
    assert '<b class="bad">error</b>' in page
