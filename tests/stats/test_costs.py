"""What a model call cost, and what nobody knows."""

from decimal import Decimal

from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall, Usage
from turntree.stats.costs import find_cost
from turntree.stats.prices import load_genai_prices

AT = Timestamp("2026-11-15T12:00:00.000Z")
USAGE = Usage(input=1000, output=100, cached_input=5000, cache_write=200)


def test_a_call_costs_what_the_list_says_of_each_kind_of_token() -> None:
    prices = load_genai_prices()
    fresh = find_cost(ModelCall("claude-sonnet-4-5", Usage(1000), "anthropic"), AT, prices)
    cached = Usage(cached_input=1000)
    again = find_cost(ModelCall("claude-sonnet-4-5", cached, "anthropic"), AT, prices)
    assert fresh == Decimal("0.003")
    assert again == Decimal("0.0003")


def test_a_model_that_no_list_has_costs_nobody_knows_what() -> None:
    call = ModelCall("smollm2-135m", USAGE, "openai-compatible")
    assert find_cost(call, AT, load_genai_prices()) is None
