"""opencode, made to use tools, resume, fork, delegate and compact.

Knows its command line, its server and what its requests look like. Must never know how its
files are read.
"""

import json
import socket
import subprocess
import time
import urllib.request
from typing import Any

from proofs.agents.deeds import Scene, Story
from proofs.agents.stage import AgentFailed, Stage, end_group
from turntree.core.usage import Usage
from turntree.testing.scripted.server import MODEL, Call, Reply, Rule

SERVER_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 2
"""A connection that it accepts while it starts is never answered."""
SUMMARY_TIMEOUT_S = 60


def bash(command: str) -> Call:
    """Return a call of its shell."""
    return Call("bash", {"command": command, "description": f"Run {command}"})


def _rules() -> list[Rule]:
    task = {
        "description": "Count the files",
        "prompt": "COUNT the files here.",
        "subagent_type": "general",
    }
    return [
        Rule(
            (Reply("A scripted title", usage=Usage(3, 2)),),
            system="(?i)title generator",
            name="aside",
        ),
        Rule(
            (Reply("Two echoes and a note.", usage=Usage(71, 7, 5_000)),),
            prompt="(?i)anchored summary|detailed (prompt|summary)|summarize",
            name="compact",
        ),
        Rule(
            (
                Reply(
                    "Let me look.",
                    (bash("echo one"), bash("echo two")),
                    "Two things, at once.",
                    Usage(11, 41, 4_000, reasoning=9),
                ),
                Reply("Both are fine.", usage=Usage(13, 17, 4_300)),
            ),
            prompt="LOOK",
            name="look",
        ),
        Rule(
            (
                Reply("Writing.", (bash("echo first > note.txt"),), usage=Usage(19, 23, 4_400)),
                Reply(
                    "",
                    (bash("cat note.txt"), Call("read", {"filePath": "absent.txt"})),
                    usage=Usage(29, 31, 4_500),
                ),
                Reply("Written; one call failed.", usage=Usage(37, 43, 4_600)),
            ),
            prompt="WRITE",
            name="write",
        ),
        Rule(
            (
                Reply("Delegating.", (Call("task", task),), usage=Usage(47, 53, 4_700)),
                Reply("One file, I am told.", usage=Usage(59, 61, 4_800)),
            ),
            prompt="DELEGATE",
            name="delegate",
        ),
        Rule(
            (
                Reply("Looking.", (bash("ls"),), usage=Usage(67, 73, 100)),
                Reply("One file.", usage=Usage(79, 83, 200)),
            ),
            prompt="COUNT",
            name="count",
        ),
        Rule((Reply("As you wish.", usage=Usage(89, 97, 4_900)),), name="plain"),
    ]


def _settings(url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "scripted"},
        "models": {MODEL: {"name": MODEL, "limit": {"context": 200_000, "output": 8_000}}},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
    }
    return {
        # It would fetch a plugin for itself; here it finds none, and quickly.
        "NPM_CONFIG_REGISTRY": f"{url}/npm",
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }


def _prepare(_: Stage) -> None:
    """Nothing: its settings come in the environment."""


def _play(stage: Stage, story: Story) -> None:
    session = run(stage, "LOOK at two things.")
    look = story.add("prompt", session, None, "LOOK at two things.")
    run(stage, "WRITE a note.", "--session", session)
    write = story.add("prompt", session, look, "WRITE a note.")
    fork = run(stage, "Another way.", "--session", session, "--fork")
    story.add("prompt", fork, write, "Another way.")
    run(stage, "DELEGATE the counting.", "--session", session)
    delegate = story.add("prompt", session, write, "DELEGATE the counting.")
    story.add("subagent", session, delegate, "COUNT the files here.")
    _compact(stage, session)
    compaction = story.add("compaction", session, delegate, "summarize")
    run(stage, "And after that?", "--session", session)
    story.add("prompt", session, compaction, "And after that?")


def run(stage: Stage, text: str, *words: str) -> str:
    """Run one prompt and return the id of the session that it was part of."""
    # It puts quotation marks around a word with spaces, and keeps them.
    out = stage.run("run", "--format", "json", "--auto", *words, *text.split())
    for line in out.splitlines():
        event: dict[str, Any] = json.loads(line)
        if "sessionID" in event:
            return str(event["sessionID"])
    raise AgentFailed(f"{text!r} was part of no session: {out[-400:]}")


def _compact(stage: Stage, session: str) -> None:
    """Have a session summarised, which only the server can be asked for."""
    port = _free_port()
    words = ["serve", "--port", str(port), "--hostname", "127.0.0.1"]
    process = stage.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + SERVER_TIMEOUT_S
        while not _answers(f"{url}/global/health"):
            if time.monotonic() > until:
                raise AgentFailed("its server did not start in time")
            time.sleep(0.1)
        body = json.dumps({"providerID": "scripted", "modelID": MODEL}).encode()
        headers = {"Content-Type": "application/json"}
        address = f"{url}/session/{session}/summarize"
        request = urllib.request.Request(address, body, headers)  # noqa: S310 (loopback)
        with urllib.request.urlopen(request, timeout=SUMMARY_TIMEOUT_S) as answer:  # noqa: S310 (loopback)
            answer.read()
    except OSError as error:
        raise AgentFailed(f"it did not summarise: {error}") from error
    finally:
        end_group(process)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:  # noqa: S310 (loopback)
            return bool(answer.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


SCENE = Scene("opencode", tuple(_rules()), _settings, _prepare, _play, ".local/share/opencode")
