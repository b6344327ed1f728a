"""Stores a post and sets in motion what follows from it, in one transaction.

The post, the participants that it brings in, the messages to the agents that it addresses and the
wake-ups of their sessions are committed together or not at all. A person's post and the answer that
a worker seals go through the same lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from turntree.conversations import post as posts
from turntree.conversations.conversation import MentionOutcome
from turntree.conversations.mentions import check_post
from turntree.conversations.post import AddressedAgent, Introduction, Post, PostDraft
from turntree.conversations.store import ConversationStore
from turntree.conversations.triage import RecentPost, TriageDecision, decide_plainly
from turntree.core.clock import Clock
from turntree.core.ids import RunId, Timestamp
from turntree.core.message import Message, lift_parts, line_of
from turntree.core.value import value
from turntree.db.database import Connection
from turntree.ledger.store import Ledger
from turntree.runs.engine import Wake

TRIAGE_STEPS_MAX: Final = 4
"""Calls of a model in a decision: it names agents, perhaps once more, and is done."""


@value
class PostResult:
    """A post that was stored, and what follows from it."""

    seq: int
    id: str
    repeated: bool = False
    answers: tuple[AddressedAgent, ...] = ()
    absent: tuple[str, ...] = ()
    """Members of the workspace whom it mentions and who do not take part."""
    held_back: tuple[str, ...] = ()
    """Agents that were not woken; a post of the system says why."""
    wakes: tuple[Wake, ...] = ()
    """Wake-ups that the caller schedules; the sessions are marked as awake already."""
    decision: TriageDecision | None = None
    """Which agents were asked, if it has no mention and that was decided already."""
    decision_pending: bool = False
    """Whether a triage agent has yet to decide that."""


@value
class Poster:
    """Stores posts."""

    store: ConversationStore
    ledger: Ledger
    clock: Clock
    model: str | None = None
    """The model that answers for an agent that has none."""
    tokens_daily: int | None = None
    """Tokens that agents may use for one person in a day; None for any number."""

    async def put(
        self, connection: Connection, draft: PostDraft, *, agent_turns_max: int
    ) -> PostResult:
        """Store a post in the transaction of a connection; the conversation is locked by it.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The author does not take part.
            InvalidOperation: It says nothing or too much, or the key belongs to another post.
        """
        at, id, store = self.clock.now(), self.clock.new_id(), self.store
        wanted = [(one.kind, one.id) for one in check_post(draft.content) if one.calls]
        body = posts.document_of(
            draft.conversation, id, draft.author, draft.content, at, self.clock.nonce()
        )
        seq, stored = await store.create_post(connection, draft, id, body, at=at)
        if stored is None:
            earlier = await store.list_addressed(connection, draft.conversation, seq)
            answers = tuple(AddressedAgent(*one) for one in earlier)
            (post,) = await store.list_posts(
                draft.conversation, after=seq - 1, before=seq + 1, limit=1, connection=connection
            )
            return PostResult(
                seq, id, repeated=True, answers=answers, decision=post.decision,
                decision_pending=post.decision_pending,
            )  # fmt: skip
        draft = stored
        if draft.author is None:
            return PostResult(seq, id)
        if wanted:
            return await self._address(connection, draft, seq, id, wanted, agent_turns_max)
        if draft.author.startswith("human:"):
            return await self._triage(connection, draft, seq, id, agent_turns_max)
        return PostResult(seq, id)

    async def decide(
        self,
        connection: Connection,
        draft: PostDraft,
        seq: int,
        decision: TriageDecision,
        *,
        agent_turns_max: int,
    ) -> PostResult:
        """Store the decision about a post without a mention, and ask the agents that it names.

        An agent that no longer takes part is not asked. A post is decided once.
        """
        at, store = self.clock.now(), self.store
        if not await store.decide(connection, draft.conversation, seq, decision, at=at):
            return PostResult(seq, "")
        present = await store.list_participants(draft.conversation, connection=connection)
        here = {one.principal for one in present}
        wanted = [("agent", one) for one in decision.agents if f"agent:{one}" in here]
        if not wanted:
            return PostResult(seq, "", decision=decision)
        asked = await self._address(connection, draft, seq, "", wanted, agent_turns_max)
        return replace(asked, decision=decision)

    async def _address(
        self,
        connection: Connection,
        draft: PostDraft,
        seq: int,
        id: str,
        wanted: Sequence[tuple[str, str]],
        agent_turns_max: int,
    ) -> PostResult:
        """Tell those whom a post mentions, or whom a decision names."""
        assert draft.author is not None, "the system addresses no agent"
        at, store = self.clock.now(), self.store
        mentioned = await store.address(
            connection, draft.conversation, seq, [*dict.fromkeys(wanted)], author=draft.author,
            hops=draft.hops, hops_max=agent_turns_max, charged=draft.charged or draft.author,
            tokens_max=self.tokens_daily, at=at,
        )  # fmt: skip
        answers, wakes = await self._tell(connection, draft, seq, at, mentioned)
        absent = tuple(one.principal for one in mentioned if one.became == "absent")
        held_back = tuple(_agent(one) for one in mentioned if one.became in posts.REASONS)
        if held_back:
            said = await store.list_explanations(
                connection, draft.conversation, cause=draft.cause or seq
            )
            why = posts.explain(
                [(_agent(one), one.became) for one in mentioned if one.became in posts.REASONS],
                agent_turns_max, self.tokens_daily, said,
            )  # fmt: skip
            if why:
                await self._say_why(connection, draft, seq, why)
        return PostResult(seq, id, answers=answers, absent=absent, held_back=held_back, wakes=wakes)

    async def _triage(
        self, connection: Connection, draft: PostDraft, seq: int, id: str, agent_turns_max: int
    ) -> PostResult:
        """Decide a plain case of a post without a mention; have the triage agent decide others.

        Only where the conversation wants it: elsewhere such a post sets nothing in motion.
        """
        at, store = self.clock.now(), self.store
        author, charged = str(draft.author), draft.charged or str(draft.author)
        is_wanted, agent = await store.find_triage(connection, draft.conversation)
        if not is_wanted:
            return PostResult(seq, id)
        candidates = await store.list_triage_candidates(
            draft.conversation, author=author, charged=charged, connection=connection
        )
        present = await store.list_participants(draft.conversation, connection=connection)
        people = [
            one.name
            for one in present
            if one.principal.startswith("human:") and one.principal != author
        ]
        last = await self._find_last(connection, draft, seq)
        decision = decide_plainly(draft.content, candidates, people, last)
        if decision is None and agent is None:
            decision = TriageDecision((), "the agent that decides was not here yet", "rules")
        if decision is not None:
            decided = await self.decide(
                connection, draft, seq, decision, agent_turns_max=agent_turns_max
            )
            return replace(decided, id=id)
        session, told = await store.open_triage_session(
            connection, draft.conversation, str(agent), at=at
        )
        *before, post = await store.list_posts(
            draft.conversation, after=told, before=seq + 1, limit=posts.TRIAGED_POSTS_MAX + 1,
            connection=connection,
        )  # fmt: skip
        names = {one.principal: one.name for one in present}
        message = posts.triage_message(post, names, before, candidates)
        options: dict[str, Any] = {
            "agent": agent,
            "max_steps": TRIAGE_STEPS_MAX,
            "conversation": {
                "id": draft.conversation, "post": seq, "cause": seq, "hops": 0,
                "charged_to": charged,
            },
            # It decides with rights of its own, which are none; the agents that it names answer
            # with those of the author.
            "triage": {
                "candidates": [one.agent for one in candidates],
                "chain": None if draft.chain is None else list(draft.chain),
            },
        }  # fmt: skip
        if self.model is not None:
            options["model"] = self.model
        _, message_seq, wake = await store.queue_message(
            connection, session, await self._write(message), by=author, at=at, options=options
        )
        await store.record_delivery(
            connection, draft.conversation, [(one.seq, message_seq) for one in (*before, post)],
            session, until=seq,
        )  # fmt: skip
        wakes = () if wake is None else ((session, wake),)
        return PostResult(seq, id, wakes=wakes, decision_pending=True)

    async def _find_last(
        self, connection: Connection, draft: PostDraft, seq: int
    ) -> RecentPost | None:
        """Return what was said before a post."""

        async def find(position: int) -> Post | None:
            found = await self.store.list_posts(
                draft.conversation, after=position - 1, before=position + 1, limit=1,
                connection=connection,
            )  # fmt: skip
            return found[0] if found else None

        last = await find(seq - 1)
        if last is None:
            return None
        cause = await find(last.cause) if last.turn is not None else None
        return RecentPost(last.author, cause is not None and cause.author == draft.author)

    async def _say_why(self, connection: Connection, draft: PostDraft, seq: int, why: str) -> None:
        """Store a post of the system that explains a post before it."""
        told = replace(
            draft, content=why, author=None, turn=None, key=None, cause=draft.cause or seq
        )
        at, id = self.clock.now(), self.clock.new_id()
        body = posts.document_of(draft.conversation, id, None, why, at, self.clock.nonce())
        await self.store.create_post(connection, told, id, body, at=at)

    async def _tell(
        self,
        connection: Connection,
        draft: PostDraft,
        seq: int,
        at: Timestamp,
        mentioned: Sequence[MentionOutcome],
    ) -> tuple[tuple[AddressedAgent, ...], tuple[Wake, ...]]:
        """Queue what each addressed agent was not told of yet."""
        addressed = [one for one in mentioned if one.became == "addressed"]
        if not addressed:
            return (), ()
        answers: list[AddressedAgent] = []
        wakes: list[Wake] = []
        for one in addressed:
            assert one.session is not None, "an agent is addressed in its session"
            messages, is_late = await self._list_messages(connection, draft, seq, one)
            options = self._options(draft, one, seq)
            delivered: list[tuple[int, int]] = []
            run = ""
            for place, (number, message) in enumerate(messages):
                # They become the query of one turn. The first joins an earlier message of the same
                # author that no run has begun with, unless that one tells of later posts.
                fold = place > 0 or not is_late
                run, message_seq, wake = await self.store.queue_message(
                    connection, one.session, await self._write(message),
                    by=str(draft.author), at=at, options={**options, "fold": fold},
                )  # fmt: skip
                if wake is not None:
                    wakes.append((one.session, wake))
                if number is not None:
                    delivered.append((number, message_seq))
            until = max(seq, one.told_seq or 0)
            await self.store.record_delivery(
                connection, draft.conversation, delivered, one.session, until=until
            )
            answers.append(AddressedAgent(_agent(one), one.session, RunId(run)))
        return tuple(answers), tuple(wakes)

    async def _list_messages(
        self,
        connection: Connection,
        draft: PostDraft,
        seq: int,
        one: MentionOutcome,
    ) -> tuple[list[tuple[int | None, Message]], bool]:
        """Return what an agent was not told of yet, each with the position of its post.

        Also returns whether it was told of some posts in between: those before them come late,
        because the turn that was told of them failed.
        """
        told = one.told_seq or 0
        assert one.session is not None, "an agent is addressed in its session"
        untold = await self.store.list_untold_posts(
            connection, draft.conversation, one.session, after=told, before=seq + 1,
            limit=posts.TOLD_POSTS_MAX,
        )  # fmt: skip
        is_late = len(untold) < min(seq - told, posts.TOLD_POSTS_MAX)
        untold = [post for post in untold if post.author != one.principal]
        authors = {post.author for post in untold if post.author is not None}
        # Not of all who take part: there may be a thousand, and each post is told.
        names = await self.store.list_names(connection, sorted(authors))
        messages: list[tuple[int | None, Message]] = []
        if one.is_new:
            present = await self.store.list_participants(draft.conversation, connection=connection)
            heading = Introduction(
                draft.title,
                one.principal,
                [(each.principal, each.name) for each in present if each.added_by != posts.TRIAGE],
            )
            messages.append((None, posts.heading_message(heading)))
        if (omitted := seq - told - posts.TOLD_POSTS_MAX) > 0:
            messages.append((None, posts.omitted_message(omitted)))
        messages += [
            (post.seq, self._told(post, names, is_earlier=post.seq != seq)) for post in untold
        ]
        if told >= seq:
            # A later post addressed it while this one was being decided.
            messages.append((None, posts.told_before_message(seq)))
        return messages, is_late

    def _told(self, post: Post, names: Mapping[str, str], *, is_earlier: bool) -> Message:
        author = post.author or ""
        name = names.get(author) or author.partition(":")[2]
        return posts.post_message(post, name, is_earlier=is_earlier)

    def _options(self, draft: PostDraft, one: MentionOutcome, seq: int) -> dict[str, Any]:
        """Return what the run's first event records about the post that it answers."""
        options: dict[str, Any] = {
            "agent": _agent(one),
            "tells_failure": True,
            "conversation": {
                "id": draft.conversation,
                "post": seq,
                "cause": draft.cause or seq,
                "hops": draft.hops,
                "charged_to": draft.charged or draft.author,
            },
        }
        if self.model is not None:
            options["model"] = self.model
        if draft.chain is not None:
            options["chain"] = list(draft.chain)
        return options

    async def _write(self, message: Message) -> str:
        objects: list[bytes] = []
        offloaded = lift_parts(message, objects)
        for data in objects:
            await self.ledger.put_object(data)
        return line_of(offloaded).decode()


def _agent(one: MentionOutcome) -> str:
    return one.principal.removeprefix("agent:")
