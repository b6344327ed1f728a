"""Stands in for a coding agent with our hooks: edits the files of the tutorial, a turn a call."""

from pathlib import Path

from tests.cli.project import Edit, Project
from turntree.boot import Settings
from turntree.cli.place import read_head

SESSION = "claude-code/shop/1f0c2a7e"
DEEDS: dict[str, dict[str, Edit]] = {
    "Round the total to cents": {"cart.py": "def total(lines):\n    return round(sum(lines), 2)\n"},
    "Write a test for it": {
        "test_cart.py": "from cart import total\n\n\ndef test_total():\n"
        "    assert total([0.1, 0.2]) == 0.3\n"
    },
    "Make it faster": {
        "cart.py": "total = sum\n",
        "test_cart.py": None,
        "bench.sh": "#!/bin/sh\npython -m timeit 'sum([1])'\n",
    },
    "Keep the test, then make it faster": {
        "cart.py": "def total(lines):\n    return round(float(sum(lines)), 2)\n"
    },
}


def take_turn(words: str) -> None:
    """Take one turn in the folder one stands in, in its own session if it has one."""
    here = Path.cwd()
    session = read_head(here) or SESSION
    Project(here, Settings.from_environment()).turn(words, DEEDS[words], session=session)
