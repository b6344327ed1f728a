"""From the config of a provider program to a provider that can be asked.

Knows which type is built by which module. Must never load a vendor's library before somebody
asks that vendor: they take seconds, and a prompt on a terminal does not wait for them.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Final, NoReturn, cast
from warnings import catch_warnings, simplefilter

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound, ProviderNotConfigured
from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.models.provider import BuildsProvider, Credentials, Objects, Provider, ProviderSetup
from turntree.models.providers.connection import Connection, connect
from turntree.models.providers.lazy import LazyProvider

GROUP: Final = "turntree.providers"
"""The entry points through which a package adds a type of its own."""
_HERE: Final = "turntree.models.providers"
_SCRIPTED: Final = f"{_HERE}.scripted:build_scripted"


@value
class _Vendor:
    builds: str
    name: str
    """What lists of prices call it, unless the config says whose models there are."""
    package: str
    """The library it needs besides the one that all of them need."""
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
    """Stand in where no prompt holds parts that are objects.

    Raises:
        NotFound: Always.
    """
    raise NotFound(f"nobody was named who keeps the object {digest}")


def build_provider(
    config: Mapping[str, Json],
    credentials: Credentials,
    *,
    objects: Objects = no_objects,
    is_public_only: bool = False,
) -> Provider:
    """Return the provider that a config describes.

    Each ``${NAME}`` in the config is replaced by the credential of that name, here and now. The
    provider keeps it for as long as it lives, and nothing else does.

    Raises:
        ProviderNotConfigured: Nobody knows the type, or the library it needs is not installed.
        InvalidOperation: The config contradicts itself, or a key stands in it.
        Denied: A credential is out of reach.
        NotFound: A credential is not there.
    """
    type = str(config.get("provider_type"))
    setup = ProviderSetup(config, credentials, objects, is_public_only)
    vendor = _VENDORS.get(type)
    if vendor is None:
        return cast("BuildsProvider", _entry(type).load())(setup)
    if type == "openai-compatible" and not config.get("base_url"):
        raise InvalidOperation("a provider of type openai-compatible needs a base_url")
    for package in ("pydantic_ai", vendor.package):
        _check_installed(package, type, vendor.extra)
    connection = connect(setup, key_names=vendor.key_names)
    name = connection.vendor or vendor.name
    return LazyProvider(name, lambda: _load(vendor.builds)(connection, name, objects))


def vendor_key_names(config: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the variables that a provider's key is looked for in, if its config names none."""
    vendor = _VENDORS.get(str(config.get("provider_type")))
    return () if vendor is None else vendor.key_names


def provider_types() -> list[str]:
    """Return the types that can be built."""
    return sorted({*_VENDORS, "scripted", *entry_points(group=GROUP).names})


def _entry(type: str) -> EntryPoint:
    if type == "scripted":
        return EntryPoint(type, _SCRIPTED, GROUP)
    for found in entry_points(group=GROUP, name=type):
        return found
    raise ProviderNotConfigured(
        f"nobody knows providers of type {type}, there are {', '.join(provider_types())}: "
        "`turntree provider configure NAME --type TYPE`"
    )


def _check_installed(package: str, type: str, extra: str) -> None:
    try:
        is_there = find_spec(package) is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ProviderNotConfigured(
            f"a provider of type {type} needs {package}: pip install 'turntree[{extra}]'"
        )


def _load(builds: str) -> Callable[[Connection, str, Objects], Provider]:
    with catch_warnings():
        # What a library says of its own source is of no use to whoever asks a model.
        simplefilter("ignore")
        found: Any = EntryPoint(builds, builds, GROUP).load()
    return cast("Callable[[Connection, str, Objects], Provider]", found)
