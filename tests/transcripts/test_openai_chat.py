"""Chat completions and back: what has a name gets it, and nothing is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from turntree.core import message as messages
from turntree.core import turn as turns
from turntree.core.canonical import digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    ErasedMessage,
    Media,
    Message,
    OpaquePart,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    lift,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.usage import Usage
from turntree.testing.scripted.chat import calls, says
from turntree.transcripts import openai_chat

AT = Timestamp("2026-11-15T09:30:00.000Z")


def call_of(id: str, arguments: str, **more: Any) -> dict[str, Any]:
    body = {"name": "weather", "arguments": arguments}
    return {"id": id, "type": "function", "function": body, **more}


LOOP: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Oslo and Bergen?", "name": "ana"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call_of("a", '{"city":"Oslo"}'), call_of("b", '{"city":"Bergen"}')],
    },
    {"role": "tool", "tool_call_id": "a", "content": "rain"},
    {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "sun"}]},
    {"role": "assistant", "content": "Rain in Oslo, sun in Bergen."},
]


def placed(query: list[Message], reply: list[Message]) -> ThreadTurn:
    by = Principal("human", "ana")
    id = TurnId("01900000-0000-7000-8000-000000000001")
    sealed = turns.seal(turns.Header(id, None, by, AT, AT), query, reply)
    # Read from its bytes, as everybody else will see it.
    return ThreadTurn(turns.read(sealed.body, sealed.turn.digest), 1, None)


def there_and_back(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    said = openai_chat.exchange(chat, [])
    return openai_chat.to_chat([placed(list(said.query), list(said.reply))])


def without_nulls(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in said.items() if v is not None} for said in chat]


def test_an_exchange_parts_what_was_asked_from_what_was_answered() -> None:
    said = openai_chat.exchange(LOOP, [])
    assert [m.role for m in said.query] == ["system", "user"]
    assert [m.role for m in said.reply] == ["assistant", "tool", "tool", "assistant"]
    assert said.query[1].source == "human"
    assert said.reply[0].tool_uses == (
        ToolUse("a", "weather", {"city": "Oslo"}),
        ToolUse("b", "weather", {"city": "Bergen"}),
    )
    assert said.reply[1].parts == (ToolResult("a", "ok", "rain"),)


def test_a_loop_comes_back_as_it_was() -> None:
    assert without_nulls(there_and_back(LOOP)) == without_nulls(LOOP)


def test_the_libraries_objects_say_the_same_as_dictionaries() -> None:
    raw = calls(("a", "weather", '{"city":"Oslo"}'), id="chatcmpl-1")
    parsed = ChatCompletion.model_validate(raw)
    assert isinstance(parsed.choices[0].message, ChatCompletionMessage)
    result = {"role": "tool", "tool_call_id": "a", "content": "rain"}
    by_dict = openai_chat.exchange([LOOP[1], raw["choices"][0]["message"], result], [raw])
    by_object = openai_chat.exchange([LOOP[1], parsed.choices[0].message, result], [parsed])
    assert by_object == by_dict


def test_cached_input_is_counted_once() -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 768},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    id = "chatcmpl-BcGq2x7Lk0aUu1"
    (call,) = openai_chat.exchange([], [says("hi", id=id, usage=usage)]).calls
    assert call.usage == Usage(input=232, output=50, cached_input=768, reasoning=30)
    assert call.usage.total == 1050
    assert (call.model, call.provider, call.call_id) == ("scripted-1", "openai", id)


def test_a_short_id_of_a_completion_needs_its_time_beside_it() -> None:
    answers = [says("hi", id="chatcmpl-7", created=created) for created in (1, 2)]
    first, second = openai_chat.exchange([], answers).calls
    assert (first.call_id, second.call_id) == ("chatcmpl-7@1", "chatcmpl-7@2")
    assert openai_chat.exchange([], answers[:1]).calls == (first,)


def test_a_completion_without_usage_is_still_a_call() -> None:
    (call,) = openai_chat.exchange([], [says("hi", usage=None)], provider="local").calls
    assert call.usage == Usage()
    assert call.provider == "local"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"city":',
        "",
        '"Oslo"',
        "[1]",
        "NaN",
        '{"n":NaN}',
        '{"a":1,"a":2}',
        '{"n":123456789012345678901}',
        '{"text":"\\ud800"}',
        "[" * 2000,
    ],
)
def test_arguments_that_are_no_plain_object_are_kept_as_text(arguments: str) -> None:
    chat = [LOOP[1], {"role": "assistant", "tool_calls": [call_of("a", arguments)]}, LOOP[3]]
    said = openai_chat.exchange([*chat, LOOP[5]], [])
    assert said.reply[0].tool_uses == (ToolUse("a", "weather", arguments),)
    assert without_nulls(there_and_back([*chat, LOOP[5]])) == [*chat, LOOP[5]]


def test_what_has_no_name_with_us_is_kept_beside_the_words() -> None:
    call = call_of("a", "{}", extra_content={"google": {"thought_signature": "c2ln"}})
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    chat: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        LOOP[1],
        {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [call, custom]},
        {"role": "tool", "tool_call_id": "a", "content": "rain", "cached": True},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "assistant", "content": "Done.", "annotations": [{"type": "url_citation"}]},
    ]
    said = openai_chat.exchange(chat, [])
    assert said.query[0].role == "system"
    assert said.reply[0].parts[0] == Reasoning("Hm.")
    assert said.reply[0].tool_uses[1] == ToolUse("c", "sql", "SELECT 1")
    assert without_nulls(there_and_back(chat)) == chat


def test_images_are_media_and_stranger_parts_are_opaque() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    detailed: dict[str, Any] = {
        "type": "image_url",
        "image_url": {"url": "https://a.example/b", "detail": "low"},
    }
    words = {"type": "text", "text": "See:"}
    chat = [{"role": "user", "content": [words, picture, detailed]}, LOOP[5]]
    said = openai_chat.exchange(chat, [])
    assert said.query[0].parts == (
        Text("See:"),
        Media("image", "image/png", url="data:image/png;base64,AAAA"),
        OpaquePart({"kind": "openai_chat.part", "part": detailed}),
    )
    assert there_and_back(chat) == chat


def test_what_a_completion_says_beside_its_message_stays_with_the_message() -> None:
    answer = says("hi", id="chatcmpl-1", system_fingerprint="fp_1")
    said = openai_chat.exchange([LOOP[1], answer["choices"][0]["message"]], [answer])
    assert said.reply[0].meta == {
        "openai_chat": {
            "completion": {
                "id": "chatcmpl-1",
                "created": 1_790_000_000,
                "model": "scripted-1",
                "finish_reason": "stop",
                "system_fingerprint": "fp_1",
            }
        }
    }
    sent = openai_chat.to_chat([placed(list(said.query), list(said.reply))])
    assert sent[-1] == {"role": "assistant", "content": "hi"}


def test_calls_that_share_an_id_are_told_apart() -> None:
    chat: list[dict[str, Any]] = [
        LOOP[1],
        {"role": "assistant", "tool_calls": [call_of("", '{"n":1}'), call_of("", '{"n":2}')]},
        {"role": "tool", "tool_call_id": "", "content": "first"},
        {"role": "tool", "tool_call_id": "", "content": "second"},
        {"role": "assistant", "tool_calls": [call_of("", '{"n":3}')]},
        {"role": "tool", "tool_call_id": "", "content": "third"},
        LOOP[5],
    ]
    said = openai_chat.exchange(chat, [])
    args = {use.call_id: getattr(use, "args", None) for m in said.reply for use in m.tool_uses}
    results = [part for m in said.reply for part in m.tool_results]
    answers = [(args[str(part.call_id)], getattr(part, "output", None)) for part in results]
    assert answers == [({"n": 1}, "first"), ({"n": 2}, "second"), ({"n": 3}, "third")]
    placed(list(said.query), list(said.reply))


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidOperation, match="'narrator' is not a role"):
        openai_chat.messages_from([{"role": "narrator", "content": "Meanwhile"}])


def test_several_results_in_one_message_become_several_messages() -> None:
    uses = [ToolUse("a", "ls", {}), ToolUse("b", "ls", {})]
    results = tool(ToolResult("a", "ok", {"files": []}), ToolResult("b", "interrupted", "crash"))
    chat = openai_chat.to_chat([placed([user("go")], [assistant(*uses), results, assistant("x")])])
    assert [(said["role"], said.get("content")) for said in chat[2:4]] == [
        ("tool", '{"files":[]}'),
        ("tool", "crash"),
    ]


@pytest.mark.parametrize("erased", range(6))
def test_an_erased_message_leaves_a_request_that_is_accepted(erased: int) -> None:
    said = openai_chat.exchange(LOOP, [])
    whole = placed(list(said.query), list(said.reply)).turn
    lines = [messages.line_of(m) for m in whole.messages]
    stub = ErasedMessage(digest_bytes(lines[erased]))
    kept = (*whole.messages[:erased], stub, *whole.messages[erased + 1 :])
    turn = turns.Turn(whole.header, whole.query_count, kept, whole.digest)
    chat = openai_chat.to_chat([ThreadTurn(turn, 1, None)])
    assert "[erased]" in json.dumps(chat)
    asked: list[str] = []
    for document in chat:
        if document["role"] == "tool":
            asked.remove(document["tool_call_id"])
        else:
            assert asked == []
            asked = [call["id"] for call in document.get("tool_calls", [])]
    assert asked == []


def test_a_large_part_needs_its_object() -> None:
    stands, data = lift(Text("x" * 10_000))
    assert data is not None
    thread = [placed([Message("user", (stands,), "human")], [assistant("long")])]
    (digest,) = openai_chat.objects_of(thread)
    with pytest.raises(InvalidOperation, match="its bytes are needed"):
        openai_chat.to_chat(thread)
    assert openai_chat.to_chat(thread, {digest: data})[0]["content"] == "x" * 10_000


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
content = words | st.lists(
    words.map(lambda text: {"type": "text", "text": text})
    | st.fixed_dictionaries({"type": st.just("input_audio"), "input_audio": plain}),
    max_size=3,
)
arguments = words | st.dictionaries(words, plain, max_size=3).map(
    lambda args: json.dumps(args, ensure_ascii=False, separators=(",", ":"))
)


@st.composite
def loops(draw: st.DrawFn) -> list[dict[str, Any]]:
    chat: list[dict[str, Any]] = [{"role": "user", "content": draw(content)}]
    steps = draw(st.lists(st.lists(arguments, min_size=1, max_size=3), max_size=3))
    for step, asked in enumerate(steps):
        uses = [call_of(f"{step}-{i}", text) for i, text in enumerate(asked)]
        chat.append({"role": "assistant", "content": draw(content), "tool_calls": uses})
        chat += [
            {"role": "tool", "tool_call_id": use["id"], "content": draw(words)} for use in uses
        ]
    return [*chat, {"role": "assistant", "content": draw(content)}]


@given(loops())
def test_any_loop_comes_back_as_it_was(chat: list[dict[str, Any]]) -> None:
    assert [_read_arguments(said) for said in there_and_back(chat)] == [
        _read_arguments(said) for said in chat
    ]


def _read_arguments(said: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are objects are compared as objects: canonical bytes sort their members."""
    calls = [
        {
            **call,
            "function": {**call["function"], "arguments": _read(call["function"]["arguments"])},
        }
        for call in said.get("tool_calls", [])
    ]
    return {**said, "tool_calls": calls} if calls else said


def _read(text: str) -> Any:
    return json.loads(text) if text.startswith("{") and text.endswith("}") else text
