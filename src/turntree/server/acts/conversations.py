"""Create conversations, say something in them, and say who takes part."""

from dataclasses import asdict
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from turntree.core.value import value
from turntree.server.access.rights import CONFIGURE, CREATE, INVOKE
from turntree.server.context import ServerContext
from turntree.server.idempotency import KEY_CHARS_MAX
from turntree.server.reads.conversations import (
    NAME_CHARS_MAX,
    NUMBER_MAX,
    ConversationName,
    PostNumber,
    conversation_document,
    decision_document,
)
from turntree.server.route import ApiRoute
from turntree.wire.conversations import (
    ConversationChange,
    ConversationDocument,
    PostAnswer,
    PostOutcome,
)

TEXT_CHARS_MAX: Final = 500_000
PARTICIPANTS_MAX: Final = 100
AGENT_TURNS_MAX: Final = 1_000
Name = Annotated[str, MinLen(1), MaxLen(NAME_CHARS_MAX)]


@value
class CreateConversation:
    """A conversation to create."""

    name: Name
    title: Annotated[str, MinLen(1), MaxLen(NAME_CHARS_MAX)] | None = None
    participants: Annotated[tuple[Name, ...], MaxLen(PARTICIPANTS_MAX)] = ()
    """People and agents, by name or as ``human:ana`` and ``agent:atlas``."""
    visibility: Literal["public", "private"] = "private"
    agent_turns_max: Annotated[int, Ge(0), Le(AGENT_TURNS_MAX)] | None = None
    """How many turns agents may take after a person's post."""
    triage: bool = False
    """Whether a triage agent decides who answers a post without a mention."""


@value
class StateAct:
    """The state that a conversation is to have."""

    conversation: ConversationName
    state: Literal["active", "archived", "deleted"]


@value
class TriageAct:
    """Whether a triage agent is to decide who answers posts without a mention."""

    conversation: ConversationName
    on: bool


@value
class PostAct:
    """Something to say."""

    conversation: ConversationName
    text: Annotated[str, MinLen(1), MaxLen(TEXT_CHARS_MAX)]
    """``@[Atlas](agent:atlas)`` addresses an agent, ``@[Ana](user:ana)`` a person."""
    idempotency_key: Annotated[str, MinLen(1), MaxLen(KEY_CHARS_MAX)]


@value
class ParticipantAct:
    """A person or an agent to add."""

    conversation: ConversationName
    participant: Name


@value
class RemovalAct:
    """A person or an agent to remove."""

    conversation: ConversationName
    participant: Name | None = None
    """Without it the caller leaves."""


@value
class ForkConversation:
    """A conversation to fork at one of its posts."""

    conversation: ConversationName
    name: Name | None = None
    at: Annotated[int, Ge(0), Le(NUMBER_MAX)] | None = None
    """A post; without it, the last."""


@value
class ErasePost:
    """A post to erase."""

    conversation: ConversationName
    post: PostNumber
    reason: Annotated[str, MinLen(1), MaxLen(1_000)] = "asked for"


async def create_conversation(
    context: ServerContext, act: CreateConversation
) -> ConversationDocument:
    """Create a conversation.

    Raises:
        Conflict: The name is taken.
        NotFound: There is no such agent or member.
        PermissionDenied: The caller may not use an agent.
    """
    made = await context.tree.conversations.create(
        act.name, title=act.title, participants=act.participants, visibility=act.visibility,
        agent_turns_max=act.agent_turns_max, triage=act.triage,
    )  # fmt: skip
    return conversation_document(made)


async def set_state(context: ServerContext, act: StateAct) -> ConversationDocument:
    """Archive or delete a conversation, or make it active again.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
        PermissionDenied: The caller did not create it.
    """
    changed = await context.tree.conversations.set_state(act.conversation, act.state)
    return conversation_document(changed)


async def set_triage(context: ServerContext, act: TriageAct) -> ConversationDocument:
    """Have a triage agent decide who answers posts without a mention, or no longer.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
        PermissionDenied: The caller did not create it.
    """
    changed = await context.tree.conversations.set_triage(act.conversation, on=act.on)
    return conversation_document(changed)


async def post(context: ServerContext, act: PostAct) -> PostOutcome:
    """Say something in a conversation, and return at once.

    Raises:
        NotFound: There is no such conversation, or it is hidden.
        PermissionDenied: The caller does not take part.
        InvalidOperation: The post says nothing or too much, or the conversation is archived.
    """
    said = await context.tree.conversations.post(
        act.conversation, act.text, key=act.idempotency_key
    )
    return PostOutcome(
        said.conversation, said.seq, said.id, said.repeated, said.redacted,
        tuple(PostAnswer(**asdict(one)) for one in said.answers), said.absent, said.held_back,
        decision_document(said.decision), said.decision_pending,
    )  # fmt: skip


async def add_participant(context: ServerContext, act: ParticipantAct) -> ConversationChange:
    """Add a person or an agent.

    Raises:
        NotFound: There is no such conversation, agent or member.
        PermissionDenied: The caller does not take part, or may not use the agent.
    """
    return ConversationChange(
        await context.tree.conversations.add(act.conversation, act.participant)
    )


async def remove_participant(context: ServerContext, act: RemovalAct) -> ConversationChange:
    """Remove a person or an agent, who reads nothing more; or leave.

    Raises:
        NotFound: There is no such conversation or participant.
        PermissionDenied: The caller may not remove it.
        InvalidOperation: It is the creator or a system agent.
    """
    facet = context.tree.conversations
    if act.participant is None:
        await facet.leave(act.conversation)
    else:
        await facet.remove(act.conversation, act.participant)
    return ConversationChange(changed=True)


async def fork_conversation(context: ServerContext, act: ForkConversation) -> ConversationDocument:
    """Fork a conversation; its agents go on from there.

    Raises:
        NotFound: There is no such conversation or post.
        Conflict: The name is taken.
    """
    made = await context.tree.conversations.fork(act.conversation, at=act.at, name=act.name)
    return conversation_document(made)


async def erase_post(context: ServerContext, act: ErasePost) -> ConversationChange:
    """Erase a post for good, also where agents were told of it.

    Raises:
        NotFound: There is no such conversation or post.
        PermissionDenied: The caller neither wrote it nor created the conversation.
        Conflict: An agent is being told of it.
    """
    return ConversationChange(
        await context.tree.conversations.erase(act.conversation, act.post, reason=act.reason)
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/conversations", CREATE, create_conversation, "Create a conversation.",
        CreateConversation, ConversationDocument, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/state", CONFIGURE, set_state,
        "Archive, delete or restore a conversation.", StateAct, ConversationDocument, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/triage", CONFIGURE, set_triage,
        "Have posts without a mention decided, or not.", TriageAct, ConversationDocument, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/posts", INVOKE, post, "Say something.",
        PostAct, PostOutcome, "write", headers=("idempotency_key",),
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/participants", INVOKE, add_participant,
        "Add a participant.", ParticipantAct, ConversationChange, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/participants/remove", INVOKE, remove_participant,
        "Remove a participant, or leave.", RemovalAct, ConversationChange, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/fork", CREATE, fork_conversation,
        "Fork a conversation.", ForkConversation, ConversationDocument, "write",
    ),
    ApiRoute(
        "POST", "/conversations/{conversation}/posts/{post}/erase", CONFIGURE, erase_post,
        "Erase a post.", ErasePost, ConversationChange, "write",
    ),
)  # fmt: skip
