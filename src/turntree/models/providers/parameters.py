"""Translates inference parameters into the library's settings for each vendor.

A parameter that a vendor does not support is an error: a reply that silently ignored it would look
like one that obeyed it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import ProviderError

Api = Literal["anthropic", "openai-responses", "openai-chat", "openai-compatible", "google"]
"""The API that a request is written for."""

_PLAIN: Final = {
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop": "stop_sequences",
}
_MISSING: Final[Mapping[Api, frozenset[str]]] = {
    "anthropic": frozenset({"seed"}),
    "openai-responses": frozenset({"seed", "stop", "top_k"}),
    "openai-chat": frozenset({"top_k"}),
    "openai-compatible": frozenset(),
    "google": frozenset(),
}
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_NOT_PARAMETERS: Final = frozenset({"model", "model_id"})
"""They select the model and provider, so they are not sent."""
_EFFORTS: Final = frozenset({"none", "low", "medium", "high"})


def settings_of(
    api: Api, asked: Mapping[str, Json], *, cache: Literal["5m", "1h"] | None = None
) -> dict[str, Any]:
    """Return the library's settings for the parameters of a request.

    Besides the parameters of ``programs.params`` there is ``headers``, sent with this request only.

    Raises:
        ProviderError: A parameter is unknown, or the vendor does not support it.
    """
    settings: dict[str, Any] = {**_ALWAYS[api]}
    if api == "anthropic" and cache is not None:
        # Breakpoints after the tools, the instructions and the last message; the prompt
        # itself marks the last query. A fork shares everything before its own query, so it
        # hits the cache that the original session has written.
        settings |= {
            "anthropic_cache_tool_definitions": cache,
            "anthropic_cache_instructions": cache,
            "anthropic_cache_messages": cache,
        }
    for name, value in sorted(asked.items()):
        if value is None or name in _NOT_PARAMETERS:
            continue
        settings |= _setting(api, name, value)
    return settings


def check_model(model: str, profile: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings that the library would drop for this model with only a warning.

    ``profile`` is what the library knows about the model.

    Raises:
        ProviderError: The model does not support a parameter.
    """
    left_out = [name for name in _SAMPLING if name in settings]
    if left_out and _chooses_for_itself(profile, settings):
        raise ProviderError(
            f"{model} takes no {', '.join(left_out)}: it chooses its words by itself", "refused"
        )
    if settings.get("thinking") and not profile.get("supports_thinking"):
        raise ProviderError(f"{model} cannot be told how long to think", "refused")


def _chooses_for_itself(profile: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    if profile.get("anthropic_disallows_sampling_settings"):
        return True
    if not profile.get("openai_supports_reasoning"):
        return False
    if not profile.get("openai_supports_reasoning_effort_none"):
        return True
    thinks = settings.get("thinking")
    return bool(profile.get("thinking_enabled_by_default") if thinks is None else thinks)


def _setting(api: Api, name: str, value: Json) -> dict[str, Any]:
    if name in _MISSING[api]:
        raise ProviderError(f"{api} has no parameter {name}: leave it out", "refused")
    if name == "top_k" and api == "openai-compatible":
        # OpenAI itself has no such parameter; compatible servers accept it in the body.
        return {"extra_body": {"top_k": value}}
    if name in _PLAIN:
        return {_PLAIN[name]: value}
    if name == "thinking" and value in _EFFORTS:
        effort = str(value)
        if api == "openai-compatible":
            # The library knows nothing about such a model, so the value is passed on as given.
            return {"openai_reasoning_effort": effort}
        return {"thinking": False if effort == "none" else effort}
    if name == "headers" and isinstance(value, Mapping):
        return {"extra_headers": {key: str(header) for key, header in value.items()}}
    known = sorted({*_PLAIN, "thinking", "headers"} - _MISSING[api])
    raise ProviderError(
        f"{name}: {value!r} is no parameter of {api}; there are {', '.join(known)}", "refused"
    )


_ALWAYS: Final[Mapping[Api, dict[str, Any]]] = {
    "anthropic": {},
    # The ledger holds the history: a copy stored by the service would survive an erasure here.
    "openai-responses": {"openai_store": False},
    "openai-chat": {},
    "openai-compatible": {},
    "google": {},
}
