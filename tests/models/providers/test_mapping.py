"""Messages on their way to a vendor and back."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import ProviderError
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    from_json,
    lift,
    line_of,
    part_to_json,
    tool,
    user,
)
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.providers.request import NOTHING, asked, objects_in
from turntree.models.providers.response import answer_of
from turntree.models.providers.vendor_metadata import ReplyAuthor, native_meta
from turntree.testing.strategies import exchanges, json_objects, json_values, texts

AUTHOR = ReplyAuthor("anthropic", "anthropic", "anthropic")
OTHER = ReplyAuthor("openai-responses", "openai", "openai")


def no_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return bool(text)
    return False


def parts() -> st.SearchStrategy[Part]:
    args = json_objects() | json_values().filter(lambda value: not isinstance(value, str))
    uses = st.builds(ToolUse, texts(min_size=1), texts(min_size=1), args | texts().filter(no_json))
    thoughts = st.builds(Reasoning, texts(), st.none() | texts(min_size=1))
    return st.one_of(st.builds(Text, texts(min_size=1)), thoughts, uses)


@st.composite
def answers(draw: st.DrawFn) -> Message:
    """Draw what a vendor may have answered, with what it wants to have back."""
    said = tuple(draw(st.lists(parts(), min_size=1, max_size=4)))
    ids = st.none() | texts(min_size=1)
    details = st.none() | json_objects().filter(bool)
    beside: list[dict[str, Json]] = []
    for _ in said:
        members = {"id": draw(ids), "provider_details": draw(details)}
        beside.append({name: value for name, value in members.items() if value})
    return Message("assistant", said, meta=native_meta(AUTHOR, beside))


def sent(message: Message, author: ReplyAuthor = AUTHOR) -> ModelResponse:
    found = asked(Prompt((), (user("hi"), message)), author, {}).messages[-1]
    assert isinstance(found, ModelResponse)
    return found


def returned(response: ModelResponse, author: ReplyAuthor = AUTHOR) -> Message:
    return answer_of(replace(response, finish_reason="stop"), author, "some-model").message


@given(answers())
def test_an_answer_survives_the_way_to_its_author_and_back(message: Message) -> None:
    assert returned(sent(message)) == message


@given(answers())
def test_what_a_store_did_to_an_answer_changes_nothing_that_is_sent(message: Message) -> None:
    stored = from_json(orjson.loads(line_of(message)))
    assert isinstance(stored, Message)
    assert sent(stored) == sent(message)


@given(answers())
def test_vendor_metadata_is_not_sent_to_other_vendors(message: Message) -> None:
    request = asked(Prompt((), (user("hi"), message)), OTHER, {}).messages
    for found in request:
        for part in found.parts:
            assert not isinstance(part, ThinkingPart)
            assert getattr(part, "id", None) is None
            assert getattr(part, "provider_details", None) is None


@settings(max_examples=50)
@given(st.lists(exchanges(), min_size=1, max_size=3))
def test_every_valid_thread_fits_every_vendor(turns: list[Any]) -> None:
    said = [message for query, reply in turns for message in (*query, *reply)]
    prompt = Prompt((), tuple(said))
    # What was lifted or attached is fetched; here each object is some text.
    objects = {one: canonical(part_to_json(Text("fetched"))) for one in objects_in(prompt)}
    for author in (AUTHOR, OTHER):
        first = asked(prompt, author, objects)
        assert first == asked(prompt, author, objects)


def test_arguments_that_are_no_json_stay_the_text_they_are() -> None:
    response = ModelResponse(parts=[ToolCallPart("look", '{"at": ', tool_call_id="c1")])
    message = returned(response)
    assert message.parts == (ToolUse("c1", "look", '{"at": '),)
    (part,) = sent(message).parts
    assert isinstance(part, ToolCallPart)
    assert part.args == '{"at": '


@pytest.mark.parametrize(
    ("written", "args"),
    [("", {}), ("{}", {}), ('{"b": 1, "a": 2}', {"a": 2, "b": 1}), ("[1]", [1]), ('"x"', '"x"')],
)
def test_arguments_are_read_as_the_values_they_are(written: str, args: Json) -> None:
    response = ModelResponse(parts=[ToolCallPart("look", written, tool_call_id="c1")])
    assert returned(response).parts == (ToolUse("c1", "look", args),)


def test_unsafe_numbers_stay_text() -> None:
    written = json.dumps({"n": 2**60})
    response = ModelResponse(parts=[ToolCallPart("look", written, tool_call_id="c1")])
    assert returned(response).parts == (ToolUse("c1", "look", written),)


def test_lone_surrogate_does_not_break_reply() -> None:
    message = returned(ModelResponse(parts=[TextPart("one \ud83d")]))
    assert line_of(message)
    assert message.text == "one ?"


def test_an_answer_without_anything_is_an_empty_text() -> None:
    assert returned(ModelResponse(parts=[])).parts == (Text(""),)


def test_an_answer_that_does_not_say_how_it_ended_is_broken() -> None:
    with pytest.raises(ProviderError) as failed:
        answer_of(ModelResponse(parts=[TextPart("so")]), AUTHOR, "m")
    assert failed.value.kind == "broken"


def test_a_part_without_a_name_here_goes_back_as_it_came_and_only_to_its_author() -> None:
    drawn = FilePart(BinaryContent(b"\x89PNG", media_type="image/png"), provider_name="anthropic")
    message = returned(ModelResponse(parts=[TextPart("see"), drawn]))
    assert isinstance(message.parts[1], OpaquePart)
    back = sent(message).parts[1]
    assert isinstance(back, FilePart)
    assert back.content.data == b"\x89PNG"
    assert [type(part) for part in sent(message, OTHER).parts] == [TextPart]


def test_unreadable_opaque_part_is_left_out() -> None:
    part = OpaquePart({"kind": "vendor.part", **AUTHOR.to_json(), "part": {"part_kind": "future"}})
    message = Message("assistant", (Text("so"), part), meta=native_meta(AUTHOR, [{}, {}]))
    assert [type(one) for one in sent(message).parts] == [TextPart]


def test_an_answer_that_was_all_thought_is_not_sent_to_another() -> None:
    message = assistant(Reasoning("hm", "signed"))
    found = asked(Prompt((), (user("a"), message, user("b"))), OTHER, {}).messages
    assert [type(one) for one in found] == [ModelRequest]
    assert [part.content for part in found[0].parts if isinstance(part, UserPromptPart)] == [
        "a",
        "b",
    ]


def test_a_result_says_how_its_call_ended() -> None:
    uses = [ToolUse(f"c{n}", "look", {}) for n in range(3)]
    results = (
        ToolResult("c0", "ok", {"b": 1, "a": [None]}),
        ToolResult("c1", "error", "no such file"),
        ToolResult("c2", "interrupted", "the process died"),
    )
    prompt = Prompt((), (user("look"), assistant(*uses), tool(*results)))
    last = asked(prompt, AUTHOR, {}).messages[-1]
    told = [part for part in last.parts if isinstance(part, ToolReturnPart)]
    assert [(part.tool_name, part.content, part.outcome) for part in told] == [
        ("look", '{"a":[null],"b":1}', "success"),
        ("look", "no such file", "failed"),
        ("look", "interrupted: the process died", "failed"),
    ]


def test_images_go_by_address_or_as_the_bytes_that_were_handed_in() -> None:
    data = b"\x89PNG"
    there = Media("image", "image/png", url="https://example.org/a.png")
    here = Media("image", "image/png", object=digest_bytes(data))
    prompt = Prompt((), (Message("user", (Text("these"), there, here)),))
    assert objects_in(prompt) == [digest_bytes(data)]
    (part,) = asked(prompt, AUTHOR, {digest_bytes(data): data}).messages[0].parts
    assert isinstance(part, UserPromptPart)
    assert not isinstance(part.content, str)
    _, first, second = part.content
    assert isinstance(first, ImageUrl)
    assert isinstance(second, BinaryContent)
    assert second.data == data
    with pytest.raises(ProviderError, match="handed in"):
        asked(prompt, AUTHOR, {})


def test_parts_that_were_lifted_out_of_a_message_are_put_back() -> None:
    long = Text("x" * 20_000)
    stands, data = lift(long)
    assert data is not None
    prompt = Prompt((), (Message("user", (stands,)),))
    whole = Prompt((), (Message("user", (long,)),))
    assert asked(prompt, AUTHOR, {digest_bytes(data): data}) == asked(whole, AUTHOR, {})
    with pytest.raises(ProviderError, match="handed in"):
        asked(prompt, AUTHOR, {})


def test_a_message_without_words_is_sent_as_one_that_says_so() -> None:
    (part,) = asked(Prompt((), (user(""),)), AUTHOR, {}).messages[0].parts
    assert isinstance(part, UserPromptPart)
    assert part.content == NOTHING


def test_tools_are_told_in_one_order_of_members() -> None:
    one = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
    other = ToolSpec("look", "Look.", {"properties": {}, "type": "object"})
    first, second = (asked(Prompt((), (), (tool,)), AUTHOR, {}).parameters for tool in (one, other))
    assert json.dumps(first.function_tools[0].parameters_json_schema) == json.dumps(
        second.function_tools[0].parameters_json_schema
    )
