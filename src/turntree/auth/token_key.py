"""The key that signs tokens, in a file of the home."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from turntree.auth.token import KEY_BYTES_MIN
from turntree.core.errors import InvalidOperation

FILE: Final = "token.key"


def read_or_draw_key(home: Path) -> bytes:
    """Return the key, drawn when it is first asked for.

    Whoever reads the file can issue tokens, so it is its owner's alone.

    Raises:
        InvalidOperation: There is a file, and what it holds is no key.
    """
    path = home / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written whole under another name first: two processes that begin together get one key.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    if not path.exists():
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES_MIN))
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    key = path.read_bytes()
    if len(key) < KEY_BYTES_MIN:
        raise InvalidOperation(
            f"{path} holds {len(key)} bytes and is no key; remove it to get another"
        )
    return key
