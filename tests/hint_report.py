"""Lists the kinds of hints that no test was able to follow, also if several processes run tests.

Each process knows only its own tests: a hint that one of them left may have been followed by
another. Where ``TURNTREE_HINT_OUTCOMES`` names a file, each run of pytest adds what it knows, and
after a run of the whole suite

    python -m tests.hint_report FILE [--at-most N]

fails if more than N kinds of hints, by default none, were printed and never followed. A run of a
part of the suite names no file: what one test prints is often followed by another one.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

HINTS = pytest.StashKey[tuple[set[str], dict[str, str]]]()
"""The kinds of hints that were followed, and those that were not yet, each with a test."""
FILE = "TURNTREE_HINT_OUTCOMES"
"""The variable that names the file."""
_named = os.environ.get(FILE)
"""Read when pytest loads this: a test may take every variable of ours out of its environment."""
_TOLD = "hints"


def list_unfollowed(seen: Iterable[str], unproven: Mapping[str, str]) -> list[str]:
    """Return a line for each kind of hint that was never followed."""
    followed = {*seen}
    if not (left := {key: test for key, test in unproven.items() if key not in followed}):
        return []
    # Only here: it loads the command line.
    from tests.cli.hint_runner import kind_of  # noqa: PLC0415

    kinds = {kind_of(key) for key in followed}
    return [
        f"hint never followed: {key}   ({test})"
        for key, test in sorted(left.items())
        if kind_of(key) not in kinds
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, if there is one."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        seen, unproven = session.config.stash.get(HINTS, (set[str](), dict[str, str]()))
        output[_TOLD] = [sorted(seen), unproven]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process tells at its end; one that crashed tells nothing."""
    told: tuple[list[str], dict[str, str]] = getattr(node, "workeroutput", {}).get(_TOLD, ([], {}))
    seen, unproven = node.config.stash.setdefault(HINTS, (set(), {}))
    seen.update(told[0])
    unproven.update(told[1])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List the hints that no test was able to follow, and add what is known to the file."""
    seen, unproven = config.stash.get(HINTS, (set[str](), dict[str, str]()))
    for line in list_unfollowed(seen, unproven):
        terminalreporter.write_line(line)
    if _named is not None:
        with Path(_named).open("a", encoding="utf-8") as file:
            file.write(json.dumps([sorted(seen), unproven]) + "\n")


def judge(path: Path) -> list[str]:
    """Return what is wrong with the hints of all runs that wrote to a file."""
    runs = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seen = {key for followed, _ in runs for key in followed}
    if not seen:
        return [_nothing(path)]
    return list_unfollowed(seen, {key: test for _, left in runs for key, test in left.items()})


def _nothing(path: Path) -> str:
    return f"no run of pytest followed a hint and said so in {path}"


def main() -> int:
    """Print which kinds of hints were never followed; 1 if there are more than permitted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--at-most", type=int, default=0, metavar="N")
    asked = parser.parse_args()
    faults = judge(asked.file)
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    sys.stdout.write(f"kinds of hints that were never followed: {len(faults)}\n")
    # Where nothing was followed at all, nothing was looked at.
    return 1 if len(faults) > asked.at_most or faults == [_nothing(asked.file)] else 0


if __name__ == "__main__":
    sys.exit(main())
