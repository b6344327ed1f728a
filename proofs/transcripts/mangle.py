"""Documents that a tool could never have written, made from some that it could."""

import random
from collections.abc import Iterator
from typing import Any

STRANGE: list[Any] = [
    None, True, 0, -1, 1.5, 2**70, "", "x", "\x00", "{", '{"a": [1]}', [], [[]], {}, {"a": {}},
    ["x", None, {}], {"type": [], "role": {}}, "1960-01-01T00:00:00Z", 1e300,
]  # fmt: skip


def mangled(document: Any, times: int, seed: int = 7) -> Iterator[Any]:
    """Yield copies of a document, each with a few members that make no sense or are gone."""
    dice = random.Random(seed)
    for _ in range(times):
        yield _mangle(document, dice, dice.choice((0.01, 0.05, 0.3)))


def _mangle(value: Any, dice: random.Random, chance: float) -> Any:
    if dice.random() < chance:
        return dice.choice(STRANGE)
    if isinstance(value, dict):
        kept = ((name, member) for name, member in value.items() if dice.random() > chance / 4)
        return {name: _mangle(member, dice, chance) for name, member in kept}
    if isinstance(value, list):
        return [_mangle(entry, dice, chance) for entry in value]
    return value
