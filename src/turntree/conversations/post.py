"""Posts of a conversation, and what an agent is told of them.

A post's document is canonical and has a digest, like a message; it can be erased, and the digest
stays. Pure: nothing here knows a database.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from turntree.conversations.conversation import Conversation
from turntree.conversations.mentions import (
    POST_BYTES_MAX,
    POST_LINES_MAX,
    can_be_mentioned,
    check_post,
    write_mention,
)
from turntree.conversations.triage import TriageCandidate, TriageDecision
from turntree.core.canonical import Json, canonical
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, ProgramId, SessionId, Timestamp, TurnId
from turntree.core.message import Message, Source, Text
from turntree.core.value import value

RECIPE: Final = "post/1"
AGENT_TURNS_MAX: Final = 8
"""How many turns agents may take after a person's post, unless the conversation says otherwise."""
REASONS: Final = frozenset({"limit", "budget", "unable"})
"""Why an agent that is mentioned is not woken; see ``address_participants`` of the database."""
TOLD_POSTS_MAX: Final = 200
"""Of more posts that an agent was not told of, it is told the newest."""
TRIAGED_POSTS_MAX: Final = 10
"""Posts before the one that is to be decided, with which a triage agent is told of it."""
TRIAGE: Final = "system:triage"
"""The owner of the agent that decides who answers, and who brings it into conversations."""

NAMED_MAX: Final = 50
"""Of more participants, an agent is told the names of those who came first."""

_TAG: Final = "system-reminder"
_EARLIER_TAG: Final = "earlier-post"
_OUR_TAGS: Final = re.compile(r"(?<=system)[-_](?=reminder)|(?<=earlier)-(?=post)", re.IGNORECASE)

PostKind = Literal["participant", "system"]


@value
class Post:
    """What a participant, or the system, said in a conversation."""

    conversation: ProgramId
    """Where it was said: a fork shows the posts of its parent."""
    seq: int
    id: str
    kind: PostKind
    author: str | None
    """``human:ana`` or ``agent:atlas``; None for the system."""
    content: str | None
    """None if it was erased."""
    digest: Digest
    at: Timestamp
    turn: TurnId | None
    """The turn whose reply it is."""
    turn_digest: Digest | None
    cause: int
    """The post of a person that led to it; its own position if it is that post."""
    hops: int
    """How many turns of agents lie between that post and this one."""
    decision: TriageDecision | None = None
    """Which agents were asked, of a post without a mention, and why."""
    decision_pending: bool = False
    """Whether a triage agent has yet to decide that."""


@value
class PostExplanation:
    """What a post set in motion."""

    conversation: Conversation
    post: Post
    scores: tuple[tuple[str, float], ...]
    """How well each agent fits it, best first, if they were ranked."""
    answers: tuple[Post, ...]
    """The answers that it led to, also those that follow from answers."""


@value
class PostReceipt:
    """A post that was stored, and what it set in motion."""

    conversation: ProgramId
    seq: int
    id: str
    repeated: bool
    """The idempotency key was used before: this is the earlier post."""
    redacted: int
    """Number of secret keys that were redacted before the post was stored."""
    answers: "tuple[AddressedAgent, ...]"
    """The agents that it addresses."""
    absent: tuple[str, ...]
    """Members of the workspace whom it mentions and who do not take part."""
    held_back: tuple[str, ...]
    """Agents that were not addressed; a post of the system says why."""
    decision: TriageDecision | None = None
    """Which agents were asked, if it has no mention and that was decided already."""
    decision_pending: bool = False
    """Whether a triage agent has yet to decide that."""


@value
class AddressedAgent:
    """An agent that has to answer a post."""

    agent: str
    session: SessionId
    run: str
    """The address of the turn to come."""


@value
class PostDraft:
    """A post before it is stored."""

    conversation: ProgramId
    title: str
    content: str
    author: str | None
    """None for the system."""
    charged: str | None
    """The person whose post led to it, who pays for the answers; None for that person's own."""
    cause: int | None = None
    hops: int = 0
    turn: TurnId | None = None
    key: str | None = None
    chain: Sequence[Mapping[str, Json]] | None = None
    """The rights of the author, which travel with the messages to the agents."""


@value
class Introduction:
    """What an agent is told about a conversation when it is addressed for the first time."""

    title: str
    agent: str
    participants: Sequence[tuple[str, str]]
    """Each participant's principal and name."""


def document_of(
    conversation: ProgramId, id: str, author: str | None, content: str, at: Timestamp, nonce: str
) -> str:
    """Return the canonical document of a post; with the nonce, no digest lets its words be guessed.

    Raises:
        InvalidOperation: It says nothing.
    """
    if not content.strip():
        raise InvalidOperation("a post says something")
    document: dict[str, Json] = {
        "at": at,
        "author": author,
        "content": content,
        "conversation": conversation,
        "id": id,
        "nonce": nonce,
        "turntree": RECIPE,
    }
    return canonical(document).decode()


def content_of(body: str) -> str | None:
    """Return the words of a stored post; None if they were erased."""
    document: Mapping[str, Any] = orjson.loads(body)
    content = document.get("content")
    return content if isinstance(content, str) else None


def fit(text: str) -> str:
    """Return an answer as it can be posted: the turn has all of one that is too long."""
    try:
        check_post(text)
    except InvalidOperation:
        cut = text.encode()[: POST_BYTES_MAX // 2].decode(errors="ignore")
        lines = cut.split("\n")[: POST_LINES_MAX // 2]
        quiet = "\n".join(lines).replace("](user:", "] (user:").replace("](agent:", "] (agent:")
        return f"{quiet}\n\n[The rest is in the turn.]"
    return text


def explain(
    held_back: Sequence[tuple[str, str]],
    agent_turns_max: int,
    tokens_daily: int | None,
    said: Sequence[str] = (),
) -> str:
    """Return what the system says about agents that were not woken, each with the reason.

    What ``said`` has, the system said of the same person's post before: nothing of it is repeated.
    """
    reasons = {
        "limit": f"did not answer: agents have taken {agent_turns_max} turns since a person said"
        " something. Any post of a person lets them go on.",
        "budget": f"did not answer: agents have used {tokens_daily} tokens and more for the same"
        " person today. They go on tomorrow, or when the setting agent_tokens_daily is raised.",
        "unable": "did not answer: an agent that is paused or has failed answers again when its"
        " owner says so.",
    }
    assert reasons.keys() == REASONS
    sentences: list[str] = []
    for reason, sentence in reasons.items():
        agents = [agent for agent, became in held_back if became == reason]
        # Whom else a limit stops needs no word: it is the same for all of them.
        is_said = any(sentence in each for each in said)
        if agents and not (is_said and reason != "unable"):
            line = f"{' and '.join(agents)} {sentence}"
            sentences += [] if any(line in each for each in said) else [line]
    return "\n".join(sentences)


def heading_message(heading: Introduction) -> Message:
    """Return what an agent is told first: where it is, with whom, and how to answer.

    It comes as a message and not in the prompt, which all sessions of the agent share.
    """
    others = [
        write_reference(principal, name)
        for principal, name in heading.participants
        if principal != heading.agent
    ]
    more = len(others) - NAMED_MAX
    with_whom = ", ".join(others[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return _note(
        f"You take part in the conversation {heading.title!r} with {with_whom}. Posts that you have"
        " not seen yet follow, each with its number and its author; the last one calls you. Your"
        " reply becomes a post that all of them read. To have a participant answer, write their"
        " mention as it stands above; leave it out if nothing has to be answered."
    )


def post_message(post: Post, name: str, *, is_earlier: bool) -> Message:
    """Return a post as an agent is told of it: its number, its author, and its words.

    ``is_earlier`` says that a later one calls the agent: a title is made of that one.
    """
    words = _without_tag("(erased)" if post.content is None else post.content)
    if is_earlier:
        words = f"<{_EARLIER_TAG}>\n{words}\n</{_EARLIER_TAG}>"
    if post.author is None:
        return _note(f"post {post.seq} by the system", words)
    source: Source = "agent" if post.author.startswith("agent:") else "human"
    return _note(f"post {post.seq} by {write_reference(post.author, name)}", words, source)


def omitted_message(count: int) -> Message:
    """Return what stands for posts that an agent is not told of."""
    return _note(f"{count} earlier posts are left out")


def told_before_message(post: int) -> Message:
    """Return what tells an agent of a post that it was told of when another one addressed it."""
    return _note(f"post {post}, which you have been told of, is to be answered by you too")


def triage_message(
    post: Post,
    names: Mapping[str, str],
    before: Sequence[Post],
    candidates: Sequence[TriageCandidate],
) -> Message:
    """Return what a triage agent is told of a post: the posts before it, and whom it may name."""
    told = [
        post_message(one, names.get(one.author or "", one.author or ""), is_earlier=True)
        for one in before
    ]
    agents = "\n".join(
        f"- {one.agent}: {' '.join(one.description.split())[:500] or one.name}"
        for one in candidates
    )
    asked = _note(
        "The next post has no mention. Decide which of these agents have to answer it, if any:\n"
        + agents
    )
    last = post_message(post, names.get(post.author or "", post.author or ""), is_earlier=False)
    text = "\n\n".join(one.text for one in (*told, asked, last))
    return Message("user", (Text(text),), "human")


def write_reference(principal: str, name: str) -> str:
    """Return the mention of a participant; for a name that no mention can hold, the principal."""
    kind, _, id = principal.partition(":")
    if not can_be_mentioned(id):
        return principal
    return write_mention("user" if kind == "human" else "agent", id, name)


def _note(note: str, words: str = "", source: Source = "event") -> Message:
    """Return a message that begins with a note of ours, which no title is made of.

    No word of a post, and no name, can look like a note or end a post: it would speak for another
    author.
    """
    text = f"<{_TAG}>{_without_tag(note)}</{_TAG}>\n{words}".rstrip("\n")
    return Message("user", (Text(text),), source)


def _without_tag(text: str) -> str:
    return _OUR_TAGS.sub("\N{NON-BREAKING HYPHEN}", text)
