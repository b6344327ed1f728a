"""Codex's app server: JSON-RPC, one document a line, over the pipes of a process.

Knows how to call it and wait for what it says. Must never know what is asked of it.
"""

import json
import queue
import subprocess
import threading
import time
from types import TracebackType
from typing import Any, Self

from proofs.agents.stage import AgentFailed, Stage, close_pipes, end_group

CALL_TIMEOUT_S = 30


class AppServer:
    """One app server on a stage; it ends with the ``with`` statement."""

    def __init__(self, stage: Stage) -> None:
        """Take the stage; nothing runs before the ``with`` statement begins."""
        self._stage = stage
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._kept: list[dict[str, Any]] = []
        self._calls = 0

    def __enter__(self) -> Self:
        """Start the process and introduce ourselves."""
        self._process = self._stage.start(
            ["app-server"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        client = {"name": "turntree", "title": "Turntree", "version": "0"}
        self.call("initialize", {"clientInfo": client})
        self._send({"method": "initialized"})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process and everything it started."""
        end_group(self._process)
        # Something that it started and that left its group may still hold the pipe.
        self._stage.end_all()
        self._listener.join()
        close_pipes(self._process)

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a method.

        Raises:
            AgentFailed: It answered with an error, or not in time.
        """
        self._calls += 1
        self._send({"id": self._calls, "method": method, "params": params})
        until = time.monotonic() + CALL_TIMEOUT_S
        while True:
            said = self._next(until, method)
            if said.get("id") == self._calls and "method" not in said:
                break
            self._kept.append(said)
        if "error" in said:
            raise AgentFailed(f"{method}: {said['error']}")
        result: dict[str, Any] = said["result"]
        return result

    def wait_for(self, method: str, thread: str, timeout_s: float) -> None:
        """Return when the server has said something about a thread.

        Raises:
            AgentFailed: It has not, in time.
        """
        until = time.monotonic() + timeout_s
        while True:
            said = self._kept.pop(0) if self._kept else self._next(until, method)
            about = said.get("params") or {}
            if said.get("method") == method and about.get("threadId") == thread:
                return

    def _next(self, until: float, method: str) -> dict[str, Any]:
        try:
            return self._said.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty as error:
            raise AgentFailed(f"the app server did not answer {method} in time") from error

    def _send(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._said.put(json.loads(line))
        except ValueError:
            return  # The last line is half a line: it has ended.
