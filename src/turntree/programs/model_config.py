"""Resolve model parameters, each with the level that set it.

Six levels may set one: the turn, the session, the persona, the agent, the model, the provider. The
first of them that sets a value wins. A situation is a named overlay of the model and is applied to
the result. This module knows the order. It must never know where a level stores its values.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.value import value

Level = Literal["turn", "session", "persona", "agent", "model", "provider"]
LEVELS: Final[tuple[Level, ...]] = ("turn", "session", "persona", "agent", "model", "provider")

_FAMILIES: Final = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex", "openai"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("mistral", "mistral"),
    ("codestral", "mistral"),
    ("magistral", "mistral"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("qwen", "alibaba"),
    ("llama", "meta"),
    ("command", "cohere"),
)
"""Prefixes of model names, and their vendors."""


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


def family_of(model_id: str) -> str | None:
    """Return the vendor of a model, by the prefix of its name; None if it is unknown.

    A name may follow its vendor's, as in ``anthropic/claude-sonnet-4-5``.
    """
    name = model_id.lower().rsplit("/", maxsplit=1)[-1]
    return next((family for start, family in _FAMILIES if name.startswith(start)), None)
