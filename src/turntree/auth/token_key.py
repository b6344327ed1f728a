"""The key that signs tokens, in a file of the home folder."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from turntree.auth.token import KEY_BYTES_MIN
from turntree.core.errors import InvalidOperation

FILE: Final = "token.key"


def read_or_draw_key(home: Path) -> bytes:
    """Return the key, generated on first use.

    A reader of the file can issue tokens, so only its owner may read it.

    Raises:
        InvalidOperation: The file exists, and does not hold a key.
    """
    path = home / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written under another name first and linked: two processes that start together get one key.
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    if not path.exists():
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES_MIN))
        # Another process linked its key first; this one uses that.
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    key = path.read_bytes()
    if len(key) < KEY_BYTES_MIN:
        raise InvalidOperation(
            f"{path} holds {len(key)} bytes and is not a key; remove it to get another"
        )
    return key
