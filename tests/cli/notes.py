"""Tools that write and read files in the folder they are called in."""

from pathlib import Path

from turntree.tools.functions import tool


def write_note(name: str, text: str) -> str:
    """Write a file."""
    Path(name).write_text(text)
    return f"wrote {name}"


@tool(is_read_only=True)
def read_note(name: str) -> str:
    """Read a file."""
    return Path(name).read_text()
