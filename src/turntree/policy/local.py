"""The policy in force as a private file of this machine, for judges that have no database.

    judge/policy.json    what was published last; without it the shipped policy is in force

A file that another user could have written, that is a link, or whose source does not have the
digest beside it is no policy at all: the caller then decides nothing.
"""

import json
import os
import stat
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.policy.policy import Policy, read_policy

FOLDER: Final = "judge"
POLICY: Final = "policy.json"
VERSION: Final = 1
BYTES_MAX: Final = 1024 * 1024


@value
class LocalPolicy:
    """The policy in force on this machine, and for whom it decides."""

    policy: Policy
    person: str | None = None
    """The person whose agents it judges, such as human:ana; None before it was published."""


def load_local(home: Path) -> LocalPolicy:
    """Return the policy that was published last, or the shipped one if none ever was.

    Raises:
        InvalidOperation: The file cannot be read or trusted.
    """
    text = read_private(home / FOLDER / POLICY)
    if text is None:
        return LocalPolicy(shipped_policy())
    try:
        document: dict[str, Any] = json.loads(text)
        if document["version"] != VERSION:
            raise InvalidOperation("it was written by another version of Turntree")
        policy = read_policy(document["source"], document["language"], document["lane"])
        person = document["person"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidOperation(f"{POLICY} cannot be read: {error!r}"[:160]) from error
    if policy.digest != document["digest"]:
        raise InvalidOperation(f"the source in {POLICY} does not have its digest")
    return LocalPolicy(policy, str(person) if person else None)


def publish_local(home: Path, policy: Policy, person: str) -> bool:
    """Write the policy in force where a judge without a database finds it.

    Returns whether anything changed.
    """
    path = home / FOLDER / POLICY
    document = {
        "version": VERSION, "source": policy.source, "language": policy.language,
        "lane": policy.lane, "digest": policy.digest, "person": person,
    }  # fmt: skip
    text = json.dumps(document)
    try:
        if read_private(path) == text:
            return False
    except InvalidOperation:
        # Another user's file, or a link: what is published replaces it.
        path.unlink(missing_ok=True)
    write_private(path, text)
    return True


def shipped_policy() -> Policy:
    """Return the policy that is in force where none was activated."""
    source = files("turntree.policy").joinpath("default_policy.py").read_text(encoding="utf-8")
    return read_policy(source)


def write_private(path: Path, text: str) -> None:
    """Write a file atomically that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as new:
        new.write(text)
    Path(new.name).replace(path)


def read_private(path: Path) -> str | None:
    """Return the text of a file that only this user can write; None if there is none.

    Raises:
        InvalidOperation: It is a link, another user's, or writable by others.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidOperation(f"{path.name} cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        others = stat.S_IWGRP | stat.S_IWOTH
        is_plain = stat.S_ISREG(found.st_mode) and found.st_size <= BYTES_MAX
        if not is_plain or found.st_uid != os.geteuid() or found.st_mode & others:
            raise InvalidOperation(f"{path.name} may have been written by another user")
        try:
            return file.read(BYTES_MAX).decode()
        except UnicodeDecodeError as error:
            raise InvalidOperation(f"{path.name} is not text") from error
