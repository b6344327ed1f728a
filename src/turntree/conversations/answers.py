"""Posts what agents answer, in the transaction that seals their turns."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.conversations import post as posts
from turntree.conversations.post import PostDraft
from turntree.conversations.poster import Poster
from turntree.core.canonical import Json
from turntree.core.ids import ProgramId, TurnId
from turntree.core.message import Message
from turntree.core.principal import Principal
from turntree.core.run import ASSISTANT, agent_of, options_of
from turntree.core.turn import Outcome
from turntree.core.value import value
from turntree.runs.answer import read_failure
from turntree.runs.attempt import Attempt
from turntree.runs.engine import Engine, Wake

FindContext = Callable[[Mapping[str, Json], Mapping[str, Json]], Awaitable[ExecutionContext]]
"""Returns the context of a run, from the data of its start and of its first request."""


@value
class ConversationAnswers:
    """Posts what agents answer. Implements ``AnswerPoster``."""

    poster: Poster
    engine: Engine
    find_context: FindContext

    async def lock(self, attempt: Attempt) -> None:
        """Lock the conversation: before its sessions, as those who post do."""
        store = self.poster.store
        async with store.database.connection() as connection:
            await store.lock(connection, ProgramId(str(_asked(attempt)["id"])))

    async def post(
        self, attempt: Attempt, outcome: Outcome, reply: Sequence[Message]
    ) -> Sequence[Wake]:
        """Post the answer of a turn, or why there is none; return the wake-ups that it owes."""
        asked = _asked(attempt)
        agent = agent_of(attempt.started) or ASSISTANT
        text = reply[-1].text.strip() if outcome == "completed" and reply else ""
        conversation = ProgramId(str(asked["id"]))
        store = self.poster.store
        (found,) = await store.list_conversations(by="", only=conversation)
        turn = TurnId(attempt.run.id)
        draft = PostDraft(
            conversation,
            found.title,
            posts.fit(text) if text else _why(attempt, agent, outcome),
            author=f"agent:{agent}" if text else None,
            charged=str(asked["charged_to"]),
            cause=int(str(asked["cause"])),
            hops=int(str(asked["hops"])) + 1,
            turn=turn,
        )
        if text and attempt.first_request is not None:
            context = await self.find_context(attempt.started, attempt.first_request)
            draft = replace(draft, chain=_shortened(context.chain).to_json())
        most = found.agent_turns_max
        async with store.database.connection() as connection:
            assert attempt.session is not None, "a conversation is answered in a session"
            await store.forget_delivery(connection, attempt.session, turn)
            posted = await self.poster.put(connection, draft, agent_turns_max=most)
        return posted.wakes

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Schedule wake-ups whose sessions are marked as awake already.

        If this process dies before, the next worker finds those sessions without one.
        """
        async with self.engine.transaction() as transaction:
            for session, number in wakes:
                await transaction.wake(session, number)


def _asked(attempt: Attempt) -> Mapping[str, Any]:
    """Return what a run's message says about the post that it answers."""
    return cast("Mapping[str, Any]", options_of(attempt.started)["conversation"])


def _shortened(chain: DelegationChain) -> DelegationChain:
    """Return a chain from the person to the last agent, with the rights that are left there.

    Agents that address each other take turns: named in the chain each time, the second would act on
    its own behalf. Who said what to whom is in the posts.
    """
    root = chain.links[0]
    begun = DelegationChain.begin(Principal(root.kind, root.id), chain.rights)
    last = chain.last
    return begun.delegate(Principal(last.kind, last.id), chain.rights)


def _why(attempt: Attempt, agent: str, outcome: Outcome) -> str:
    """Return why an agent did not answer."""
    if outcome == "completed":
        return f"{agent} had nothing to say."
    for fact in reversed(attempt.facts):
        if fact.event.kind == "run.failed":
            return f"{agent} could not answer: {read_failure(fact.event.data)[0]}"
        if fact.event.kind == "run.interrupted" and fact.event.data.get("reason") == "canceled":
            by = fact.event.data.get("by")
            return f"{agent} was stopped" + ("." if by is None else f" by {by}.")
    return f"{agent} was interrupted."
