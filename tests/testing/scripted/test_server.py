"""The scripted model: four vendors' words, in one piece and streamed, and a log of everything."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from turntree.core.usage import Usage
from turntree.testing.scripted.server import (
    HIDDEN,
    Call,
    Failure,
    MatchedRule,
    Reply,
    Rule,
    ScriptedModel,
)

USAGE = Usage(input=11, output=41, cached_input=400, cache_write=30, reasoning=9)
LOOK = Reply(
    "Let me look.",
    (Call("shell", {"command": "echo one"}), Call("shell", {"command": "echo two"})),
    "Two things, at once.",
    USAGE,
)
RULES = [
    Rule((LOOK, Reply("Both are fine.")), prompt="look", offers="shell", name="look"),
    Rule((Reply("As you wish."),), name="plain"),
]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
GOOGLE = "/v1beta/models/gemini-9:generateContent"
GOOGLE_STREAM = "/v1beta/models/gemini-9:streamGenerateContent?alt=sse"


@pytest.fixture
def model(tmp_path: Path) -> Generator[ScriptedModel]:
    with ScriptedModel(rules=RULES, log=tmp_path / "log.jsonl") as model:
        yield model


def post(model: ScriptedModel, path: str, body: object) -> bytes:
    headers = {"Content-Type": "application/json", "X-Api-Key": "secret", "X-Session": "s1"}
    request = urllib.request.Request(model.url + path, json.dumps(body).encode(), headers)  # noqa: S310 (loopback)
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 (loopback)
        read: bytes = answer.read()
    return read


def ask(model: ScriptedModel, path: str, body: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(post(model, path, body))
    return document


def stream(model: ScriptedModel, path: str, body: object) -> list[dict[str, Any]]:
    lines = post(model, path, body).decode().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(one) for one in data if one != "[DONE]"]


def refused(model: ScriptedModel, path: str, body: object) -> tuple[int, dict[str, Any]]:
    with pytest.raises(urllib.error.HTTPError) as raised:
        post(model, path, body)
    with raised.value as error:
        return error.code, json.loads(error.read())


def anthropic(**more: Any) -> dict[str, Any]:
    tools = [{"name": "shell", "input_schema": SCHEMA}]
    messages = [{"role": "user", "content": "Please look."}]
    return {"model": "claude-9", "max_tokens": 9, "messages": messages, "tools": tools, **more}


def google(text: str) -> dict[str, Any]:
    return {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [{"name": "shell", "parameters": SCHEMA}]}],
    }


def test_anthropic_in_one_piece(model: ScriptedModel) -> None:
    message = ask(model, MESSAGES, anthropic())
    kinds = [block["type"] for block in message["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert [block.get("input") for block in message["content"][2:]] == [
        {"command": "echo one"},
        {"command": "echo two"},
    ]
    assert (message["model"], message["stop_reason"]) == ("claude-9", "tool_use")
    usage = message["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (11, 41)
    assert usage["cache_read_input_tokens"] == 400
    assert usage["cache_creation_input_tokens"] == 30


def test_anthropic_streamed_says_the_same(model: ScriptedModel) -> None:
    events = stream(model, MESSAGES, anthropic(stream=True))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "Let me look."
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Two things, at once."
    by_index = {
        event["index"]: "".join(
            one["delta"].get("partial_json", "")
            for one in events
            if one["type"] == "content_block_delta" and one["index"] == event["index"]
        )
        for event in events
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use"
    }
    assert [json.loads(text)["command"] for text in by_index.values()] == ["echo one", "echo two"]
    assert events[-2]["usage"]["output_tokens"] == 41
    assert events[-1] == {"type": "message_stop"}


def test_the_step_after_the_tools_is_the_next_answer(model: ScriptedModel) -> None:
    first = ask(model, MESSAGES, anthropic())
    uses = [block["id"] for block in first["content"] if block["type"] == "tool_use"]
    assert len(set(uses)) == 2
    results = [{"type": "tool_result", "tool_use_id": id, "content": "fine"} for id in uses]
    # A note that the program adds is no new prompt.
    note = {"type": "text", "text": "<system-reminder>Mind the gap.</system-reminder>"}
    messages = [
        *anthropic()["messages"],
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [*results, note]},
    ]
    second = ask(model, MESSAGES, anthropic(messages=messages))
    assert second["content"] == [{"type": "text", "text": "Both are fine."}]
    assert second["id"] != first["id"]


@pytest.mark.parametrize(
    ("found", "answer"),
    [("tool_reference", "Both are fine."), ("text", "As you wish.")],
)
def test_what_claude_code_says_of_found_tools_is_no_prompt(
    model: ScriptedModel, found: str, answer: str
) -> None:
    first = ask(model, MESSAGES, anthropic())
    uses = [block["id"] for block in first["content"] if block["type"] == "tool_use"]
    part = {"type": found, "text": "shell", "tool_name": "shell"}
    results = [{"type": "tool_result", "tool_use_id": id, "content": [part]} for id in uses]
    messages = [
        *anthropic()["messages"],
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [*results, {"type": "text", "text": "Tool loaded."}]},
    ]
    second = ask(model, MESSAGES, anthropic(messages=messages))
    assert second["content"] == [{"type": "text", "text": answer}]


def test_anthropic_counts_tokens(model: ScriptedModel) -> None:
    assert ask(model, "/v1/messages/count_tokens", anthropic())["input_tokens"] > 0
    assert model.requests == []


def test_chat_in_one_piece_and_streamed(model: ScriptedModel) -> None:
    function: Any = {"name": "shell", "parameters": SCHEMA}
    tools: Any = [{"type": "function", "function": function}]
    messages: Any = [{"role": "user", "content": "Please look."}]
    with OpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        whole = client.chat.completions.create(model="gpt-9", messages=messages, tools=tools)
        pieces = list(
            client.chat.completions.create(
                model="gpt-9", messages=messages, tools=tools, stream=True
            )
        )
    assert whole.choices[0].finish_reason == "tool_calls"
    called = whole.choices[0].message.model_dump()["tool_calls"]
    commands = [json.loads(call["function"]["arguments"])["command"] for call in called]
    assert commands == ["echo one", "echo two"]
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.total_tokens) == (441, 482)
    deltas = [piece.choices[0].delta for piece in pieces if piece.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."
    added = [call for delta in deltas for call in delta.tool_calls or [] if call.function]
    texts = {call.index: "" for call in added}
    for call in added:
        assert call.function is not None
        texts[call.index] += call.function.arguments or ""
    assert [json.loads(text)["command"] for text in texts.values()] == commands
    assert pieces[-1].usage == whole.usage


def test_responses_in_one_piece_and_streamed(model: ScriptedModel) -> None:
    tools: Any = [{"type": "function", "name": "shell", "parameters": SCHEMA, "strict": False}]
    with OpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
        whole = client.responses.create(model="gpt-9", input="Please look.", tools=tools)
        with client.responses.stream(model="gpt-9", input="Please look.", tools=tools) as events:
            streamed = events.get_final_response()
    for response in (whole, streamed):
        kinds = [item.type for item in response.output]
        assert kinds == ["reasoning", "message", "function_call", "function_call"]
        assert response.output_text == "Let me look."
        assert response.usage is not None
        assert response.usage.input_tokens == 441
        assert response.usage.input_tokens_details.cached_tokens == 400
        assert response.usage.output_tokens_details.reasoning_tokens == 9


def test_responses_sees_steps_in_a_flat_list(model: ScriptedModel) -> None:
    tools = [{"type": "namespace", "tools": [{"type": "function", "name": "shell"}]}]
    asked: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "look"}]}]
    first = ask(model, "/v1/responses", {"input": asked, "tools": tools})
    calls = [item for item in first["output"] if item["type"] == "function_call"]
    asked += first["output"]
    asked += [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
        for call in calls
    ]
    second = ask(model, "/v1/responses", {"input": asked, "tools": tools})
    assert second["output"][0]["content"][0]["text"] == "Both are fine."


def test_google_in_one_piece_and_streamed(model: ScriptedModel) -> None:
    whole = ask(model, GOOGLE, google("look"))
    pieces = stream(model, GOOGLE_STREAM, google("look"))
    for documents in ([whole], pieces):
        parts = [part for one in documents for part in one["candidates"][0]["content"]["parts"]]
        spoken = [part["text"] for part in parts if "text" in part and "thought" not in part]
        assert "".join(spoken) == "Let me look."
        called = [part["functionCall"]["args"] for part in parts if "functionCall" in part]
        assert called == [{"command": "echo one"}, {"command": "echo two"}]
        usage = documents[-1]["usageMetadata"]
        assert (usage["promptTokenCount"], usage["candidatesTokenCount"]) == (441, 32)
        assert (usage["thoughtsTokenCount"], usage["totalTokenCount"]) == (9, 482)
    assert len(pieces) > 1
    assert model.exchanges[0].model == "gemini-9"


def test_answers_in_order_end_with_a_refusal() -> None:
    hello = {"messages": [{"role": "user", "content": "Hi!"}]}
    with ScriptedModel([Reply("One."), Failure(503, "busy")]) as model:
        assert ask(model, CHAT, hello)["choices"][0]["message"]["content"] == "One."
        assert refused(model, CHAT, hello)[0] == 503
        status, document = refused(model, CHAT, hello)
    assert (status, document["error"]["message"]) == (400, "the script ended after 2 answers")


def test_a_rule_does_not_call_tools_for_ever() -> None:
    asked = anthropic()
    with ScriptedModel(rules=[Rule((LOOK,), prompt="look")]) as model:
        asked["messages"].append({"role": "assistant", "content": "I did."})
        status, document = refused(model, MESSAGES, asked)
    assert status == 400
    assert "no more answers" in document["error"]["message"]


def test_a_call_can_use_what_a_tool_returned() -> None:
    wait = Reply(calls=(Call("wait", {"ids": [MatchedRule(r"id=(\w+)")]}),))
    result = {"role": "tool", "tool_call_id": "c1", "content": "started id=a7"}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": ""}, result]
    with ScriptedModel([wait, wait]) as model:
        answer = ask(model, CHAT, {"messages": messages})
        nothing = refused(model, CHAT, {"messages": messages[:1]})
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"ids": ["a7"]}
    assert nothing[0] == 400


def test_the_log_proves_what_was_sent(model: ScriptedModel, tmp_path: Path) -> None:
    ask(model, MESSAGES, anthropic())
    ask(model, CHAT, {"model": "m", "messages": [{"role": "user", "content": "Hi!"}]})
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    first, second = (json.loads(line) for line in lines)
    assert first["body"] == anthropic()
    assert (first["dialect"], first["rule"]) == ("anthropic-messages", "look")
    assert first["answer"]["usage"] == asdict(USAGE)
    assert len(first["call_ids"]) == 2
    assert first["headers"]["x-session"] == "s1"
    assert first["headers"]["x-api-key"] == HIDDEN
    assert (second["number"], second["rule"]) == (1, "plain")
    assert [one.body for one in model.exchanges] == model.requests


def test_nobody_gets_out_through_the_model(model: ScriptedModel) -> None:
    host, _, port = model.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")
        answer = connection.recv(100)
    assert answer.startswith(b"HTTP/1.1 403")
    assert [(one.method, one.path) for one in model.exchanges] == [("CONNECT", "example.org:443")]


def test_what_is_not_scripted_is_not_found(model: ScriptedModel) -> None:
    assert refused(model, "/v1/embeddings", {})[0] == 404


def test_two_models_never_give_one_id() -> None:
    ids: set[str] = set()
    for _ in range(2):
        with ScriptedModel(rules=RULES) as model:
            ids.add(ask(model, MESSAGES, anthropic())["id"])
    assert len(ids) == 2
