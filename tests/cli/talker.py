"""A workspace in which a scripted model answers, and a chat that is typed into a pipe."""

import json
from collections.abc import Sequence
from typing import Any

from click.testing import CliRunner

from tests.cli.conftest import Answer, Call
from turntree.cli.root import root

SUM: dict[str, Any] = {
    "when": "sum",
    "replies": [
        {
            "reasoning": "They want a sum.",
            "text": "Let me add.",
            "tools": [{"tool": "add", "args": {"a": 20, "b": 22}}],
        },
        {"text": "It is 42."},
    ],
}
TOOLS = "tests.cli.talker:add"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def furnish(turntree: Call, rules: Sequence[dict[str, Any]] = (SUM,), *more: str) -> None:
    """Make a session ``main`` and a model ``echo`` that says what was said to it, but for rules."""
    for words in (
        ("session", "create", "main"),
        ("provider", "create", "script", "--type", "scripted",
         "--set", f"rules={json.dumps([*rules])}", *more),
        ("model", "create", "echo", "--backend", "scripted-1", "--provider", "script"),
    ):  # fmt: skip
        answer = turntree(*words)
        assert answer.code == 0, answer.err


def chat(lines: Sequence[str], *options: str) -> Answer:
    """Return what a chat printed into which lines were typed."""
    typed = "".join(f"{line}\n" for line in lines)
    ended = CliRunner().invoke(root, ["chat", *options], input=typed, prog_name="turntree")
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Answer(ended.exit_code, ended.stdout, ended.stderr)
