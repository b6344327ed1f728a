"""How calls of tools are summarized, by the names that agents give their arguments."""

import pytest

from turntree.core.canonical import Json
from turntree.transcripts.display import summarize_call, summarize_result, tool_title


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"file_path": "a.py", "content": "x"}, "a.py"),  # Claude Code: Write
        ({"filePath": "a.py", "oldString": "x", "newString": "y"}, "a.py"),  # opencode: edit
        ({"absolute_path": "/a.py"}, "/a.py"),  # Gemini CLI: read_file
        ({"notebook_path": "a.ipynb", "new_source": "x"}, "a.ipynb"),
        ({"command": "ls", "description": "List"}, "ls"),
        ({"command": ["bash", "-lc", "ls -l | wc"], "workdir": "/"}, "ls -l | wc"),  # Codex
        ({"command": ["git", "commit", "-m", "two words"]}, "git commit -m 'two words'"),
        ({"cmd": "pytest", "yield_time_ms": 5}, "pytest"),
        ({"pattern": "x", "path": "src"}, "x in src"),
        ({"query": "news"}, "news"),
        ({"url": "https://a.example", "prompt": "What?"}, "https://a.example"),
        ({"description": "Look", "prompt": "x" * 500, "subagent_type": "explore"}, "Look"),
        ({"todos": [{"content": "a"}, {"content": "b"}]}, "2 todos"),
        ({"input": "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch"}, "a.py"),
        ("*** Begin Patch\n*** Update File: a\n*** Delete File: b\n*** End Patch", "a, b"),
        ({"a": 20, "b": 22}, "a=20 b=22"),
        ({"deep": True, "body": "x" * 100, "team": "shop"}, "deep=yes team=shop"),
        ({}, ""),
        (None, "null"),
    ],
)
def test_a_call_is_summarized_by_its_file_command_or_question(args: Json, shown: str) -> None:
    assert summarize_call(args) == shown


def test_a_result_is_shown_without_the_document_around_it() -> None:
    assert summarize_result('{"output": "ok", "metadata": {"exit_code": 0}}') == "ok"
    assert summarize_result({"content": "text", "id": 1}) == "text"
    assert summarize_result([{"type": "text", "text": "one"}, "two"]) == "one two"
    assert summarize_result("{broken") == "{broken"


def test_a_result_that_is_nested_too_deeply_is_shown_as_it_is() -> None:
    deep = '{"a":' * 100_000
    assert summarize_result(deep) == deep


def test_a_tool_has_its_vendors_name() -> None:
    assert [tool_title(name) for name in ("claude-code", "own")] == ["Claude Code", "own"]
