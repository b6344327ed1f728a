"""Which model answers, through whom, with which parameters: read from the registry, then resolved.

The order is ``domain.model_config``'s; here it is found out what each level says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from turntree.domain.canonical import Json
from turntree.domain.errors import Refused
from turntree.domain.model_config import Chosen, Layer, resolve
from turntree.domain.program import Program
from turntree.runtime.registry import Registry

_OURS = frozenset({"name", "provider", "description", "situations", "family"})
"""Members of a model's config that are no parameters."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Who answers, and every value with where it came from."""

    model: Program
    provider: Program | None
    """None where none is installed that answers for the model's family."""
    values: Mapping[str, Chosen]

    def to_json(self) -> dict[str, Json]:
        """Return the document that a turn carries of it, with the versions that were used."""
        document: dict[str, Json] = {
            "model": _pinned(self.model),
            "values": {name: chosen.to_json() for name, chosen in self.values.items()},
        }
        return (
            document if self.provider is None else {**document, "provider": _pinned(self.provider)}
        )


async def choose_model(
    programs: Registry,
    *,
    turn: Mapping[str, Json] | None = None,
    session: str | None = None,
    persona: Mapping[str, Json] | None = None,
    agent: str | None = None,
    situation: str | None = None,
) -> Choice:
    """Return who answers a turn, and with what.

    A session says its model, its parameters and its situation; an agent says its model alone.

    Raises:
        Refused: Nobody says which model, or there is no such situation.
        NotFound: A program that is named does not exist.
    """
    said = dict(turn or {})
    layers = [Layer("turn", said), Layer("persona", dict(persona or {}))]
    if session is not None and (found := await programs.find(session)) is not None:
        layers.append(Layer("session", _session_values(found), found.address))
        situation = situation or _text(found.config.get("situation"))
        agent = agent or _text(found.config.get("owner"))
    if agent is not None:
        actor = await programs.get(agent)
        layers.append(Layer("agent", {"model": actor.config.get("default_model")}, actor.address))
    named = resolve(layers).get("model")
    if named is None:
        raise Refused("nobody says which model answers: name one with --model")
    model = await programs.get(str(named.value))
    if model.kind != "model":
        raise Refused(f"{model.address} is a {model.kind}, and a model has to answer")
    layers.append(Layer("model", _model_values(model), model.address))
    provider = await _provider(programs, model)
    if provider is not None:
        layers.append(Layer("provider", _mapping(provider.config.get("params")), provider.address))
    overlays = _mapping(model.config.get("situations"))
    situations = {name: _mapping(values) for name, values in overlays.items()}
    values = resolve(layers, situations=situations, situation=situation)
    values["model"] = Chosen(model.address, named.level, named.address)
    return Choice(model, provider, values)


async def _provider(programs: Registry, model: Program) -> Program | None:
    """Return the provider a model names; one that names none is answered for by its family's."""
    named = model.config.get("provider")
    if named is not None:
        return await programs.get(str(named))
    family = model.config.get("family")
    async for one in programs.list_all(kind="provider"):
        if one.config.get("provider_type") == family and one.state != "deprecated":
            return one
    return None


def _session_values(session: Program) -> dict[str, Json]:
    return {"model": session.config.get("default_model"), **_mapping(session.config.get("params"))}


def _model_values(model: Program) -> dict[str, Json]:
    return {name: value for name, value in model.config.items() if name not in _OURS}


def _mapping(value: Json) -> dict[str, Json]:
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _pinned(program: Program) -> dict[str, Json]:
    return {
        "address": program.address,
        "version": program.version.number,
        "digest": program.version.digest,
    }
