"""How many tokens a model can read: its context window, and who says so.

In this order: a limit that its provider stated when it refused a prompt, if it is smaller than what
the model's config says; the config; the list of the package ``genai-prices``, which knows the
windows of more than a thousand models; a default.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal

from turntree.core.canonical import Json
from turntree.core.value import value

DEFAULT_TOKENS: Final = 128_000
"""The window of a model that nothing is known about."""
LEARNED: Final = "learned_context_tokens"
"""The member of a model's config that holds a limit learned from a refusal."""
_PROVIDERS: Final = {"bedrock": "aws", "vertex": "google", "openai-chat": "openai"}
"""Provider types that have another name in the list."""
Source = Literal["refusal", "config", "genai-prices", "default"]


@value
class WindowSize:
    """The tokens of a context window, and where the number comes from."""

    tokens: int
    source: Source

    def __str__(self) -> str:
        """Return the number with its source, as people read it."""
        reasons: dict[Source, str] = {
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
    # A scripted model has no vendor, whatever its name.
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
