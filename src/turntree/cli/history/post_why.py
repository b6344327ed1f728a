"""Print which agents were asked to answer a post, and why. Pure: it must never query the ledger."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.text import age, clean, cut, wrap_block
from turntree.conversations.mentions import find_mentions

if TYPE_CHECKING:
    from turntree.conversations.post import Post, PostExplanation
    from turntree.core.ids import Timestamp

SCORES_SHOWN_MAX: Final = 5
INDENT: Final = "   "
_METHODS: Final = {
    "rules": "by a rule, while it was posted",
    "rank": "by ranking the agents that take part",
    "model": "by a model",
}


def tell_post_why(terminal: Terminal, found: "PostExplanation", now: "Timestamp") -> None:
    """Print what a post set in motion."""
    if terminal.as_json:
        terminal.document(_document(found))
    else:
        terminal.page(_draw(found, now, terminal))


def _draw(found: "PostExplanation", now: "Timestamp", terminal: Terminal) -> Iterator[str]:
    """Yield the post, then who was asked to answer it, why, and who did."""
    post = found.post
    words = "(erased)" if post.content is None else " ".join(clean(post.content).split())
    head = f"{clean(found.conversation.name)}#{post.seq}"
    shown = cut(words, max(terminal.width - len(head) - 2, 20), ellipsis=terminal.spell("…"))
    yield f"{terminal.paint(head, 'label')}  {shown}"
    for line in _facts(found, now):
        for part in wrap_block(line, terminal.width - len(INDENT)):
            yield f"{INDENT}{part}"


def _document(found: "PostExplanation") -> dict[str, Any]:
    """Return the same in JSON."""
    return {
        "conversation": found.conversation.name,
        "post": asdict(found.post),
        "triage": found.conversation.triage,
        "scores": [{"agent": agent, "score": score} for agent, score in found.scores],
        "answers": [
            {"post": one.seq, "agent": _name(one), "turn": one.turn} for one in found.answers
        ],
    }


def _facts(found: "PostExplanation", now: "Timestamp") -> Iterator[str]:
    post, decision = found.post, found.post.decision
    passed = age(post.at, now)
    ago = "just now" if passed == "now" else f"{passed} ago"
    yield f"{clean(post.author or 'the system')} posted it, {ago}"
    if post.turn is not None:
        yield f"it is the answer of the turn {post.turn} to post {post.cause}"
    elif decision is not None:
        asked = " and ".join(map(clean, decision.agents)) or "no agent"
        yield f"it has no mention, and {asked} was asked: {clean(decision.reason)}"
        turn = "" if decision.turn is None else f", in the turn {decision.turn}"
        yield f"that was decided {_METHODS[decision.by]}{turn}"
    elif post.decision_pending:
        yield "it has no mention, and who answers is being decided"
    elif called := dict.fromkeys(one.id for one in find_mentions(post.content or "") if one.calls):
        yield f"it mentions {' and '.join(map(clean, called))}"
    else:
        triage = "has triage now" if found.conversation.triage else "has no triage"
        yield f"no agent was asked: it mentions none, and the conversation {triage}"
    if found.scores:
        scores = ", ".join(
            f"{clean(agent)} {score:.2f}" for agent, score in found.scores[:SCORES_SHOWN_MAX]
        )
        yield f"how well each agent fits: {scores}"
    for one in found.answers:
        yield f"{_name(one)} answered in post {one.seq}"


def _name(post: "Post") -> str:
    return clean((post.author or "the system").partition(":")[2] or "the system")
