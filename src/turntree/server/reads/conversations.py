"""``/conversations``: who takes part, what is said, and whom to mention."""

from dataclasses import asdict
from typing import Annotated, Any, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.conversations.conversation import Conversation, Participant
from turntree.conversations.mentions import write_mention
from turntree.conversations.post import Post
from turntree.conversations.suggestions import SUGGESTIONS_MAX, TYPED_CHARS_MAX
from turntree.conversations.triage import TriageDecision
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.wire.conversations import (
    AgentScore,
    ConversationDocument,
    ConversationPage,
    ConversationView,
    DecisionDocument,
    MentionSuggestion,
    MentionSuggestions,
    ParticipantDocument,
    PendingRuns,
    PostDocument,
    PostExplanationDocument,
    PostPage,
)

POSTS_DEFAULT: Final = 50
POSTS_MAX: Final = 500
NUMBER_MAX: Final = 2**31 - 2
NAME_CHARS_MAX: Final = 300
ConversationName = Annotated[str, MinLen(1), MaxLen(NAME_CHARS_MAX)]
"""Its name or its id."""
PostNumber = Annotated[int, Ge(1), Le(NUMBER_MAX)]


@value
class ConversationsQuery:
    """Which conversations."""

    archived: bool = False
    """Archived ones too."""


@value
class ConversationQuery:
    """One conversation."""

    conversation: ConversationName
    past: bool = False
    """Whether participants who were removed are listed too."""


@value
class PostsQuery:
    """Which posts: the newest between two."""

    conversation: ConversationName
    after: Annotated[int, Ge(0), Le(NUMBER_MAX)] = 0
    before: PostNumber | None = None
    limit: Annotated[int, Ge(1), Le(POSTS_MAX)] = POSTS_DEFAULT


@value
class PendingQuery:
    """A post of a person."""

    conversation: ConversationName
    post: PostNumber


@value
class SuggestionsQuery:
    """What is typed after the ``@``."""

    conversation: ConversationName
    typed: Annotated[str, MaxLen(TYPED_CHARS_MAX)] = ""
    limit: Annotated[int, Ge(1), Le(50)] = SUGGESTIONS_MAX


async def list_conversations(context: ServerContext, asked: ConversationsQuery) -> ConversationPage:
    """Return the conversations that the caller may read."""
    found = await context.tree.conversations.list_all(archived=asked.archived)
    return ConversationPage(tuple(map(conversation_document, found)))


async def get_conversation(context: ServerContext, asked: ConversationQuery) -> ConversationView:
    """Return a conversation with its participants.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
    """
    facet = context.tree.conversations
    found = await facet.get(asked.conversation)
    present = await facet.list_participants(found.id, all=asked.past)
    return ConversationView(conversation_document(found), tuple(map(_participant, present)))


async def list_posts(context: ServerContext, asked: PostsQuery) -> PostPage:
    """Return posts, oldest first.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
    """
    found = await context.tree.conversations.list_posts(
        asked.conversation, after=asked.after, before=asked.before, limit=asked.limit
    )
    return PostPage(tuple(map(post_document, found)), found[0].seq - 1 if found else 0)


async def explain_post(context: ServerContext, asked: PendingQuery) -> PostExplanationDocument:
    """Return a post with the decision about it, the scores of that, and the answers.

    Raises:
        NotFound: There is no such conversation, or it is hidden, or no such post.
    """
    found = await context.tree.conversations.explain(asked.conversation, asked.post)
    return PostExplanationDocument(
        conversation_document(found.conversation),
        post_document(found.post),
        tuple(AgentScore(agent, score) for agent, score in found.scores),
        tuple(map(post_document, found.answers)),
    )


async def list_pending(context: ServerContext, asked: PendingQuery) -> PendingRuns:
    """Return the runs that are still to answer a post, or an answer to it.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
    """
    runs = await context.tree.conversations.list_pending(asked.conversation, asked.post)
    return PendingRuns(tuple(map(str, runs)))


async def suggest_mentions(context: ServerContext, asked: SuggestionsQuery) -> MentionSuggestions:
    """Return whom the caller may mean.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
    """
    found = await context.tree.conversations.suggest(
        asked.conversation, asked.typed, limit=asked.limit
    )
    return MentionSuggestions(
        tuple(
            MentionSuggestion(
                write_mention(one.kind, one.id, one.name), one.kind, one.id, one.name,
                one.is_present,
            )
            for one in found
        )
    )  # fmt: skip


def conversation_document(found: Conversation) -> ConversationDocument:
    """Return a conversation as it is answered."""
    return ConversationDocument(**asdict(found))


def post_document(post: Post) -> PostDocument:
    """Return a post as it is answered."""
    fields: dict[str, Any] = {**asdict(post), "decision": decision_document(post.decision)}
    return PostDocument(**fields)


def decision_document(decision: TriageDecision | None) -> DecisionDocument | None:
    """Return a decision as it is answered."""
    return None if decision is None else DecisionDocument(**asdict(decision))


def _participant(one: Participant) -> ParticipantDocument:
    return ParticipantDocument(**asdict(one))


ROUTES: Final = (
    ApiRoute(
        "GET", "/conversations", READ, list_conversations, "List conversations.",
        ConversationsQuery, ConversationPage,
    ),
    ApiRoute(
        "GET", "/conversations/{conversation}", READ, get_conversation,
        "A conversation and its participants.", ConversationQuery, ConversationView,
    ),
    ApiRoute(
        "GET", "/conversations/{conversation}/posts", READ, list_posts, "What was said.",
        PostsQuery, PostPage,
    ),
    ApiRoute(
        "GET", "/conversations/{conversation}/posts/{post}/explanation", READ, explain_post,
        "What a post set in motion, and why.", PendingQuery, PostExplanationDocument,
    ),
    ApiRoute(
        "GET", "/conversations/{conversation}/posts/{post}/runs", READ, list_pending,
        "What is still to answer a post.", PendingQuery, PendingRuns,
    ),
    ApiRoute(
        "GET", "/conversations/{conversation}/suggestions", READ, suggest_mentions,
        "Whom to mention.", SuggestionsQuery, MentionSuggestions,
    ),
)  # fmt: skip
