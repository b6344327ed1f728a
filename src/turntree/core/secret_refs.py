"""Secret references: a config contains ``${NAME}``, never the secret itself.

Knows how a reference is written, which headers carry keys, and which secrets may be sent where.
Must never know a secret.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NewType

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, PermissionDenied

Destination = NewType("Destination", str)
"""Where a provider sends its requests: a host, with the port if its config names one, or
``type:NAME`` if it names no host: ``type:command`` is a command on the worker's machine. In lower
case.
"""
SecretHosts = frozenset[tuple[str, Destination]]
"""Which secrets may be sent where, for all callers: names with destinations."""

VENDOR_PAIRS: Final[SecretHosts] = frozenset(
    (name, Destination(to))
    for name, *destinations in (
        ("ANTHROPIC_API_KEY", "type:anthropic", "api.anthropic.com"),
        ("OPENAI_API_KEY", "type:openai", "type:openai-chat", "api.openai.com"),
        ("GEMINI_API_KEY", "type:google", "generativelanguage.googleapis.com"),
        ("GOOGLE_API_KEY", "type:google", "generativelanguage.googleapis.com"),
        ("CF_AIG_TOKEN", "type:cloudflare-ai-gateway", "gateway.ai.cloudflare.com"),
        ("CLOUDFLARE_ACCOUNT_ID", "type:cloudflare-ai-gateway", "gateway.ai.cloudflare.com"),
        ("CLOUDFLARE_GATEWAY_ID", "type:cloudflare-ai-gateway", "gateway.ai.cloudflare.com"),
    )
    for to in destinations
)
"""The vendors' own variables with their vendors: these are allowed without configuration."""

NAMED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a secret by name."""
_ONLY_NAMED: Final = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?(?:\$\{[A-Za-z_]\w*\})+", re.ASCII)
_HOST: Final = re.compile(
    r"https?://((?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?)(?:[/?#].*)?"
)
"""A URL that all parsers read the same way: no user before the host, no backslash, no reference."""
_PAIR: Final = re.compile(r"((?:[A-Za-z_][A-Za-z0-9_]*)?)@((?:type:)?[^\s,@]+)")
_CARRIES: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def is_only_named(text: str) -> bool:
    """Return whether a text is only references to secrets, after an optional scheme word."""
    return _ONLY_NAMED.fullmatch(text) is not None


def carries_secret(header: str) -> bool:
    """Return whether a header of this name carries a secret."""
    return _CARRIES.search(header) is not None


def destination_of(config: Mapping[str, Json]) -> Destination | None:
    """Return where the provider of a config sends secrets; None if that is not certain."""
    if "command" in config:
        return _destination("type:command")
    address = config.get("base_url") or config.get("url")
    if not address:
        return _destination(f"type:{config.get('provider_type')}")
    match = _HOST.fullmatch(str(address))
    return None if match is None else _destination(match[1])


def _destination(text: str) -> Destination:
    """Return the normalized form of a destination; brackets are only needed before a port."""
    is_bare = text.startswith("[") and text.endswith("]")
    return Destination((text[1:-1] if is_bare else text).lower())


def read_hosts(text: str) -> SecretHosts:
    """Parse ``NAME@HOST,NAME@HOST:PORT,@HOST``: each port is another destination.

    Without a name, the host may be reached but gets no secret.

    Raises:
        InvalidOperation: It does not have this form.
    """
    pairs = [pair.strip() for pair in text.split(",") if pair.strip()]
    matches = [_PAIR.fullmatch(pair) for pair in pairs]
    for pair, match in zip(pairs, matches, strict=True):
        if match is None:
            raise InvalidOperation(
                f"{pair!r} does not say which secret may go where: write NAME@HOST, or "
                "NAME@type:TYPE for a provider without an address, or @HOST without a secret"
            )
    return frozenset((match[1], _destination(match[2])) for match in matches if match)


def list_unallowed(
    names: Iterable[str], config: Mapping[str, Json], hosts: SecretHosts
) -> list[tuple[str, Destination]]:
    """Return the secrets of a provider that the user has not allowed, with destinations."""
    to = destination_of(config)
    pairs = [] if to is None else [(name, to) for name in dict.fromkeys(names)]
    return [pair for pair in pairs if pair not in hosts and pair not in VENDOR_PAIRS]


def is_public_only(config: Mapping[str, Json], author: str, acts: str, hosts: SecretHosts) -> bool:
    """Return whether a provider may reach public addresses only.

    That applies to a config that another person wrote, unless the worker's user allowed its host.
    """
    if author == acts or author.startswith("system:"):
        return False
    to = destination_of(config)
    return to is None or to not in {allowed for _, allowed in hosts}


def check_secret(
    name: str, provider: str, config: Mapping[str, Json], author: str, acts: str, hosts: SecretHosts
) -> None:
    """Refuse to send a secret to a destination that the worker's own user has not allowed.

    The author of a config chooses the address, and may be another person than the program's owner.
    So the user allows each pair of a secret and a destination, for own providers too. A vendor's
    own variable may always be sent to that vendor if the user or the system wrote the config; a
    config that others wrote could still spend the user's money there.

    Raises:
        PermissionDenied: It is not allowed; the message says how to allow it.
    """
    to = destination_of(config)
    is_own = author == acts or author.startswith("system:")
    if to is not None and ((name, to) in hosts or (is_own and (name, to) in VENDOR_PAIRS)):
        return
    written = "" if author == acts else f", written by {author},"
    why = f"@({provider}){written} would be given the secret {name} of {acts}"
    if to is None:
        raise PermissionDenied(
            f"{why} at an address whose host is not certain",
            hint=Hint("provider.create"),
        )
    raise PermissionDenied(
        f"{why} at {to}, which {acts} has not allowed",
        hint=Hint("config.allow_host", {"host": f"{name}@{to}"}),
    )
