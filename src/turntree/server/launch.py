"""Where a running server leaves its port and its secret, for the next command of the same user.

One file for each workspace, with mode 0600, below the home folder. The server holds a lock beside
it for as long as it runs. A process id in the file would not do: after a crash it may be another
program's.
"""

import hashlib
import json
import os
import secrets
from typing import Any, Final

from filelock import FileLock, Timeout

from turntree.boot.open import Settings
from turntree.core.value import value
from turntree.server.keys import SECRET_BYTES, read_secret

FOLDER: Final = "ui"
_OWNER_ONLY: Final = 0o600


@value
class Launch:
    """One start of a server."""

    port: int
    id: str
    """Drawn at each start."""
    secret: bytes
    """The same after a restart, so that an open page stays logged in."""


class LaunchFile:
    """The file and the lock of the server of one workspace."""

    def __init__(self, settings: Settings) -> None:
        """Name the files; nothing is read or written yet."""
        ledger = f"{settings.database_url or ''}\0{settings.workspace}\0{settings.user}"
        name = hashlib.sha256(ledger.encode()).hexdigest()[:16]
        self._path = settings.home / FOLDER / f"{name}.json"
        self._lock = FileLock(self._path.with_suffix(".lock"))

    def claim(self) -> bool:
        """Become the server of this workspace until ``release``; False if another process is."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        """Let another process serve; the secret stays."""
        self._lock.release()

    def write(self, port: int) -> Launch:
        """Record this start, and return it; only its owner can read the file."""
        before = self.find()
        secret = secrets.token_bytes(SECRET_BYTES) if before is None else before.secret
        launch = Launch(port, secrets.token_hex(8), secret)
        text = json.dumps({"port": port, "id": launch.id, "secret": secret.hex()})
        temporary = self._path.with_suffix(f".{launch.id}")
        # The mode is the file's from its first byte; a later chmod would leave a gap.
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w"
        ) as file:
            file.write(text)
        temporary.replace(self._path)
        return launch

    def find(self) -> Launch | None:
        """Return the last start, or None if there was none or the file is damaged."""
        try:
            document: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            secret = read_secret(document["secret"])
            port, launch = int(document["port"]), str(document["id"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if secret is None else Launch(port, launch, secret)
