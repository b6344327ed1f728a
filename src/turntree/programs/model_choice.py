"""Choose the model, provider and parameters of a turn from the registry.

Six levels may set a parameter: the turn, the session, the persona, the agent, the model, the
provider. The first of them that sets a value wins, and each value keeps its source. A situation is
a named overlay of the model and is applied to the result.

The size of a model's context window is the smaller of the config's and a limit learned when its
provider refused a prompt, else that of the list in ``genai-prices``, which knows more than a
thousand models, else a default.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation, NotFound, ProviderNotConfigured
from turntree.core.program import Program, a_kind, name_in
from turntree.core.value import value
from turntree.programs.registry import Registry

Level = Literal["turn", "session", "persona", "agent", "model", "provider"]
LEVELS: Final[tuple[Level, ...]] = ("turn", "session", "persona", "agent", "model", "provider")
DEFAULT_TAG = "default"
"""The tag of the default model, for when none is named and there are several."""
_OURS = frozenset(
    {
        "name", "provider", "description", "situations", "family", "context_tokens",
        "learned_context_tokens",
    }
)  # fmt: skip
"""Members of a model's config that are not parameters."""


DEFAULT_TOKENS: Final = 128_000
"""The window of a model that nothing is known about."""
LEARNED: Final = "learned_context_tokens"
"""The member of a model's config that holds a limit learned from a refusal."""
_PROVIDERS: Final = {"bedrock": "aws", "vertex": "google", "openai-chat": "openai"}
"""Provider types that have another name in the list."""
WindowSource = Literal["refusal", "config", "genai-prices", "default"]


@value
class ConfigLayer:
    """What one level sets. A null value is not set."""

    level: Level
    values: Mapping[str, Json]
    address: str | None = None
    """The program or turn that sets it."""


@value
class ResolvedValue:
    """A value, and where it came from."""

    value: Json
    level: Level | Literal["situation", "workspace"]
    """``workspace`` means the default model, used when no level names one."""
    address: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the document that a turn records."""
        document: dict[str, Json] = {"value": self.value, "from": self.level}
        return document if self.address is None else {**document, "address": self.address}


@value
class WindowSize:
    """The tokens of a context window, and where the number comes from."""

    tokens: int
    source: WindowSource

    def __str__(self) -> str:
        """Return the number with its source, as people read it."""
        reasons: dict[WindowSource, str] = {
            "refusal": "learned when its provider refused a longer prompt",
            "config": "from its config",
            "genai-prices": "from the list of genai-prices",
            "default": "the default, because nothing else is known",
        }
        return f"{self.tokens:,} tokens, {reasons[self.source]}"


def find_window_size(
    config: Mapping[str, Json], model: str, provider_type: str | None
) -> WindowSize:
    """Return the context window of a model, given its config and its name at its provider.

    The first call for a model without a size in its config takes a moment: it loads the list.
    """
    stated, learned = config.get("context_tokens"), config.get(LEARNED)
    if isinstance(learned, int) and not (isinstance(stated, int) and stated <= learned):
        return WindowSize(learned, "refusal")
    if isinstance(stated, int):
        return WindowSize(stated, "config")
    # A scripted model has no vendor, under any name.
    listed = None if provider_type == "scripted" else _find_listed(model, provider_type)
    if listed is not None:
        return WindowSize(listed, "genai-prices")
    return WindowSize(DEFAULT_TOKENS, "default")


@cache
def _find_listed(model: str, provider_type: str | None) -> int | None:
    snapshot: Any = import_module("genai_prices.data_snapshot").get_snapshot()
    known = _PROVIDERS.get(provider_type or "", provider_type)
    # A gateway serves the models of other vendors, so the name alone has to do.
    for provider in (known, None) if known else (None,):
        try:
            _, found = snapshot.find_provider_model(model, None, provider, None)
        except (LookupError, ValueError):
            continue
        if found.context_window:
            return int(found.context_window)
    return None


@value
class Choice:
    """The chosen model, and every value with its source."""

    model: Program
    provider: Program | None
    """None if the model names none."""
    values: Mapping[str, ResolvedValue]

    @property
    def parameters(self) -> dict[str, Json]:
        """The parameters of the call: every value but the names of the model."""
        return {
            name: chosen.value
            for name, chosen in self.values.items()
            if name not in ("model", "model_id")
        }

    def to_json(self) -> dict[str, Json]:
        """Return the document that a turn records, with the versions that were used."""
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
    """Return the model and the parameters of a turn.

    A session sets its model, its parameters and its situation; an agent only its model.

    Raises:
        InvalidOperation: No level names a model, or there is no such situation.
        NotFound: A program that is named does not exist.
    """
    found = None if session is None else await programs.find(session)
    named = agent or (None if found is None else _text(found.version.config.get("owner")))
    actor = None if named is None else await programs.get(named)
    return await choose_for(
        programs, turn=turn, session=found, persona=persona, agent=actor, situation=situation
    )


async def choose_for(
    programs: Registry,
    *,
    turn: Mapping[str, Json] | None = None,
    session: Program | None = None,
    persona: Mapping[str, Json] | None = None,
    agent: Program | None = None,
    situation: str | None = None,
) -> Choice:
    """Return the model and the parameters of a turn, given the programs that may set them.

    If none of them names a model, it is the only one, or the one with the tag ``default``, among
    those of the session's owner, the caller and the system.

    Raises:
        InvalidOperation: No level names a model, or there is no such situation.
        NotFound: A program that is named does not exist.
    """
    layers = [ConfigLayer("turn", dict(turn or {})), ConfigLayer("persona", dict(persona or {}))]
    if session is not None:
        layers.append(ConfigLayer("session", _session_values(session), session.address))
        situation = situation or _text(session.config.get("situation"))
    if agent is not None:
        layers.append(
            ConfigLayer(
                "agent", {"model": agent.version.config.get("default_model")}, agent.address
            )
        )
    named = resolve(layers).get("model")
    if named is None:
        model = await _default_model(programs, session)
        named = ResolvedValue(model.address, "workspace")
    else:
        given = [
            one for one in (session, agent) if one is not None and one.address == named.address
        ]
        if any("default_model" in one.version.hidden for one in given):
            raise NotFound(f"{named.address} names a model that {programs.by} may not see")
        model = await programs.get(str(named.value))
    if model.kind != "model":
        raise InvalidOperation(
            f"{model.address} is {a_kind(model.kind)}, and a model has to answer"
        )
    layers.append(ConfigLayer("model", _model_values(model), model.address))
    provider = await find_provider(programs, model)
    if provider is not None:
        layers.append(
            ConfigLayer("provider", _mapping(provider.config.get("params")), provider.address)
        )
    overlays = _mapping(model.config.get("situations"))
    situations = {name: _mapping(values) for name, values in overlays.items()}
    values = resolve(layers, situations=situations, situation=situation)
    values["model"] = ResolvedValue(model.address, named.level, named.address)
    return Choice(model, provider, values)


def resolve(
    layers: Sequence[ConfigLayer],
    *,
    situations: Mapping[str, Mapping[str, Json]] | None = None,
    situation: str | None = None,
) -> dict[str, ResolvedValue]:
    """Return every value that any level sets, each with its source.

    Raises:
        InvalidOperation: There is no such situation, or a level occurs twice.
    """
    levels = [layer.level for layer in layers]
    if len(levels) != len(set(levels)):
        raise InvalidOperation(f"each level speaks once, not {', '.join(levels)}")
    chosen: dict[str, ResolvedValue] = {}
    for layer in sorted(layers, key=lambda layer: LEVELS.index(layer.level)):
        for name, setting in layer.values.items():
            if setting is not None and name not in chosen:
                chosen[name] = ResolvedValue(setting, layer.level, layer.address)
    if situation is None:
        return dict(sorted(chosen.items()))
    known = situations or {}
    if situation not in known:
        raise InvalidOperation(
            f"there is no situation {situation!r}: there "
            + (f"are {', '.join(sorted(known))}" if known else "is none")
        )
    overlay = {
        name: ResolvedValue(value, "situation", situation)
        for name, value in known[situation].items()
        if value is not None
    }
    return dict(sorted({**chosen, **overlay}.items()))


async def find_provider(programs: Registry, model: Program) -> Program | None:
    """Return the provider that a model names, or None if it names none.

    No other provider is ever used instead. A config is created with a provider that its owner may
    use; that may have changed since, so it is checked again.

    Raises:
        ProviderNotConfigured: The caller or the model's owner may not use it, or it is not a
            provider.
    """
    named = model.version.config.get("provider")
    return None if named is None else await check_provider(programs, model, str(named))


async def check_provider(programs: Registry, model: Program, named: str) -> Program:
    """Return a provider after checking that it may be used for a model.

    Raises:
        ProviderNotConfigured: See ``find_provider``.
    """
    word = name_in(named)
    # By name alone: a hidden provider must not be replaced by a session with that label.
    found = await programs.store.find(word, by=str(programs.by))
    if found is None:
        # Its name is hidden as well.
        is_own = str(programs.by) == model.owner
        raise ProviderNotConfigured(
            f"{model.address} has no provider that {programs.by} may use",
            hint=Hint("model.set_provider", {"model": model.name}) if is_own else None,
        )
    for principal in dict.fromkeys((str(programs.by), model.owner)):
        if not await programs.allows(found, principal, "invoke"):
            raise ProviderNotConfigured(
                f"{named} answers for {model.address}, and {principal} may not use it",
                hint=Hint("model.share_provider", {"model": model.name, "provider": word}),
            )
    if found.kind != "provider":
        raise ProviderNotConfigured(
            f"{named} is {a_kind(found.kind)}, and a provider has to answer"
        )
    return found


def without_provider(model: str) -> ProviderNotConfigured:
    """Return the error for a model, given by its address, that names no provider."""
    return ProviderNotConfigured(
        f"{model} names no provider", hint=Hint("model.set_provider", {"model": name_in(model)})
    )


async def _default_model(programs: Registry, session: Program | None) -> Program:
    """Return the default model: never another user's that the caller did not choose."""
    owners = {str(programs.by), *(() if session is None else (session.owner,))}
    known = [one async for one in programs.list_all(kind="model") if one.state != "deprecated"]
    ours = [one for one in known if one.owner in owners or one.is_system]
    chosen = [one for one in ours if DEFAULT_TAG in one.tags] or ours
    if len(chosen) == 1:
        return chosen[0]
    if not known:
        raise InvalidOperation("there is no model that could answer", hint=Hint("model.create"))
    named = chosen or known
    names = ", ".join(one.name if chosen else f"{one.name} ({one.owner}'s)" for one in named)
    # A model of another user cannot become the default.
    action = "model.choose_default" if chosen else "model.choose"
    raise InvalidOperation(
        f"no model is chosen; available: {names}",
        hint=Hint(action, {"model": named[0].name, "address": named[0].address}),
    )


def _session_values(session: Program) -> dict[str, Json]:
    return {
        "model": session.version.config.get("default_model"),
        **_mapping(session.config.get("params")),
    }


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
