"""List prices of models, from the data in the package ``genai-prices``.

No network is used. Must never guess: a model or a provider that is not in the list has no price.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from turntree.core.value import value
from turntree.stats.spending import Spending

PACKAGE: Final = "genai-prices"
_PROVIDERS: Final = {"bedrock": "aws", "vertex": "google"}
"""Importers' names of providers that have another name in the list."""


def load_genai_prices() -> "GenaiPrices":
    """Return the list."""
    # Loading it takes half a second, so it is loaded only when prices are needed.
    module = import_module("genai_prices")
    return GenaiPrices(f"{PACKAGE} {version(PACKAGE)}", module.calc_price, module.Usage)


@value
class GenaiPrices:
    """Prices by model, provider and day."""

    name: str
    """Name and version of the list."""
    _calc_price: Callable[..., Any]
    _usage: Callable[..., Any]

    def find_cost(self, spending: Spending) -> Decimal | None:
        """Return the cost of calls in US dollars, or None if the list has no price."""
        if not spending.calls:
            return None
        usage, calls = spending.usage, Decimal(spending.calls)
        each = self._usage(
            input_tokens=usage.context / calls,
            cache_read_tokens=usage.cached_input / calls,
            cache_write_tokens=usage.cache_write / calls,
            output_tokens=usage.output / calls,
        )
        provider = spending.provider
        try:
            found = self._calc_price(
                each,
                spending.model,
                provider_id=_PROVIDERS.get(provider or "", provider),
                genai_request_timestamp=datetime.fromisoformat(spending.day).replace(tzinfo=UTC),
            )
        except (LookupError, ValueError):
            # A model without a list price. The cost is shown as unknown: a sum with a guess in it
            # would look exact.
            return None
        price: Decimal = found.total_price
        return price * calls
