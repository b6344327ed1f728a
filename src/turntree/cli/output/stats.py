"""Print spending: bars, small plots, tables. Pure, like ``cli.output.text``."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.text import cells, clean, counted, cut, pad, tokens
from turntree.stats.prices import GenaiPrices
from turntree.stats.spending import (
    Grouping,
    Spending,
    SpendingTotal,
    Step,
    group,
    names_of,
    over_time,
    step_of,
    steps_of,
    sum_of,
)
from turntree.transcripts.display import tool_title

GAP: Final = 2
NAME_MIN: Final = 8
BAR_MIN: Final = 6
BAR_MAX: Final = 40
FIGURES_WIDTH: Final = 34
"""Columns of a line beside its bar: the time, the tokens, the cost."""
PLOT_STEPS_MAX: Final = 31
NAME_MAX: Final = 44
GROUPS_MAX: Final = 40
MODELS_NAMED_MAX: Final = 5
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_LEVELS_ASCII: Final = ".:-=+*#@"
_CENT: Final = Decimal("0.01")


def draw_stats(
    spent: Sequence[Spending], by: Grouping | None, prices: GenaiPrices, terminal: Terminal
) -> Iterator[str]:
    """Yield a bar per time step, then a line with a small plot per group."""
    step, steps = steps_of(spent)
    sums = over_time(spent, step)
    most = max(total.usage.total for total in sums.values())
    width = min(BAR_MAX, max(terminal.width - FIGURES_WIDTH, BAR_MIN))
    yield terminal.paint(f"tokens and cost a {step}", "head")
    for name in steps[-PLOT_STEPS_MAX:]:
        total = sums.get(name)
        if total is None:
            yield name
            continue
        drawn = bar(total.usage.total, most, width, ascii_only=terminal.is_ascii)
        told = f"{tokens(total.usage.total):>6}  {_cost(total):>12}".rstrip()
        yield f"{name:<10}  {terminal.paint(pad(drawn, width), 'good')}  {told}".rstrip()
    if len(steps) > PLOT_STEPS_MAX:
        earlier = len(steps) - PLOT_STEPS_MAX
        there = "is" if earlier == 1 else "are"
        told = f"{counted(earlier, f'earlier {step}')} {there} in the sums below"
        yield terminal.paint(told, "dim")
    yield ""
    yield from _groups(spent, by, steps, terminal)
    yield ""
    yield from _total(spent, prices, terminal.width)


def _groups(
    spent: Sequence[Spending], by: Grouping | None, steps: Sequence[str], terminal: Terminal
) -> Iterator[str]:
    found = group(spent, by)
    shown = list(found)[:GROUPS_MAX]
    heads = (by,) if by else ("agent", "model")
    rows: list[Sequence[str]] = [
        (*heads, "calls", "in", "cached", "written", "out", "tokens", "cost", "over time")
    ]
    step, _ = steps_of(spent)
    for names in shown:
        total, usage = found[names], found[names].usage
        own = [one for one in spent if names_of(one, by) == names]
        plot = _plot(own, step, steps[-PLOT_STEPS_MAX:], ascii_only=terminal.is_ascii)
        numbers = (usage.input, usage.cached_input, usage.cache_write, usage.output, usage.total)
        cut_names = (
            cut(tool_title(clean(name)), NAME_MAX, ellipsis=terminal.spell("…")) for name in names
        )
        rows.append((
            *cut_names, f"{total.calls:,}", *map(tokens, numbers), _cost(total), plot,
        ))  # fmt: skip
    for place, line in enumerate(_aligned(rows, len(heads), terminal)):
        yield line if place else terminal.paint(line, "head")
    if len(found) > len(shown):
        yield terminal.paint(f"and {len(found) - len(shown)} more; --json has all", "dim")


def _aligned(rows: Sequence[Sequence[str]], names: int, terminal: Terminal) -> Iterator[str]:
    """Yield rows with names aligned left and numbers right, as many columns as fit."""
    widths = [max(cells(cell) for cell in column) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    # Without room the plot goes first, then where the input came from, then the names are cut:
    # what was spent must stay.
    for column in (last, names + 3, names + 2, names + 1, names + 4):
        if sum(width + GAP for width in widths if width) - GAP > terminal.width:
            widths[column] = 0
    over = sum(width + GAP for width in widths if width) - GAP - terminal.width
    for column in range(names - 1, -1, -1):
        taken = min(max(over, 0), max(widths[column] - NAME_MIN, 0))
        widths[column] -= taken
        over -= taken
    ellipsis = terminal.spell("…")
    for row in rows:
        cells_shown = [
            pad(cut(cell, width, ellipsis=ellipsis), width)
            if place < names or place == last
            else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ]
        yield (" " * GAP).join(cells_shown).rstrip()


def _total(spent: Sequence[Spending], prices: GenaiPrices, width: int) -> Iterator[str]:
    total = sum_of(spent)
    used = tokens(total.usage.total) or "0"
    sentence = (
        f"{counted(total.calls, 'call')}, {used} tokens, each call once; "
        f"{dollars(total.cost)} at the list prices of {prices.name}"
    )
    yield from textwrap.wrap(sentence, width)
    if total.calls_unpriced:
        models = sorted({clean(one.model) for one in spent if one.cost is None})
        named = ", ".join(models[:MODELS_NAMED_MAX])
        more = len(models) - MODELS_NAMED_MAX
        named += f" and {more} more" if more > 0 else ""
        unpriced = counted(total.calls_unpriced, "call")
        yield from textwrap.wrap(f"not in that sum: {unpriced} of unknown price ({named})", width)


def _cost(total: SpendingTotal) -> str:
    if not total.calls:
        return ""
    if total.calls_unpriced == total.calls:
        return "unknown"
    # A sum that misses some calls is a lower bound, and is marked as one.
    return ("> " if total.calls_unpriced else "") + dollars(total.cost)


def dollars(cost: Decimal) -> str:
    """Return an amount of US dollars; less than a cent is not shown as zero."""
    return "< $0.01" if 0 < cost < _CENT else f"${cost:,.2f}"


def bar(value: int, most: int, width: int = BAR_MAX, *, ascii_only: bool = False) -> str:
    """Return a bar proportional to a value; a small value still gets a visible bar."""
    if value <= 0 or most <= 0:
        return ""
    if ascii_only:
        return "#" * max(1, value * width // most)
    whole, eighths = divmod(max(1, value * width * 8 // most), 8)
    return "█" * whole + (_EIGHTHS[eighths] if eighths else "")


def _plot(spent: Sequence[Spending], step: Step, steps: Sequence[str], *, ascii_only: bool) -> str:
    """Return one character per time step, as high as its usage."""
    used: dict[str, int] = dict.fromkeys(steps, 0)
    for one in spent:
        name = step_of(one.at, step)
        if name in used:
            used[name] += one.usage.total
    return sparks(used, ascii_only=ascii_only)


def sparks(used: Mapping[str, int], *, ascii_only: bool = False) -> str:
    """Return one character per number; a space for zero."""
    levels = _LEVELS_ASCII if ascii_only else _LEVELS
    most = max(used.values(), default=0)
    return "".join(
        levels[min(value * len(levels) // (most + 1), len(levels) - 1)] if value else " "
        for value in used.values()
    )


def spending_document(one: Spending, prices: GenaiPrices | None) -> dict[str, Any]:
    """Return spending as one document; ``cost_usd`` is null if the price is unknown."""
    usage = one.usage
    return {
        "day": one.day,
        "agent": one.agent,
        "model": one.model,
        "provider": one.provider,
        "session": one.session,
        "calls": one.calls,
        "input": usage.input,
        "cached_input": usage.cached_input,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "tokens": usage.total,
        "cost_usd": None if one.cost is None else float(one.cost),
        "prices": None if prices is None else prices.name,
    }
