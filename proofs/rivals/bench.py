"""The processes that are compared, and the environment they run in.

Knows virtual environments, processes and lines of JSON. Must never know what is compared.
"""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from proofs.figures import Cost
from proofs.rivals.report import Store

END_TIMEOUT_S = 30
QUIET = {
    "AGNO_TELEMETRY": "false",
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_STRICT_MSGPACK": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "PYTHONWARNINGS": "ignore",
}
"""Nobody phones home while the clock runs."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A store that is compared: what people call it, and its adapter."""

    name: str
    label: str
    module: str
    adapter: str


class Bench:
    """A contender in a process of its own."""

    def __init__(
        self, contender: Contender, python: Path, conninfo: str, folder: Path, seed: int
    ) -> None:
        """Start it; it answers when its tables are there."""
        self.contender = contender
        self._log = (python.parents[2] / f"{folder.name}.log").open("w")
        words = [contender.module, contender.adapter, conninfo, str(folder), str(seed)]
        self._process = subprocess.Popen(
            [python, "-m", "proofs.rivals.worker", *words],
            cwd=Path(__file__).parents[2],
            env={**os.environ, **QUIET, "LLM_USER_PATH": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        hello = self._answer()
        self._hello = hello
        self.forks_max: int | None = hello["forks_max"]
        self.cycle = int(hello["cycle"])

    def __enter__(self) -> Self:
        """Lend it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let it go: it ends when nobody can ask any more."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def store(self) -> Store:
        """Return what it says it is."""
        said = (str(self._hello[name]) for name in ("distribution", "version", "forks_by"))
        return Store(self.contender.label, *said)

    def ask(self, verb: str, times: int) -> dict[str, Any]:
        """Return its answer to a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, times]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def time(self, verb: str, times: int) -> Cost:
        """Return what a verb costs on average."""
        return Cost(**self.ask(verb, times))

    def bytes(self) -> int:
        """Return what it takes on the disk."""
        return int(self.ask("size", 1)["bytes"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.flush()
            said = Path(self._log.name).read_text(encoding="utf-8")[-3000:]
            raise SystemExit(f"{self.contender.label} ended:\n{said}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def ensure_environment(root: Path) -> Path:
    """Return the Python of an environment that holds the pinned peers and this Turntree."""
    requirements = root / "proofs" / "peers.requirements.txt"
    venv = root / ".bench" / "venv"
    python = venv / "bin" / "python"
    stamp = venv / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print("making .bench/venv: the peers are installed once", file=sys.stderr, flush=True)
        make = ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)]
        subprocess.run(make, check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*install, "-r", str(requirements), "-e", str(root)], check=True)
        stamp.write_text(wanted)
    return python
