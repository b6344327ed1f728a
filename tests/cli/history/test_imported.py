"""What a person reads of the sessions of Claude Code and Codex after an import."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from turntree.cli.output.text import cells

REMINDER = "<system-reminder>\nUse the context.\nBe brief.\n</system-reminder>"
ASKED = "Why is the total off by one cent? 価格の計算がおかしいです"
CLAUDE = "11111111-1111-4111-8111-111111111111"
CODEX = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def agents(turntree: Call, tmp_path: Path) -> Call:
    """The command line after an import of one session of each tool."""
    claude = tmp_path / ".claude" / "projects" / "-srv-shop" / f"{CLAUDE}.jsonl"
    codex = tmp_path / ".codex" / "sessions" / "2026" / "11" / "16"
    codex = codex / f"rollout-2026-11-16T11-00-00-{CODEX}.jsonl"
    for path, records in ((claude, claude_records()), (codex, codex_records())):
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        answer = turntree("import", str(path))
        assert answer.code == 0, answer.err
    return turntree


def claude_records() -> list[dict[str, Any]]:
    calls: list[tuple[str, dict[str, Any], str, bool]] = [
        ("Edit", {"replace_all": False, "file_path": "/srv/shop/src/cart/totals.py",
                  "old_string": "a", "new_string": "b" * 200}, "updated", False),
        ("Bash", {"description": "Run it", "command": "pytest -q tests/cart"}, "1 failed", True),
        ("Grep", {"output_mode": "content", "path": "src", "pattern": "quantize"}, "3", False),
        ("mcp__tracker__open", {"body": "x" * 300, "title": "Rounding"}, "opened", False),
    ]  # fmt: skip
    content = [{"type": "text", "text": REMINDER}, {"type": "text", "text": ASKED}]
    messages: list[tuple[str, dict[str, Any]]] = [("user", {"role": "user", "content": content})]
    for number, (tool, args, output, failed) in enumerate(calls):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": args}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output,
                  "is_error": failed}  # fmt: skip
        messages.append(("assistant", said(f"msg_{number}", use)))
        messages.append(("user", {"role": "user", "content": [result]}))
    messages.append(("assistant", said("msg_end", {"type": "text", "text": "Fixed."})))
    return [
        {
            "type": kind, "message": message, "uuid": f"{n:08}-0000-4000-8000-000000000000",
            "parentUuid": f"{n - 1:08}-0000-4000-8000-000000000000" if n else None,
            "sessionId": CLAUDE, "cwd": "/srv/shop", "version": "2.0.1", "isSidechain": False,
            "timestamp": f"2026-11-16T10:{n:02}:00.000Z",
        }
        for n, (kind, message) in enumerate(messages)
    ]  # fmt: skip


def said(id: str, block: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 210}
    return {"id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "usage": usage}  # fmt: skip


def codex_records() -> list[dict[str, Any]]:
    patch = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-a\n+b\n*** End Patch"
    shell = json.dumps({"timeout_ms": 1000, "command": ["bash", "-lc", "git mv cart basket"]})
    rules = "<permissions instructions>\nAsk before you write.\n</permissions instructions>"
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "developer", "content": [words(rules)]},
        {"type": "message", "role": "user", "content": [words("Rename the cart")]},
        {"type": "function_call", "name": "shell", "arguments": shell, "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output": "moved"}'},
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": patch},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "Success."},
        {"type": "message", "role": "assistant", "content": [words("Renamed.", "output_text")]},
    ]
    meta = {"id": CODEX, "timestamp": "2026-11-16T11:00:00.000Z", "cwd": "/srv/shop",
            "originator": "codex_cli_rs", "cli_version": "0.55.0", "source": "cli"}  # fmt: skip
    turn = {"cwd": "/srv/shop", "model": "gpt-5.1-codex", "effort": "medium"}
    payloads = [("session_meta", meta), ("turn_context", turn)]
    payloads += [("response_item", item) for item in items]
    return [
        {"timestamp": f"2026-11-16T11:00:{n:02}.000Z", "type": kind, "payload": payload}
        for n, (kind, payload) in enumerate(payloads)
    ]


def words(text: str, kind: str = "input_text") -> dict[str, str]:
    return {"type": kind, "text": text}


def labels(agents: Call) -> tuple[str, str]:
    found = [one["label"] for one in agents("session", "list", "--json").documents]
    claude, codex = sorted(found)
    return claude, codex


def test_log_names_the_person_the_tool_and_what_was_asked(agents: Call) -> None:
    claude, codex = labels(agents)
    (line,) = agents("log", claude).lines
    assert "Why is the" in line
    assert "system-reminder" not in line
    assert line.split()[-4:-2] == ["ana", "Claude"]
    assert "ana  Codex" in agents("log", codex).out
    (turn,) = agents("log", claude, "--json").documents
    assert (turn["asker"], turn["by"]["id"], turn["title"]) == ("ana", "claude-code", ASKED)


def test_show_names_files_and_commands_and_folds_system_text(agents: Call) -> None:
    claude, codex = labels(agents)
    shown = agents("show", claude).out
    assert "by       ana with Claude Code" in shown
    assert "…/src/cart/totals.py" in shown
    assert "pytest -q tests/cart" in shown
    assert "quantize in src" in shown
    assert "mcp__tracker__open  Rounding" in shown
    assert "bbb" not in shown
    assert "xxx" not in shown
    system, asked = (line for line in shown.splitlines() if line[:6] in ("system", "ana   "))
    digest = agents("log", claude, "--json").documents[0]["digest"][7:15]
    assert system.endswith(f"(4 lines: turntree show {digest} --full)")
    assert asked == f"ana      {ASKED}"
    assert "\nClaude   Fixed.\n" in shown
    assert max(map(cells, shown.splitlines())) <= 80
    assert "Be brief." in agents("show", digest, "--full").out
    patched = agents("show", codex).out
    assert "git mv cart basket" in patched
    assert "src/app.py" in patched
    assert "ok          moved" in patched


def test_tail_shows_files_and_commands_and_folds_system_text(agents: Call) -> None:
    claude, codex = labels(agents)
    lines = agents("tail", claude).lines
    assert lines[0].startswith("  <system-reminder> Use the context.")
    tool, _, name = claude.split("/")
    question, *_ = lines[1:]
    assert question.startswith(f"{tool}/…/{name}> {ASKED[:20]}")
    assert ASKED in " ".join(line.removeprefix(f"{tool}/…/{name}> ").strip() for line in lines)
    assert "  → Edit /srv/shop/src/cart/totals.py ok" in lines
    assert "  → Bash pytest -q tests/cart error" in lines
    assert "  → apply_patch src/app.py ok" in agents("tail", codex).lines


def test_exports_name_the_person_and_the_tool(agents: Call) -> None:
    claude, _ = labels(agents)
    text = agents("export", claude, "--format", "md")
    assert text.err == "1 turn written\n"
    assert text.out.startswith(f"# {ASKED}\n\n*1 turn, 2026-11-16, with Claude Code, ")
    assert "\n**ana**\n\n<details><summary>system text, 4 lines: " in text.out
    assert "<code>Edit</code> /srv/shop/src/cart/totals.py</summary>" in text.out
    assert "<code>Bash</code> pytest -q tests/cart (error)</summary>" in text.out
    page = agents("export", claude, "--format", "html").out
    assert "<h2>ana</h2>" in page
    assert "<summary>system text, 4 lines: " in page
    assert "<span>pytest -q tests/cart</span>" in page


def test_search_shows_the_match_within_80_columns(agents: Call) -> None:
    plain = agents("search", "quantize")
    assert "\x1b" not in plain.out
    assert max(map(cells, plain.lines)) <= 80
    coloured = agents("search", "quantize", "--color", "always").out
    assert "\x1b[4mquantize\x1b[0m" in coloured


def test_why_says_who_asked_which_tool(agents: Call) -> None:
    _, codex = labels(agents)
    assert "ana asked Codex for it, " in agents("why", codex).out
