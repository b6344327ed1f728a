"""A plugin of pytest that writes down how each test ended: a JSON line each, in a file.

    python -m pytest -p proofs.drills.outcomes

Knows pytest. Must never know which tests are run, nor why.
"""

import json
import os
from pathlib import Path

import pytest

FILE = "TURNTREE_PROOF_OUTCOMES"
"""The variable that names the file."""
_named = os.environ.get(FILE)
"""Read when pytest loads this: a test may take every variable of ours out of its environment."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down what was seen of a test: its body, or why it never came to that."""
    if _named is None or (report.when != "call" and report.passed):
        return
    line = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
    with Path(_named).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
