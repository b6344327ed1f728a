"""Effects: what calling a tool may do, so that a call can be judged before it is made.

A tool declares its effects, and they are recorded with its description. One that declares none
counts as having all of them: what is not known to be harmless is not harmless.
"""

from collections.abc import Iterable
from typing import Final, Literal, get_args

from turntree.core.errors import InvalidOperation

Effect = Literal["reads_private", "untrusted_output", "external_write", "exec", "destructive"]
"""In this order: returns what only some may read; returns text that others wrote, in which
instructions may be hidden; changes or tells something outside of the conversation; runs commands;
overwrites or deletes."""
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)


def read_effects(names: Iterable[object]) -> tuple[Effect, ...]:
    """Return effects in their order, each once.

    Raises:
        InvalidOperation: One of the names is not an effect.
    """
    given = list(names)
    if strangers := [name for name in given if name not in EFFECTS]:
        raise InvalidOperation(f"{strangers[0]!r} is not an effect; there are {', '.join(EFFECTS)}")
    return tuple(effect for effect in EFFECTS if effect in given)
