"""What a program leaves on the screen of a terminal, from what it printed.

Knows how a spinner draws over its own lines. Must never know what is printed.
"""

import re

# What moves the cursor: a new line, the line above, the same line once more.
MOVE = re.compile(r"(\n|\x1b\[1A|\x1b\[2K)")
CURSOR = re.compile(r"\x1b\[\?25[lh]|\r")


def left_on_screen(output: str) -> list[str]:
    """Return the lines that are left, in their colours, without progress that was drawn over."""
    lines = [""]
    for piece in MOVE.split(CURSOR.sub("", output)):
        if piece == "\n":
            lines.append("")
        elif piece == "\x1b[1A":
            lines.pop()
        elif piece == "\x1b[2K":
            lines[-1] = ""
        else:
            lines[-1] += piece
    return lines
