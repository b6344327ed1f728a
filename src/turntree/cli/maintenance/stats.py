"""``stats``: tokens and cost of model calls over time.

Gathers the data; ``cli.output.stats`` prints it.
"""

from dataclasses import asdict, replace
from typing import cast

import click

from turntree.boot.open import load_prices, stats_on
from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.stats import draw_stats, spending_document
from turntree.cli.output.text import counted, usage_sentence
from turntree.cli.param_types import SESSION
from turntree.core.ids import Timestamp
from turntree.core.time_phrases import EXAMPLES, find_moment
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.stats.prices import GenaiPrices
from turntree.stats.spending import CONTEXT_BANDS, Grouping, Spending


@value
class SpendingReport:
    """The spending, and the price list that was used."""

    spent: list[Spending]
    prices: GenaiPrices | None
    """None if there was nothing to price."""


@verb()
@click.option("--since", metavar="TIME", help=f"Start of the period: {EXAMPLES}.")
@click.option("--until", metavar="TIME", help="End of the period; `2026-11-15` is its midnight.")
@click.option(
    "--by",
    type=click.Choice(["model", "agent", "session"]),
    help="Grouping, instead of one line per agent and model.",
)
@click.option("--session", "sessions", metavar="SESSION", multiple=True, type=SESSION,
              help="Total of these sessions; a shared turn counts once. Repeatable.")  # fmt: skip
def stats(
    terminal: Terminal,
    since: str | None,
    until: str | None,
    by: str | None,
    sessions: tuple[str, ...],
) -> None:
    """Show tokens and cost over time, counting each model call once.

    A call that appears in several turns or files is one call. Costs are computed from the list
    prices of the day, not from your contract; where the list has no price, it is unknown. A call
    shared by several sessions counts in the oldest of them. Times are UTC.
    """
    if sessions:
        if since is not None or until is not None or by is not None:
            raise click.UsageError("--session goes without --since, --until and --by")
        _show_usage(terminal, sessions)
        return
    grouping = cast("Grouping | None", by)
    gathered = with_ledger(terminal, lambda opened: _gather(opened, since, until, grouping))
    if terminal.as_json:
        terminal.documents(spending_document(one, gathered.prices) for one in gathered.spent)
        return
    if not gathered.spent or gathered.prices is None:
        period = (f" since {since}" if since else "") + (f" until {until}" if until else "")
        terminal.note(f"no model call is recorded{period}")
        terminal.note("next: turntree on     import the sessions of your coding agents")
        return
    terminal.page(draw_stats(gathered.spent, grouping, gathered.prices, terminal))


def _show_usage(terminal: Terminal, sessions: tuple[str, ...]) -> None:
    async def act(opened: CliContext) -> tuple[Usage, int]:
        return await opened.tree.threads.usage(*sessions)

    used, calls = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.document({"calls": calls, "usage": asdict(used), "tokens": used.total})
    else:
        terminal.say(terminal.spell(f"{usage_sentence(used)} in {counted(calls, 'model call')}"))


async def _gather(
    opened: CliContext, since: str | None, until: str | None, by: Grouping | None
) -> SpendingReport:
    found = await stats_on(opened.database).list_spending(
        CONTEXT_BANDS,
        since=_moment(since, opened.now),
        until=_moment(until, opened.now),
        with_sessions=by == "session",
    )
    prices = load_prices() if found else None
    if prices is None:
        return SpendingReport(found, None)
    return SpendingReport([replace(one, cost=prices.find_cost(one)) for one in found], prices)


def _moment(words: str | None, now: Timestamp) -> Timestamp | None:
    if words is None:
        return None
    moment = find_moment(words, now)
    if moment is None:
        raise click.UsageError(f"{words!r} is not a time; write {EXAMPLES}")
    return moment
