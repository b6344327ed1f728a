"""List prices of models, from the package ``genai-prices`` with the data that it carries.

Nothing is asked of any network. The package is an extra, ``turntree[prices]``: it brings more
with it than the rest of Turntree needs. Must never guess: a model or a provider that the list does
not have has no price.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

from turntree.core.value import value
from turntree.stats.spending import Spending

PACKAGE: Final = "genai-prices"
_PROVIDERS: Final = {"bedrock": "aws", "vertex": "google"}
"""What importers call a provider, where the list calls it something else."""


def find_genai_prices() -> "GenaiPrices | None":
    """Return the list if the package is installed."""
    if find_spec("genai_prices") is None:
        return None
    # Loading it takes half a second, so whoever asks for no price does not wait for it.
    module = import_module("genai_prices")
    return GenaiPrices(f"{PACKAGE} {version(PACKAGE)}", module.calc_price, module.Usage)


@value
class GenaiPrices:
    """Prices by model, provider and day. See ``ports.prices``."""

    name: str
    _calc_price: Callable[..., Any]
    _usage: Callable[..., Any]

    def find_cost(self, spending: Spending) -> Decimal | None:
        """Return what calls cost in US dollars, or None if the list does not tell."""
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
            return None
        price: Decimal = found.total_price
        return price * calls
