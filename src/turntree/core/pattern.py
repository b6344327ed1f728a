"""Regular expressions that are compiled when they are first used.

To compile the patterns by which secrets are known took 24 ms of every command's start, and most
commands never look for one. Only methods of a pattern work before it is compiled: give none to a
function of ``re``.
"""

import re
from typing import Any, AnyStr, cast


class _Pattern:
    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # ``re`` keeps what it compiled. The method is kept here, so that this is asked once.
        method = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, method)
        return method


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern to be used by its methods."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))
