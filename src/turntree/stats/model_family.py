"""The vendor of a model, by the beginning of its name."""

from typing import Final

_FAMILIES: Final = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("codex", "openai"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("mistral", "mistral"),
    ("codestral", "mistral"),
    ("magistral", "mistral"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("qwen", "alibaba"),
    ("llama", "meta"),
    ("command", "cohere"),
)
"""Prefixes of model names, and their vendors."""


def family_of(model_id: str) -> str | None:
    """Return the vendor of a model, by the prefix of its name; None if it is unknown.

    A name may follow its vendor's, as in ``anthropic/claude-sonnet-4-5``.
    """
    name = model_id.lower().rsplit("/", maxsplit=1)[-1]
    return next((family for start, family in _FAMILIES if name.startswith(start)), None)
