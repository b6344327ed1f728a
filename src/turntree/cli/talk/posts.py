"""Print conversations: lists, participants and posts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.text import age, clean, counted, digits, wrap_block
from turntree.conversations.conversation import Conversation, Participant
from turntree.conversations.mentions import MentionTarget, plain_text, show_mentions
from turntree.conversations.post import Post
from turntree.core.ids import Timestamp

INDENT: Final = "   "


def conversation_document(found: Conversation) -> dict[str, Any]:
    """Return a conversation as JSON."""
    return asdict(found)


def post_document(post: Post) -> dict[str, Any]:
    """Return a post as JSON."""
    return asdict(post)


def list_rows(found: Sequence[Conversation], now: Timestamp) -> list[tuple[str, ...]]:
    """Return the rows of a list: name, title, posts, participants, age of the last post."""
    return [
        (
            clean(one.name),
            "" if one.title == one.name else clean(one.title),
            counted(one.posts, "post"),
            counted(one.participants, "participant"),
            ", ".join(
                word
                for word in (
                    one.visibility,
                    "triage" if one.triage else "",
                    "" if one.state == "active" else one.state,
                )
                if word
            ),
            "" if one.posted_at is None else age(one.posted_at, now),
        )
        for one in found
    ]


def participant_rows(present: Sequence[Participant], now: Timestamp) -> list[tuple[str, ...]]:
    """Return a row for each participant: who, whether it thinks, its session, since when."""
    return [
        (
            clean(one.principal),
            "thinking" if one.is_thinking else "",
            clean(one.label or ""),
            age(one.added_at, now),
        )
        for one in present
    ]


def draw_post(post: Post, names: Mapping[str, str], terminal: Terminal) -> Iterator[str]:
    """Yield a post: its number, its author and its turn, then its words."""
    author = post.author or "system"
    name = clean(names.get(author) or author.partition(":")[2] or author)
    turn = "" if post.turn_digest is None else f"   {digits(post.turn_digest)}"
    line = terminal.paint(name, "label") + terminal.paint(f"  {post.seq}{turn}", "dim")
    yield line
    words = "(erased)" if post.content is None else _write_words(post.content, names)
    for part in wrap_block(words, terminal.width - len(INDENT)):
        yield f"{INDENT}{part}".rstrip()
    if (told := _tell_decision(post)) is not None:
        for part in wrap_block(told, terminal.width - len(INDENT)):
            yield terminal.paint(f"{INDENT}{part}", "dim")


def _tell_decision(post: Post) -> str | None:
    """Return which agents were asked, of a post without a mention, and why."""
    if post.decision is None:
        return "(who answers is being decided)" if post.decision_pending else None
    asked = " and ".join(clean(one) for one in post.decision.agents) or "no agent"
    return f"({asked} was asked: {clean(post.decision.reason)})"


def _write_words(content: str, names: Mapping[str, str]) -> str:
    """Return the words of a post with the present names of those whom it mentions."""
    present: dict[MentionTarget, str | None] = {
        ("agent" if kind == "agent" else "user", id): name
        for (kind, _, id), name in ((who.partition(":"), name) for who, name in names.items())
    }
    return plain_text(show_mentions(content, present))
