"""Print spending: bars, small plots, tables. Pure, like ``cli.output.text``."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.text import cells, clean, cut, pad, tokens
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

BAR_MAX: Final = 40
PLOT_STEPS_MAX: Final = 31
NAME_MAX: Final = 44
GROUPS_MAX: Final = 40
MODELS_NAMED_MAX: Final = 5
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_LEVELS_ASCII: Final = ".:-=+*#@"
_CENT: Final = Decimal("0.01")


def draw_stats(
    spent: Sequence[Spending], by: Grouping | None, prices: GenaiPrices | None, terminal: Terminal
) -> Iterator[str]:
    """Yield a bar per time step, then a line with a small plot per group."""
    step, steps = steps_of(spent)
    sums = over_time(spent, step)
    most = max(total.usage.total for total in sums.values())
    yield terminal.paint(f"tokens a {step}", "head")
    for name in steps[-PLOT_STEPS_MAX:]:
        total = sums.get(name)
        if total is None:
            yield name
            continue
        drawn = pad(bar(total.usage.total, most, ascii_only=terminal.is_ascii), BAR_MAX)
        told = f"{tokens(total.usage.total):>6}  {_cost(total, prices):>12}".rstrip()
        yield f"{name:<10}  {terminal.paint(drawn, 'good')}  {told}".rstrip()
    if len(steps) > PLOT_STEPS_MAX:
        earlier = len(steps) - PLOT_STEPS_MAX
        yield terminal.paint(f"{earlier} earlier {step}s are in the sums below", "dim")
    yield ""
    yield from _groups(spent, by, prices, steps, terminal)
    yield ""
    yield from _total(spent, prices)


def _groups(
    spent: Sequence[Spending],
    by: Grouping | None,
    prices: GenaiPrices | None,
    steps: Sequence[str],
    terminal: Terminal,
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
        cut_names = (cut(clean(name), NAME_MAX, ellipsis=terminal.spell("…")) for name in names)
        rows.append((
            *cut_names, f"{total.calls:,}", *map(tokens, numbers), _cost(total, prices), plot,
        ))  # fmt: skip
    for place, line in enumerate(_aligned(rows, len(heads))):
        yield line if place else terminal.paint(line, "head")
    if len(found) > len(shown):
        yield terminal.paint(f"and {len(found) - len(shown)} more; --json has all", "dim")


def _aligned(rows: Sequence[Sequence[str]], names: int) -> Iterator[str]:
    """Yield rows with names aligned left and numbers right."""
    widths = [max(cells(cell) for cell in column) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    for row in rows:
        told = [
            pad(cell, width) if place < names or place == last else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(told).rstrip()


def _total(spent: Sequence[Spending], prices: GenaiPrices | None) -> Iterator[str]:
    total = sum_of(spent)
    told = f"{total.calls:,} calls, {tokens(total.usage.total) or '0'} tokens, each call once"
    if prices is None:
        yield told
        return
    yield f"{told}; {dollars(total.cost)} at the list prices of {prices.name}"
    if total.calls_unpriced:
        models = sorted({clean(one.model) for one in spent if one.cost is None})
        named = ", ".join(models[:MODELS_NAMED_MAX])
        more = len(models) - MODELS_NAMED_MAX
        named += f" and {more} more" if more > 0 else ""
        yield f"not in that sum: {total.calls_unpriced:,} calls of unknown price ({named})"


def _cost(total: SpendingTotal, prices: GenaiPrices | None) -> str:
    if prices is None or not total.calls:
        return ""
    if total.calls_unpriced == total.calls:
        return "unknown"
    # A sum that misses some calls is a lower bound, and is marked as one.
    return ("> " if total.calls_unpriced else "") + dollars(total.cost)


def dollars(cost: Decimal) -> str:
    """Return an amount of US dollars; less than a cent is not shown as zero."""
    return "< $0.01" if 0 < cost < _CENT else f"${cost:,.2f}"


def bar(value: int, most: int, *, ascii_only: bool = False) -> str:
    """Return a bar proportional to a value; a small value still gets a visible bar."""
    if value <= 0 or most <= 0:
        return ""
    if ascii_only:
        return "#" * max(1, value * BAR_MAX // most)
    whole, eighths = divmod(max(1, value * BAR_MAX * 8 // most), 8)
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
