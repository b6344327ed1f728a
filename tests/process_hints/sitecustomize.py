"""Takes down what a process of the command line prints, for the tests that follow its hints.

Python imports a module of this name when it starts, if its folder is on the path.
"""

import atexit
import json
import os
import sys
from typing import Any, Final

_RECORDS: Final = os.environ.get("HINT_RECORDS")
_LINES_MAX: Final = 2_000


def _record() -> None:
    printed: list[str] = []

    def taking(write: Any) -> Any:
        def take(text: str) -> int:
            # Click writes empty bytes, to see whether a stream takes them.
            if isinstance(text, str) and len(printed) < _LINES_MAX:
                printed.append(text)
            written: int = write(text)
            return written

        return take

    def tell() -> None:
        text = "".join(printed)
        if "next: " not in text and " with: " not in text and '"undo"' not in text:
            return
        words = sys.argv[1:]
        record = {"words": words, "folder": _START, "environment": _ENVIRONMENT, "printed": text}
        with open(str(_RECORDS), "a") as file:  # noqa: PTH123 - pathlib would slow every start.
            file.write(json.dumps(record) + "\n")

    for stream in (sys.stdout, sys.stderr):
        stream.write = taking(stream.write)  # type: ignore[method-assign]
    atexit.register(tell)


if _RECORDS:
    _START = os.getcwd()  # noqa: PTH109
    _ENVIRONMENT = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TURNTREE_") or name == "HOME"
    }
    _record()
