"""Runs a Python function of untrusted source in Monty: an interpreter without files or network.

Monty is an interpreter of a subset of Python that runs in a process of its own. It has no
operating system: no file, no environment, no socket, no import of a package. It needs neither
bubblewrap nor Linux, and a call takes less than a millisecond, where a process of Python takes 20.
Each call gets a session of its own, so nothing of one is seen by the next.
"""

import json
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from turntree.core.canonical import Json
from turntree.core.errors import CodeError, SandboxUnavailable

if TYPE_CHECKING:
    from pydantic_monty import Monty

WALL_S: Final = 0.1
MEMORY_BYTES: Final = 64 * 1024 * 1024
STARTING_S: Final = 10.0
"""How long a process of Monty may take to start, or to be free again."""
PROCESSES_MAX: Final = 4
RECURSION_MAX: Final = 200
SAID_CHARS_MAX: Final = 300
_INPUT: Final = "turntree_document"


class MontyError(CodeError):
    """The function raised, exceeded a limit, or returned what JSON cannot say."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """Take the message, and the line of the source at which it happened, if known."""
        super().__init__(message)
        self.line = line


class MontyLane:
    """Calls functions in Monty. It may be used from several threads at once."""

    def __init__(self, *, wall_s: float = WALL_S, memory_bytes: int = MEMORY_BYTES) -> None:
        """Start nothing yet: Monty is loaded at the first call."""
        self._wall_s = wall_s
        self._memory_bytes = memory_bytes
        self._lock = Lock()
        self._pool: Monty | None = None

    def call(self, source: str, function: str, document: Json) -> Json:
        """Return what a function of the source returns for a document; it blocks.

        Raises:
            MontyError: It raised, exceeded a limit, or returned what JSON cannot say.
            SandboxUnavailable: Monty is not installed, or cannot start.
        """
        try:
            import pydantic_monty as monty  # noqa: PLC0415 - few commands judge a call
        except ImportError as error:
            raise SandboxUnavailable("Monty is not installed") from error

        limits: monty.ResourceLimits = {
            "max_feed_duration_secs": self._wall_s,
            "max_memory": self._memory_bytes,
            "max_recursion_depth": RECURSION_MAX,
            "max_suspensions": 1,
            "max_total_sleep_secs": 0.0,
        }
        lines = source.count("\n") + 1
        try:
            with self._started().checkout(limits=limits) as session:
                answer: Any = session.feed_run(
                    f"{source}\n\n{function}({_INPUT})",
                    inputs={_INPUT: document},
                    # Without a receiver, what it prints would go to this process's output.
                    print_callback=_drop,
                )
            # What comes back may be a tuple, a set or a proxy of an instance.
            plain: Json = json.loads(json.dumps(answer, allow_nan=False))
        except monty.MontyCrashedError as error:
            raise MontyError("it took too long, or Monty crashed") from error
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as error:
            at = [frame.line for frame in error.traceback() if frame.line <= lines]
            message = " ".join(str(error).split())[:SAID_CHARS_MAX]
            # Monty measures to the nanosecond; the reason of a decision is the same each time.
            if "time limit exceeded" in message:
                message = f"it took longer than {self._wall_s * 1000:g} ms"
            elif "memory limit" in message:
                message = f"it needs more than {self._memory_bytes // 2**20} MiB of memory"
            raise MontyError(message, at[-1] if at else None) from error
        except (monty.MontyError, TypeError, ValueError, RecursionError) as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())[:SAID_CHARS_MAX]
            raise MontyError(message) from error
        except (OSError, TimeoutError, RuntimeError) as error:
            raise SandboxUnavailable(f"Monty does not start here: {error}") from error
        return plain

    def close(self) -> None:
        """End the processes of Monty, if there are any."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.__exit__(None, None, None)

    def _started(self) -> "Monty":
        from pydantic_monty import Monty  # noqa: PLC0415 - few commands judge a call

        with self._lock:
            if self._pool is None:
                pool = Monty(
                    max_processes=PROCESSES_MAX,
                    checkout_timeout=STARTING_S,
                    request_timeout=STARTING_S,
                )
                self._pool = pool.__enter__()
            return self._pool


def _drop(_stream: str, _text: str) -> None:
    """Discard what a function prints."""
