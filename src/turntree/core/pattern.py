"""Regular expressions that are compiled on first use.

Compiling the patterns for secrets took 24 ms of each command's start, and most commands never look
for one. Only methods of a pattern work before it is compiled: do not pass one to a function of
``re``.
"""

import re
from typing import Any, AnyStr, cast


class _Pattern:
    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # ``re`` caches compiled patterns. The method is cached here, so that this runs once.
        method = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, method)
        return method


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that compiles on first use; only its methods may be used."""
    return cast("re.Pattern[AnyStr]", _Pattern(source, flags))
