"""The claim: people and agents talk, whatever dies, and each mention is answered once or refused.

    python -m proofs.conversations [--quick] [--only scenes|stories|planted]

Three people and four agents, one of them private and one that fails when it is asked to, talk over
HTTP, with servers and workers in processes of their own. First the three scenes that conversations
were made for; then random stories of posting, mentioning, adding, removing, leaving, forking and
erasing, while servers, workers and the database are killed. What has to come of each act is decided
by a model of the rules that shares no code with the library. When all is quiet, every
conversation is compared with it: each mention was answered once, or a post of the system says why
it was not; nobody answered who was not asked; agents were told every post once and in order; what
was erased is nowhere; and ``fsck`` finds nothing. Then faults are planted, to see that stories and
``fsck`` find them.
"""

import asyncio
import random
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psycopg

import turntree
from proofs.conversations_audit import Audit, audit_all
from proofs.conversations_model import (
    PEOPLE,
    Act,
    Outcome,
    Saying,
    Talk,
    random_story,
)
from proofs.conversations_world import (
    Told,
    World,
    a_cluster,
    a_world,
    insist,
    say,
    seen_by,
    until_quiet,
)
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.http_world import TEAM
from proofs.nodes_world import Member
from turntree.core.canonical import Json
from turntree.core.errors import (
    Conflict,
    NotFound,
    TurntreeError,
)
from turntree.core.principal import Principal
from turntree.db.database import (
    ensure_database,
    prepare_database,
)
from turntree.db.embedded.server import EmbeddedServer
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock

SERVER: Final = {"fsync": "off", "full_page_writes": "off", "max_connections": "120"}
AT_ONCE: Final = 8
ROUND: Final = 100
"""Stories after which those of the round are compared."""
FSCK_ROUNDS: Final = 5
SHOWN_MAX: Final = 12
POSTS_MAX: Final = 500
PLANT_STORIES: Final = 24
TOLD: Final = re.compile(r"<system-reminder>post (\d+) by ")
PLANTS: Final = (
    Plant(
        "an agent is told everything again",
        (
            (r"SET told_seq = p_until", "SET told_seq = 0"),
            (r"SELECT EXISTS \(SELECT FROM turntree\.post_deliveries d",
             "SELECT false AND EXISTS (SELECT FROM turntree.post_deliveries d"),
        ),
    ),
    Plant(
        "a private agent answers everybody",
        (((r"AND turntree\.has_program_access\([^)]*p_author, 'invoke'\)\s*"
           r"AND turntree\.has_program_access\([^)]*p_charged, 'invoke'\)"), ""),),
    ),
    Plant(
        "who was removed still takes part",
        ((r"AND x\.removed_at IS NULL AND x\.principal = ANY", "AND x.principal = ANY"),),
    ),
    Plant(
        "agents know no limit",
        ((r"WHEN p_hops >= p_hops_max OR v_woken >= p_hops_max THEN 'limit' ", ""),),
    ),
    Plant(
        "what was erased stays where agents were told of it",
        ((r"PERFORM turntree\.erase_message\(p_ws, d\.run_id, d\.place[^;]*;", ""),),
    ),
    Plant(
        "an agent forgets what a turn was told that failed",
        ((r"AND s\.head_id IS DISTINCT FROM p_run", "AND false"),),
    ),
    Plant(
        "an erasure does not reach forks",
        ((r"p_ws, c\.conversation_id, s, p_session", "p_ws, p_conversation, s, p_session"),),
    ),
)  # fmt: skip
FAULTS: Final[Mapping[str, str]] = {
    "I50": "UPDATE turntree.participants SET added_by = 'human:mallory' WHERE number = 1",
    "I51": "UPDATE turntree.posts SET body = replace(body, 'Noted', 'Agreed')",
    "I52": "UPDATE turntree.queued_messages SET options = options - 'conversation'",
    "I53": "DELETE FROM turntree.events WHERE kind = 'post.erased'",
    "I54": "UPDATE turntree.participants SET removed_at = now(), removed_by = 'human:ana'"
    " WHERE principal = 'agent:warden'",
    "I56": "UPDATE turntree.conversations SET post_seq = post_seq + 1",
}


@dataclass(frozen=True, slots=True)
class Extent:
    """How many stories are told, how long they are, and what is killed meanwhile."""

    stories: int
    acts: int
    servers: int
    workers: int
    databases: int
    plants: int


QUICK: Final = Extent(stories=16, acts=9, servers=1, workers=1, databases=1, plants=2)
FULL: Final = Extent(stories=2000, acts=12, servers=15, workers=20, databases=5, plants=len(PLANTS))


async def prove(proof: Proof) -> None:
    """Play the scenes, tell stories, and plant faults."""
    extent = QUICK if proof.quick else FULL
    with temporary_server(SERVER) as (server, folder):
        conninfo = await ensure_database(server, "talks")
        if proof.wants("scenes") or proof.wants("stories"):
            database = EmbeddedServer(folder / "home", SERVER)
            async with a_cluster(conninfo, folder / "sound") as (world, members):
                if proof.begins("scenes"):
                    await play_scenes(proof, world)
                if proof.begins("stories"):
                    await prove_stories(proof, world, members, database, extent)
        if proof.begins("planted"):
            await find_planted(proof, server, folder, extent)


async def play_scenes(proof: Proof, world: World) -> None:
    """Play what conversations were made for: a public agent, a private one, and a person."""
    ana, bob, eve = (world.voices[one] for one in PEOPLE)
    await ana.create("scene", participants=["human:bob"])
    posted = await ana.post("scene", "@[Atlas](agent:atlas) hello")
    await until_quiet(world)
    answers = [one for one in await ana.list_posts("scene") if one.author == "agent:atlas"]
    present = {one.principal: one.added_by for one in await ana.list_participants("scene")}
    is_so = len(posted.answers) == 1 and [one.turn for one in answers] == [posted.answers[0].run]
    proof.at_least("a public agent of another is brought in by its mention, and answers",
                   int(is_so and present.get("agent:atlas") == "human:ana"), "of 1", 1)  # fmt: skip
    await ana.add("scene", "human:eve")
    hidden = await bob.post("scene", "@[Quiet](agent:quiet) hello")
    nothing = await bob.post("scene", "@[Nothing](agent:nothing) hello")
    told = [(one.answers, one.absent, one.held_back) for one in (hidden, nothing)]
    suggested = [one.id for one in await bob.suggest("scene", "qui")]
    open_to_owner = await eve.post("scene", "@[Quiet](agent:quiet) hello")
    await until_quiet(world)
    by_quiet = [one for one in await bob.list_posts("scene") if one.author == "agent:quiet"]
    is_so = told == [((), (), ())] * 2 and not suggested and len(open_to_owner.answers) == 1
    proof.at_least("a private agent answers its owner, and for others is as if it were not",
                   int(is_so and len(by_quiet) == 1), "of 1", 1)  # fmt: skip
    mention = "@[Ana](user:ana)"
    called = await bob.post("scene", f"{mention} look at this")
    posts = await ana.list_posts("scene", after=called.seq - 1)
    inbox = [one for one in await _inbox(world, "ana") if one.kind == "mention"]
    is_so = mention in str(posts[0].content) and any(
        one.by == "human:bob" and dict(one.refs).get("post") == called.seq for one in inbox
    )
    proof.at_least("a person who is mentioned is told, and sees the mention",
                   int(is_so and len(inbox) == 1), "of 1", 1)  # fmt: skip


async def _inbox(world: World, person: str) -> Sequence[Any]:
    if world.clients:
        return (await world.clients[person].inbox.list_page()).notices
    return await seen_by(world.tree, person).inbox.list_page()


async def prove_stories(
    proof: Proof, world: World, members: Sequence[Member], database: EmbeddedServer, extent: Extent
) -> None:
    """Tell stories while processes die, and compare everything with the model."""
    numbers = range(proof.first, extent.stories)
    began = time.monotonic()
    told = list[Told]()
    calm = asyncio.Lock()
    early = list[str]()
    done = asyncio.Event()

    async def tell_all() -> None:
        for place in range(0, len(numbers), ROUND):
            of_round = list[Told]()
            chosen = numbers[place : place + ROUND]
            await tell_stories(world, proof.seed, chosen, extent.acts, told, of_round)
            if chosen[-1] == numbers[-1]:
                break
            # All are compared once more in the end. A run that is cut short has shown these.
            async with calm:
                await until_quiet(world)
                finds = place // ROUND % FSCK_ROUNDS == FSCK_ROUNDS - 1
                audit = await audit_all(world, of_round, finds=finds)
            problems = list_problems(of_round, audit)
            new = [f"{figure}: {one}" for figure, each in problems.items() for one in each]
            for problem in new[:SHOWN_MAX]:
                say(f"  {problem}")
            early.extend(new)
            rate = len(told) / (time.monotonic() - began)
            say(f"{numbers[0]} to {chosen[-1]} compared, {rate:.2f} a second, {len(early)} differ")
        done.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(tell_all())
        chance = random.Random(proof.seed)
        killing = group.create_task(
            _kill(world, members, database, extent, chance, told, len(numbers), calm)
        )
        await done.wait()
        await killing
    await until_quiet(world)
    proof.note("seed", proof.seed, "")
    proof.note("stories a second", len(told) / (time.monotonic() - began), "1/s")
    proof.at_most("problems that rounds of stories showed", len(early), "problems", 0)
    audit = await audit_all(world, told)
    show(proof, world, told, audit, len(numbers), extent)


async def tell_stories(
    world: World, seed: int, numbers: Sequence[int], acts: int, *told: list[Told]
) -> None:
    """Tell stories, some at a time, and add them to lists."""
    waiting = iter(numbers)

    async def tell_next() -> None:
        for number in waiting:
            one = Told(random_story(number, seed, acts))
            await tell(world, one)
            for each in told:
                each.append(one)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(tell_next())


async def tell(world: World, told: Told) -> None:
    """Do what a story says, and compare what comes of each act with the model."""
    story = told.story
    name = f"story-{story.number}"
    talk = Talk(name, story.creator, story.is_public, story.limit, story.has_triage)
    talk.join(story.creator)
    for one in story.participants:
        talk.present[one] = f"human:{story.creator}"
    outcome, _ = await insist(
        world,
        lambda: world.voices[story.creator].create(
            name, title=f"Story {story.number}", participants=story.participants,
            visibility="public" if story.is_public else "private", agent_turns_max=story.limit,
            triage=story.has_triage,
        ),
        repeated=Conflict,
    )  # fmt: skip
    _expect(told, f"create {name}", outcome, "done")
    told.talks.append(talk)
    for act in story.acts:
        told.acts += 1
        await _do(world, told, act)


async def _do(world: World, told: Told, act: Act) -> None:
    talk = told.talks[act.talk % len(told.talks)]
    voice, where = world.voices[act.person], f"{act.kind} by {act.person} in {talk.name}"
    said = talk.list_said()
    match act.kind:
        case "post":
            word, text, calls, is_unaddressed = act.saying
            saying = Saying(word, act.person, text, calls, is_unaddressed)
            # Without the word, which is searched for once it was erased.
            key = f"{told.story.number}:{told.acts}"
            expected = talk.say(saying)
            outcome, posted = await insist(world, lambda: voice.post(talk.name, text, key=key))
            _expect(told, where, outcome, expected)
            if posted is not None:
                saying.seq = posted.seq
        case "add":
            expected = talk.add(act.person, act.principal)
            outcome, is_new = await insist(world, lambda: voice.add(talk.name, act.principal))
            _expect(told, f"{where}: {act.principal}", _changed(outcome, is_new), expected,
                    "nothing" if is_new is False and _may_repeat(world) else None)  # fmt: skip
        case "remove" | "leave":
            expected = talk.remove(act.person, act.principal)
            outcome, _ = await insist(
                world, lambda: voice.remove(talk.name, act.principal),
                repeated=NotFound if expected == "done" else None,
            )  # fmt: skip
            _expect(told, f"{where}: {act.principal}", outcome, expected)
        case "fork":
            await _fork(world, told, act, talk)
        case "erase" if said:
            saying = said[int(act.at * len(said))]
            expected = talk.erase(act.person, saying)
            outcome, is_new = await insist(
                world, lambda: voice.erase(talk.name, saying.seq, reason="a story"), waits=True
            )
            _expect(told, f"{where}: {saying.word}", _changed(outcome, is_new), expected,
                    "nothing" if is_new is False and _may_repeat(world) else None)  # fmt: skip
        case _:
            pass


async def _fork(world: World, told: Told, act: Act, talk: Talk) -> None:
    said = talk.list_said()
    at = said[int(act.at * len(said))].seq if said else talk.forked_at
    name = f"{told.talks[0].name}-{len(told.talks)}"
    made = talk.fork(act.person, name, at)
    outcome, _ = await insist(
        world, lambda: world.voices[act.person].fork(talk.name, at=at, name=name),
        repeated=Conflict,
    )  # fmt: skip
    _expect(told, f"fork of {talk.name} by {act.person} at {at}", outcome,
            "done" if made else "hidden")  # fmt: skip
    if made is not None:
        told.talks.append(made)


def _changed(outcome: Outcome, is_new: object) -> Outcome:
    return "nothing" if outcome == "done" and is_new is False else outcome


def _may_repeat(world: World) -> bool:
    return world.is_disturbed or world.disturbances > 0


def _expect(
    told: Told, what: str, outcome: Outcome, expected: Outcome, or_else: Outcome | None = None
) -> None:
    if outcome not in (expected, or_else):
        told.wrong.append(f"{what}: {outcome} instead of {expected}")


async def _kill(
    world: World,
    members: Sequence[Member],
    database: EmbeddedServer,
    extent: Extent,
    chance: random.Random,
    told: Sequence[Told],
    stories: int,
    calm: asyncio.Lock,
) -> None:
    """Kill processes at random while stories are told, and start them again."""
    blows = ["server"] * extent.servers + ["worker"] * extent.workers
    blows += ["database"] * extent.databases
    chance.shuffle(blows)
    for number, blow in enumerate(blows, start=1):
        # Spread over the stories: each hits while some are told.
        wanted = number * stories // (len(blows) + 1)
        while len(told) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        async with calm:
            for member in members:
                await member.until_ready()
            await asyncio.sleep(chance.random() / 4)
            world.is_disturbed = True
            if blow == "database":
                await asyncio.to_thread(database.stop, mode="immediate")
                await asyncio.to_thread(database.ensure_running)
            else:
                member = chance.choice([one for one in members if one.kind == blow])
                await member.end(signal.SIGKILL)
                await member.start()
            world.kills[blow] += 1
            world.disturbances += 1
            world.is_disturbed = False
            for member in members:
                if member.process is not None and member.process.returncode is not None:
                    await member.start()
                await member.until_ready()
        say(f"killed a {blow} after {len(told)} stories")


def show(
    proof: Proof,
    world: World,
    told: Sequence[Told],
    audit: Audit,
    stories: int,
    extent: Extent,
) -> None:
    """Show what was compared, and what differs."""
    proof.at_least("stories told", len(told), "stories", stories)
    for kind, least in (("server", extent.servers), ("worker", extent.workers),
                        ("database", extent.databases)):  # fmt: skip
        proof.at_least(f"times the {kind} was killed", world.kills[kind], "kills", least)
    proof.at_least("acts compared", sum(one.acts for one in told), "acts", stories)
    proof.at_least("mentions that were answered", audit.answered, "mentions", stories / 2)
    proof.at_least("mentions that were refused, with the reason", audit.refused, "mentions", 1)
    proof.at_least("answers that failed, with the reason", audit.failed, "mentions", 1)
    proof.at_least("posts that triage decided", audit.decided, "posts", stories / 8)
    for figure, problems in list_problems(told, audit).items():
        for problem in problems[:SHOWN_MAX]:
            say(f"  {figure}: {problem}")
        proof.at_most(figure, len(problems), "problems", 0)


def list_problems(told: Sequence[Told], audit: Audit) -> Mapping[str, Sequence[str]]:
    """Return what is wrong, by the figure that counts it."""
    return {
        "acts that came otherwise than the model says": [it for one in told for it in one.wrong],
        "mentions without one answer or refusal": audit.unanswered,
        "posts that mention nobody, without one decision": audit.undecided,
        "answers that nobody asked for": audit.unasked,
        "conversations with other posts, or in another order": audit.posts,
        "turns told of too little, twice or in disorder": audit.told,
        "people who take part or read otherwise": audit.people,
        "words that were erased and are stored": audit.erased,
        "what fsck finds": audit.findings,
    }


async def find_planted(proof: Proof, server: str, folder: Path, extent: Extent) -> None:
    """Plant faults, each in a database of its own, and look for them."""
    chosen = PLANTS[: extent.plants]
    missed = list[str]()
    for number, plant in enumerate(chosen):
        broken = await ensure_database(server, f"planted_{number}")
        await prepare_database(broken, TEAM, FakeClock(number).new_id())
        await install(broken, plant)
        if not await _is_found(broken, folder / f"planted_{number}", proof.seed):
            missed.append(plant.name)
    proof.at_least(f"planted faults found by stories (missed: {missed})",
                   len(chosen) - len(missed), "faults", len(chosen))  # fmt: skip
    broken = await ensure_database(server, "tampered")
    found = await find_tampering(broken, folder / "tampered", proof.seed)
    missed = sorted(FAULTS.keys() - found)
    proof.at_least(f"planted faults found by fsck (missed: {missed})",
                   len(FAULTS) - len(missed), "faults", len(FAULTS))  # fmt: skip


async def _is_found(conninfo: str, home: Path, seed: int) -> bool:
    """Tell stories in this process until one shows that something is wrong."""
    told = list[Told]()
    async with a_world(conninfo, home) as (world, settings), turntree.open(settings, worker=True):
        for first in range(0, PLANT_STORIES, AT_ONCE):
            try:
                await tell_stories(world, seed, range(first, first + AT_ONCE), QUICK.acts, told)
                await until_quiet(world)
            except ExceptionGroup as group:
                # Some faults end a story instead of changing what comes of it.
                say(f"  {group.exceptions[0]}")
                return group.split(TurntreeError)[1] is None
            audit = await audit_all(world, told, finds=False)
            for problems in list_problems(told, audit).values():
                for problem in problems[:1]:
                    say(f"  {problem}")
                    return True
    return False


async def find_tampering(conninfo: str, home: Path, seed: int) -> set[str]:
    """Return the invariants that fsck names after tables were changed behind its back."""
    told = list[Told]()
    async with a_world(conninfo, home) as (world, settings), turntree.open(settings, worker=True):
        warden: dict[str, Json] = {"system_agent_kind": "warden"}
        system = replace(world.tree.programs, by=Principal("system", "turntree"))
        await system.create("agent", "warden", warden)
        await world.voices["ana"].create("guarded", participants=["agent:warden"])
        await tell_stories(world, seed, range(AT_ONCE), QUICK.acts, told)
        await until_quiet(world)
        before = {one.invariant for one in await fsck(world.database)}
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as owner:
            await owner.execute(b"SET session_replication_role = replica")
            for fault in FAULTS.values():
                await owner.execute(fault.encode())
        return {one.invariant for one in await fsck(world.database)} - before


if __name__ == "__main__":
    run(prove, __doc__ or "", numbers="stories")
