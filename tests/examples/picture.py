"""Draws the README's first session as a picture: `python -m tests.examples.picture`.

The words are those of the page, which `test_undo_your_agent.py` compares with a real session.
"""

import io
import re

from rich.console import Console
from rich.text import Text

from tests.examples.tutorial import README, ROOT, read_sections, read_session

PICTURE = ROOT / "docs/images/undo.svg"
COLUMNS = 100
TITLE = "~/shop"
STYLES = {"A": "green", "M": "yellow", "D": "red"}
# Fonts of the reader's machine: a picture in a README must not load anything.
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw() -> str:
    """Return the picture as SVG."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), color_system="truecolor")
    for command, printed in read_session(read_sections(README)[""]):
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        for line in printed:
            console.print(Text(line, style=STYLES.get(line[:3].strip(), "")), soft_wrap=True)
    return FONT.sub("", console.export_svg(title=TITLE, unique_id="undo"))


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
