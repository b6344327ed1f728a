"""The logins of the embedded server, and the file with their passwords.

Knows PostgreSQL's password file and how a password is stored. Must never print a password or put
one where other processes see it: clients get the path of the file and read it themselves.
"""

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

SUPERUSER: Final = "postgres"
"""Created by initdb. Used only to create roles and databases when a home is set up."""
OWNER: Final = "turntree"
"""Each process connects as this login: it owns the ledger, and nothing outside the database."""
CONSOLE: Final = "turntree_console"
"""Runs the SQL queries of people: it reads, and can act as nothing else."""
ENGINE: Final = "turntree_engine"
"""Owns the queue."""
LOGINS: Final = (SUPERUSER, OWNER, CONSOLE, ENGINE)
DATABASE: Final = "turntree"
PASSWORDS_FILE: Final = "passwords"
_PASSWORD_BYTES: Final = 32
_ITERATIONS: Final = 1
"""Iterations slow down guessing. 256 random bits cannot be guessed, and each connection would pay
for every iteration.
"""
_SALT_BYTES: Final = 16


def read_passwords(home: Path) -> dict[str, str]:
    """Return the passwords of a home by login; none if it is not set up yet."""
    # Not an error: a home without passwords has not been set up yet, and setting up asks this
    # first.
    with suppress(FileNotFoundError):
        lines = (home / PASSWORDS_FILE).read_text(encoding="ascii").splitlines()
        fields = (line.split(":") for line in lines)
        return {login: password for *_, login, password in fields}
    return {}


def write_passwords(home: Path, passwords: Mapping[str, str]) -> None:
    """Replace the passwords of a home. Only its owner may read the file, or libpq ignores it."""
    lines = [f"*:*:*:{login}:{password}\n" for login, password in passwords.items()]
    fresh = home / f"{PASSWORDS_FILE}.new"
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(lines))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(home / PASSWORDS_FILE)


def new_passwords() -> dict[str, str]:
    """Return a random password for each login."""
    return {login: secrets.token_hex(_PASSWORD_BYTES) for login in LOGINS}


def verifier_of(password: str) -> str:
    """Return the SCRAM-SHA-256 verifier of a password, so that the server never learns it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    encoded = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(_ITERATIONS, *encoded)


def engine_login(conninfo: str) -> str:
    """Return the engine's conninfo: with its own login if there is one.

    Only the embedded server has it. Another database only has the login it was configured with.
    """
    params = conninfo_to_dict(conninfo)
    is_ours = Path(str(params.get("passfile") or "")).name == PASSWORDS_FILE
    return as_login(conninfo, ENGINE) if is_ours and params.get("user") == OWNER else conninfo


def as_login(conninfo: str, login: str) -> str:
    """Return the conninfo of another login for the same database of an embedded server."""
    return make_conninfo(conninfo, user=login)
