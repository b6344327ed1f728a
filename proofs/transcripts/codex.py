"""Rollouts of Codex, of our own making: the tool's fields, and words of ours."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from turntree.core.ids import instant, uuid7

BEGINNING = 1_794_719_676_000
THREAD = uuid7(BEGINNING, 1)
OTHER = uuid7(BEGINNING + 60_000, 2)
CHILD = uuid7(BEGINNING + 70_000, 3)


@dataclass
class Rollout:
    """Writes a rollout line by line, each a second after the one before by default."""

    thread: str = THREAD
    id: str | None = None
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    clock: int = BEGINNING
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ordinal: int = 0
    turn: str | None = None
    step_ms: int = 1000

    def __post_init__(self) -> None:
        told = {
            "id": self.thread, "session_id": self.thread, "timestamp": instant(self.clock),
            "cwd": "/home/ann/shop", "originator": "codex_cli_rs", "cli_version": "0.166.0",
            "source": "cli", "model_provider": "openai", "base_instructions": {"text": "Be good."},
            "git": {"branch": "main", "commit_hash": "abc"}, "history_mode": "paginated",
        }  # fmt: skip
        self.add("session_meta", told | self.meta)

    @property
    def size(self) -> int:
        return len(self.text())

    def add(self, kind: str, payload: dict[str, Any]) -> None:
        self.clock += self.step_ms
        line = {"timestamp": instant(self.clock), "ordinal": self.ordinal}
        self.lines.append({**line, "type": kind, "payload": payload})
        self.ordinal += 1

    def event(self, kind: str, **payload: Any) -> None:
        self.add("event_msg", {"type": kind, **payload})

    def item(self, kind: str, **payload: Any) -> None:
        told = {} if self.turn is None else {
            "internal_chat_message_metadata_passthrough": {"turn_id": self.turn}
        }  # fmt: skip
        self.add("response_item", {"type": kind, **told, **payload})

    def done(self, kind: str, **item: Any) -> None:
        self.event(
            "item_completed", item={"type": kind, **item}, turn_id=self.turn,
            started_at_ms=self.clock, completed_at_ms=self.clock + 250,
        )  # fmt: skip

    def start(self, model: str = "gpt-6") -> None:
        self.turn = uuid7(self.clock + 1000, self.ordinal)
        self.event("task_started", turn_id=self.turn)
        self.add("turn_context", {"turn_id": self.turn, "model": model, "approval_policy": "never"})

    def ask(self, words: str) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": words}])

    def answer(self, words: str, **more: Any) -> None:
        content = [{"type": "output_text", "text": words}]
        self.item("message", role="assistant", content=content, **more)

    def call(self, id: str, name: str = "shell", **args: Any) -> None:
        self.item("function_call", name=name, arguments=json.dumps(args), call_id=id)

    def result(self, id: str, output: object) -> None:
        self.item("function_call_output", call_id=id, output=output)

    def complete(self, **more: Any) -> None:
        self.event("task_complete", turn_id=self.turn, **more)
        self.turn = None

    def exchange(self, question: str, answer: str) -> None:
        self.start()
        self.ask(question)
        self.answer(answer)
        self.complete()

    def text(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(self, home: Path, folder: str = "sessions/2026/11/15", packed: bool = False) -> Path:  # noqa: FBT001, FBT002
        name = f"rollout-{self.lines[0]['timestamp'][:19].replace(':', '-')}-{self.thread}"
        name += f"_{self.id}" if self.id else ""
        path = home / folder / f"{name}.jsonl{'.zst' if packed else ''}"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.text()
        path.write_bytes(zstandard.ZstdCompressor().compress(data) if packed else data)
        return path


def write_sample(folder: Path) -> Path:
    """Write a thread with everything one may hold, a fork of it and a subagent's thread."""
    told = Rollout()
    told.exchange("What is here?", "A shop.")
    shared = told.size
    told.start()
    told.ask("Look.")
    told.item("reasoning", summary=[{"type": "summary_text", "text": "a"}], encrypted_content="b")
    told.call("c1", command=["ls"], workdir="/home/ann/shop")
    told.call("c2", "apply_patch", input="*** Begin Patch")
    told.done("CommandExecution", id="c1", exit_code=1, duration={"secs": 1, "nanos": 5},
              parsed_cmd=[{"type": "read", "path": "/home/ann/shop/a.py"}])  # fmt: skip
    told.event("patch_apply_end", call_id="c2", success=True, changes={"/a": {"add": {}}})
    told.result("c1", '{"output":"x","metadata":{"exit_code":1}}')
    told.result("c2", "fine")
    told.item("web_search_call", status="completed", action={"type": "search", "query": "q"})
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 3}
    told.event("token_count", info={"total_token_usage": used, "last_token_usage": used})
    told.add("token_usage_record", {"response_id": "r1", "usage": used})
    told.answer("Done.", phase="final_answer")
    told.complete()
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "s"}]}]
    told.add("compacted", {"message": "A shop.", "replacement_history": kept})
    told.start()
    told.ask("Ask another.")
    told.call("c3", "spawn_agent", message="Count.")
    told.result("c3", json.dumps({"agent_id": CHILD}))
    told.add("inter_agent_communication", {"author": "a", "recipient": "b", "content": "Go."})
    told.complete(error={"message": "m"})
    told.event("thread_rolled_back", num_turns=1)
    told.start()
    told.ask("And now?")
    told.event("turn_aborted", turn_id=told.turn, reason="interrupted")
    told.write(folder)
    base = {"thread_id": THREAD, "end_byte_offset": shared, "rollout_path": None}
    fork = Rollout(OTHER, meta={"forked_from_id": THREAD, "history_base": base})
    fork.exchange("And else?", "Nothing.")
    fork.write(folder, packed=True)
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1}}}
    child = Rollout(CHILD, meta={"source": spawned, "parent_thread_id": THREAD})
    child.exchange("Count.", "Four.")
    child.write(folder)
    return folder
