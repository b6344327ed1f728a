"""Tokens and money."""

from turntree.core.value import value


@value
class CostRow:
    """The model calls of one day, agent, model and session."""

    day: str
    agent: str
    model: str
    project: str | None
    session: str | None
    """Its label; null for calls that no session holds."""
    calls: int
    input: int
    cached: int
    output: int
    cost: float | None
    """In US dollars at list prices; null if the price is unknown."""


@value
class UnknownPrice:
    """A model without a list price."""

    model: str
    calls: int
    tokens: int


@value
class CostTable:
    """What model calls used and cost, each call counted once."""

    rows: tuple[CostRow, ...]
    unknown: tuple[UnknownPrice, ...]
    prices: str | None
    """Name and version of the price list."""
