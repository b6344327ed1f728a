"""Providers that a program passes to ``open`` as Python objects, and the model that it names.

Each gets a provider program, and the model a model program, like those of any other service: every
turn records which version of which program answered.
"""

from collections.abc import Mapping, Sequence

from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.program import Program
from turntree.models.provider import Provider
from turntree.models.providers.factory import PYTHON_TYPE
from turntree.programs.service import Programs


def index_providers(providers: Sequence[Provider]) -> dict[str, Provider]:
    """Return providers by their names, which become the names of their programs.

    Raises:
        InvalidOperation: Two have the same name.
    """
    named: dict[str, Provider] = {}
    for provider in providers:
        if provider.name in named:
            raise InvalidOperation(f"two providers are named {provider.name}")
        named[provider.name] = provider
    return named


async def register(
    programs: Programs, providers: Mapping[str, Provider], model: str | None
) -> None:
    """Create the programs of the given providers and of the model, unless they exist.

    A model that exists and has a provider of another type is used as it is.

    Raises:
        InvalidOperation: The name of a provider belongs to another program, or it is not clear
            which provider has the model.
        NotFound: There is no such model, and no provider was given that could have it.
    """
    for name, provider in providers.items():
        existing = await programs.find(name)
        if existing is not None and not _is_python(existing):
            # To replace its config would send what others ask it to this process.
            raise InvalidOperation(
                f"{existing.address} exists already and is not a Python object; "
                "give yours another name",
                hint=Hint("program.show", {"kind": existing.kind, "program": existing.name}),
            )
        of = type(provider)
        config = {"provider_type": PYTHON_TYPE, "class": f"{of.__module__}.{of.__qualname__}"}
        await programs.ensure("provider", name, config)
    if model is None:
        return
    existing = await programs.find(model)
    if existing is not None:
        named = existing.version.config.get("provider")
        asked = None if named is None else await programs.find(str(named))
        if not providers or (asked is not None and not _is_python(asked)):
            return
    elif not providers:
        raise NotFound(f"there is no model {model!r}", hint=Hint("model.create"))
    owners = list(providers)
    if len(owners) > 1:
        owners = [name for name, one in providers.items() if model in await one.list_models()]
    if len(owners) != 1:
        names = ", ".join(owners or providers)
        raise InvalidOperation(
            f"{'several' if owners else 'none'} of the providers {names} has the model {model}"
        )
    await programs.ensure("model", model, {"model_id": model, "provider": f"@({owners[0]})"})


def _is_python(program: Program) -> bool:
    return program.config.get("provider_type") == PYTHON_TYPE
