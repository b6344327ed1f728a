"""Words as a POSIX shell with ``$'…'`` reads them, without anything that a terminal would obey."""

import shlex
from collections.abc import Iterable


def quoted(word: str) -> str:
    """Return a word as a shell reads it; every character of the result is printable."""
    # Control characters are removed from all output, and what is left would name another thing.
    if word.isprintable():
        return shlex.quote(word)
    # Bytes instead of \u: a shell in the C locale would write other bytes for it.
    escapes = (
        sign
        if sign.isprintable() and sign not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogateescape"))
        for sign in word
    )
    return f"$'{''.join(escapes)}'"


def joined(words: Iterable[str]) -> str:
    """Return a command line that a shell splits into these words."""
    return " ".join(map(quoted, words))


def positional(*words: str) -> str:
    """Return the last arguments of a command; none of them can be mistaken for an option."""
    before = ["--"] if any(word.startswith("-") for word in words) else []
    return joined([*before, *words])
