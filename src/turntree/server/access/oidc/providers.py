"""The identity providers of a server, by workspace."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turntree.core.errors import Unsupported
from turntree.server.access.oidc.config import IdentityProviderConfig, find_config

if TYPE_CHECKING:
    from turntree.server.access.oidc.provider import IdentityProvider


class IdentityProviders:
    """The providers that a server was configured with."""

    def __init__(self, configs: Sequence[IdentityProviderConfig], key: bytes) -> None:
        """Take the key from which the secrets of logins follow.

        Raises:
            Unsupported: There is a provider, and what talks to it is not installed.
        """
        self.key = key
        self._configs = configs
        self._providers: dict[IdentityProviderConfig, IdentityProvider] = {}
        if configs:
            try:
                # Only a server that has a provider pays for loading what talks to it.
                found: Any = import_module("turntree.server.access.oidc.provider")
                import_module("authlib.integrations.httpx_client")
            except ImportError as error:
                raise Unsupported(
                    "identity providers need Authlib: pip install 'turntree[server]'"
                ) from error
            self._providers = {one: found.IdentityProvider(one) for one in configs}

    def find(self, workspace: str) -> IdentityProvider | None:
        """Return the provider with which people log in to a workspace, which need not exist."""
        config = find_config(self._configs, workspace)
        return None if config is None else self._providers[config]
