"""Python functions as tools: shapes from types, and whatever happens is a result."""

import asyncio
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

import anyio
import pytest
from pydantic import Field

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, ToolUse
from turntree.runs.tool_calls import ToolCaller
from turntree.tools.functions import FunctionTools, tool
from turntree.tools.isolation import IsolatedLoop
from turntree.tools.toolset import ToolContext, ToolQuestion, Toolset

pytestmark = pytest.mark.anyio


@tool(is_repeatable=True, timeout_s=5.0)
def weather(
    city: Annotated[str, "Where."],
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Literal["c", "f"] = "c",
) -> dict[str, object]:
    """Tell how warm it is."""
    return {"city": city, "days": days, "unit": unit}


async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


async def call(toolset: Toolset, name: str, args: Json) -> ToolResult:
    results: list[ToolResult] = []

    async def keep(result: ToolResult | ToolQuestion) -> None:
        assert isinstance(result, ToolResult)
        results.append(result)

    use = ToolUse("c1", name, args)
    await ToolCaller((toolset,)).call_all([(use, ToolContext(RunId("run"), None, "c1"))], keep)
    return results[0]


def test_a_function_tells_its_shape() -> None:
    first, second = FunctionTools([weather, add]).specs
    assert (first.name, first.description) == ("weather", "Tell how warm it is.")
    assert (first.is_repeatable, first.timeout_s) == (True, 5.0)
    assert first.parameters == {
        "additionalProperties": False,
        "properties": {
            "city": {"description": "Where.", "title": "City", "type": "string"},
            "days": {
                "default": 1, "maximum": 7, "minimum": 1, "title": "Days", "type": "integer",
            },
            "unit": {"default": "c", "enum": ["c", "f"], "title": "Unit", "type": "string"},
        },
        "required": ["city"],
        "type": "object",
    }  # fmt: skip
    assert not second.is_repeatable


async def test_functions_that_wait_and_functions_that_do_not_are_called() -> None:
    tools = FunctionTools([weather, add])
    told = await call(tools, "weather", {"city": "Oslo"})
    assert told == ToolResult("c1", "ok", {"city": "Oslo", "days": 1, "unit": "c"})
    assert await call(tools, "add", {"a": 1, "b": 2}) == ToolResult("c1", "ok", 3.0)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "city: Field required"),
        ({"city": "Oslo", "days": 9}, "days: Input should be less than or equal to 7"),
        ({"city": "Oslo", "when": 1}, "when: Extra inputs are not permitted"),
        ("Oslo", "arguments: Input should be a valid dictionary"),
    ],
)
async def test_arguments_that_do_not_fit_are_told(args: Json, said: str) -> None:
    result = await call(FunctionTools([weather]), "weather", args)
    assert result.status == "error"
    assert said in str(result.output)


async def test_whatever_a_function_raises_is_a_result() -> None:
    def stumble() -> None:
        raise LookupError("the stairs")

    result = await call(FunctionTools([stumble]), "stumble", {})
    assert result == ToolResult("c1", "error", "LookupError: the stairs")


class Unheard(BaseException):
    """No error that anybody expects."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Unheard("of")])
@pytest.mark.parametrize("apart", [None, IsolatedLoop()])
async def test_a_function_cannot_end_the_process(
    error: BaseException, apart: IsolatedLoop | None
) -> None:
    def leave() -> None:
        raise error

    async def leave_later() -> None:
        raise error

    for function in (leave, leave_later):
        result = await call(FunctionTools([function], apart), function.__name__, {})
        assert (result.status, str(result.output).split(":")[0]) == ("error", type(error).__name__)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
async def test_a_function_that_was_canceled_within_does_not_hang(error: BaseException) -> None:
    def work() -> None:
        raise error

    result = await call(FunctionTools([work]), "work", {})
    assert result == ToolResult("c1", "error", type(error).__name__)


async def test_a_function_that_waits_and_cancels_itself_is_a_result() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    async def close() -> None:
        raise GeneratorExit

    assert (await call(FunctionTools([give_up]), "give_up", {})).status == "error"
    assert (await call(FunctionTools([close]), "close", {})).status == "error"


async def test_a_set_of_tools_cannot_end_the_process() -> None:
    class Leaving(FunctionTools):
        async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
            raise SystemExit(3, use, occasion)

    result = await call(Leaving([add]), "add", {})
    assert (result.status, str(result.output)[:10]) == ("error", "SystemExit")


async def test_a_tool_nobody_has_is_a_result() -> None:
    result = await call(FunctionTools([add]), "fly", {})
    assert result.output == "there is no tool 'fly'; there are: add"


async def test_a_function_that_takes_too_long_is_left() -> None:
    done = threading.Event()

    @tool(timeout_s=0.05)
    def dawdle() -> None:
        done.wait(5)

    @tool(timeout_s=0.05)
    async def sleep() -> None:
        await anyio.sleep_forever()

    for function in (dawdle, sleep):
        result = await call(FunctionTools([function]), function.__name__, {})
        assert result == ToolResult("c1", "timeout", "no result after 0.05 seconds")
    done.set()


async def test_a_function_that_does_not_listen_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turntree.runs.tool_calls.ENDING_S", 0.05)
    done = anyio.Event()

    @tool(timeout_s=0.05)
    async def stay() -> None:
        while not done.is_set():
            with suppress(asyncio.CancelledError):
                await done.wait()

    result = await call(FunctionTools([stay]), "stay", {})
    assert result.status == "timeout"
    done.set()


async def test_a_function_that_blocks_its_loop_blocks_no_other() -> None:
    done = threading.Event()

    @tool(timeout_s=0.05)
    async def block() -> None:
        done.wait(60)

    tools = FunctionTools([block, add], IsolatedLoop())
    assert (await call(tools, "block", {})).status == "timeout"
    assert await call(tools, "add", {"a": 1, "b": 2}) == ToolResult("c1", "ok", 3.0)
    done.set()


@pytest.mark.slow
def test_a_function_that_hangs_does_not_keep_the_process() -> None:
    program = """
import anyio, time
from turntree.tools.isolation import IsolatedLoop
from turntree.tools.functions import FunctionTools, tool
from turntree.core.ids import RunId
from turntree.core.message import ToolUse
from turntree.tools.toolset import ToolContext
from turntree.runs.tool_calls import ToolCaller

@tool(timeout_s=0.05)
def hang() -> None:
    time.sleep(600)

async def main() -> None:
    async def keep(result): print(result.status)
    use = ToolUse("c1", "hang", {})
    occasion = ToolContext(RunId("run"), None, "c1")
    await ToolCaller((FunctionTools([hang]),)).call_all([(use, occasion)], keep)

anyio.run(main)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "timeout\n"


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 24 * 3600 + 1])
def test_a_time_that_no_call_can_keep_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidOperation, match="more than 0 and at most 86400 seconds"):
        tool(timeout_s=timeout_s)


async def test_a_function_may_ask_for_the_occasion() -> None:
    def who(occasion: ToolContext, word: str) -> str:
        return f"{word} {occasion.run} {occasion.call_id}"

    tools = FunctionTools([who])
    assert tools.specs[0].parameters["required"] == ["word"]
    assert (await call(tools, "who", {"word": "in"})).output == "in run c1"


async def test_any_value_can_be_written_down() -> None:
    @dataclass
    class Forecast:
        day: date
        low: float

    def tell() -> list[object]:
        return [Forecast(date(2026, 11, 15), float("nan")), {1, 2}, 2**70, object, b"abc"]

    result = await call(FunctionTools([tell]), "tell", {})
    assert result.status == "ok"
    assert isinstance(result.output, list)
    assert result.output[:2] == [{"day": "2026-11-15", "low": "nan"}, [1, 2]]


def test_a_function_without_types_is_refused() -> None:
    def bare(word) -> None:  # type: ignore[no-untyped-def]
        del word

    def many(*words: str) -> None:
        del words

    with pytest.raises(InvalidOperation, match="word has no type"):
        FunctionTools([bare])
    with pytest.raises(InvalidOperation, match="named parameters"):
        FunctionTools([many])
    with pytest.raises(InvalidOperation, match="two tools are called add"):
        FunctionTools([add, add])
