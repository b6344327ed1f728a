"""Transcripts that grow while somebody watches: a question, an edit and an answer, at this moment.

Four tools' formats, as their samples here write them. Knows no hook and no board.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from proofs.transcripts import claude_code, codex, copilot, gemini
from turntree.core.ids import instant


class LiveTranscript(Protocol):
    """A session of one tool, which is written as it goes on."""

    @property
    def file(self) -> Path:
        """The file that the tool's hooks name."""
        ...

    def ask(self, words: str) -> None:
        """Begin a turn."""
        ...

    def edit(self, path: str) -> None:
        """Edit a file with the tool's edit tool."""
        ...

    def answer(self, words: str) -> None:
        """End the turn."""
        ...


def _now() -> int:
    return time.time_ns() // 1_000_000


class LiveClaude:
    """A session of Claude Code."""

    def __init__(self, folder: Path, session: str, cwd: str) -> None:
        self._tape = claude_code.Tape(session, cwd=cwd)
        self._root = folder / ".claude"
        self.file = claude_code.save(self._root, self._tape)

    def ask(self, words: str) -> None:
        self._tape.prompt(self._id(), words, timestamp=instant(_now()))
        self._save()

    def edit(self, path: str) -> None:
        use, at = self._id(), instant(_now())
        edit = claude_code.call(use, "Edit", file_path=path, old_string="a", new_string="b")
        self._tape.answer(f"{use}-call", f"msg_{use}", edit, timestamp=at)
        done = {"filePath": path, "oldString": "a", "newString": "b"}
        self._tape.result(f"{use}-result", use, timestamp=at, toolUseResult=done)
        self._save()

    def answer(self, words: str) -> None:
        self._tape.answer(self._id(), f"msg_{self._id()}", words, timestamp=instant(_now()))
        self._save()

    def _id(self) -> str:
        return f"{self._tape.session[:8]}-{len(self._tape.records)}"

    def _save(self) -> None:
        claude_code.save(self._root, self._tape)


class LiveCodex:
    """A session of Codex."""

    def __init__(self, folder: Path, session: str, cwd: str) -> None:
        self._home = folder / ".codex"
        self._rollout = codex.Rollout(session, meta={"cwd": cwd}, clock=_now(), step_ms=1)
        self.file = self._rollout.write(self._home)

    def ask(self, words: str) -> None:
        self._sync()
        self._rollout.start()
        self._rollout.ask(words)
        self._rollout.write(self._home)

    def edit(self, path: str) -> None:
        self._sync()
        use = f"c{self._rollout.size}"
        self._rollout.call(use, "apply_patch", input="*** Begin Patch")
        change: dict[str, dict[str, object]] = {path: {"update": {}}}
        self._rollout.event("patch_apply_end", call_id=use, success=True, changes=change)
        self._rollout.result(use, "fine")
        self._rollout.write(self._home)

    def answer(self, words: str) -> None:
        self._sync()
        self._rollout.answer(words)
        self._rollout.complete()
        self._rollout.write(self._home)

    def _sync(self) -> None:
        self._rollout.clock = max(self._rollout.clock, _now())


class LiveGemini:
    """A session of Gemini CLI."""

    def __init__(self, folder: Path, session: str, cwd: str) -> None:
        del cwd  # A chat names no folder.
        self._home = folder / ".gemini"
        self._name = f"session-2026-11-15T05-31-{session[:8]}.jsonl"
        self._chat = gemini.Chat(step_ms=1)
        self._chat.lines[0] |= {"sessionId": session}
        self.file = self._chat.write(self._home, self._name)

    def ask(self, words: str) -> None:
        self._sync()
        self._chat.ask(self._id("u"), words)
        self._chat.write(self._home, self._name)

    def edit(self, path: str) -> None:
        self._sync()
        made = {"args": {"file_path": path}, "resultDisplay": {"filePath": path}}
        call = gemini.call(self._id("c"), "replace", **made)
        call["timestamp"] = instant(_now())
        self._chat.answer(self._id("g"), "", toolCalls=[call])
        self._chat.write(self._home, self._name)

    def answer(self, words: str) -> None:
        self._sync()
        self._chat.answer(self._id("g"), words)
        self._chat.write(self._home, self._name)

    def _id(self, kind: str) -> str:
        return f"{kind}{len(self._chat.lines)}"

    def _sync(self) -> None:
        self._chat.clock = max(self._chat.clock, _now())


class LiveCopilot:
    """A session of Copilot CLI."""

    def __init__(self, folder: Path, session: str, cwd: str) -> None:
        self._home = folder / ".copilot"
        self._log = copilot.EventLog(session, cwd, step_ms=1)
        self.file = self._log.save(self._home)

    def ask(self, words: str) -> None:
        self._sync()
        self._log.ask(words)
        self._log.save(self._home)

    def edit(self, path: str) -> None:
        self._sync()
        use = f"call_{len(self._log.lines)}"
        self._log.answer("", (use, "edit", {"path": path, "old_str": "a"}))
        self._log.finish(use, "edited")
        self._log.save(self._home)

    def answer(self, words: str) -> None:
        self._sync()
        self._log.answer(words)
        self._log.save(self._home)

    def _sync(self) -> None:
        self._log.clock = max(self._log.clock, _now())


LIVE: Mapping[str, Callable[[Path, str, str], LiveTranscript]] = {
    "claude-code": LiveClaude,
    "codex": LiveCodex,
    "gemini": LiveGemini,
    "copilot": LiveCopilot,
}
"""Each begins a session in a person's home, in a folder."""
