"""Neutralize terminal escape sequences in everything that commands print.

Stored messages, names, paths and errors that quote them may contain escape sequences. A terminal
would obey them, and one of them writes the clipboard. Every printed line passes through here, so
that a display that forgets to clean its text does no harm. Knows no command.
"""

import re
from typing import Final

from turntree.core.pattern import pattern

ESCAPES: Final = pattern(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]"
)
"""Complete sequences that begin with an escape character."""
_COLOR: Final = pattern(r"\x1b\[[0-9;]*m")
# C0 except tabs and line breaks, C1, what hides or reorders text, and what breaks lines on some
# terminals only. A joiner of emojis (U+200D) does nothing by itself.
_OBEYED: Final = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064"
    r"\u2066-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_CONTROLS: Final = pattern(f"[{_OBEYED}]")
_UNSPELLED: Final = pattern(f"[{_OBEYED}\\u200c\\u200d]")


def harmless(text: str, *, colored: bool = False) -> str:
    """Return text without what a terminal would obey, except our own colours if allowed."""
    if _CONTROLS.search(text) is None:
        return text
    if not colored:
        return _CONTROLS.sub("", ESCAPES.sub("", text))
    colors = _COLOR.findall(text)
    parts = [_CONTROLS.sub("", ESCAPES.sub("", part)) for part in _COLOR.split(text)]
    return parts[0] + "".join(color + part for color, part in zip(colors, parts[1:], strict=True))


def spelled(text: str) -> str:
    """Return equal JSON text in which everything a terminal would obey is escaped."""
    # Nothing that a terminal obeys is printable, and Python tells that three times as fast.
    if text.isprintable():
        return text
    # Line breaks and tabs format the document: inside strings JSON escapes them anyway.
    return _UNSPELLED.sub(_spell, text)


def _spell(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
