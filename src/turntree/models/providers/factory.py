"""Builds providers from the configs of provider programs, and caches them.

It knows which module builds which type. Must never load a vendor's library before the first request
to that vendor: they take seconds, and a command on a terminal must not wait for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Final, NoReturn, cast
from warnings import catch_warnings, simplefilter

from turntree.auth.execution_context import ExecutionContext
from turntree.core.canonical import Json
from turntree.core.errors import (
    Hint,
    InvalidOperation,
    NotFound,
    PermissionDenied,
    ProviderNotConfigured,
)
from turntree.core.ids import Digest
from turntree.core.program import Program
from turntree.core.secret_refs import SecretHosts, check_secret, is_public_only
from turntree.core.value import value
from turntree.models.provider import BuildsProvider, Credentials, Objects, Provider, ProviderSetup
from turntree.models.providers.connection import Connection, connect
from turntree.models.providers.gateway import (
    GATEWAY_TYPE,
    PATHS,
    GatewayProvider,
    GatewayVendor,
    configure_vendor,
    find_family,
)
from turntree.models.providers.lazy import LazyProvider

GROUP: Final = "turntree.providers"
"""The entry point group through which a package adds a provider type."""
PYTHON_TYPE: Final = "python"
"""The type of a provider that is an object of one process; its config cannot build it."""
_HERE: Final = "turntree.models.providers"
_SCRIPTED: Final = f"{_HERE}.scripted:build_scripted"


@value
class _Vendor:
    builds: str
    name: str
    """Its name in price lists, unless the config names the vendor."""
    package: str
    """The library it needs besides pydantic-ai, which all of them need."""
    key_names: tuple[str, ...] = ()
    extra: str = "run"


_VENDORS: Final = {
    "anthropic": _Vendor(
        f"{_HERE}.anthropic:build_anthropic", "anthropic", "anthropic", ("ANTHROPIC_API_KEY",)
    ),
    "openai": _Vendor(f"{_HERE}.openai:build_responses", "openai", "openai", ("OPENAI_API_KEY",)),
    "openai-chat": _Vendor(f"{_HERE}.openai:build_chat", "openai", "openai", ("OPENAI_API_KEY",)),
    "openai-compatible": _Vendor(f"{_HERE}.openai:build_compatible", "openai-compatible", "openai"),
    "google": _Vendor(
        f"{_HERE}.google:build_google",
        "google",
        "google.genai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "google",
    ),
}


async def no_objects(digest: Digest) -> NoReturn:
    """Fail: the default where no prompt contains objects.

    Raises:
        NotFound: Always.
    """
    raise NotFound(f"object {digest} is not available here")


def build_provider(
    config: Mapping[str, Json],
    credentials: Credentials,
    *,
    objects: Objects = no_objects,
    is_public_only: bool = False,
) -> Provider:
    """Return the provider that a config describes.

    Each ``${NAME}`` in the config is replaced by the credential of that name at once. Only the
    provider holds it, for its lifetime.

    Raises:
        ProviderNotConfigured: The type is unknown, or its library is not installed.
        InvalidOperation: The config contradicts itself, or contains a literal key.
        PermissionDenied: Access to a credential is denied.
        NotFound: A credential does not exist.
    """
    type = str(config.get("provider_type"))
    setup = ProviderSetup(config, credentials, objects, is_public_only)
    if type == GATEWAY_TYPE:
        return _build_gateway(setup)
    vendor = _VENDORS.get(type)
    if vendor is None:
        return cast("BuildsProvider", _entry(type).load())(setup)
    if type == "openai-compatible" and not config.get("base_url"):
        raise InvalidOperation("a provider of type openai-compatible needs a base_url")
    return _build_vendor(vendor, setup)


def _build_vendor(vendor: _Vendor, setup: ProviderSetup) -> Provider:
    for package in ("pydantic_ai", vendor.package):
        if not _is_installed(package):
            raise ProviderNotConfigured(
                f"a provider of type {setup.config.get('provider_type')} needs {package}: "
                f"pip install 'turntree[{vendor.extra}]'"
            )
    connection = connect(setup, key_names=vendor.key_names)
    name = connection.vendor or vendor.name
    return LazyProvider(name, lambda: _load(vendor.builds)(connection, name, setup.objects))


def _build_gateway(setup: ProviderSetup) -> GatewayProvider:
    """Return the gateway with all vendors whose libraries are installed.

    They are built at once: a variable that is missing is found before a message is stored.
    """
    families = [family for family in PATHS if _is_installed(_VENDORS[family].package)]
    if not families or not _is_installed("pydantic_ai"):
        raise ProviderNotConfigured(
            f"a provider of type {GATEWAY_TYPE} needs pydantic_ai: pip install 'turntree[run]'"
        )
    return GatewayProvider(
        {
            family: GatewayVendor(
                _build_vendor(_VENDORS[family], configure_vendor(setup, family)),
                _find_denial(setup, _VENDORS[family].key_names[0]),
            )
            for family in families
        }
    )


def _find_denial(setup: ProviderSetup, name: str) -> PermissionDenied | None:
    try:
        setup.credentials(name)
    except PermissionDenied as error:
        return error
    except NotFound:
        pass
    return None


@value
class ProviderCache:
    """The providers of a worker, each built on first use and cached until its config changes."""

    context: ExecutionContext
    """The context whose credentials providers get."""
    objects: Objects
    secret_hosts: SecretHosts = frozenset()
    """Where each credential may be sent."""
    given: Mapping[str, Provider] = field(default_factory=dict[str, Provider])
    """Objects of this process, by the names of their programs."""
    _built: dict[tuple[str, Digest], Provider] = field(
        default_factory=dict[tuple[str, Digest], Provider]
    )

    def build(self, program: Program) -> Provider:
        """Return the provider of a program.

        Raises:
            ProviderNotConfigured: Its type is unknown, or something it needs is not installed or
                missing.
            InvalidOperation: Its config contradicts itself.
            PermissionDenied: It needs a secret that may not be sent to its destination.
        """
        if program.config.get("provider_type") == PYTHON_TYPE:
            if program.name not in self.given:
                raise ProviderNotConfigured(
                    f"{program.address} is a Python object, and this process does not have it"
                )
            return self.given[program.name]
        # Which secrets the same config may get depends on its author.
        key = (program.version.by, program.version.digest)
        if key not in self._built:
            try:
                self._built[key] = build_provider(
                    program.config,
                    self._credentials(program),
                    objects=self.objects,
                    is_public_only=is_public_only(
                        program.config,
                        program.version.by,
                        str(self.context.principal),
                        self.secret_hosts,
                    ),
                )
            except NotFound as error:
                # A missing key may be set later, so the failure is not cached.
                raise ProviderNotConfigured(str(error), hint=error.hint) from error
        return self._built[key]

    def _credentials(self, program: Program) -> Credentials:
        acts = str(self.context.principal)

        def get(name: str) -> str:
            author = program.version.by
            check_secret(name, program.name, program.config, author, acts, self.secret_hosts)
            return self.context.get_credential(name)

        return get

    async def aclose(self) -> None:
        """Close the connections of all providers."""
        built = [*self._built.values(), *self.given.values()]
        self._built.clear()
        for provider in built:
            await provider.aclose()


def load_library(config: Mapping[str, Json], model: str) -> None:
    """Import what a request to a model needs, unless it is not installed.

    The first request does so otherwise, and then takes seconds longer.
    """
    type = str(config.get("provider_type"))
    vendor = _VENDORS.get(find_family(model) or "" if type == GATEWAY_TYPE else type)
    if vendor is not None and _is_installed("pydantic_ai") and _is_installed(vendor.package):
        _load(vendor.builds)


def vendor_key_names(config: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the environment variables searched for a key if the config names none."""
    type = str(config.get("provider_type"))
    if type == GATEWAY_TYPE:
        return tuple(name for family in PATHS for name in _VENDORS[family].key_names)
    vendor = _VENDORS.get(type)
    return () if vendor is None else vendor.key_names


def provider_types() -> list[str]:
    """Return the types that can be built."""
    return sorted({*_VENDORS, GATEWAY_TYPE, "scripted", *entry_points(group=GROUP).names})


def _entry(type: str) -> EntryPoint:
    if type == "scripted":
        return EntryPoint(type, _SCRIPTED, GROUP)
    for entry in entry_points(group=GROUP, name=type):
        return entry
    raise ProviderNotConfigured(
        f"unknown provider type {type}, there are {', '.join(provider_types())}",
        hint=Hint("provider.set_type"),
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        # The parent package of a dotted name is missing too.
        return False


def _load(builds: str) -> Callable[[Connection, str, Objects], Provider]:
    with catch_warnings():
        # Warnings of a library about its own source are useless to a user of a model.
        simplefilter("ignore")
        builder: Any = EntryPoint(builds, builds, GROUP).load()
    return cast("Callable[[Connection, str, Objects], Provider]", builder)
