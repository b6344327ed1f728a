"""The workers of the proof of notices, which are killed."""

import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Crew:
    """The workers, which are killed."""

    command: Sequence[str]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    killed: int = 0

    def hire(self) -> None:
        """Start another worker."""
        self.processes.append(subprocess.Popen(self.command, stdout=subprocess.PIPE))

    def kill(self, die: random.Random) -> None:
        """Kill one of them without warning, and start another."""
        process = die.choice(self.processes)
        process.kill()
        process.wait()
        self.processes.remove(process)
        self.killed += 1
        self.hire()

    def dismiss(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.kill()
            process.wait()
