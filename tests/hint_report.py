"""Lists the kinds of hints that no test was able to follow, also if several processes run tests.

Each process knows only its own tests: a hint that one of them left may have been followed by
another.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

HINTS = pytest.StashKey[tuple[set[str], dict[str, str]]]()
"""The kinds of hints that were followed, and those that were not yet, each with a test."""
_TOLD = "hints"


def list_unfollowed(seen: Iterable[str], unproven: Mapping[str, str]) -> list[str]:
    """Return a line for each hint that was never followed."""
    followed = {*seen}
    return [
        f"hint never followed: {key}   ({test})"
        for key, test in sorted(unproven.items())
        if key not in followed
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
    """List the hints that no test was able to follow."""
    for line in list_unfollowed(*config.stash.get(HINTS, (set[str](), dict[str, str]()))):
        terminalreporter.write_line(line)
