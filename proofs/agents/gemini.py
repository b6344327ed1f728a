"""Gemini CLI, made to use tools, resume and compress.

Knows its command line and what its requests look like. Must never know how its files are read.
It can neither fork nor delegate from the command line, so it does neither here.
"""

import json
import uuid

from proofs.agents.deeds import Scene, Story
from proofs.agents.stage import Stage
from turntree.core.usage import Usage
from turntree.testing.scripted.server import Call, Reply, Rule

MODEL = "gemini-2.5-flash"


def shell(command: str) -> Call:
    """Return a call of its shell."""
    return Call("run_shell_command", {"command": command, "description": f"Run {command}"})


def _rules() -> list[Rule]:
    note = {"file_path": "note.txt", "content": "first\n"}
    return [
        Rule(
            (
                Reply(
                    "Let me look.",
                    (shell("echo one"), shell("echo two")),
                    "**Looking** Two things, at once.",
                    Usage(11, 41, 4_000, reasoning=9),
                ),
                Reply("Both are fine.", usage=Usage(13, 17, 4_300)),
            ),
            prompt="LOOK",
            offers="run_shell_command",
            name="look",
        ),
        Rule(
            (
                Reply("Writing.", (Call("write_file", note),), usage=Usage(19, 23, 4_400)),
                Reply(
                    "",
                    (
                        Call("read_file", {"file_path": "note.txt"}),
                        Call("read_file", {"file_path": "absent.txt"}),
                    ),
                    usage=Usage(29, 31, 4_500),
                ),
                Reply("Written; one call failed.", usage=Usage(37, 43, 4_600)),
            ),
            prompt="WRITE",
            offers="write_file",
            name="write",
        ),
        Rule(
            (Reply("As you wish.", usage=Usage(89, 97, 4_900)),),
            offers="run_shell_command",
            name="plain",
        ),
        Rule((Reply('{"reasoning": "scripted"}', usage=Usage(3, 2)),), name="aside"),
    ]


def _settings(url: str) -> dict[str, str]:
    return {
        "GEMINI_API_KEY": "scripted",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }


def _prepare(stage: Stage) -> None:
    folder = stage.home / ".gemini"
    folder.mkdir()
    settings = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))


def _play(stage: Stage, story: Story) -> None:
    session = str(uuid.uuid4())
    run(stage, "LOOK at two things.", "--session-id", session)
    look = story.add("prompt", session, None, "LOOK at two things.")
    run(stage, "WRITE a note.", "--resume", session)
    write = story.add("prompt", session, look, "WRITE a note.")
    run(stage, "And after that?", "--resume", session)
    story.add("prompt", session, write, "And after that?")


def run(stage: Stage, text: str, *words: str) -> None:
    """Run one prompt."""
    stage.run("-p", text, "-m", MODEL, "--approval-mode", "yolo", "-o", "json", *words)


SCENE = Scene("gemini", tuple(_rules()), _settings, _prepare, _play, ".gemini")
