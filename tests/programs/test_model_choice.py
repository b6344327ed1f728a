"""Who decides which parameter: every level in its place, and a situation over all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.usage import family_of
from turntree.programs.model_choice import LEVELS, ConfigLayer, Level, ResolvedValue, resolve

VALUES = st.dictionaries(
    st.sampled_from(["model", "temperature", "max_tokens", "top_p"]), st.none() | st.integers(0, 9)
)
LAYERS = st.lists(st.sampled_from(LEVELS), unique=True).flatmap(
    lambda levels: st.tuples(*(st.builds(ConfigLayer, st.just(level), VALUES) for level in levels))
)


def test_the_first_level_that_says_it_decides() -> None:
    layers = [ConfigLayer(level, {"temperature": number}) for number, level in enumerate(LEVELS)]
    for number, level in enumerate(LEVELS):
        assert resolve(layers[number:])["temperature"] == ResolvedValue(number, level)


@given(LAYERS)
def test_the_order_in_which_levels_are_given_changes_nothing(
    layers: tuple[ConfigLayer, ...],
) -> None:
    shuffled = sorted(layers, key=lambda layer: layer.level)
    assert resolve(shuffled) == resolve(layers)


@given(LAYERS)
def test_every_value_is_one_that_its_level_says_and_no_higher_level_does(
    layers: tuple[ConfigLayer, ...],
) -> None:
    said: dict[Level, ConfigLayer] = {layer.level: layer for layer in layers}
    for name, chosen in resolve(layers).items():
        assert chosen.level != "situation"
        assert chosen.level != "workspace"
        assert said[chosen.level].values[name] == chosen.value is not None
        above = LEVELS[: LEVELS.index(chosen.level)]
        assert all(said[one].values.get(name) is None for one in above if one in said)


def test_a_situation_is_laid_over_the_result() -> None:
    situations: dict[str, dict[str, Json]] = {"coding": {"temperature": 0}, "quick": {}}
    layers = [
        ConfigLayer("turn", {"temperature": 1}, "turn:1"),
        ConfigLayer("model", {"top_p": 0.5}, "@(m)"),
    ]
    resolved = resolve(layers, situations=situations, situation="coding")
    assert resolved == {
        "temperature": ResolvedValue(0, "situation", "coding"),
        "top_p": ResolvedValue(0.5, "model", "@(m)"),
    }
    assert resolved["top_p"].to_json() == {"value": 0.5, "from": "model", "address": "@(m)"}
    with pytest.raises(InvalidOperation, match="coding, quick"):
        resolve(layers, situations=situations, situation="creative")


def test_a_level_speaks_once() -> None:
    with pytest.raises(InvalidOperation):
        resolve([ConfigLayer("turn", {}), ConfigLayer("turn", {})])


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude-opus-4-1", "anthropic"),
        ("GPT-5", "openai"),
        ("o3-mini", "openai"),
        ("gemini-2.5-flash", "google"),
        ("my-own", None),
    ],
)
def test_a_models_name_tells_its_family(model: str, family: str | None) -> None:
    assert family_of(model) == family
