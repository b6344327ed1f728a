"""Which identity providers a server has, from a TOML file.

    [example]
    name = "Example"
    issuer = "https://id.example.net"
    client_id = "turntree"
    client_secret = "${EXAMPLE_SECRET}"
    workspaces = ["team"]
    email_domains = ["example.net"]

A workspace has one provider at most: the one that lists it, otherwise the one that lists none. So a
login cannot be begun with one and finished with another.
"""

import ipaddress
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Final, cast
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from turntree.core.errors import InvalidOperation
from turntree.core.secret_refs import NAMED
from turntree.core.value import value

NAME_CHARS_MAX: Final = 60
EMAIL: Final = "email"


class ProviderUnavailable(Exception):
    """A provider, by its name, does not answer, or not as the standard says."""


@value
class ProviderTable:
    """One table of the file."""

    issuer: str
    """The address of the provider, exactly as its tokens say."""
    client_id: str
    """By which name the provider knows this server."""
    name: str = ""
    """What people call the provider; by default the name of the table."""
    client_secret: str = ""
    """``${NAME}``, the variable with the secret; none for a public client."""
    claim: str = EMAIL
    """Which claim of a token an invitation may name."""
    workspaces: tuple[str, ...] = ()
    """Whose login page offers it; all, if none is listed."""
    email_domains: tuple[str, ...] = ()
    """Of which verified e-mail addresses may log in; any, if nothing is listed here or below."""
    subjects: tuple[str, ...] = ()
    """Which accounts may log in with any address, by the provider's own ids."""


@value
class IdentityProviderConfig:
    """An identity provider, with its secret."""

    name: str
    issuer: str
    client_id: str
    secret: str | None = field(repr=False)
    claim: str = EMAIL
    workspaces: tuple[str, ...] = ()
    email_domains: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


def read_providers(text: str, secrets: Mapping[str, str]) -> tuple[IdentityProviderConfig, ...]:
    """Return the providers of a file.

    Raises:
        InvalidOperation: It is not TOML, a value is missing or unknown or not allowed, or two
            tables are for the same workspace.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidOperation(f"the file of identity providers is not TOML: {error}") from error
    providers = tuple(_read_table(name, table, secrets) for name, table in document.items())
    offered = [name for one in providers for name in one.workspaces or ("",)]
    for name in offered:
        if offered.count(name) > 1:
            place = f"the workspace {name!r}" if name else "all workspaces"
            raise InvalidOperation(f"two identity providers are for {place}: list workspaces")
    return providers


def find_config(
    providers: Sequence[IdentityProviderConfig], workspace: str
) -> IdentityProviderConfig | None:
    """Return the provider of a workspace, which need not exist."""
    own = next((one for one in providers if workspace in one.workspaces), None)
    return own or next((one for one in providers if not one.workspaces), None)


def is_safe_url(url: str, *, near: bool) -> bool:
    """Return whether an address is HTTPS or, if ``near``, HTTP to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    # An address is given to a browser, and secrets are sent there: no parser may read another host.
    is_plain = url.isascii() and url.isprintable() and not any(char in url for char in ' \\"<>')
    if not is_plain or not host or parts.username is not None or parts.fragment:
        return False
    return parts.scheme == "https" or (near and parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_table(key: str, table: object, secrets: Mapping[str, str]) -> IdentityProviderConfig:
    if not isinstance(table, dict):
        raise InvalidOperation(f"{key!r} is not a table: write [{key}] above its values")
    known = [one.name for one in fields(ProviderTable)]
    given = cast("dict[str, object]", table)
    if unknown := sorted(set(given) - set(known)):
        raise InvalidOperation(
            f"identity provider {key!r}: unknown: {', '.join(unknown)}; known: {', '.join(known)}"
        )
    try:
        found = TypeAdapter(ProviderTable).validate_python(given)
    except ValidationError as error:
        said = "; ".join(f"{one['loc'][0]}: {one['msg']}" for one in error.errors())
        raise InvalidOperation(f"identity provider {key!r}: {said}") from error
    name = found.name or key
    if not name.isprintable() or len(name) > NAME_CHARS_MAX:
        raise InvalidOperation(f"identity provider {key!r}: the name is too long, or not text")
    if not is_safe_url(found.issuer, near=True) or urlsplit(found.issuer).query:
        raise InvalidOperation(
            f"identity provider {key!r}: the issuer is an https address, not {found.issuer!r}"
        )
    if not found.client_id:
        raise InvalidOperation(f"identity provider {key!r}: the client_id is empty")
    return IdentityProviderConfig(
        name,
        found.issuer,
        found.client_id,
        _read_secret(key, found.client_secret, secrets),
        found.claim,
        found.workspaces,
        tuple(domain.lower().removeprefix("@") for domain in found.email_domains),
        found.subjects,
    )


def _read_secret(key: str, text: str, secrets: Mapping[str, str]) -> str | None:
    if not text:
        return None
    found = NAMED.fullmatch(text)
    if found is None:
        # Not quoted: it may be the secret.
        raise InvalidOperation(
            f"identity provider {key!r}: client_secret names a variable, such as ${{SECRET}}"
        )
    if not secrets.get(found[1]):
        raise InvalidOperation(f"identity provider {key!r}: the variable {found[1]} is not set")
    return secrets[found[1]]
