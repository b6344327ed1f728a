"""A shop's source folder in which Claude Code rounds a total, tests it and makes it faster.

Knows what the scripted model asks Claude Code to do for each prompt. Must never know Turntree.
"""

from proofs.agents import claude
from turntree.core.usage import Usage
from turntree.testing.scripted.server import Call, Reply, Rule

CART = "def total(lines):\n    return sum(lines)\n"
"""The folder's only file, before any turn."""
SETTINGS = '{"permissions": {"defaultMode": "acceptEdits"}}\n'
"""The user's settings of Claude Code: it may edit files without asking."""
ROUNDED = "def total(lines):\n    return round(sum(lines), 2)\n"
TESTED = "from cart import total\n\n\ndef test_total():\n    assert total([0.1, 0.2]) == 0.3\n"
FAST = {"cart.py": "total = sum\n", "bench.sh": "#!/bin/sh\npython -m timeit 'sum([1])'\n"}
DEEDS: dict[str, dict[str, str | None]] = {
    "Round the total to cents": {"cart.py": ROUNDED},
    "Write a test for it": {"test_cart.py": TESTED},
    "Speed it up": {**FAST},
    "Make it faster": {
        "cart.py": FAST["cart.py"],
        "test_cart.py": None,
        "bench.sh": FAST["bench.sh"],
    },
    "Keep the test, then make it faster": {
        "cart.py": "def total(lines):\n    return round(float(sum(lines)), 2)\n"
    },
}
"""What the agent does to files for each prompt; None removes one."""


def rules() -> list[Rule]:
    """Return how the model replies: it looks, does what the prompt asks for, and says so."""
    look = Reply("Let me see.", (Call("Read", {"file_path": "cart.py"}),), usage=Usage(7, 5, 100))
    done = Reply("Done.", usage=Usage(11, 3, 100))
    acts = [
        Rule((look, Reply("", _calls(words)), done), prompt=words, offers="Write", name=words)
        for words in DEEDS
    ]
    return [*acts, *claude.SCENE.rules[-2:]]


def _calls(words: str) -> tuple[Call, ...]:
    return tuple(
        claude.bash(f"rm {path}")
        if content is None
        else Call("Write", {"file_path": path, "content": content})
        for path, content in DEEDS[words].items()
    )
