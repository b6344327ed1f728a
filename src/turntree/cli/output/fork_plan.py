"""Print fork plans: what would happen to each resource, and its cost. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.cli.command import Paint, Terminal
from turntree.cli.output.changes import shown_path, shown_size
from turntree.cli.output.text import clean, counted, digits, table, title
from turntree.core.ids import Digest, TurnId
from turntree.resources.plans.fork import ForkItem, ForkPlan
from turntree.resources.plans.steps import ShareMode

_PAINTS: Final[Mapping[ShareMode, Paint]] = {"keep": "warn", "snapshot": "good", "discard": "dim"}


def draw_fork(
    plan: ForkPlan, digests: Mapping[TurnId, Digest], terminal: Terminal
) -> Iterator[str]:
    """Yield what a fork would do, one line per resource."""
    turn = plan.turn.turn
    of = "" if plan.source is None else f" of {clean(plan.source.label)}"
    new = "" if plan.label is None else f", as {clean(plan.label)}"
    yield f"a fork{of} at {terminal.paint(digits(turn.digest), 'strong')} {title(turn)}{new}"
    rows = [
        (
            item.mode,
            clean(item.resource.name),
            _fate(item, plan),
            _cost(item),
            _state(item, digests),
        )
        for item in plan.items
    ]
    for item, line in zip(plan.items, table(rows), strict=True):
        mode = terminal.paint(item.mode, _PAINTS[item.mode])
        yield f"  {mode}{line[len(item.mode) :]}"
    if not plan.items:
        yield "  no files belong to it: only the session begins"


def fork_document(plan: ForkPlan) -> dict[str, Any]:
    """Return a fork's plan as a JSON document."""
    return {
        "plan": plan.plan.id,
        "turn": plan.turn.turn.id,
        "digest": plan.turn.turn.digest,
        "source": None if plan.source is None else plan.source.label,
        "label": plan.label,
        "session": plan.session,
        "resources": [_item_document(item) for item in plan.items],
    }


def _item_document(item: ForkItem) -> dict[str, Any]:
    cost = item.cost
    return {
        "resource": item.resource.id,
        "kind": item.resource.kind,
        "name": item.resource.name,
        "place": shown_path(item.resource.place),
        "mode": item.mode,
        "kept_by": item.kept_by,
        "snapshot": None if item.snapshot is None else item.snapshot.id,
        "pinned_by": item.pinned_by,
        "new_place": None if item.place is None else shown_path(item.place),
        "size": None if cost is None else cost.size,
        "files": None if cost is None else cost.files,
        "to_write": None if cost is None else cost.to_write,
    }


def _fate(item: ForkItem, plan: ForkPlan) -> str:
    match item.mode:
        case "snapshot":
            return shown_path(item.place or "")
        case "keep" if item.kept_by == plan.session:
            return f"{clean(plan.label or '')} takes it; {_source(plan)} does without"
        case "keep":
            return f"{_source(plan)} keeps it; {clean(plan.label or 'the fork')} does without"
        case "discard":
            return f"{clean(plan.label or 'the fork')} does without"


def _source(plan: ForkPlan) -> str:
    return "the fork's source" if plan.source is None else clean(plan.source.label)


def _cost(item: ForkItem) -> str:
    if item.cost is None:
        return ""
    writes = f"{shown_size(item.cost.to_write)} to write"
    return f"{counted(item.cost.files, 'file')}, {shown_size(item.cost.size)}, {writes}"


def _state(item: ForkItem, digests: Mapping[TurnId, Digest]) -> str:
    if item.mode != "snapshot":
        return ""
    if item.pinned_by is None:
        return "as it is now: no turn pinned it"
    return f"as {digits(digests[item.pinned_by])} left it"
