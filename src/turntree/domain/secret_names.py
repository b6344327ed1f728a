"""Secrets by name: ``${NAME}`` stands in a config, and the secret itself never does.

Knows how a name is written and which headers carry keys. Must never know a secret.
"""

import re
from typing import Final

NAMED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A secret's name, where the secret is to stand."""
_ONLY_NAMED: Final = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?(?:\$\{[A-Za-z_]\w*\})+", re.ASCII)
_CARRIES: Final = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


def is_only_named(text: str) -> bool:
    """Say whether a text is names of secrets and nothing else, but for the word before a token."""
    return _ONLY_NAMED.fullmatch(text) is not None


def carries_secret(header: str) -> bool:
    """Say whether a header of this name carries a secret."""
    return _CARRIES.search(header) is not None
