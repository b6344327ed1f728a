"""Compactions that a run makes: what a model is asked, what is covered, and what it saves.

A compaction is an ordinary run: the query asks for a summary, and the reply is the summary. Its
first request records which turns are covered, so that every worker, and a replay, seals the same
turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.message import Message, ObjectRef, Text
from turntree.models.context_window import ContextWindow
from turntree.models.messages import PromptShares, cost_of_turn, show_turn
from turntree.models.token_estimate import estimate_messages

KEEP_TURNS: Final = 2
KEEP_TURNS_MAX: Final = 32
"""A context reads at least this many turns, however long they are."""
QUERY: Final = """\
Summarize this conversation up to here. From now on your summary stands in for its earlier turns, \
so keep what is needed to continue: what was asked for, what was decided and why, what was done to \
which files and with which results, and what is still open. Keep names, numbers, paths and quotes \
exact. Reply with the summary alone."""
_FOCUS: Final = "\n\nKeep above all: "


def compaction_query(focus: str | None) -> str:
    """Return the message that asks for a summary; ``focus`` is what matters most."""
    return QUERY if focus is None or not focus.strip() else f"{QUERY}{_FOCUS}{focus.strip()}"


def plan_compaction(view: ContextWindow, shares: PromptShares, keep: int) -> dict[str, Json] | None:
    """Return which turns a summary covers, as the request records it; None if there are none."""
    summary = view.summary
    before = 0 if summary is None else summary.depth
    fresh = [entry for entry in view.turns if entry.depth > before]
    if len(fresh) <= keep:
        return None
    covered, kept = fresh[: len(fresh) - keep], fresh[len(fresh) - keep :]
    # An earlier summary is covered too, with the turns that it kept.
    low = view.first if summary is None else min(view.first, summary.depth)
    costs = [cost_of_turn(entry.turn, shares) for entry in view.turns]
    told = 0 if summary is None else estimate_messages(show_turn(summary.turn))
    return {
        "summarized_through": covered[-1].turn.id,
        "first_kept": kept[0].turn.id if kept else None,
        "turns_summarized": covered[-1].depth - low + 1,
        "tokens_before": told + min(shares.thread, sum(costs)),
        "tokens_kept": sum(costs[len(costs) - keep :]) if keep else 0,
    }


def finish_compaction(
    planned: Mapping[str, Any], reply: Sequence[Message], duration_ms: int
) -> Compaction | None:
    """Return the details of a compaction; None if the model replied without a text."""
    words = [
        part
        for message in reply
        for part in message.parts
        if (isinstance(part, Text) and part.text.strip())
        or (isinstance(part, ObjectRef) and part.of == "text")
    ]
    if not words:
        return None
    summary_tokens = estimate_messages([Message("user", tuple(words))])
    return replace(
        Compaction.from_json(planned),
        tokens_after=planned["tokens_kept"] + summary_tokens,
        summary_tokens=summary_tokens,
        duration_ms=duration_ms,
    )
