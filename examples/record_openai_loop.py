"""The loop of `openai_loop.py`, recorded: the lines marked `# turntree` are all it takes."""

import ast
import asyncio
import json
import operator
import os
import sys
from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI

import turntree  # turntree
from turntree.transcripts import openai_chat  # turntree

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Today's weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    },
    {
        "type": "function",
        "function": {
            "name": "calculate",
            "description": "The value of an arithmetic expression.",
            "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
        },
    },
]
FORECAST = {"Oslo": "rain, 4 degrees", "Bergen": "sun, 7 degrees"}
OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def weather(city: str) -> str:
    return FORECAST.get(city, "unknown")


def calculate(expression: str) -> str:
    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(int() | float() as number):
                return number
            case ast.BinOp(left, sign, right) if type(sign) in OPERATORS:
                return float(OPERATORS[type(sign)](value(left), value(right)))
            case _:
                raise ValueError(f"cannot calculate {expression}")

    return str(value(ast.parse(expression, mode="eval").body))


FUNCTIONS: dict[str, Callable[..., str]] = {"weather": weather, "calculate": calculate}


def run_tool(name: str, arguments: str) -> str:
    try:
        return FUNCTIONS[name](**json.loads(arguments))
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        return f"error: {error}"


async def chat(questions: list[str]) -> None:
    messages: Any = [{"role": "system", "content": "Answer in one sentence. Use the tools."}]
    start = 0  # turntree
    async with AsyncOpenAI() as client, turntree.open() as tree:  # turntree
        for question in questions:
            messages.append({"role": "user", "content": question})
            completions = []  # turntree
            while True:
                completion = await client.chat.completions.create(
                    model=MODEL, messages=messages, tools=TOOLS
                )
                completions.append(completion)  # turntree
                message = completion.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls or []:
                    assert call.type == "function"
                    result = run_tool(call.function.name, call.function.arguments)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
                if not message.tool_calls:
                    break
            said = openai_chat.exchange(messages[start:], completions)  # turntree
            await tree.turns.record("weather", said.query, said.reply, calls=said.calls)  # turntree
            start = len(messages)  # turntree
            print(message.content)


if __name__ == "__main__":
    asyncio.run(chat(sys.argv[1:] or ["How much warmer is Bergen than Oslo?"]))
