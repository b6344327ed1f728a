"""Sets up a model from a vendor's key in the environment.

The key says which vendor to ask, so it is enough: a provider and a model are created from it, as
the user would create them. The key itself is never stored, and goes to the vendor's own host unless
the user allowed another.
"""

import re
from collections.abc import Mapping
from typing import Final

from turntree.auth.execution_context import ExecutionContext
from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, NotFound, PermissionDenied
from turntree.core.program import Program
from turntree.core.secret_refs import SecretHosts, destination_of, list_unallowed
from turntree.core.value import value
from turntree.models.providers.factory import build_provider, vendor_key_names
from turntree.programs.service import Programs


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


@value
class VendorKey:
    """A vendor and the variable that may hold its key."""

    vendor: VendorDefaults
    name: str


@value
class VendorModel:
    """A model that was created, and how it is reached."""

    model: Program
    provider: Program
    backend: str
    """The vendor's name of the model."""


def list_keys() -> list[VendorKey]:
    """Return every variable that a vendor's key may be in."""
    return [
        VendorKey(vendor, name)
        for vendor in VENDORS
        for name in vendor_key_names({"provider_type": vendor.type})
    ]


async def create_model(
    programs: Programs,
    context: ExecutionContext,
    secret_hosts: SecretHosts,
    environment: Mapping[str, str],
    key: VendorKey,
    wanted: str | None = None,
) -> VendorModel | None:
    """Create a provider and a model from a key: the vendor's newest general model, or ``wanted``.

    Returns None if the vendor does not offer the wanted one. Nothing is created then.

    Raises:
        PermissionDenied: The key may not be sent to the address that the environment names.
        NotFound: The vendor offers no models.
    """
    vendor = key.vendor
    config: dict[str, Json] = {"provider_type": vendor.type}
    if address := environment.get(vendor.base_url):
        # The key is probably that service's own: the vendor must not get it either.
        config |= {"base_url": address, "api_key": f"${{{key.name}}}"}
    destination = destination_of(config)
    if destination is None:
        raise InvalidOperation(f"{vendor.base_url} is not the address of a host")
    if list_unallowed([key.name], config, secret_hosts):
        raise PermissionDenied(
            f"{key.name} may not be sent to {destination} yet",
            hint=Hint("config.allow_host", {"host": f"{key.name}@{destination}"}),
        )
    service = build_provider(config, context.get_credential)
    try:
        # Asking for the list also finds a wrong key before anything is created.
        offered = await service.list_models()
    finally:
        await service.aclose()
    is_general = wanted is None or wanted == vendor.model
    backend = choose_backend(vendor.pattern, offered) if is_general else wanted
    if not is_general and backend not in offered:
        return None
    if backend is None:
        raise NotFound(f"{destination} offers no models", hint=Hint("model.create"))
    own = [
        one
        async for one in programs.list_all(kind="provider")
        if one.version.config == config
        and one.version.by == str(programs.by)
        and one.state != "deprecated"
    ]
    provider = own[0] if own else await _create(programs, "provider", vendor.type, config)
    model = await _create(
        programs,
        "model",
        wanted or vendor.model,
        {"model_id": backend, "provider": provider.address},
    )
    return VendorModel(model, provider, backend)


async def find_model(
    programs: Programs,
    context: ExecutionContext,
    secret_hosts: SecretHosts,
    environment: Mapping[str, str],
    wanted: str,
) -> VendorModel | None:
    """Create the model that one of the vendors with a key offers, or return None.

    Raises:
        TurntreeError: A vendor refused the key, or could not be reached.
    """
    for key in list_keys():
        if key.name in environment:
            made = await create_model(programs, context, secret_hosts, environment, key, wanted)
            if made is not None:
                return made
    return None


async def _create(programs: Programs, kind: str, name: str, config: Mapping[str, Json]) -> Program:
    """Create a program under a name, or under that name with the next free number."""
    number, free = 1, name
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
