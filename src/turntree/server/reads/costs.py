"""``/costs``: what model calls used and cost, by day, agent, model, project and session."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from turntree.boot.open import stats_on
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, instant, is_instant, unix_ms
from turntree.core.value import value
from turntree.ledger.shape import OWN_TOOL, Skeleton, agent_name
from turntree.resources.service import in_thread
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.reads.turn_documents import price_list
from turntree.server.route import ApiRoute
from turntree.server.skeleton import read_skeleton
from turntree.stats.spending import CONTEXT_BANDS, Spending, group
from turntree.wire.costs import CostRow, CostTable, UnknownPrice

_DAY_MS: Final = 24 * 60 * 60 * 1000


@value
class CostsQuery:
    """The first and the last day, in UTC: ``2026-11-15``."""

    since: str | None = None
    until: str | None = None
    sessions: bool = True
    """Whether sessions and projects are told apart, which takes several times as long."""


async def price_spending(spent: Sequence[Spending]) -> list[Spending]:
    """Return spendings with their costs; one without a list price keeps none."""
    if not spent:
        return []

    def price() -> list[Spending]:
        prices = price_list()
        return [replace(one, cost=prices.find_cost(one)) for one in spent]

    # Thousands of prices are looked up: other requests must not wait for them.
    return await in_thread(price)


async def list_costs(context: ServerContext, asked: CostsQuery) -> CostTable:
    """Return what was spent, each call counted once, in the oldest session that holds it."""
    since, until = _day(asked.since), _day(asked.until)
    found = await stats_on(context.database).list_spending(
        CONTEXT_BANDS,
        since=since,
        until=None if until is None else _after(until),
        with_sessions=asked.sessions,
    )
    spent = await price_spending(found)
    skeleton = await read_skeleton(context.tree)
    source = (await in_thread(price_list)).name if spent else None
    return await in_thread(lambda: make_table(spent, skeleton, source))


def make_table(spent: Sequence[Spending], skeleton: Skeleton, source: str | None) -> CostTable:
    """Return spendings as rows, with the projects and agents of their sessions."""
    sessions = {session.label: session for session in skeleton.sessions}
    rows: dict[tuple[str, str, str, str | None, str | None, bool], CostRow] = {}
    for one in spent:
        session = sessions.get(one.session or "")
        project = agent = None
        if session is not None:
            project = skeleton.projects[session.project] if session.project >= 0 else None
            agent = skeleton.agents[session.agent]
        if one.by.startswith("agent:"):
            agent = agent_name(one.by)
        usage = one.usage
        row = CostRow(
            day=one.day,
            agent=agent or OWN_TOOL,
            model=one.model,
            project=project,
            session=one.session,
            calls=one.calls,
            input=usage.input + usage.cache_write,
            cached=usage.cached_input,
            output=usage.output,
            cost=None if one.cost is None else float(one.cost),
        )
        # Bands of context sizes and providers are rows of their own there, and one row here.
        key = (row.day, row.agent, row.model, project, row.session, row.cost is None)
        rows[key] = row if key not in rows else _sum(rows[key], row)
    unknown = group([one for one in spent if one.cost is None], "model")
    return CostTable(
        tuple(rows.values()),
        tuple(
            UnknownPrice(model, total.calls, total.usage.total)
            for (model,), total in unknown.items()
        ),
        source,
    )


def _sum(one: CostRow, other: CostRow) -> CostRow:
    is_known = one.cost is not None and other.cost is not None
    return replace(
        one,
        calls=one.calls + other.calls,
        input=one.input + other.input,
        cached=one.cached + other.cached,
        output=one.output + other.output,
        cost=(one.cost or 0) + (other.cost or 0) if is_known else None,
    )


def _day(text: str | None) -> Timestamp | None:
    if text is None:
        return None
    midnight, fault = Timestamp(f"{text}T00:00:00.000Z"), f"{text[:80]!r} is not a day"
    step = "write it like 2026-11-15"
    if not is_instant(midnight):
        raise InvalidOperation(f"{fault}; {step}")
    try:
        # The form alone does not make it a day: there is no 30th of February.
        _after(midnight)
    except (ValueError, OverflowError) as error:
        raise InvalidOperation(f"{fault}; {step}") from error
    return midnight


def _after(midnight: Timestamp) -> Timestamp:
    return instant(unix_ms(midnight) + _DAY_MS)


ROUTES: Final = (
    ApiRoute(
        "GET", "/costs", READ, list_costs,
        "Tokens and money by day, agent, model, project and session.",
        CostsQuery, CostTable,
    ),
)  # fmt: skip
