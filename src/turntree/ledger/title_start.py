"""Titles of turns from the start of their text, so that a list need not read whole bodies."""

import re
from typing import Any, Final

import orjson

from turntree.core.message_context import as_title, without_injected

START_CHARS: Final = 400
"""Enough for the title of nearly every turn, and read from the first page of a compressed body."""
START_CHARS_MAX: Final = 65_536
"""How much is read of a text that begins with what a tool added."""
TITLE_CHARS_MAX: Final = 200

_PLAIN: Final = re.compile(
    r'\{(?:"at":"[^"]*",)?"parts":\[\{"kind":"text","text":"([^"\\<#]*[^"\\<#\s][^"\\<#]*)'
    r'(?:("\}\],"role":"user")|\Z)'
)
"""A message of a person without anything that would have to be unescaped or taken out."""
_TEXT: Final = re.compile(
    r'"(?:kind":"text","text|excerpt)":"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*)'
)


def find_title(start: str, *, is_cut: bool) -> str | None:
    """Return the title of a turn whose messages start like this; None if that takes more text.

    ``is_cut`` says that the text goes on after this. The title is that of ``Turn.title``, cut.
    """
    if (plain := _PLAIN.match(start)) and (plain[2] or is_cut):
        return _cut(as_title(plain[1], is_cut=not plain[2]))
    *lines, last = start.split("\n")
    texts: list[str] = []
    for line in lines if is_cut else (*lines, last):
        document = orjson.loads(line)
        texts.append(text := _opening(document))
        if document.get("role") == "user" and (title := as_title(without_injected(text))):
            return _cut(title)
    if is_cut:
        # What follows the parts of a message, and with it the role, is beyond the cut: the
        # text that a turn begins with was most likely said by a person.
        text = "".join(orjson.loads(f'"{_paired(found)}"') for found in _TEXT.findall(last))
        if text.lstrip().startswith(("<", "# AGENTS.md")) or not text.strip():
            title = as_title(without_injected(text), is_cut=True)
            return None if not title or title.startswith(("<", "#")) else _cut(title)
        return _cut(as_title(text, is_cut=True))
    return next((_cut(title) for text in texts if (title := as_title(text))), "")


def _opening(document: dict[str, Any]) -> str:
    return "".join(
        part["text"] if part["kind"] == "text" else part.get("excerpt") or ""
        for part in document.get("parts", ())
        if part["kind"] == "text" or "excerpt" in part
    )


def _paired(escaped: str) -> str:
    """Return a text without half of a pair of escaped surrogates at its end."""
    return re.sub(r"\\ud[89ab][0-9a-f]{2}$", "", escaped)


def _cut(title: str) -> str:
    return title[:TITLE_CHARS_MAX].rstrip()
