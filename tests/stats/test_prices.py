"""List prices: what the list tells, and that it is not asked to guess."""

import re
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from turntree.core.usage import Usage
from turntree.stats.prices import load_genai_prices
from turntree.stats.spending import CONTEXT_BANDS, Spending

pytest.importorskip("genai_prices")
DAY = "2026-01-15"


def spent(model: str, provider: str | None, usage: Usage, calls: int = 1) -> Spending:
    return Spending(DAY, "a", model, provider, calls, usage)


def cost(spending: Spending) -> Decimal | None:
    prices = load_genai_prices()
    assert prices is not None
    return prices.find_cost(spending)


def test_cached_input_is_cheaper_and_writing_the_cache_dearer() -> None:
    fresh = cost(spent("claude-sonnet-4-5", "anthropic", Usage(input=100_000)))
    read = cost(spent("claude-sonnet-4-5", "anthropic", Usage(cached_input=100_000)))
    written = cost(spent("claude-sonnet-4-5", "anthropic", Usage(cache_write=100_000)))
    assert fresh is not None
    assert read is not None
    assert written is not None
    assert 0 < read < fresh < written


def test_many_calls_cost_as_much_as_each_of_them() -> None:
    one = Usage(input=150_000, output=500)
    each = cost(spent("claude-sonnet-4-5", "anthropic", one))
    many = cost(spent("claude-sonnet-4-5", "anthropic", one + one + one, calls=3))
    assert each is not None
    assert many == 3 * each


@pytest.mark.parametrize(
    ("model", "provider"), [("no-such-model", None), ("claude-sonnet-4-5", "no-such-provider")]
)
def test_what_the_list_does_not_have_has_no_price(model: str, provider: str | None) -> None:
    assert cost(spent(model, provider, Usage(input=1))) is None


def test_every_size_at_which_a_price_changes_is_a_band() -> None:
    file = import_module("genai_prices.data").__file__
    assert file is not None
    starts = {int(n) for n in re.findall(r"Tier\(start=(\d+)", Path(file).read_text())}
    assert starts <= set(CONTEXT_BANDS)
