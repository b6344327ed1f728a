"""Conversations over HTTP: people and agents together."""

from collections.abc import Sequence
from typing import Literal

from turntree.client.connection import HttpConnection
from turntree.core.value import Facet, value
from turntree.wire.conversations import (
    ConversationChange,
    ConversationDocument,
    ConversationPage,
    ConversationView,
    MentionSuggestion,
    MentionSuggestions,
    ParticipantDocument,
    PendingRuns,
    PostDocument,
    PostExplanationDocument,
    PostOutcome,
    PostPage,
)


@value
class ConversationsApi(Facet):
    """The facet ``client.conversations``. A conversation is given by its name or its id."""

    http: HttpConnection

    async def create(
        self,
        name: str,
        *,
        title: str | None = None,
        participants: Sequence[str] = (),
        visibility: Literal["public", "private"] = "private",
        agent_turns_max: int | None = None,
        triage: bool = False,
    ) -> ConversationDocument:
        """Create a conversation; only its participants read a private one.

        With ``triage``, agents may be woken by posts without a mention.

        Raises:
            Conflict: The name is taken.
            NotFound: There is no such agent or member.
            PermissionDenied: An agent may not be used.
        """
        body = {
            "name": name, "title": title, "participants": [*participants],
            "visibility": visibility, "agent_turns_max": agent_turns_max, "triage": triage,
        }  # fmt: skip
        return await self.http.post("/conversations", ConversationDocument, body)

    async def get(self, name: str) -> ConversationDocument:
        """Return a conversation.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        return (
            await self.http.get(
                "/conversations/{conversation}", ConversationView, conversation=name
            )
        ).conversation

    async def set_state(self, conversation: str, state: str) -> ConversationDocument:
        """Archive or delete a conversation, or make it active again; it stays readable.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller did not create it.
        """
        return await self.http.post(
            "/conversations/{conversation}/state", ConversationDocument, {"state": state},
            conversation=conversation,
        )  # fmt: skip

    async def set_triage(self, conversation: str, *, on: bool) -> ConversationDocument:
        """Have a triage agent decide who answers posts without a mention, or no longer.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller did not create it.
        """
        return await self.http.post(
            "/conversations/{conversation}/triage",
            ConversationDocument,
            {"on": on},
            conversation=conversation,
        )

    async def list_all(self, *, archived: bool = False) -> tuple[ConversationDocument, ...]:
        """Return the conversations that may be read, those with the newest posts first."""
        query = {"archived": archived}
        return (await self.http.get("/conversations", ConversationPage, query)).conversations

    async def post(self, conversation: str, text: str, *, key: str | None = None) -> PostOutcome:
        """Say something in a conversation, and return at once; a mention wakes an agent.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller does not take part.
            InvalidOperation: The post says nothing or too much, or the conversation is archived.
        """
        return await self.http.post(
            "/conversations/{conversation}/posts", PostOutcome, {"text": text},
            conversation=conversation, idempotency_key=key,
        )  # fmt: skip

    async def list_posts(
        self, conversation: str, *, after: int = 0, before: int | None = None, limit: int = 50
    ) -> tuple[PostDocument, ...]:
        """Return the newest posts between two positions, oldest first.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        query = {"after": after, "before": before, "limit": limit}
        page = await self.http.get(
            "/conversations/{conversation}/posts", PostPage, query, conversation=conversation
        )
        return page.posts

    async def explain(self, conversation: str, number: int) -> PostExplanationDocument:
        """Return a post with what it set in motion: the decision, its scores and the answers.

        Raises:
            NotFound: There is no such conversation, or it is hidden, or no such post.
        """
        return await self.http.get(
            "/conversations/{conversation}/posts/{post}/explanation",
            PostExplanationDocument,
            conversation=conversation,
            post=str(number),
        )

    async def list_pending(self, conversation: str, post: int) -> tuple[str, ...]:
        """Return the runs that are still to answer a person's post, or an answer to it.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        pending = await self.http.get(
            "/conversations/{conversation}/posts/{post}/runs",
            PendingRuns,
            conversation=conversation,
            post=str(post),
        )
        return pending.runs

    async def suggest(
        self, conversation: str, typed: str = "", *, limit: int = 8
    ) -> tuple[MentionSuggestion, ...]:
        """Return whom to suggest for a mention, after what is typed of a name.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        query = {"typed": typed, "limit": limit}
        found = await self.http.get(
            "/conversations/{conversation}/suggestions",
            MentionSuggestions,
            query,
            conversation=conversation,
        )
        return found.suggestions

    async def list_participants(
        self, conversation: str, *, all: bool = False
    ) -> tuple[ParticipantDocument, ...]:
        """Return who takes part, in the order in which they came; with ``all``, who did too.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
        query = {"past": all}
        found = await self.http.get(
            "/conversations/{conversation}", ConversationView, query, conversation=conversation
        )
        return found.participants

    async def add(self, conversation: str, participant: str) -> bool:
        """Add a person or an agent; False if it takes part already.

        Raises:
            NotFound: There is no such conversation, agent or member.
            PermissionDenied: Only participants add others, and only agents that they may invoke.
        """
        body = {"participant": participant}
        done = await self.http.post(
            "/conversations/{conversation}/participants",
            ConversationChange,
            body,
            conversation=conversation,
        )
        return done.changed

    async def remove(self, conversation: str, participant: str) -> None:
        """Remove a participant, who reads nothing more: no post, no session and no fork.

        Raises:
            NotFound: There is no such conversation or participant.
            PermissionDenied: The caller may not remove it.
            InvalidOperation: The creator and system agents stay.
        """
        body = {"participant": participant}
        await self.http.post(
            "/conversations/{conversation}/participants/remove",
            ConversationChange,
            body,
            conversation=conversation,
        )

    async def leave(self, conversation: str) -> None:
        """Take part no longer.

        Raises:
            NotFound: There is no such conversation.
            InvalidOperation: The creator stays.
        """
        await self.http.post(
            "/conversations/{conversation}/participants/remove",
            ConversationChange,
            {},
            conversation=conversation,
        )

    async def fork(
        self, conversation: str, *, at: int | None = None, name: str | None = None
    ) -> ConversationDocument:
        """Fork a conversation at one of its posts, by default the last; nothing is copied.

        Raises:
            NotFound: There is no such conversation or post.
            Conflict: The name is taken.
        """
        body = {"at": at, "name": name}
        return await self.http.post(
            "/conversations/{conversation}/fork",
            ConversationDocument,
            body,
            conversation=conversation,
        )

    async def erase(self, conversation: str, post: int, *, reason: str) -> bool:
        """Erase a post for good, also where agents were told of it; False if it was before.

        Raises:
            NotFound: There is no such conversation or post.
            PermissionDenied: The caller neither wrote it nor created the conversation.
            Conflict: An agent is being told of it: try again when its turn has ended.
        """
        done = await self.http.post(
            "/conversations/{conversation}/posts/{post}/erase", ConversationChange,
            {"reason": reason}, conversation=conversation, post=str(post),
        )  # fmt: skip
        return done.changed
