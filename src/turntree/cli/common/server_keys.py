"""Keys for servers: from the environment, or from a file that only its owner can read.

A key is never an option: options are in the list of processes, and in the history of the shell.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, Final, cast

from turntree.cli.hints import command_hint
from turntree.cli.settings import config_path, write_private
from turntree.core.errors import InvalidOperation, PermissionDenied

VARIABLE: Final = "TURNTREE_KEY"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def credentials_path() -> Path:
    """Return the path of the file with the keys, whether or not it exists."""
    return config_path().with_name("server-keys.json")


def find_key(url: str) -> str:
    """Return the key for a workspace of a server, by its URL without a slash at its end.

    Raises:
        PermissionDenied: There is none.
        InvalidOperation: Other users can read the file.
    """
    key = os.environ.get(VARIABLE) or read_keys().get(url)
    if key is None:
        raise PermissionDenied(
            f"there is no key for {url}\n{VARIABLE} holds one, or a file with what you store",
            hint=command_hint(f"turntree key store {url}"),
        )
    return key


def read_keys() -> dict[str, str]:
    """Return the stored keys by URL.

    Raises:
        InvalidOperation: Other users can read the file, or it is not ours.
    """
    path = credentials_path()
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise InvalidOperation(
                    f"other users can read {path}", hint=command_hint(f"chmod 600 {path}")
                )
            document: Any = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise InvalidOperation(f"{path} is not JSON; remove it") from error
    if not isinstance(document, dict):
        raise InvalidOperation(f"{path} is not an object of URLs and keys; remove it")
    members = cast("dict[str, object]", document)
    return {url: key for url, key in members.items() if isinstance(key, str)}


def store_key(url: str, key: str | None) -> Path:
    """Store the key for a URL, or forget it, and return the path of the file."""
    keys = {name: text for name, text in read_keys().items() if name != url}
    if key is not None:
        keys[url] = key
    path = credentials_path()
    write_private(path, f"{json.dumps(keys, indent=2)}\n")
    return path
