"""The history of ``revert``, taken back by what others offer: figures without a bar.

Claude Code's `/rewind` and opencode's `/undo` go back to the moment before a prompt, so they are
asked for the turns of the story, each as if it were to be taken back alone. What they have no word
for, a file or a hunk, is counted as that. Both are real and have no hooks of ours. takeback is
installed from npm by its name, if npm has it.

Knows the rivals' own ways to be asked without a terminal: ``--rewind-files`` restores the
checkpoints that `/rewind` lists, and opencode's terminal sends `/undo` to its server.
"""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from proofs.agents.programs import PROGRAMS, NotInstalled, npm, say
from proofs.agents.stage import AgentFailed, Stage, end_group
from proofs.figures import Proof
from proofs.revert_script import DRIVEN, HANDS
from proofs.revert_story import (
    CASES,
    HISTORY,
    Files,
    begin_repository,
    count_lost,
    play,
    read,
    replay,
    write,
)
from turntree.testing.scripted.server import ScriptedModel

CHECKPOINTS: Final = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
"""Claude Code keeps no checkpoints while it prints, unless it is told to."""
SERVER_TIMEOUT_S: Final = 60
ANSWER_TIMEOUT_S: Final = 30
TakeBack = Callable[[str], None]
"""Takes back a turn, by the word of its prompt."""


def show_rivals(proof: Proof, folder: Path) -> None:
    """Play the history for each rival, and show what becomes of each part."""
    show_rival(proof, "claude", "Claude Code's /rewind", folder / "claude", _rewinding)
    show_rival(proof, "opencode", "opencode's /undo", folder / "opencode", _undoing)
    try:
        program = npm("takeback", "takeback")()
    except NotInstalled as error:
        say(f"takeback: {error}")
        proof.note("takeback, not to be had from npm", 1, "tools")
    else:
        say(f"takeback is there now, as {program}, and nothing here knows how to ask it")
        proof.note("takeback, installed but not asked", 1, "tools")


def show_rival(
    proof: Proof,
    agent: str,
    title: str,
    folder: Path,
    opening: Callable[[Stage, str], Any],
) -> None:
    """Play the history for one agent, and ask it to take back each turn of it."""
    (program,) = (one for one in PROGRAMS if one.name == agent)
    try:
        path = program.ensure()
    except NotInstalled as error:
        say(f"{title}: {error}")
        proof.note(f"{title}, skipped", 1, "agents")
        return
    editing, hands = DRIVEN[agent], HANDS[agent]
    with ScriptedModel(rules=hands.rules()) as model:
        settings = {**editing.scene.settings(model.url), **CHECKPOINTS}
        stage = Stage(path, folder, model, settings)
        stage.set_up()
        editing.scene.prepare(stage)
        begin_repository(stage.work)
        try:
            session = play(stage.work, HISTORY, lambda before, text: (
                editing.resume(stage, before, text) if before else editing.begin(stage, text)
            ))  # fmt: skip
            with opening(stage, session) as take_back:
                compare(proof, title, stage.work, take_back)
        except AgentFailed as error:
            say(f"{title}: {error}")
            proof.note(f"{title}, failed", 1, "agents")
        finally:
            stage.end_all()


def compare(proof: Proof, title: str, work: Path, take_back: TakeBack) -> None:
    """Have each part taken back, if it can be asked for, and compare with the oracle."""
    present, lost, wrong, right = read(work), 0, 0, 0
    asked = [case for case in CASES if not case.words]
    proof.note(f"{title}, parts it has no word for", len(CASES) - len(asked), "parts")
    for case in asked:
        try:
            take_back(case.turn)
        except AgentFailed as error:
            say(f"{title}, {case.what}: {error}")
        found, expected = read(work), replay(HISTORY, case)
        unlike = count_unlike(expected, found)
        gone = count_lost(found, present)
        proof.note(f"{title}, {case.what}: paths unlike the oracle's", unlike, "paths")
        wrong, lost, right = wrong + unlike, lost + gone, right + (unlike == 0)
        put_back(work, present)
    proof.note(f"{title}, parts taken back as the oracle says", right, f"of {len(CASES)} parts")
    proof.note(f"{title}, paths unlike the oracle's", wrong, "paths")
    proof.note(f"{title}, edits of a person that were lost", lost, "edits")


def count_unlike(expected: Files, found: Files) -> int:
    """Return in how many paths two states differ."""
    return sum(expected.get(path) != found.get(path) for path in expected.keys() | found.keys())


def put_back(work: Path, present: Files) -> None:
    """Make the folder what it was before a rival changed it."""
    for path in work.iterdir():
        if path.name == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    write(work, present)


@contextmanager
def _rewinding(stage: Stage, session: str) -> Generator[TakeBack]:
    """Yield what restores the files from before a prompt, from Claude Code's checkpoints."""
    (file,) = (stage.home / ".claude/projects").glob(f"*/{session}.jsonl")
    records = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
    said = {
        str(one["message"]["content"]).partition(" ")[0]: one["uuid"]
        for one in records
        if one["type"] == "user" and isinstance(one["message"]["content"], str)
    }

    def take_back(turn: str) -> None:
        stage.run("--resume", session, "--rewind-files", said[turn])

    yield take_back


@contextmanager
def _undoing(stage: Stage, session: str) -> Generator[TakeBack]:
    """Yield what sends opencode's server the revert that `/undo` sends, and then takes it back."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    words = ["serve", "--port", str(port), "--hostname", "127.0.0.1"]
    process = stage.start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/session/{session}"
    try:
        said = _list_prompts(url)
        is_first = True

        def take_back(turn: str) -> None:
            nonlocal is_first
            if not is_first:
                _ask(f"{url}/unrevert", {})
            is_first = False
            _ask(f"{url}/revert", {"messageID": said[turn]})

        yield take_back
    finally:
        end_group(process)


def _list_prompts(url: str) -> Mapping[str, str]:
    until = time.monotonic() + SERVER_TIMEOUT_S
    while True:
        try:
            messages: Sequence[Mapping[str, Any]] = _ask(f"{url}/message")
        except AgentFailed:
            # A connection that it accepts while it starts is never answered.
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
            continue
        return {
            part["text"].partition(" ")[0]: message["info"]["id"]
            for message in messages
            if message["info"]["role"] == "user"
            for part in message["parts"]
            if part["type"] == "text"
        }


def _ask(url: str, body: Mapping[str, str] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 (loopback)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:  # noqa: S310 (loopback)
            return json.loads(answer.read() or b"null")
    except (OSError, ValueError) as error:
        raise AgentFailed(f"{url} did not answer: {error}") from error
