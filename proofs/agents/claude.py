"""Claude Code, made to use tools, resume, fork, delegate and compact.

Knows its command line and what its requests look like. Must never know how its files are read.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from proofs.agents.deeds import Scene, Story
from proofs.agents.stage import Stage
from turntree.core.usage import Usage
from turntree.testing.scripted.server import Call, Reply, Rule

TOOLS = "Bash,Read,Write,Edit,Agent"
NOTICE = "<task-notification>"


def bash(command: str) -> Call:
    """Return a call of its shell."""
    return Call("Bash", {"command": command, "description": f"Run {command}"})


def _rules() -> list[Rule]:
    note = {"file_path": "note.txt", "content": "first\nsecond\n"}
    task = {
        "description": "Count the files",
        "prompt": "COUNT the files here.",
        "subagent_type": "general-purpose",
    }
    return [
        Rule(
            (Reply("<summary>Two echoes and a note.</summary>", usage=Usage(71, 7, 5_000)),),
            prompt="create a detailed summary",
            name="compact",
        ),
        Rule(
            (
                Reply(
                    "Let me look.",
                    (bash("echo one"), bash("echo two")),
                    "Two things, at once.",
                    Usage(11, 41, 4_000, 300, 9),
                ),
                Reply("Both are fine.", usage=Usage(13, 17, 4_300)),
            ),
            prompt="LOOK",
            offers="Bash",
            name="look",
        ),
        Rule(
            (
                Reply("Writing.", (Call("Write", note),), usage=Usage(19, 23, 4_400)),
                Reply(
                    "",
                    (Call("Read", {"file_path": "note.txt"}), bash("exit 3")),
                    usage=Usage(29, 31, 4_500),
                ),
                Reply("Written; one command failed.", usage=Usage(37, 43, 4_600)),
            ),
            prompt="WRITE",
            offers="Write",
            name="write",
        ),
        Rule(
            (
                Reply("Delegating.", (Call("Agent", task),), usage=Usage(47, 53, 4_700)),
                Reply("Somebody is counting.", usage=Usage(59, 61, 4_800)),
            ),
            prompt="DELEGATE",
            offers="Agent",
            name="delegate",
        ),
        Rule(
            (
                Reply("Looking.", (bash("ls"),), usage=Usage(67, 73, 100)),
                Reply("One file.", usage=Usage(79, 83, 200)),
            ),
            prompt="COUNT",
            offers="Bash",
            name="count",
        ),
        Rule((Reply("As you wish.", usage=Usage(89, 97, 4_900)),), offers="Bash", name="plain"),
        Rule((Reply("Scripted", usage=Usage(3, 2)),), name="aside"),
    ]


def _settings(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _prepare(_: Stage) -> None:
    """Nothing: it makes its own home."""


def finish_onboarding(stage: Stage) -> None:
    """Answer the questions that it asks once, when it starts on a terminal."""
    answered = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [stage.settings["ANTHROPIC_API_KEY"]]},
        "projects": {str(stage.work.resolve()): {"hasTrustDialogAccepted": True}},
        "bypassPermissionsModeAccepted": True,
    }
    (stage.home / ".claude.json").write_text(json.dumps(answered))


def _play(stage: Stage, story: Story) -> None:
    session = str(uuid.uuid4())
    look = _prompt(stage, story, None, "LOOK at two things.", "--session-id", session)
    write = _prompt(stage, story, look, "WRITE a note.", "--resume", session)
    _prompt(stage, story, write, "Another way.", "--resume", session, "--fork-session")
    end_of_look = _last_message(stage, session, "Both are fine.")
    _prompt(
        stage, story, look, "From further back.", "--resume", session, "--fork-session",
        "--resume-session-at", end_of_look,
    )  # fmt: skip
    delegate = _prompt(stage, story, write, "DELEGATE the counting.", "--resume", session)
    story.add("subagent", session, delegate, "COUNT the files here.")
    head = delegate
    if _requests(stage, "delegate") > len(("asked", "told")):
        head = story.add("notice", session, delegate, NOTICE)
    _run(stage, "/compact", "--resume", session)
    compaction = story.add("compaction", session, head, "/compact")
    _prompt(stage, story, compaction, "And after that?", "--resume", session)


def _prompt(stage: Stage, story: Story, after: int | None, text: str, *words: str) -> int:
    session = _run(stage, text, *words)["session_id"]
    return story.add("prompt", session, after, text)


def _run(stage: Stage, text: str, *words: str) -> dict[str, Any]:
    out = stage.run("-p", text, *words, "--output-format", "json", "--allowedTools", TOOLS)
    result: dict[str, Any] = json.loads(out)
    return result


def _requests(stage: Stage, rule: str) -> int:
    return sum(one.rule == rule for one in stage.model.exchanges)


def _last_message(stage: Stage, session: str, text: str) -> str:
    """Return the id of the message that ended with a text: only its file knows it."""
    (file,) = (stage.home / ".claude/projects").glob(f"*/{session}.jsonl")
    records: list[dict[str, Any]] = [json.loads(line) for line in _lines(file)]
    said = [one for one in records if one["type"] == "assistant" and text in json.dumps(one)]
    return str(said[-1]["uuid"])


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


SCENE = Scene("claude", tuple(_rules()), _settings, _prepare, _play, ".claude")
