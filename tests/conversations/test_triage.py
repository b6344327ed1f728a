"""Who answers a post without a mention: decided once, by rules, by rank or by a model."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import turntree
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings
from turntree.conversations.post import Post, PostReceipt
from turntree.core.canonical import Json
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.principal import Principal

pytestmark = pytest.mark.anyio

SOON_S = 90.0
DEPLOYER = "Rolls releases out and back: deploys, rollbacks, staging and production."
BILLING = "Handles money from customers: invoices, refunds, failed payments and discounts."

REFUND = "Please refund the customer's invoice, they were charged twice."
UNCLEAR = "Which of the two is it, after all?"

As = Callable[[str], Tree]


@pytest.fixture
async def tree(conninfo: str, tmp_path: Path) -> AsyncGenerator[Tree, None]:
    """A workspace with two agents, each with a model of its own; this process answers."""
    settings = Settings(tmp_path, database_url=conninfo, workspace="shared", user="ana")
    async with AsyncExitStack() as stack:
        tree = await stack.enter_async_context(turntree.open(settings, worker=True))
        rules: list[Json] = [{"when": "", "replies": [{"text": "Noted."}]}]
        await tree.programs.create(
            "provider", "script", {"provider_type": "scripted", "rules": rules}
        )
        for number in (1, 2):
            model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
            await tree.programs.create("model", f"model-{number}", model)
        for name, description in (("deployer", DEPLOYER), ("billing", BILLING)):
            config: dict[str, Json] = {
                "default_model": "@(model-1)", "description": description, "name": name.title(),
            }  # fmt: skip
            await tree.programs.create("agent", name, config)
        await tree.members.add("human:bob")
        yield tree


@pytest.fixture
def seen_by(tree: Tree) -> As:
    """The workspace as another member sees it."""

    def act(name: str) -> Tree:
        return tree.act_as(ExecutionContext.begin(Principal("human", name)))

    return act


async def settled(tree: Tree, name: str, posted: PostReceipt) -> Post:
    """The post, once it is decided and answered."""
    while runs := await tree.conversations.list_pending(name, posted.seq):
        for run in runs:
            await tree.runs.wait(run, timeout_s=SOON_S)
    (post,) = await tree.conversations.list_posts(name, after=posted.seq - 1, before=posted.seq + 1)
    return post


async def begin(tree: Tree, name: str = "ops", *, triage: bool = True) -> None:
    await tree.conversations.create(name, participants=["deployer", "billing"], triage=triage)


async def test_a_post_without_a_mention_is_answered_by_whom_it_concerns(tree: Tree) -> None:
    await begin(tree)
    posted = await tree.conversations.post("ops", REFUND)
    assert (posted.answers, posted.decision, posted.decision_pending) == ((), None, True)
    post = await settled(tree, "ops", posted)
    assert post.decision is not None
    assert (post.decision.agents, post.decision.by) == (("billing",), "rank")
    assert not post.decision_pending
    turn = await tree.turns.get(str(post.decision.turn))
    assert turn.turn.header.by == Principal("agent", "triage", Principal("human", "ana"))
    assert turn.turn.header.model is None
    (answer,) = await tree.conversations.list_posts("ops", after=posted.seq)
    assert (answer.author, answer.cause, answer.hops) == ("agent:billing", posted.seq, 1)
    assert answer.decision is None
    again = await tree.conversations.post("ops", "Nothing to do here, see you tomorrow.", key="k")
    await settled(tree, "ops", again)
    repeated = await tree.conversations.post(
        "ops", "Nothing to do here, see you tomorrow.", key="k"
    )
    assert repeated.repeated
    assert repeated.decision is not None
    assert repeated.decision.agents == ()
    assert not await kinds_found(tree)


async def test_a_conversation_without_triage_stays_quiet(tree: Tree) -> None:
    await begin(tree, triage=False)
    posted = await tree.conversations.post("ops", REFUND)
    assert (posted.decision, posted.decision_pending) == (None, False)
    assert await tree.programs.find("triage") is None
    await tree.conversations.set_triage("ops", on=True)
    assert (await tree.conversations.post("ops", REFUND)).decision_pending
    await tree.conversations.set_triage("ops", on=False)
    quiet = await tree.conversations.post("ops", REFUND)
    assert (quiet.decision, quiet.decision_pending) == (None, False)
    with pytest.raises(InvalidOperation, match="is a system agent and stays") as said:
        await tree.conversations.remove("ops", "triage")
    assert said.value.hint == Hint("conversation.set_triage", {"conversation": "ops", "on": "off"})
    assert not await kinds_found(tree)


async def test_plain_cases_are_decided_while_the_post_is_stored(tree: Tree, seen_by: As) -> None:
    await tree.conversations.create("ops", participants=["human:bob"], triage=True)
    alone = await tree.conversations.post("ops", REFUND)
    assert alone.decision is not None
    assert (alone.decision.by, alone.decision.agents) == ("rules", ())
    assert "no agent takes part" in alone.decision.reason
    await tree.conversations.add("ops", "billing")
    for words in ("Thanks a lot!", "\N{PARTY POPPER}", "bob, can you pay the invoice?"):
        quiet = await tree.conversations.post("ops", words)
        assert quiet.decision is not None, words
        assert (quiet.decision.by, quiet.decision.agents) == ("rules", ()), words
    named = await tree.conversations.post("ops", "Billing, what is open?")
    assert [one.agent for one in named.answers] == ["billing"]
    await settled(tree, "ops", named)
    more = await tree.conversations.post("ops", "And since when?")
    assert more.decision is not None
    assert (more.decision.by, more.decision.agents) == ("rules", ("billing",))
    await settled(tree, "ops", more)
    # Another person's question is no follow-up of that answer.
    other = await seen_by("bob").conversations.post("ops", "And since when?")
    assert other.decision_pending
    await settled(tree, "ops", other)
    mentioned = await tree.conversations.post("ops", "@[Bob](user:bob) who pays?")
    assert (mentioned.decision, mentioned.decision_pending) == (None, False)
    assert not await kinds_found(tree)


async def test_an_unclear_post_is_decided_by_a_model_if_there_is_one(tree: Tree) -> None:
    """Which names an agent that takes no part first, and is told so."""
    rules: list[Json] = [
        {
            "when": "",
            "replies": [
                {"tools": [{"tool": "triage.route", "args": {"agents": ["eve"], "reason": "?"}}]},
                {
                    "tools": [
                        {
                            "tool": "triage.route",
                            "args": {"agents": ["deployer", "billing"], "reason": "Both know it."},
                        }
                    ]
                },
                {"text": "done"},
            ],
        }
    ]
    await tree.programs.create("provider", "chooser", {"provider_type": "scripted", "rules": rules})
    model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(chooser)"}
    made = await tree.programs.create("model", "choosing", model)
    await tree.turns.marks.set_tag(
        made.id, "default", on=True, by="human:ana", at=tree.revisions.world.now()
    )
    await begin(tree)
    posted = await tree.conversations.post("ops", UNCLEAR)
    post = await settled(tree, "ops", posted)
    assert post.decision is not None
    assert post.decision.agents == ("deployer", "billing")
    assert (post.decision.by, post.decision.reason) == ("model", "Both know it.")
    turn = (await tree.turns.get(str(post.decision.turn))).turn
    assert turn.header.model == "scripted-1"
    authors = {one.author for one in await tree.conversations.list_posts("ops", after=posted.seq)}
    assert authors == {"agent:deployer", "agent:billing"}
    assert not await kinds_found(tree)


async def test_triage_asks_no_agent_that_the_author_may_not_use(tree: Tree, seen_by: As) -> None:
    await tree.programs.set_visibility("billing", "private")
    await begin(tree)
    await tree.conversations.add("ops", "bob")
    post = await settled(tree, "ops", await seen_by("bob").conversations.post("ops", REFUND))
    assert post.decision is not None
    assert "billing" not in post.decision.reason
    assert post.decision.agents in ((), ("deployer",))


async def test_a_fork_keeps_triage_and_the_decisions(tree: Tree) -> None:
    await begin(tree)
    post = await settled(tree, "ops", await tree.conversations.post("ops", REFUND))
    fork = await tree.conversations.fork("ops")
    assert fork.triage
    (before, _) = await tree.conversations.list_posts(fork.name)
    assert before.decision == post.decision
    assert (await tree.conversations.post(fork.name, REFUND)).decision_pending
    assert not await kinds_found(tree)


async def test_a_canceled_decision_asks_no_agent(tree: Tree) -> None:
    await begin(tree)
    posted = await tree.conversations.post("ops", REFUND)
    for run in await tree.conversations.list_pending("ops", posted.seq):
        await tree.runs.cancel(run)
    post = await settled(tree, "ops", posted)
    assert post.decision is not None
    assert not post.decision_pending
    assert not await kinds_found(tree)


async def test_nobody_mentions_or_suggests_the_triage_agent(tree: Tree) -> None:
    await begin(tree)
    await settled(tree, "ops", await tree.conversations.post("ops", REFUND))
    called = await tree.conversations.post("ops", "@[Triage](agent:triage) hello")
    assert (called.answers, called.held_back, called.decision_pending) == ((), (), False)
    assert "triage" not in [one.id for one in await tree.conversations.suggest("ops")]


async def kinds_found(tree: Tree) -> list[str]:
    """What fsck finds."""
    return [str(one) for one in await tree.checks.fsck(full=False)]
