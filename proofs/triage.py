"""The claim: triage asks the agents that a post concerns, and none where people talk to each other.

Twelve agents and 346 labelled posts were written and committed before any of it was tuned. It was
tuned on every other post; here the rest are decided: by all of it, by rules and words alone, and by
embeddings alone, with the threshold that is best for them on the first half. A paired bootstrap
says whether the difference may be chance.

Then workers are killed while posts wait for their decisions. Each post has exactly one decision, an
event of it, and each agent that was asked answered once. Faults are planted to see that they would
be found. ``--quick`` kills fewer workers. No model is asked anywhere: what one adds is not shown.
"""

import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import anyio.to_thread

import turntree
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.triage_worker import WORKSPACE
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.conversations.ranker import AgentRanker
from turntree.conversations.triage import TriageCandidate, decide_plainly
from turntree.core.canonical import Json
from turntree.core.value import value
from turntree.db.database import ensure_database, prepare_database
from turntree.search.embedder import Embedder
from turntree.search.embedders.minilm import find_minilm
from turntree.testing.fakes import FakeClock

DATA: Final = Path(__file__).with_name("triage_data")
FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
SAMPLES: Final = 2_000
LOW: Final = 0.05
"""The lower end of a 90 % interval."""
WRONGLY_WOKEN_MAX: Final = 0.10
READY_S, DONE_S, LOOK_S = 60.0, 180.0, 0.1
POSTS_A_KILL: Final = 3
Choices = Sequence[frozenset[str]]
"""Of each post, the agents that answer it."""
_STORES: Final = (
    r"(RETURNS boolean LANGUAGE plpgsql AS \$\$\nBEGIN\n)(  INSERT INTO turntree\.post_decisions)"
)
_TELLS: Final = r"(?s)(PERFORM turntree\.record_conversation_event\([^;]*'post\.decided'[^;]*;\n)"
_NO_TURN: Final = r"\1  IF p_method <> 'rules' THEN RETURN false; END IF;\n\2"
PLANTS: Final = (
    Plant("decisions that are not stored", ((_STORES, _NO_TURN),)),
    Plant("a decision that is told twice", ((_TELLS, r"\1  \1"),)),
)


@value
class LabelledPost:
    """A post, and who has to answer it."""

    text: str
    agents: frozenset[str]


async def prove(proof: Proof) -> None:
    """Judge the decisions, then kill workers that make them."""
    if proof.begins("labels"):
        await judge(proof)
    if not proof.begins("kills"):
        return
    with temporary_server(FAST) as (server, _), TemporaryDirectory() as folder:
        kills = 4 if proof.quick else 30
        found = await kill_workers(
            await ensure_database(server, "sound"), Path(folder), kills, proof.seed
        )
        proof.at_least("workers killed while they decide", found.killed, "kills", kills)
        proof.at_least(
            "posts that waited for a decision", found.posts, "posts", POSTS_A_KILL * kills
        )
        proof.at_most("posts without exactly one decision", len(found.wrong), "posts", 0)
        proof.at_most(
            "agents that were asked and did not answer once", found.unanswered, "agents", 0
        )
        proof.at_most("findings of fsck", found.faults, "findings", 0)
        for number, plant in enumerate(PLANTS):
            conninfo = await ensure_database(server, f"broken_{number}")
            await prepare_database(conninfo, WORKSPACE, FakeClock(number).new_id())
            await install(conninfo, plant)
            broken = await kill_workers(conninfo, Path(folder), 0, proof.seed)
            is_found = int(bool(broken.wrong) or broken.faults > 0)
            proof.at_least(f"planted and found: {plant.name}", is_found, "of 1", 1)


async def judge(proof: Proof) -> None:
    """Decide the posts of the second half, and compare."""
    embedder = find_minilm()
    if embedder is None:
        proof.at_least("embedders with weights", 0, "embedders", 1)
        return
    candidates, tuned, held = read_data()
    proof.note("posts that are held out", len(held), "posts")
    lanes = {
        "all of it": await decide_all(held, candidates, embedder),
        "rules and words alone": await decide_all(held, candidates, None),
        "rules alone": [_plain(one.text, candidates) for one in held],
        "embeddings alone": await decide_by_likeness(tuned, held, candidates, embedder),
    }
    wanted = [one.agents for one in held]
    for name, chosen in lanes.items():
        proof.note(f"F1, {name}", f1(wanted, chosen), "of 1")
        proof.note(
            f"posts for nobody that wake an agent, {name}", wrongly_woken(wanted, chosen), "of 1"
        )
    best = lanes.pop("all of it")
    for name, chosen in lanes.items():
        low = lower_end(wanted, best, chosen, proof.seed)
        proof.at_least(f"F1 above {name}, lower end of 90 %", low, "of 1", 0.0001)
    share = wrongly_woken(wanted, best)
    proof.at_most("posts for nobody that wake an agent", share, "of 1", WRONGLY_WOKEN_MAX)
    same = lower_end(
        wanted, lanes["rules and words alone"], lanes["rules and words alone"], proof.seed
    )
    proof.at_least("planted and found: a ranker without its vectors", int(same <= 0), "of 1", 1)
    woken = wrongly_woken(wanted, [frozenset({candidates[0].agent})] * len(held))
    proof.at_least(
        "planted and found: an agent is always woken", int(woken > WRONGLY_WOKEN_MAX), "of 1", 1
    )


def read_data() -> tuple[list[TriageCandidate], list[LabelledPost], list[LabelledPost]]:
    """Return the agents, the posts for tuning, and those that are held out."""
    agents = tomllib.loads((DATA / "agents.toml").read_text(encoding="utf-8"))
    candidates = [TriageCandidate(name, name, one["description"]) for name, one in agents.items()]
    posts: list[LabelledPost] = []
    for line in (DATA / "posts.txt").read_text(encoding="utf-8").splitlines()[1:]:
        names, _, text = line.partition(" | ")
        posts.append(LabelledPost(text, frozenset(names.split("+")) - {"-"}))
    return candidates, posts[::2], posts[1::2]


async def decide_all(
    posts: Sequence[LabelledPost], candidates: Sequence[TriageCandidate], embedder: Embedder | None
) -> Choices:
    """Return what a conversation decides: by rules, else by ranking."""
    ranker = AgentRanker(lambda: embedder)
    chosen: list[frozenset[str]] = []
    for post in posts:
        decision = decide_plainly(post.text, candidates)
        if decision is None:
            decision = (await ranker.rank(post.text, candidates)).decision
        chosen.append(frozenset(decision.agents))
    return chosen


def _plain(text: str, candidates: Sequence[TriageCandidate]) -> frozenset[str]:
    decision = decide_plainly(text, candidates)
    return frozenset() if decision is None else frozenset(decision.agents)


async def decide_by_likeness(
    tuned: Sequence[LabelledPost],
    held: Sequence[LabelledPost],
    candidates: Sequence[TriageCandidate],
    embedder: Embedder,
) -> Choices:
    """Return the agent with the most similar description, from the best threshold on."""
    told = await embedder.embed([one.description for one in candidates], "document")

    async def nearest(posts: Sequence[LabelledPost]) -> list[tuple[float, str]]:
        vectors = await embedder.embed([one.text for one in posts], "query")
        return [
            max(
                (sum(a * b for a, b in zip(vector, other, strict=True)), one.agent)
                for one, other in zip(candidates, told, strict=True)
            )
            for vector in vectors
        ]

    def choose(found: Sequence[tuple[float, str]], threshold: float) -> Choices:
        return [frozenset({agent} if like >= threshold else ()) for like, agent in found]

    known, wanted = await nearest(tuned), [one.agents for one in tuned]
    best = max((step / 100 for step in range(60)), key=lambda at: f1(wanted, choose(known, at)))
    return choose(await nearest(held), best)


def f1(wanted: Choices, chosen: Choices) -> float:
    """Return F1 over the pairs of a post and an agent that answers it."""
    right = sum(len(one & other) for one, other in zip(wanted, chosen, strict=True))
    said = sum(map(len, wanted)) + sum(map(len, chosen))
    return 2 * right / said if said else 0.0


def wrongly_woken(wanted: Choices, chosen: Choices) -> float:
    """Return the share of the posts for nobody that wake an agent."""
    quiet = [bool(other) for one, other in zip(wanted, chosen, strict=True) if not one]
    return sum(quiet) / len(quiet)


def lower_end(wanted: Choices, ours: Choices, theirs: Choices, seed: int) -> float:
    """Return the lower end of the interval of the difference in F1: the same posts for both."""
    die = random.Random(seed)
    differences: list[float] = []
    for _ in range(SAMPLES):
        drawn = die.choices(range(len(wanted)), k=len(wanted))
        asked = [wanted[index] for index in drawn]
        better = f1(asked, [ours[index] for index in drawn])
        differences.append(better - f1(asked, [theirs[index] for index in drawn]))
    return sorted(differences)[round(LOW * SAMPLES)]


@dataclass(slots=True)
class Found:
    """What was found after the workers were killed."""

    killed: int = 0
    posts: int = 0
    wrong: list[str] = field(default_factory=list[str])
    unanswered: int = 0
    faults: int = 0


async def kill_workers(conninfo: str, folder: Path, kills: int, seed: int) -> Found:
    """Post while workers die, let one finish, and count."""
    die, found = random.Random(seed), Found()
    settings = Settings(folder / "home", database_url=conninfo, workspace=WORKSPACE, user="ana")
    async with turntree.open(settings) as tree:
        await _furnish(tree)
        names: list[str] = []
        for number in range(kills + 1):
            worker = await anyio.to_thread.run_sync(_start, conninfo, folder)
            try:
                names.append(f"talk-{number}")
                await _post(tree, names[-1], die)
                if number == kills:
                    await _finish(tree, names)
                else:
                    await anyio.sleep(die.uniform(0, 0.6))
                    found.killed += 1
            finally:
                worker.kill()
                await anyio.to_thread.run_sync(worker.wait)
        await _count(tree, names, found)
    return found


async def _furnish(tree: Tree) -> None:
    candidates, _, _ = read_data()
    script: dict[str, Json] = {
        "provider_type": "scripted", "rules": [{"when": "", "replies": [{"text": "Noted."}]}],
    }  # fmt: skip
    await tree.programs.create("provider", "script", script)
    # Two of them and no default: an agent names its own, and triage has none.
    for name in ("one", "two"):
        model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
        await tree.programs.create("model", name, model)
    for one in candidates:
        agent: dict[str, Json] = {"default_model": "@(one)", "description": one.description}
        await tree.programs.create("agent", one.agent, agent)


async def _post(tree: Tree, name: str, die: random.Random) -> None:
    candidates, posts, _ = read_data()
    agents = [one.agent for one in candidates]
    await tree.conversations.create(name, participants=agents, triage=True)
    waiting = [one.text for one in posts if decide_plainly(one.text, candidates) is None]
    for text in die.sample(waiting, POSTS_A_KILL):
        await tree.conversations.post(name, text)


def _start(conninfo: str, folder: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "proofs.triage_worker", conninfo, str(folder / "worker")]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None, "it was asked for"
    if worker.stdout.readline().strip() != "ready":
        raise RuntimeError("the worker did not begin")
    return worker


async def _finish(tree: Tree, names: Sequence[str]) -> None:
    """Wait until nothing is left to decide or to answer; a planted fault may leave it so."""
    waiting = [(name, seq) for name in names for seq in range(1, POSTS_A_KILL + 1)]
    with anyio.move_on_after(DONE_S):
        while True:
            waiting = [one for one in waiting if await _is_pending(tree, *one)]
            if not waiting:
                return
            await anyio.sleep(LOOK_S)


async def _is_pending(tree: Tree, name: str, seq: int) -> bool:
    return bool(await tree.conversations.list_pending(name, seq))


async def _count(tree: Tree, names: Sequence[str], found: Found) -> None:
    for name in names:
        posts = await tree.conversations.list_posts(name, limit=500)
        asked: Mapping[int, Sequence[str]] = {
            one.seq: one.decision.agents for one in posts if one.decision is not None
        }
        people = [one for one in posts if (one.author or "").startswith("human:")]
        found.posts += len(people)
        found.wrong += [f"{name}#{one.seq}" for one in people if one.seq not in asked]
        answers = Counter((str(one.author), str(one.turn)) for one in posts if one.turn is not None)
        store, id = tree.conversations.poster.store, (await tree.conversations.get(name)).id
        wanted = set[tuple[str, str]]()
        for seq, agents in asked.items():
            async with store.database.connection() as connection:
                addressed = await store.list_addressed(connection, id, seq)
            # Asked again before it has begun, an agent answers both posts in one turn.
            wanted |= (runs := {(f"agent:{agent}", run) for agent, _, run in addressed})
            is_asked = sorted(agent for agent, _ in runs) == sorted(f"agent:{x}" for x in agents)
            found.unanswered += not is_asked or any(answers[one] != 1 for one in runs)
        found.unanswered += len(answers.keys() - wanted)
        events = await tree.ledger.database.fetch(
            b"SELECT turntree.document(body) #>> '{data,post}' FROM turntree.events"
            b" WHERE kind = 'post.decided' AND stream_id = (SELECT id FROM turntree.programs"
            b" WHERE name = %(name)b)", name=name,
        )  # fmt: skip
        told = sorted(int(str(post)) for (post,) in events)
        found.wrong += [] if told == sorted(asked) else [f"{name}: {told}"]
    found.faults += len(await tree.checks.fsck(full=False))


if __name__ == "__main__":
    run(prove, __doc__ or "")
