"""Cloudflare AI Gateway: one address for the models of several vendors.

The model's name says the vendor. Each vendor is asked in its own protocol, at its own path below
the gateway's address. The gateway's token goes with every request; the vendor's key goes too if
there is one, otherwise the gateway uses the key that it stores.
"""

import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Final

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied, ProviderError
from turntree.core.usage import family_of
from turntree.core.value import value
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider, ProviderSetup, ReplyDelta

GATEWAY_TYPE: Final = "cloudflare-ai-gateway"
PATHS: Final = {"anthropic": "anthropic", "openai": "openai", "google": "google-ai-studio"}
"""The path of each vendor below the gateway's address."""
_URL: Final = "https://gateway.ai.cloudflare.com/v1"
_TOKEN_HEADER: Final = "cf-aig-authorization"  # noqa: S105 - the name of a header
_TOKEN_VARIABLE: Final = "CF_AIG_TOKEN"  # noqa: S105 - the name of a variable
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]+|\$\{[A-Za-z_]\w*\}", re.ASCII)
"""A part of a path: an id, or a reference to a variable with one."""


def configure_vendor(setup: ProviderSetup, family: str) -> ProviderSetup:
    """Return the setup of one vendor's provider behind the gateway.

    The account and the gateway are those of the config, else those of the environment.

    Raises:
        InvalidOperation: The config names no account or gateway, but something else.
    """
    config = setup.config
    address = config.get("base_url") or "/".join(
        (
            _URL,
            _segment(config, "account_id", "CLOUDFLARE_ACCOUNT_ID"),
            _segment(config, "gateway_id", "CLOUDFLARE_GATEWAY_ID"),
        )
    )
    headers = config.get("headers")
    named = dict(headers) if isinstance(headers, Mapping) else {}
    if _TOKEN_HEADER not in {name.lower() for name in named} and _has_token(setup):
        named[_TOKEN_HEADER] = f"Bearer ${{{_TOKEN_VARIABLE}}}"
    base_url = f"{str(address).rstrip('/')}/{PATHS[family]}"
    return replace(setup, config={**config, "base_url": base_url, "headers": named})


def find_family(model: str) -> str | None:
    """Return the vendor that a model's name says, or None if it says none."""
    before, slash, _ = model.partition("/")
    by_path = {path: family for family, path in PATHS.items()}
    # Cloudflare writes google-ai-studio/gemini-2.5-flash: the vendor by its path.
    return by_path.get(before, before) if slash else family_of(model)


def _segment(config: Mapping[str, Json], member: str, variable: str) -> str:
    text = config.get(member, f"${{{variable}}}")
    if not isinstance(text, str) or _SEGMENT.fullmatch(text) is None:
        raise InvalidOperation(f"{member} is an id or the name of one, as in ${{NAME}}: {text!r}")
    return text


def _has_token(setup: ProviderSetup) -> bool:
    try:
        setup.credentials(_TOKEN_VARIABLE)
    except (NotFound, PermissionDenied):
        # The config does not name it, and a gateway without authentication needs none.
        return False
    return True


@value
class GatewayVendor:
    """A vendor behind the gateway."""

    provider: Provider
    withheld: PermissionDenied | None = None
    """Why the vendor's key is not sent, if its user has not allowed that."""


class GatewayProvider:
    """The vendors behind one gateway. Implements ``Provider``."""

    def __init__(self, vendors: Mapping[str, GatewayVendor]) -> None:
        """Take the vendors by the families of their models."""
        self._vendors = vendors

    def __repr__(self) -> str:
        """Show the vendors, never a key."""
        return f"<provider {GATEWAY_TYPE}: {', '.join(self._vendors)}>"

    @property
    def name(self) -> str:
        """The gateway's name; a reply names the vendor."""
        return GATEWAY_TYPE

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        """Yield deltas of the reply as they arrive, and the complete reply last.

        Raises:
            ProviderError: There is no reply, or the model's vendor is unknown.
        """
        vendor, name = self._find(model)
        asked = vendor.provider.stream(name, prompt, settings)
        with _explained(vendor):
            async with aclosing(asked) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        yield replace(piece, provider=vendor.provider.name)
                    else:
                        yield piece

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        """Return the complete reply.

        Raises:
            ProviderError: There is no reply, or the model's vendor is unknown.
        """
        vendor, name = self._find(model)
        with _explained(vendor):
            reply = await vendor.provider.request(name, prompt, settings)
        return replace(reply, provider=vendor.provider.name)

    async def list_models(self) -> list[str]:
        """Return the models of all vendors that list theirs.

        Raises:
            ProviderError: None of them does.
        """
        models: list[str] = []
        errors: list[ProviderError] = []
        for vendor in self._vendors.values():
            try:
                with _explained(vendor):
                    models += await vendor.provider.list_models()
            except ProviderError as error:
                errors.append(error)
        if errors and not models:
            raise errors[0]
        return models

    async def aclose(self) -> None:
        """Close pooled connections."""
        for vendor in self._vendors.values():
            await vendor.provider.aclose()

    def _find(self, model: str) -> tuple[GatewayVendor, str]:
        """Return the vendor of a model, and the vendor's own name of it."""
        _, _, name = model.partition("/")
        family = find_family(model)
        if family is None or family not in self._vendors:
            known = ", ".join(self._vendors)
            raise ProviderError(
                f"the vendor of {model} is unknown: write VENDOR/{name or model}, one of {known}",
                kind="refused",
            )
        return self._vendors[family], name or model


@contextmanager
def _explained(vendor: GatewayVendor) -> Generator[None, None, None]:
    """Say why no key was sent, if that is why the gateway denies access."""
    try:
        yield
    except ProviderError as error:
        if error.kind != "denied" or vendor.withheld is None:
            raise
        raise ProviderError(
            f"{error} ({vendor.withheld})", error.kind, hint=vendor.withheld.hint
        ) from error
