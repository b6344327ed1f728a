"""The claim: agents that address each other come to an end, in every pattern of mentions.

Agents that mention each other in every answer are let loose in pairs, in a ring, and all at once,
where each answer mentions all of the others. After a person's post, agents wake each other at most
as often as the conversation permits, one after the other and in all; then a post of the system says
how to go on, and the next post of a person is answered. What they use is charged to the person
whose post led to it, and ends at that person's tokens for a day. An agent that is paused stops
no other. Faults are planted, each in a database of its own, to see that they would be found.

Where triage decides who answers a person, it decides nothing about what agents say: agents that
mention nobody are done after one turn, and those that mention each other have the same limit.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio

import turntree
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings
from turntree.conversations.post import Post
from turntree.core.canonical import Json
from turntree.core.principal import Principal
from turntree.db.database import ensure_database, prepare_database
from turntree.testing.fakes import FakeClock

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
AGENTS: Final = ("ada", "bea", "cid", "dot", "eli")
WORKSPACE: Final = "talks"
END_S: Final = 120.0
LOOK_S: Final = 0.05
BEYOND: Final = 4
"""As many turns more than permitted show that there is no limit."""
Mentions = Mapping[str, Sequence[str]]
"""Of each agent, whom its answers mention."""
PAIR: Final[Mentions] = {"ada": ["bea"], "bea": ["ada"]}
RING: Final[Mentions] = {
    one: [after] for one, after in zip(AGENTS, (*AGENTS[1:], AGENTS[0]), strict=True)
}
CROWD: Final[Mentions] = {one: [other for other in AGENTS if other != one] for one in AGENTS}
LIMIT: Final = r"WHEN p_hops >= p_hops_max OR v_woken >= p_hops_max THEN 'limit' "
PLANTS: Final = (
    Plant("no limit", ((LIMIT, ""),)),
    Plant("a limit of turns one after the other only", ((r" OR v_woken >= p_hops_max", ""),)),
)


async def prove(proof: Proof) -> None:
    """Let agents loose and count their turns."""
    limits = (1, 8) if proof.quick else (1, 2, 3, 5, 8, 20)
    with temporary_server(FAST) as (server, _), TemporaryDirectory() as folder:
        conninfo = await ensure_database(server, "loops")
        async with _opened(conninfo, Path(folder) / "home") as tree:
            for name, mentions in (("pair", PAIR), ("ring of 5", RING), ("crowd of 5", CROWD)):
                for limit in limits:
                    await _let_loose(proof, tree, name, mentions, limit)
            await _charge(proof, tree)
            await _pause(proof, tree)
            for limit in limits[:2]:
                await _triage(proof, tree, limit)
        async with _opened(conninfo, Path(folder) / "home", tokens=1) as tree:
            await _run_out(proof, tree)
        for number, plant in enumerate(PLANTS):
            broken = await ensure_database(server, f"broken_{number}")
            await prepare_database(broken, WORKSPACE, FakeClock(number).new_id())
            await install(broken, plant)
            async with _opened(broken, Path(folder) / f"broken_{number}") as tree:
                turns, _ = await _talk(tree, "crowd", CROWD, 2)
                proof.at_least(f"planted and found: {plant.name}", int(turns > 1 + 2), "of 1", 1)


async def _let_loose(proof: Proof, tree: Tree, name: str, mentions: Mentions, limit: int) -> None:
    """Show that agents stop where they have to, and that a person may go on at once."""
    label = f"{name.replace(' ', '-')}-{limit}"
    turns, posts = await _talk(tree, label, mentions, limit)
    # The person has woken the first one; in a crowd the limit counts whom agents wake.
    most = limit + 1 if mentions is CROWD else limit
    proof.at_most(f"{name}: turns of agents, of {limit} permitted", turns, "turns", most)
    proof.at_least(f"{name}: the same, at least", turns, "turns", limit)
    reasons = [one for one in posts if one.author is None and "lets them go on" in _words(one)]
    proof.at_least(f"{name}, {limit}: posts that say how to go on", len(reasons), "posts", 1)
    again = await tree.conversations.post(label, f"{_call('ada')} and now?")
    answers = await _await_answers(tree, label, again.seq, enough=1)
    proof.at_least(f"{name}, {limit}: answered when a person goes on", answers, "turns", 1)


async def _talk(
    tree: Tree, label: str, mentions: Mentions, limit: int
) -> tuple[int, Sequence[Post]]:
    """Return how many turns agents took after one post of a person, and all posts."""
    await _instruct(tree, mentions)
    await tree.conversations.create(label, agent_turns_max=limit)
    posted = await tree.conversations.post(label, f"{_call('ada')} begin.")
    turns = await _await_answers(tree, label, posted.seq, enough=limit + 1 + BEYOND)
    return turns, await tree.conversations.list_posts(label, limit=500)


async def _await_answers(tree: Tree, label: str, post: int, *, enough: int) -> int:
    """Return how many turns agents have taken since a post: when they rest, or took enough."""
    with anyio.fail_after(END_S):
        while True:
            # Looked at first: what is sealed afterwards has posted.
            is_pending = bool(await tree.conversations.list_pending(label, post))
            posts = await tree.conversations.list_posts(label, after=post, limit=500)
            turns = sum(one.author is not None and one.turn is not None for one in posts)
            if not is_pending or turns >= enough:
                return turns
            await anyio.sleep(LOOK_S)


async def _charge(proof: Proof, tree: Tree) -> None:
    """Show that each person pays for what their posts led to."""
    await _instruct(tree, PAIR)
    bob = tree.act_as(ExecutionContext.begin(Principal("human", "bob")))
    await tree.conversations.create("shared", participants=["human:bob"], agent_turns_max=2)
    for who in (tree, bob, bob):
        posted = await who.conversations.post("shared", f"{_call('ada')} go on.")
        await _await_answers(tree, "shared", posted.seq, enough=9)
    posts = await tree.conversations.list_posts("shared", limit=500)
    by_cause = {one.seq: one.author for one in posts if one.hops == 0 and one.author}
    rows = await tree.ledger.database.fetch(
        b"SELECT seq, cause_seq, charged_to FROM turntree.posts WHERE turn_id IS NOT NULL"
        b" AND conversation_id = (SELECT id FROM turntree.programs WHERE name = 'shared')"
    )
    wrong = [row for row in rows if by_cause[row[1]] != row[2]]
    proof.at_most("answers charged to another than asked", len(wrong), "turns", 0)
    proof.at_least("answers of two people's agents", len(rows), "turns", 6)
    proof.at_most("the same, at most", len(rows), "turns", 6)


async def _pause(proof: Proof, tree: Tree) -> None:
    """Show that the mention of a paused agent stops no answer."""
    await tree.programs.move("bea", "paused")
    turns, posts = await _talk(tree, "paused", PAIR, 8)
    await tree.programs.move("bea", "idle")
    proof.at_least("answers that mention an agent which is paused", turns, "turns", 1)
    told = sum("bea did not answer: an agent that is paused" in _words(one) for one in posts)
    proof.at_least("posts that say so", told, "posts", 1)


async def _triage(proof: Proof, tree: Tree, limit: int) -> None:
    """Show that agents which triage has asked come to the same end."""
    label = f"triage-{limit}"
    await tree.conversations.create(label, participants=[*PAIR], agent_turns_max=limit, triage=True)
    for mentions, most in ((PAIR, limit), ({}, 1)):
        await _instruct(tree, mentions)
        posted = await tree.conversations.post(label, "Ada, begin.")
        turns = await _await_answers(tree, label, posted.seq, enough=limit + 1 + BEYOND)
        whom = "each other" if mentions else "nobody"
        what = f"triage, {limit}: turns of agents that mention {whom}"
        proof.at_most(what, turns, "turns", most)
        proof.at_least(f"{what}, at least", turns, "turns", min(most, limit))
    posts = await tree.conversations.list_posts(label, limit=500)
    decided = [one for one in posts if one.decision is not None or one.decision_pending]
    wrong = sum(not (one.author or "").startswith("human:") for one in decided)
    proof.at_most(f"triage, {limit}: decisions about posts of agents", wrong, "posts", 0)
    proof.at_least(f"triage, {limit}: decisions about posts of people", len(decided), "posts", 2)


async def _run_out(proof: Proof, tree: Tree) -> None:
    """Show that agents rest when a person's tokens for the day are used, and only for them."""
    await _instruct(tree, PAIR)
    await tree.conversations.create("costly", participants=["human:bob"])
    refused = await tree.conversations.post("costly", f"{_call('ada')} begin.")
    proof.at_most("agents woken without tokens left", len(refused.answers), "agents", 0)
    eve = tree.act_as(ExecutionContext.begin(Principal("human", "eve")))
    await eve.conversations.create("frugal")
    posted = await eve.conversations.post("frugal", f"{_call('ada')} begin.")
    turns = await _await_answers(eve, "frugal", posted.seq, enough=9)
    proof.at_most("turns of agents, when the first uses all tokens", turns, "turns", 1)
    proof.at_least("the same, at least", turns, "turns", 1)
    posts = await tree.conversations.list_posts("costly")
    posts += await eve.conversations.list_posts("frugal")
    told = sum("They go on tomorrow" in _words(one) for one in posts)
    proof.at_least("posts that say when they go on", told, "posts", 2)


@asynccontextmanager
async def _opened(conninfo: str, home: Path, *, tokens: int | None = None) -> AsyncGenerator[Tree]:
    """Open a workspace of three people and five agents; this process answers."""
    settings = Settings(
        home, database_url=conninfo, workspace=WORKSPACE, user="ana", agent_tokens_daily=tokens
    )
    async with turntree.open(settings, worker=True) as tree:
        if await tree.programs.find("ada") is None:
            for name in AGENTS:
                script: dict[str, Json] = {"provider_type": "scripted", "rules": []}
                await tree.programs.create("provider", f"script-{name}", script)
                model: dict[str, Json] = {
                    "model_id": "scripted-1", "provider": f"@(script-{name})",
                }  # fmt: skip
                await tree.programs.create("model", f"model-{name}", model)
                agent: dict[str, Json] = {"default_model": f"@(model-{name})"}
                await tree.programs.create("agent", name, agent)
            for name in ("bob", "eve"):
                await tree.members.add(f"human:{name}")
        yield tree


async def _instruct(tree: Tree, mentions: Mentions) -> None:
    """Tell the model of each agent what it answers."""
    for name in AGENTS:
        text = " ".join([*map(_call, mentions.get(name, ())), "more?"])
        rules: list[Json] = [{"when": "", "replies": [{"text": text}]}]
        await tree.programs.configure(f"script-{name}", {"rules": rules})


def _call(agent: str) -> str:
    return f"@[{agent.title()}](agent:{agent})"


def _words(post: Post) -> str:
    return post.content or ""


if __name__ == "__main__":
    run(prove, __doc__ or "")
