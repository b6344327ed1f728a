"""Find out whether a model can answer before a message is stored, and set one up from a key.

A key in the environment says which vendor to ask, so it is enough: a provider and a model are
created from it, as the user would create them. The key itself is never stored, and goes to the
vendor's own host unless the user allowed another.
"""

import re
from collections.abc import Mapping
from typing import Final

from turntree.boot.open import begin_context
from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.output.text import clean
from turntree.cli.settings import merged_environment
from turntree.core.canonical import Json
from turntree.core.errors import (
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ProviderNotConfigured,
)
from turntree.core.program import Program
from turntree.core.secret_refs import destination_of, list_unallowed
from turntree.core.value import value
from turntree.routing.route import Route


@value
class VendorDefaults:
    """What is set up if a vendor's key is in the environment."""

    type: str
    base_url: str
    """The variable with another address, which the vendor's own programs read too."""
    model: str
    """The name of the model that is created."""
    pattern: re.Pattern[str]
    """Names of the vendor's general models; the groups are the version."""


VENDORS: Final = (
    VendorDefaults(
        "anthropic",
        "ANTHROPIC_BASE_URL",
        "claude",
        re.compile(r"claude-sonnet-(\d+)(?:-(\d{1,2}))?(?:-\d{8})?"),
    ),
    VendorDefaults("openai", "OPENAI_BASE_URL", "gpt", re.compile(r"gpt-(\d+)(?:\.(\d+))?")),
    VendorDefaults(
        "google",
        "GOOGLE_GEMINI_BASE_URL",
        "gemini",
        re.compile(r"gemini-(\d+)(?:\.(\d+))?-flash"),
    ),
)
_WITHOUT_MODEL: Final = ("model.create", "model.choose")
"""Hints of the error that the user has no model of their own."""


async def ensure_model(
    opened: CliContext, terminal: Terminal, route: Route, options: Mapping[str, Json]
) -> None:
    """Check that a model can answer along a route; without one, set it up from the environment.

    Nothing is stored if it cannot: a message without a model would only become a failed turn.

    Raises:
        TurntreeError: No model can answer; the hint says what to do.
    """
    try:
        await opened.running.check_model(route, options)
    except ProviderNotConfigured as error:
        raise ProviderNotConfigured(f"no provider wired: {error}", hint=error.hint) from error
    except InvalidOperation as error:
        if error.hint is None or error.hint.action not in _WITHOUT_MODEL:
            raise
        from turntree.models.providers.factory import vendor_key_names

        environment = merged_environment()
        keys = [
            (vendor, name)
            for vendor in VENDORS
            for name in vendor_key_names({"provider_type": vendor.type})
        ]
        present = next((pair for pair in keys if pair[1] in environment), None)
        if present is None:
            names = ", ".join(name for _, name in keys[:-1])
            raise ProviderNotConfigured(
                f"no provider wired: {error}, and none of {names} is set", hint=error.hint
            ) from error
        await _create_model(opened, terminal, *present, environment)
        await opened.running.check_model(route, options)


async def _create_model(
    opened: CliContext,
    terminal: Terminal,
    vendor: VendorDefaults,
    key: str,
    environment: Mapping[str, str],
) -> None:
    from turntree.models.providers.factory import build_provider

    programs = opened.tree.programs
    config: dict[str, Json] = {"provider_type": vendor.type}
    if address := environment.get(vendor.base_url):
        # The key is probably that service's own: the vendor must not get it either.
        config |= {"base_url": address, "api_key": f"${{{key}}}"}
    destination = destination_of(config)
    if destination is None:
        raise InvalidOperation(f"{vendor.base_url} is not the address of a host")
    if list_unallowed([key], config, opened.settings.secret_hosts):
        raise PermissionDenied(
            f"{key} may not be sent to {destination} yet",
            hint=Hint("config.allow_host", {"host": f"{key}@{destination}"}),
        )
    context = begin_context(opened.settings, environment)
    service = build_provider(config, context.get_credential)
    try:
        # Asking for the list also finds a wrong key before anything is created.
        offered = await service.list_models()
    finally:
        await service.aclose()
    backend = choose_backend(vendor.pattern, offered)
    if backend is None:
        raise NotFound(f"{destination} offers no models", hint=Hint("model.create"))
    own = [
        one
        async for one in programs.list_all(kind="provider")
        if one.config == config and one.version.by == str(programs.by) and one.state != "deprecated"
    ]
    provider = own[0] if own else await _create(opened, "provider", vendor.type, config)
    model = await _create(
        opened, "model", vendor.model, {"model_id": backend, "provider": provider.address}
    )
    terminal.note(
        f"{clean(key)} is set: {clean(model.address)} ({clean(backend)}) answers "
        f"via {clean(provider.address)}"
    )
    terminal.note(f"undo with: turntree model set-state {clean(model.name)} deprecated")


async def _create(opened: CliContext, kind: str, name: str, config: Mapping[str, Json]) -> Program:
    """Create a program under a name, or under that name with the next free number."""
    programs, number, free = opened.tree.programs, 1, name
    while await programs.find(free) is not None:
        number += 1
        free = f"{name}-{number}"
    created = await programs.create(kind, free, config)
    # A draft cannot be retired, and the user must be able to take this back.
    return await programs.move(created.id, "published")


def choose_backend(pattern: re.Pattern[str], offered: list[str]) -> str | None:
    """Return the newest general model of a list, else the first of the list."""
    # By version: only some services list the newest first, and a name in the code would age.
    versions = {
        name: tuple(int(number or 0) for number in match.groups())
        for name in offered
        if (match := pattern.fullmatch(name)) is not None
    }
    if not versions:
        return next(iter(offered), None)
    return max(versions, key=lambda name: (versions[name], -len(name)))
