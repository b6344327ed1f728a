"""Effects of tools: declared, recorded with the description, and the worst if none is declared."""

import pytest

from turntree.auth.permissions import EFFECTS, read_effects
from turntree.core.canonical import canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.models.prompt import ToolSpec
from turntree.tools.functions import FunctionTools, tool

PLAIN = ToolSpec("look", "Look a word up.", {"type": "object"})


def test_effects_are_read_in_their_order_and_once() -> None:
    assert read_effects(["exec", "reads_private", "exec"]) == ("reads_private", "exec")
    assert read_effects([]) == ()
    with pytest.raises(InvalidOperation, match="'network' is not an effect"):
        read_effects(["network"])


def test_a_tool_that_declares_nothing_keeps_its_digest_and_counts_as_the_worst() -> None:
    assert digest_bytes(canonical(PLAIN.to_json())) == (
        "sha256:b2c46c8b47127cdd9ce93d01d40ff6e8e91a08a7a1149a443665cb5447893579"
    )
    assert PLAIN.effects is None
    assert PLAIN.worst_effects == EFFECTS


@pytest.mark.parametrize("declared", [None, (), ("exec",), EFFECTS])
def test_declared_effects_survive_the_record(declared: tuple[str, ...] | None) -> None:
    effects = None if declared is None else read_effects(declared)
    spec = ToolSpec("look", "Look.", {"type": "object"}, effects=effects)
    assert ToolSpec.from_json(spec.to_json()) == spec
    assert spec.worst_effects == (EFFECTS if declared is None else declared)


def test_a_function_declares_its_effects() -> None:
    @tool(effects=["destructive", "reads_private"])
    def forget(name: str) -> str:
        """Forget a name."""
        return name

    (spec,) = FunctionTools([forget]).specs
    assert spec.effects == ("reads_private", "destructive")
