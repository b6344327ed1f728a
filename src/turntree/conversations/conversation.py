"""Conversations, and who takes part in them: values."""

from typing import Literal

from turntree.core.ids import ProgramId, SessionId, Timestamp
from turntree.core.program import Visibility
from turntree.core.value import value

Became = Literal["addressed", "limit", "budget", "unable", "person", "absent"]
"""What became of a mention; see the function ``address_participants`` of the database."""


@value
class Conversation:
    """A conversation as a list shows it."""

    id: ProgramId
    name: str
    title: str
    owner: str
    state: str
    visibility: Visibility
    posts: int
    """Its number of posts, those before its fork included."""
    posted_at: Timestamp | None
    participants: int
    is_participant: bool
    """Whether the viewer takes part."""
    parent: ProgramId | None
    """The conversation that it is a fork of."""
    forked_seq: int | None
    agent_turns_max: int
    """How many turns agents may take after a person's post."""
    triage: bool = False
    """Whether a triage agent decides who answers a post without a mention."""


@value
class MentionOutcome:
    """What became of one mention of a post."""

    became: Became
    principal: str
    session: SessionId | None
    told_seq: int | None
    is_new: bool
    """The agent is addressed for the first time."""


@value
class Participant:
    """A person or an agent that takes part in a conversation, or did."""

    principal: str
    """``human:ana`` or ``agent:atlas``."""
    name: str
    """As it is shown."""
    added_by: str
    added_at: Timestamp
    removed_by: str | None
    removed_at: Timestamp | None
    session: SessionId | None
    """The session in which an agent answers, once it was addressed."""
    label: str | None
    """The label of that session."""
    is_thinking: bool
    """Whether that session has something to answer; derived, so that no crash leaves it on."""
