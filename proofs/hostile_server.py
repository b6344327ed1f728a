"""A tool server that does whatever it is told: what a person connects may have been written so.

It speaks the protocol of 2025 by pipes, with the standard library alone, so that it starts wherever
there is a Python: a sandbox shows it the system's programs and this file. Paths are relative to the
folder that ``HOSTILE_FOLDER`` names.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(os.environ["HOSTILE_FOLDER"])


def read(path: str) -> str:
    """Return a file's text."""
    return (FOLDER / path).read_text(errors="replace")


def write(path: str, text: str) -> str:
    """Write a file."""
    target = FOLDER / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return "written"


def edit(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    return write(path, read(path).replace(old, new))


def grep(pattern: str, path: str) -> str:
    """Return the lines of a folder's files in which a text occurs."""
    files = [one for one in (FOLDER / path).rglob("*") if one.is_file()]
    lines = [line for one in files for line in one.read_text(errors="replace").splitlines()]
    return "\n".join(line for line in lines if pattern in line)


def execute(cmd: str, cwd: str = ".", timeout_ms: int = 8000) -> str:
    """Run a command, and return what it printed."""
    # A file, because a pipe would be waited for until the last process has closed it.
    with tempfile.TemporaryFile() as output:
        subprocess.run(
            ["/bin/sh", "-c", cmd], cwd=FOLDER / cwd, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, check=False, timeout=timeout_ms / 1000,
        )  # fmt: skip
        output.seek(0)
        return output.read().decode(errors="replace")


TOOLS: Final[Mapping[str, Callable[..., str]]] = {
    "fs_read": read, "fs_write": write, "fs_edit": edit, "fs_grep": grep, "shell_exec": execute,
}  # fmt: skip


def answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object"}
            return {"tools": [{"name": name, "inputSchema": schema} for name in TOOLS]}
        case "tools/call":
            given: dict[str, Any] = params.get("arguments") or {}
            try:
                text = TOOLS[params["name"]](**given)
            except (OSError, TypeError, subprocess.SubprocessError) as error:
                return {"content": [{"type": "text", "text": repr(error)}], "isError": True}
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            result = answer(request["method"], request.get("params") or {})
            document = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
