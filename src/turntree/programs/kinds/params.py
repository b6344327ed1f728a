"""Inference parameters, as a provider, a model, a session or a situation may set them."""

from typing import Annotated, Literal

from pydantic import Field

from turntree.programs.kinds.typed_config import TypedConfig


class Params(TypedConfig):
    """Parameters of a model call. A missing one is set by another level."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    stop: list[str] | None = None
    thinking: Literal["none", "low", "medium", "high"] | None = None
