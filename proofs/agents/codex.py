"""Codex, made to use tools, resume, fork, delegate and compact.

Knows its command line, its app server and what its requests look like. Must never know how its
files are read.
"""

import json

from proofs.agents.app_server import AppServer
from proofs.agents.deeds import Scene, Story
from proofs.agents.stage import AgentFailed, Stage
from turntree.core.usage import Usage
from turntree.testing.scripted.server import MODEL, Call, MatchedRule, Reply, Rule

OPTIONS = ("--json", "--skip-git-repo-check")
AGENTS = "multi_agent_v1"
SERVED_TIMEOUT_S = 60
CONFIG = """
model = "{model}"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
multi_agent = true
plugins = false
remote_plugin = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
"""


def shell(command: str) -> Call:
    """Return a call of its shell."""
    return Call("exec_command", {"cmd": command})


def _rules() -> list[Rule]:
    spawn = Call("spawn_agent", {"message": "COUNT the files here."}, namespace=AGENTS)
    found = MatchedRule(r'"agent_id": ?"([^"]+)"')
    wait = Call("wait_agent", {"targets": [found], "timeout_ms": 30_000}, namespace=AGENTS)
    return [
        Rule(
            (Reply("Two echoes and a note.", usage=Usage(71, 7, 5_000)),),
            prompt="CONTEXT CHECKPOINT COMPACTION",
            name="compact",
        ),
        Rule(
            (
                Reply(
                    "Let me look.",
                    (shell("echo one"), shell("echo two")),
                    "Two things, at once.",
                    Usage(11, 41, 4_000, reasoning=9),
                ),
                Reply("Both are fine.", usage=Usage(13, 17, 4_300)),
            ),
            prompt="LOOK",
            offers="exec_command",
            name="look",
        ),
        Rule(
            (
                Reply("Writing.", (shell("echo first > note.txt"),), usage=Usage(19, 23, 4_400)),
                Reply("", (shell("cat note.txt"), shell("exit 3")), usage=Usage(29, 31, 4_500)),
                Reply("Written; one command failed.", usage=Usage(37, 43, 4_600)),
            ),
            prompt="WRITE",
            offers="exec_command",
            name="write",
        ),
        Rule(
            (
                Reply("Delegating.", (spawn,), usage=Usage(47, 53, 4_700)),
                Reply("", (wait,), usage=Usage(59, 61, 4_800)),
                Reply("One file, I am told.", usage=Usage(101, 103, 4_800)),
            ),
            prompt="DELEGATE",
            offers="spawn_agent",
            name="delegate",
        ),
        Rule(
            (
                Reply("Looking.", (shell("ls"),), usage=Usage(67, 73, 100)),
                Reply("One file.", usage=Usage(79, 83, 200)),
            ),
            prompt="COUNT",
            name="count",
        ),
        Rule((Reply("As you wish.", usage=Usage(89, 97, 4_900)),), name="plain"),
    ]


def _settings(_: str) -> dict[str, str]:
    return {"SCRIPTED_KEY": "scripted"}


def _prepare(stage: Stage) -> None:
    folder = stage.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG.format(model=MODEL, url=stage.model.url))


def _play(stage: Stage, story: Story) -> None:
    session = run(stage, "LOOK at two things.")
    look = story.add("prompt", session, None, "LOOK at two things.")
    run(stage, "WRITE a note.", "resume", session)
    write = story.add("prompt", session, look, "WRITE a note.")
    fork = run(stage, "Another way.", "fork", session)
    story.add("prompt", fork, write, "Another way.")
    run(stage, "DELEGATE the counting.", "resume", session)
    delegate = story.add("prompt", session, write, "DELEGATE the counting.")
    story.add("subagent", session, delegate, "COUNT the files here.")
    _play_served(stage, story, session, (look, delegate))
    run(stage, "And after that?", "resume", session)
    story.add("prompt", session, len(story.steps) - 1, "And after that?")


def _play_served(stage: Stage, story: Story, session: str, steps: tuple[int, int]) -> None:
    """Do what only the app server can: fork further back, and compact when told to."""
    look, delegate = steps
    with AppServer(stage) as server:
        read = server.call("thread/read", {"threadId": session, "includeTurns": True})
        first = read["thread"]["turns"][0]["id"]
        forked = server.call("thread/fork", {"threadId": session, "lastTurnId": first})
        fork = str(forked["thread"]["id"])
        text = [{"type": "text", "text": "From further back."}]
        server.call("turn/start", {"threadId": fork, "input": text})
        server.wait_for("turn/completed", fork, SERVED_TIMEOUT_S)
        story.add("prompt", fork, look, "From further back.")
        server.call("thread/resume", {"threadId": session})
        server.call("thread/compact/start", {"threadId": session})
        server.wait_for("turn/completed", session, SERVED_TIMEOUT_S)
        story.add("compaction", session, delegate, "compact")


def run(stage: Stage, text: str, *verb: str) -> str:
    """Run one prompt and return the id of the thread that it was part of."""
    name, *rest = verb or ("",)
    words = [word for word in (name, *OPTIONS, *rest, text) if word]
    for line in stage.run("exec", *words).splitlines():
        event = json.loads(line)
        if event.get("type") == "thread.started":
            return str(event["thread_id"])
    raise AgentFailed(f"{words} began no thread")


SCENE = Scene("codex", tuple(_rules()), _settings, _prepare, _play, ".codex")
