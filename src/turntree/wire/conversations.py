"""Conversations: who takes part, what is said, and what a post sets in motion."""

from turntree.core.value import value


@value
class ConversationDocument:
    """A conversation as a list shows it."""

    id: str
    name: str
    title: str
    owner: str
    state: str
    visibility: str
    posts: int
    """The position of its last post."""
    posted_at: str | None
    participants: int
    is_participant: bool
    """Whether the caller takes part."""
    parent: str | None
    """The conversation that it is a fork of."""
    forked_seq: int | None
    """The last post that it has in common with that one."""
    agent_turns_max: int
    """How many turns agents may take after a person's post."""
    triage: bool
    """Whether a triage agent decides who answers a post without a mention."""


@value
class ParticipantDocument:
    """A person or an agent that takes part."""

    principal: str
    name: str
    added_by: str
    added_at: str
    removed_by: str | None
    removed_at: str | None
    session: str | None
    """The session in which an agent answers, once it was addressed."""
    label: str | None
    is_thinking: bool
    """Whether that session has something to answer."""


@value
class ConversationPage:
    """The conversations that the caller may read, those with the newest posts first."""

    conversations: tuple[ConversationDocument, ...]


@value
class ConversationView:
    """A conversation, and who takes part."""

    conversation: ConversationDocument
    participants: tuple[ParticipantDocument, ...]
    """In the order in which they came."""


@value
class DecisionDocument:
    """Which agents were asked to answer a post without a mention, and why."""

    agents: tuple[str, ...]
    """Their names; none is a decision too."""
    reason: str
    by: str
    """``rules``, ``rank`` or ``model``."""
    turn: str | None
    """The turn that the decision was; null if rules decided while the post was stored."""


@value
class PostDocument:
    """What a participant, or the system, said."""

    conversation: str
    """Where it was said: a fork shows the posts of its parent."""
    seq: int
    id: str
    kind: str
    """``participant`` or ``system``."""
    author: str | None
    content: str | None
    """Null if it was erased."""
    digest: str
    at: str
    turn: str | None
    """The turn whose reply it is."""
    turn_digest: str | None
    cause: int
    """The post of a person that led to it."""
    hops: int
    """How many turns of agents lie between that post and this one."""
    decision: DecisionDocument | None = None
    """Of a person's post without a mention, where the conversation has triage."""
    decision_pending: bool = False
    """Whether that decision has yet to be made."""


@value
class PostPage:
    """Posts, oldest first."""

    posts: tuple[PostDocument, ...]
    earlier: int
    """How many come before these."""


@value
class PostAnswer:
    """An agent that is to answer a post."""

    agent: str
    session: str
    run: str
    """The turn to come."""


@value
class PostOutcome:
    """A post that was stored, and what it set in motion."""

    conversation: str
    seq: int
    id: str
    repeated: bool
    """The key was used before: this is the earlier post."""
    redacted: int
    """Number of secret keys that were redacted before it was stored."""
    answers: tuple[PostAnswer, ...]
    absent: tuple[str, ...]
    """Members whom it mentions and who take no part."""
    held_back: tuple[str, ...]
    """Agents that are not woken; a post of the system says why."""
    decision: DecisionDocument | None = None
    """Who was asked, if it has no mention and rules have decided that."""
    decision_pending: bool = False
    """Whether a triage agent has yet to decide that."""


@value
class AgentScore:
    """How well an agent fits a post."""

    agent: str
    score: float


@value
class PostExplanationDocument:
    """What a post set in motion."""

    conversation: ConversationDocument
    post: PostDocument
    scores: tuple[AgentScore, ...]
    """Best first; empty unless the agents were ranked."""
    answers: tuple[PostDocument, ...]
    """The answers that it led to, also those that follow from answers."""


@value
class PendingRuns:
    """The runs that are still to answer a post, or an answer to it."""

    runs: tuple[str, ...]


@value
class ConversationChange:
    """Whether something changed, or was so before."""

    changed: bool


@value
class MentionSuggestion:
    """A person or an agent that could be mentioned."""

    mention: str
    """The text that mentions them."""
    kind: str
    """``user`` or ``agent``."""
    id: str
    name: str
    is_present: bool


@value
class MentionSuggestions:
    """Whom to suggest, the likeliest first."""

    suggestions: tuple[MentionSuggestion, ...]
