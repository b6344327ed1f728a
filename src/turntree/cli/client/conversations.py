"""Conversations over a server, with the verbs and the values that the commands know."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from turntree.cli.client.dispatch import choose_hint, refusal
from turntree.cli.client.opened import OpenServer, on_server
from turntree.cli.command import Terminal
from turntree.cli.hints import command_hint
from turntree.cli.history.post_why import tell_post_why
from turntree.cli.history.why import POST
from turntree.cli.talk.conversation import (
    PostAnswers,
    is_awaited,
    note_post,
    read_answers,
    tell_answers,
    tell_posted,
    write_post,
)
from turntree.client.conversations import ConversationsApi
from turntree.conversations.conversation import Conversation, Participant
from turntree.conversations.post import AddressedAgent, Post, PostExplanation, PostReceipt
from turntree.conversations.suggestions import MentionCandidate
from turntree.conversations.triage import TriageDecision, read_decision
from turntree.core.errors import NotFound, TurntreeError
from turntree.core.ids import RunId, Timestamp
from turntree.core.program import Visibility
from turntree.core.value import value
from turntree.wire.conversations import DecisionDocument, PostDocument

T = TypeVar("T")


@value
class ServedConversations:
    """What ``tree.conversations`` does, done by a server."""

    api: ConversationsApi

    async def create(
        self,
        name: str,
        *,
        title: str | None = None,
        participants: Sequence[str] = (),
        visibility: Visibility = "private",
        agent_turns_max: int | None = None,
        triage: bool = False,
    ) -> Conversation:
        """Create a conversation."""
        made = await self.api.create(
            name, title=title, participants=participants, visibility=visibility,
            agent_turns_max=agent_turns_max, triage=triage,
        )  # fmt: skip
        return _read(Conversation, made)

    async def get(self, name: str) -> Conversation:
        """Return a conversation."""
        return _read(Conversation, await self.api.get(name))

    async def set_state(self, conversation: str, state: str) -> Conversation:
        """Archive or delete a conversation, or make it active again."""
        return _read(Conversation, await self.api.set_state(conversation, state))

    async def set_triage(self, conversation: str, *, on: bool) -> Conversation:
        """Have a triage agent decide who answers posts without a mention, or no longer."""
        return _read(Conversation, await self.api.set_triage(conversation, on=on))

    async def list_all(self, *, archived: bool = False) -> list[Conversation]:
        """Return the conversations that may be read."""
        return [_read(Conversation, one) for one in await self.api.list_all(archived=archived)]

    async def post(self, conversation: str, text: str, *, key: str | None = None) -> PostReceipt:
        """Say something, and return at once."""
        said = await self.api.post(conversation, text, key=key)
        answers = tuple(_read(AddressedAgent, one) for one in said.answers)
        decision = _read_decision(said.decision)
        fields: dict[str, Any] = {**asdict(said), "answers": answers, "decision": decision}
        return PostReceipt(**fields)

    async def list_posts(
        self, conversation: str, *, after: int = 0, before: int | None = None, limit: int = 50
    ) -> list[Post]:
        """Return the newest posts between two positions, oldest first."""
        found = await self.api.list_posts(conversation, after=after, before=before, limit=limit)
        return [_read_post(one) for one in found]

    async def explain(self, conversation: str, number: int) -> PostExplanation:
        """Return a post with what it set in motion."""
        found = await self.api.explain(conversation, number)
        return PostExplanation(
            _read(Conversation, found.conversation),
            _read_post(found.post),
            tuple((one.agent, one.score) for one in found.scores),
            tuple(map(_read_post, found.answers)),
        )

    async def list_pending(self, conversation: str, post: int) -> list[RunId]:
        """Return the runs that are still to answer a post."""
        return [RunId(run) for run in await self.api.list_pending(conversation, post)]

    async def suggest(
        self, conversation: str, typed: str = "", *, limit: int = 8
    ) -> tuple[MentionCandidate, ...]:
        """Return whom to suggest for a mention."""
        found = await self.api.suggest(conversation, typed, limit=limit)
        return tuple(
            MentionCandidate(
                "agent" if one.kind == "agent" else "user", one.id, one.name, "active",
                may_invoke=True, is_present=one.is_present,
            )
            for one in found
        )  # fmt: skip

    async def list_participants(self, conversation: str, *, all: bool = False) -> list[Participant]:
        """Return who takes part."""
        found = await self.api.list_participants(conversation, all=all)
        return [_read(Participant, one) for one in found]

    async def add(self, conversation: str, participant: str) -> bool:
        """Add a person or an agent."""
        return await self.api.add(conversation, participant)

    async def remove(self, conversation: str, participant: str) -> None:
        """Remove a participant."""
        await self.api.remove(conversation, participant)

    async def leave(self, conversation: str) -> None:
        """Take part no longer."""
        await self.api.leave(conversation)

    async def fork(
        self, conversation: str, *, at: int | None = None, name: str | None = None
    ) -> Conversation:
        """Fork a conversation."""
        return _read(Conversation, await self.api.fork(conversation, at=at, name=name))

    async def erase(self, conversation: str, post: int, *, reason: str) -> bool:
        """Erase a post for good."""
        return await self.api.erase(conversation, post, reason=reason)


def call_served(terminal: Terminal, act: Callable[[Any, Timestamp], Awaitable[T]]) -> T:
    """Run one call on the conversations of the server of a command."""
    try:
        return on_server(
            terminal,
            lambda opened: act(ServedConversations(opened.client.conversations), opened.now),
        )
    except NotFound as error:
        error.hint = command_hint(terminal.address("turntree conversation list"))
        raise
    except TurntreeError as error:
        error.hint = choose_hint(error, terminal)
        raise


def post(
    terminal: Terminal, *, name: str, text: str, to: tuple[str, ...], key: str | None, wait: bool
) -> None:
    """Say something on a server, whose workers answer."""

    async def act(opened: OpenServer) -> tuple[PostReceipt, PostAnswers]:
        # The commands know the facet of a tree, whose verbs these are.
        talk: Any = ServedConversations(opened.client.conversations)
        posted = await talk.post(name, await write_post(talk, name, text, to), key=key)
        while wait and is_awaited(posted) and (runs := await talk.list_pending(name, posted.seq)):
            for run in runs:
                # Of one that was canceled before it began there is no turn.
                with suppress(NotFound):
                    await opened.client.runs.wait(run)
        return posted, await read_answers(talk, name, posted)

    posted, answers = on_server(terminal, act)
    note_post(terminal, name, posted)
    if wait and is_awaited(posted):
        tell_answers(terminal, name, posted, answers)
    else:
        tell_posted(terminal, name, posted)


def why(terminal: Terminal, *, revision: str) -> None:
    """Show what a post on a server set in motion."""
    if (post := POST.fullmatch(revision)) is None:
        raise refusal("why of a turn")

    async def act(talk: Any, now: Timestamp) -> tuple[PostExplanation, Timestamp]:
        return await talk.explain(post[1], int(post[2])), now

    tell_post_why(terminal, *call_served(terminal, act))


def _read_decision(document: DecisionDocument | None) -> TriageDecision | None:
    return None if document is None else read_decision(asdict(document))


def _read_post(document: PostDocument) -> Post:
    fields: dict[str, Any] = {
        **asdict(document), "decision": _read_decision(document.decision),
    }  # fmt: skip
    return Post(**fields)


def _read(kind: Callable[..., T], document: Any) -> T:
    """Return a document as the value with the same fields."""
    return kind(**asdict(document))
