"""The claim: any turn can be continued in another vendor's own tool, tool calls intact.

A thread is recorded whose turns were taken by Claude Code and by Codex in turn, with parallel
calls, a failed one, an answer too large for its message, and one id used twice. It is checked
out as a session of each tool, and the real tool continues it against a scripted model on loopback.
The model's log shows what was sent: every earlier call with its arguments and its result. The
same is done after a compaction, when the summary and the kept turns are sent and no others. Then
the session is imported: what the tool added follows the turn that was checked out, nothing else is
new, and the session that was checked out stands at it.

Then the command that `turntree handoff` printed is typed into a terminal, as a person would: the
tool has to show the thread, take a prompt and show the answer, with every earlier call sent.

``--quick`` runs Claude Code and Codex; without it opencode and Gemini CLI run too, and are skipped,
with a reason, where they cannot be installed.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import turntree
from proofs.agents import claude
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.run import SCENES
from proofs.agents.stage import AgentFailed, Stage
from proofs.figures import Proof, run, temporary_server
from proofs.handoff_sent import Sent, sent_in
from proofs.terminal import Terminal
from turntree.boot.open import Settings
from turntree.core.compaction import Compaction
from turntree.core.message import Reasoning, ToolResult, ToolUse, assistant, tool, user
from turntree.testing.scripted.server import MODEL, Reply, Rule, ScriptedModel

PROMPT = "Go on from here."
GEMINI = "gemini-2.5-flash"
ANSWER = "Gladly."
LAST_ANSWER = "They pass."
SCREEN_S = 45
"""How long a tool may take to draw its screen, or an answer."""
LARGE = "one line of many\n" * 540 + "the last line"
"""Too large for its message, which holds 8 KB, and short enough for Codex, which cuts at 10."""
COMMAND = "from turntree.cli.main import main; main()"
CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("Bash", {"command": "cat notes.txt"}, "remember the milk"),
    ("Read", {"file_path": "large.txt"}, LARGE),
    ("exec_command", {"cmd": "make test"}, "1 failed"),
    ("exec_command", {"cmd": "make fix"}, "fixed"),
)
TURNS_MAX = 100
KEPT = 2
"""How many of the calls stand in turns that the compaction kept."""
SUMMARY = "Notes and a large file were read."
Go = Callable[[Stage, Mapping[str, Any]], None]


class Stands(NamedTuple):
    """Where a turn stands."""

    follows: str | None
    """The session of ours whose newest turn it follows."""
    sessions: list[str]
    """Those that stand at it."""


async def prove(proof: Proof) -> None:
    """Record the threads, then have every tool continue them."""
    with (
        temporary_server() as (conninfo, _),
        tempfile.TemporaryDirectory(prefix="turntree-handoff-") as folder,
    ):
        await record(Settings(Path(folder), conninfo, workspace="handoff", user="ana"))
        for program in PROGRAMS:
            if proof.wants(program.name) and (program.required or not proof.quick):
                place = Path(folder) / program.name
                await asyncio.to_thread(continue_with, proof, program, place, conninfo)


async def record(settings: Settings) -> None:
    """Record a thread that two vendors' tools took part in, and the same one compacted."""
    notes, large, test, fix = (
        (ToolUse(id, name, args), ToolResult(id, "error" if id == "call_test" else "ok", output))
        for id, (name, args, output) in zip(
            ("toolu_notes", "toolu_large", "call_test", "toolu_notes"), CALLS, strict=True
        )
    )
    async with turntree.open(settings) as tree:
        await tree.turns.record(
            "long",
            [user("What do the files say?")],
            [
                assistant(Reasoning("Both.", "c2lnbmVk"), "Let me look.", notes[0], large[0]),
                tool(notes[1], large[1]),
                assistant("Milk, and many lines."),
            ],
            model="claude-sonnet-4-5",
            provider="anthropic",
        )  # fmt: skip
        kept = await tree.turns.record(
            "long",
            [user("Now make the tests pass.")],
            [
                assistant(test[0]), tool(test[1]), assistant(fix[0]), tool(fix[1]),
                assistant(LAST_ANSWER),
            ],
            model="gpt-5.2",
            provider="openai",
        )  # fmt: skip
        await tree.sessions.fork("long", "short")
        assert kept.parent is not None, "it is the second turn"
        await tree.turns.record(
            "short",
            [user("Compact this.")],
            [assistant(SUMMARY)],
            compaction=Compaction(kept.parent, first_kept=kept.turn.id, turns_summarized=1),
        )


def continue_with(proof: Proof, program: Program, folder: Path, conninfo: str) -> None:
    """Check both threads out as a tool's sessions, continue them, and show what was sent."""
    began, name = time.monotonic(), program.name
    settings = Settings(folder, conninfo, workspace="handoff", user="ana")
    asyncio.run(fork(settings, name))
    before = asyncio.run(list_turns(settings))
    try:
        whole, short = (
            sent_by(program, folder / rev, conninfo, f"{name}/{rev}") for rev in ("long", "short")
        )
    except (NotInstalled, AgentFailed) as error:
        say(f"{name}: {error}")
        if program.required:
            proof.at_least(f"{name}: earlier calls sent", 0, "calls", len(CALLS))
        else:
            proof.note(f"{name}: skipped", 1, "tools")
        return
    proof.at_least(f"{name}: earlier calls sent", len(whole.calls), "calls", len(CALLS))
    proof.at_least(
        f"{name}: calls sent with their arguments and results", right(whole), "calls", len(CALLS)
    )
    proof.at_least(f"{name}: calls of kept turns sent", len(short.calls), "calls", KEPT)
    proof.at_most(f"{name}: calls of summarised turns sent", gone(short), "calls", 0)
    proof.at_least(f"{name}: summaries sent", short.text.count(SUMMARY), "summaries", 1)
    came = {
        id: stands for id, stands in asyncio.run(list_turns(settings)).items() if id not in before
    }
    home = [stands for stands in came.values() if stands.follows in ("long", "short")]
    proof.at_least(f"{name}: turns that follow the one checked out", len(home), "turns", 2)
    proof.at_most(f"{name}: other turns that came", len(came) - len(home), "turns", 0)
    went = [stands for stands in home if f"{name}/{stands.follows}" in stands.sessions]
    proof.at_least(f"{name}: sessions that went on with the tool", len(went), "sessions", 2)
    proof.note(f"{name}: two checkouts and continuations", time.monotonic() - began, "s")
    began = time.monotonic()
    try:
        talked = talk_to(program, folder / "typed", conninfo)
    except (AgentFailed, TimeoutError) as error:
        say(f"{name}, in a terminal: {error}")
        talked = Sent("")
    proof.at_least(
        f"{name}, in a terminal: calls sent with their arguments and results",
        right(talked), "calls", len(CALLS),
    )  # fmt: skip
    proof.note(f"{name}, in a terminal", time.monotonic() - began, "s")


def sent_by(program: Program, folder: Path, conninfo: str, revision: str) -> Sent:
    """Return what a tool sends to the model when it continues a session that was checked out.

    Raises:
        NotInstalled, AgentFailed: It could not be done.
    """
    scene = SCENES[program.name]
    with ScriptedModel(rules=[Rule((Reply(ANSWER),))]) as model:
        stage = Stage(program.ensure(), folder, model, scene.settings(model.url))
        stage.set_up()
        scene.prepare(stage)
        try:
            made = check_out(stage, conninfo, revision, TOOLS[program.name])
            GO[program.name](stage, made)
            turntree_in(stage, conninfo, "import")
        finally:
            stage.end_all()
    return most_sent(program, model)


def talk_to(program: Program, folder: Path, conninfo: str) -> Sent:
    """Return what a tool sends when a person continues the session in a terminal.

    Raises:
        AgentFailed, TimeoutError: The tool showed no thread, or no answer.
    """
    scene = SCENES[program.name]
    with ScriptedModel(rules=[Rule((Reply(ANSWER),))]) as model:
        stage = Stage(program.ensure(), folder, model, scene.settings(model.url))
        stage.set_up()
        scene.prepare(stage)
        if program.name == "claude":
            claude.finish_onboarding(stage)
        (folder / "bin").mkdir()
        (folder / "bin" / program.name).symlink_to(stage.program)
        environment = {
            **stage.environment(),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "TERM": "screen-256color",
            "LANG": "C.UTF-8",
            # Otherwise Gemini CLI first asks the model which model to ask.
            "GEMINI_MODEL": GEMINI,
        }
        # Tools that believe they run in CI do not draw a screen.
        del environment["CI"]
        terminal = Terminal(folder)
        terminal.open(stage.work, environment)
        try:
            terminal.type(check_out(stage, conninfo, "long", TOOLS[program.name])["next"])
            terminal.wait(lambda text: LAST_ANSWER in text, "the thread", SCREEN_S)
            terminal.paste_until_shown(PROMPT, SCREEN_S)
            terminal.press("Enter")
            terminal.wait(lambda text: ANSWER in text, "the answer", SCREEN_S)
        finally:
            say(f"{program.name}, in a terminal:\n{terminal.screen().rstrip()}")
            terminal.kill()
            stage.end_all()
    return most_sent(program, model)


def most_sent(program: Program, model: ScriptedModel) -> Sent:
    """Return the request with the prompt that sent the most calls.

    Raises:
        AgentFailed: There was none.
    """
    asked = [one for one in model.exchanges if one.dialect and PROMPT in json.dumps(one.body)]
    if not asked:
        raise AgentFailed(f"{program.name} never asked the model")
    return max(map(sent_in, asked), key=lambda sent: len(sent.calls))


async def fork(settings: Settings, name: str) -> None:
    """Begin sessions for a tool to go on with; the others stay where they are."""
    async with turntree.open(settings) as tree:
        for label in ("long", "short"):
            await tree.sessions.fork(label, f"{name}/{label}")


async def list_turns(settings: Settings) -> dict[str, Stands]:
    """Return every turn, and where it stands among our sessions."""
    async with turntree.open(settings) as tree:
        sessions = [one async for one in tree.sessions.list_all()]
        heads = {one.head: str(one.label) for one in sessions if one.label in ("long", "short")}
        return {
            one.turn.id: Stands(
                heads.get(one.parent), [str(s.label) for s in sessions if s.head == one.turn.id]
            )
            for one in await tree.turns.list_newest(limit=TURNS_MAX)
        }


def check_out(stage: Stage, conninfo: str, revision: str, name: str) -> dict[str, Any]:
    """Run ``turntree handoff`` in the tool's folder."""
    return turntree_in(stage, conninfo, "handoff", revision, "--to", name)


def turntree_in(stage: Stage, conninfo: str, *words: str) -> dict[str, Any]:
    """Run ``turntree`` in the tool's folder, with the tool's own environment.

    Raises:
        AgentFailed: It did not end well.
    """
    settings = {
        "TURNTREE_DATABASE_URL": conninfo,
        "TURNTREE_WORKSPACE": "handoff",
        "TURNTREE_USER": "ana",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words, "--json"], cwd=stage.work,
        env={**stage.environment(), **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise AgentFailed(f"{words[0]} ended with {done.returncode}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def right(sent: Sent) -> int:
    """Return how many of the calls were sent with what they were given and what they answered."""
    return sum(call in sent.pairs() for call in CALLS)


def gone(sent: Sent) -> int:
    """Return how many calls were sent that only the summary should tell of."""
    return sum(tool in ("Bash", "Read") for tool, _ in sent.calls.values())


def _claude(stage: Stage, made: Mapping[str, Any]) -> None:
    stage.run("-p", PROMPT, "--resume", made["session"], "--output-format", "json")


def _codex(stage: Stage, made: Mapping[str, Any]) -> None:
    stage.run("exec", "resume", "--json", "--skip-git-repo-check", made["session"], PROMPT)


def _opencode(stage: Stage, made: Mapping[str, Any]) -> None:
    stage.run("import", made["files"][0])
    stage.run("run", "--session", made["session"], "-m", f"scripted/{MODEL}", PROMPT)


def _gemini(stage: Stage, made: Mapping[str, Any]) -> None:
    words = ("-m", GEMINI, "-o", "json")
    stage.run("-p", PROMPT, *words, "--session-file", made["files"][0])


TOOLS = {"claude": "claude-code", "codex": "codex", "opencode": "opencode", "gemini": "gemini"}
GO: Mapping[str, Go] = {
    "claude": _claude, "codex": _codex, "opencode": _opencode, "gemini": _gemini,
}  # fmt: skip

if __name__ == "__main__":
    run(prove, "any turn can be continued in another tool")
