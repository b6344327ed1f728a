"""Sessions of Copilot CLI, of our own making: the tool's fields, and words of ours."""

import json
from pathlib import Path
from typing import Any

from turntree.core.ids import instant

BEGINNING = 1_794_719_676_000
SESSION = "46598e24-9982-4e8d-9847-708d66d6c585"


class EventLog:
    """Writes a session event by event, each a second after the one before."""

    def __init__(self, session: str = SESSION, cwd: str = "/srv/shop", step_ms: int = 1000) -> None:
        self.step_ms = step_ms
        self.lines: list[dict[str, Any]] = []
        self.session = session
        self.clock = BEGINNING - step_ms
        self.tell(
            "session.start",
            sessionId=session,
            producer="copilot-agent",
            copilotVersion="1.0.102",
            context={"cwd": cwd, "branch": "main"},
        )

    def tell(self, kind: str, **data: Any) -> None:
        self.clock += self.step_ms
        at = instant(self.clock)
        before = self.lines[-1]["id"] if self.lines else None
        id = f"event-{len(self.lines)}"
        self.lines.append(
            {"type": kind, "data": data, "id": id, "timestamp": at, "parentId": before}
        )

    def ask(self, words: str) -> None:
        self.tell("user.message", content=words, transformedContent=f"<date/>{words}")

    def answer(self, words: str, *calls: tuple[str, str, dict[str, Any]]) -> None:
        usage = {"model": "gpt-4.1", "inputTokens": 100, "outputTokens": 5, "cacheReadTokens": 40}
        self.tell("session.usage_record", usage=usage)
        requests = [
            {"toolCallId": id, "name": name, "arguments": given} for id, name, given in calls
        ]
        self.tell("assistant.message", model="gpt-4.1", content=words, toolRequests=requests)

    def finish(self, call: str, output: str, *, success: bool = True) -> None:
        told = {"result": {"content": output}} if success else {"error": {"message": output}}
        self.tell("tool.execution_complete", toolCallId=call, success=success, **told)

    def save(self, home: Path) -> Path:
        file = home / "session-state" / self.session / "events.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), encoding="utf-8")
        return file


def write_sample(folder: Path) -> Path:
    """Write a session of three turns and return the folder."""
    log = EventLog()
    log.ask("Round the total")
    log.answer("", ("call_1", "edit", {"path": "/srv/shop/cart.py", "old_str": "a"}))
    log.tell("tool.execution_start", toolCallId="call_1")
    log.finish("call_1", "edited")
    log.answer("Done.")
    log.ask("And test it")
    log.answer("", ("call_2", "bash", {"command": "pytest"}))
    log.finish("call_2", "exit code 1", success=False)
    log.answer("It fails.")
    log.ask("Then fix it")
    log.answer("Fixed.")
    log.save(folder / ".copilot")
    return folder
