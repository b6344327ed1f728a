"""Posts what agents answer, in the transaction that seals their turns."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.conversations import post as posts
from turntree.conversations.post import PostDraft
from turntree.conversations.poster import Poster
from turntree.conversations.ranker import AgentRanker
from turntree.conversations.triage import REASON_CHARS_MAX, ROUTE, TriageDecision
from turntree.core.canonical import Json
from turntree.core.ids import ProgramId, TurnId
from turntree.core.message import Message, ToolResult, ToolUse, assistant
from turntree.core.principal import Principal
from turntree.core.run import ASSISTANT, agent_of, options_of
from turntree.core.turn import Outcome
from turntree.core.value import value
from turntree.runs.answer import read_failure
from turntree.runs.attempt import Attempt, Draft
from turntree.runs.engine import Engine, Wake

FindContext = Callable[[Mapping[str, Json], Mapping[str, Json]], Awaitable[ExecutionContext]]
"""Returns the context of a run, from the data of its start and of its first request."""


@value
class ConversationAnswers:
    """Posts what agents answer. Implements ``AnswerPoster``."""

    poster: Poster
    engine: Engine
    find_context: FindContext
    ranker: AgentRanker

    async def lock(self, attempt: Attempt) -> None:
        """Lock the conversation: before its sessions, as those who post do."""
        store = self.poster.store
        async with store.database.connection() as connection:
            await store.lock(connection, ProgramId(str(_asked(attempt)["id"])))

    async def post(
        self, attempt: Attempt, outcome: Outcome, reply: Sequence[Message]
    ) -> Sequence[Wake]:
        """Post the answer of a turn, or why there is none; return the wake-ups that it owes."""
        if (triage := _triage(attempt)) is not None:
            return await self._decide(attempt, outcome, triage)
        asked = _asked(attempt)
        agent = agent_of(attempt.started) or ASSISTANT
        text = reply[-1].text.strip() if outcome == "completed" and reply else ""
        conversation = ProgramId(str(asked["id"]))
        store = self.poster.store
        (found,) = await store.list_conversations(by="", name=conversation)
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

    async def choose(self, attempt: Attempt) -> Draft | None:
        """Return the event that decides a post by ranking the agents; None in any other run.

        Whether it is clear is in its data: if not, a model is asked, where one is configured and
        the person who is charged has tokens left.
        """
        if (triage := _triage(attempt)) is None:
            return None
        asked, store = _asked(attempt), self.poster.store
        seq, charged = int(str(asked["post"])), str(asked["charged_to"])
        conversation = ProgramId(str(asked["id"]))
        async with store.database.connection() as connection:
            (post,) = await store.list_posts(
                conversation, after=seq - 1, before=seq + 1, limit=1, connection=connection
            )
            found = await store.list_triage_candidates(
                conversation, author=str(post.author), charged=charged, connection=connection
            )
            at, most = self.poster.clock.now(), self.poster.tokens_daily
            is_spent = most is not None and most <= await store.tokens_charged(
                connection, charged, at=at
            )
        candidates = [one for one in found if one.agent in triage["candidates"]]
        scores: tuple[tuple[str, float], ...] = ()
        if post.content is None or not candidates:
            gone = "it was erased" if post.content is None else "the agents are gone"
            decision, is_clear = TriageDecision((), gone, "rank"), True
        else:
            ranking = await self.ranker.rank(post.content, candidates)
            decision, is_clear = ranking.decision, ranking.is_clear or is_spent
            scores = ranking.scores
        data: dict[str, Json] = {
            "agents": [*decision.agents],
            "reason": decision.reason,
            "scores": [{"agent": agent, "score": score} for agent, score in scores],
            "is_clear": is_clear,
        }
        words = f"{' and '.join(decision.agents) or 'No agent'}: {decision.reason}."
        return Draft("route.chosen", data, assistant(words))

    async def _decide(
        self, attempt: Attempt, outcome: Outcome, triage: Mapping[str, Any]
    ) -> Sequence[Wake]:
        """Store the decision that a turn was, and ask the agents that it names."""
        asked, store = _asked(attempt), self.poster.store
        conversation, seq = ProgramId(str(asked["id"])), int(str(asked["post"]))
        (found,) = await store.list_conversations(by="", name=conversation)
        decision = _read_decision(attempt, outcome, triage)
        async with store.database.connection() as connection:
            (post,) = await store.list_posts(
                conversation, after=seq - 1, before=seq + 1, limit=1, connection=connection
            )
            if decision.agents and post.content is None:
                decision = replace(decision, agents=(), reason="it was erased")
            elif decision.agents and found.state != "active":
                decision = replace(decision, agents=(), reason=f"the conversation is {found.state}")
            draft = PostDraft(
                conversation, found.title, post.content or "", author=post.author,
                charged=str(asked["charged_to"]), chain=triage["chain"],
            )  # fmt: skip
            decided = await self.poster.decide(
                connection, draft, seq, decision, agent_turns_max=found.agent_turns_max
            )
        return decided.wakes

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


def _triage(attempt: Attempt) -> Mapping[str, Any] | None:
    """Return whom the decision of a run may name; None if it is not one."""
    return cast("Mapping[str, Any] | None", options_of(attempt.started).get("triage"))


def _read_decision(attempt: Attempt, outcome: Outcome, triage: Mapping[str, Any]) -> TriageDecision:
    """Return what a run has decided: by ranking, or in the last call that names agents."""
    turn = str(attempt.run.id)
    for fact in reversed(attempt.facts):
        if fact.event.kind == "route.chosen":
            data: Mapping[str, Any] = fact.event.data
            return TriageDecision(tuple(data["agents"]), data["reason"], "rank", turn)
    reply = attempt.run.reply
    accepted = {
        result.call_id
        for message in reply
        for result in message.tool_results
        if isinstance(result, ToolResult) and result.status == "ok"
    }
    calls = [
        use
        for message in reply
        for use in message.tool_uses
        if isinstance(use, ToolUse) and use.tool == ROUTE and use.call_id in accepted
    ]
    if not calls:
        why = "the model named no agent" if outcome == "completed" else f"deciding was {outcome}"
        return TriageDecision((), why, "model", turn)
    args = cast("Mapping[str, Any]", calls[-1].args)
    named = [one for one in triage["candidates"] if one in args["agents"]]
    return TriageDecision(tuple(named), str(args["reason"])[:REASON_CHARS_MAX], "model", turn)


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
