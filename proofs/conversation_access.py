"""The claim: a conversation is there for those who take part, at once, and for no others.

A private conversation is held: with an agent of another member, with forks of it and of the session
in which the agent answers, with tags, and with a participant who is mentioned and then removed.
Every read of the API is asked for it, for its session and for each fork, as everybody: those who
take part get what the creator gets, and the others get no word, no title, no id and no digest, in
no answer. Every verb is tried on a conversation of its own as everybody. Nothing is left that would
be mailed to the one who was removed. Faults are planted, each in a database of its own.
"""

import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx2

import turntree
from proofs.drills.plants import Plant, install
from proofs.figures import Proof, run, temporary_server
from proofs.http_access import ROWS, Call, Row, send_call
from proofs.http_world import CANARY, OWNER, TEAM, Team, Vault, a_team, later, serving_here
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.member import roles_with
from turntree.core.canonical import Json
from turntree.core.ids import RunId
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, prepare_database
from turntree.notifications.store import DeliveryStore
from turntree.server.access.rights import CONFIGURE, CREATE
from turntree.server.routes import NETWORK_ROUTES
from turntree.testing.fakes import FakeClock

FAST: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
TALK: Final = "quarry"
SOON_S: Final = 60.0
WRONG_SHOWN_MAX: Final = 15
KEYS: Final[Mapping[str, tuple[str, str | None]]] = {
    "participant": ("pia", None),
    "guest who takes part": ("gil", None),
    "agent that takes part, for a participant": ("pia", "echo"),
    "removed participant": ("ron", None),
    "stranger": ("mia", None),
    "owner of the agent": ("abe", None),
    "agent that takes part, for a stranger": ("mia", "echo"),
    "another agent, for a participant": ("pia", "atlas"),
    "guest of the workspace": ("gus", None),
}
"""The person behind each key, and the agent that acts for them."""
READERS: Final = (
    "owner", "participant", "guest who takes part", "agent that takes part, for a participant",
)  # fmt: skip
OTHERS: Final = (*(name for name in KEYS if name not in READERS), "admin", "other workspace")
GUESTS: Final = frozenset({"guest who takes part", "guest of the workspace"})
PLANTS: Final = (
    Plant(
        "who was removed still takes part",
        ((r"AND x\.removed_at IS NULL AND x\.principal = ANY", "AND x.principal = ANY"),),
    ),
    Plant(
        "forks of sessions are free",
        (((r"(turntree\.bound_sessions \(workspace_id, session_id, conversation_id\)) VALUES"
          r" \([^;]*\);"), r"\1 SELECT p_ws, p_session, v_conversation WHERE false;"),),
    ),
    Plant(
        "an agent needs only its person",
        ((r"ARRAY\[substring\(p_by FROM [^)]*\) for [^)]*\), turntree\.person_behind\(p_by\)\]",
          "ARRAY[turntree.person_behind(p_by)]"),),
    ),
    Plant(
        "each participant removes each other one",
        ((r"ELSIF p_by NOT IN \(p_principal, p\.owner, x\.added_by\)[^;]*? THEN\n",
          "ELSIF false THEN\n"),),
    ),
    Plant(
        "each participant erases each post",
        ((r"ELSIF p_by NOT IN \(p\.owner, coalesce\(v_author, ''\)\)[^;]*? THEN\n",
          "ELSIF false THEN\n"),),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verb:
    """How a conversation is changed, and who may: everybody else who reads it gets 403."""

    values: Mapping[str, Any]
    allowed: frozenset[str]
    refused: int = 403
    needs: str = ""
    """The right that guests lack, if it is one."""


ALL: Final = frozenset(READERS)
CREATOR: Final = frozenset({"owner"})
VERBS: Final[Mapping[str, Verb]] = {
    "POST /conversations/{conversation}/posts": Verb({"text": "hello"}, ALL),
    "POST /conversations/{conversation}/participants": Verb({"participant": "human:mia"}, ALL),
    "POST /conversations/{conversation}/participants/remove": Verb(
        {"participant": "human:fay"}, CREATOR
    ),
    "POST /conversations/{conversation}/fork": Verb({}, ALL - GUESTS, needs=str(CREATE)),
    "POST /conversations/{conversation}/posts/{post}/erase": Verb(
        {"post": 1}, CREATOR, needs=str(CONFIGURE)
    ),
    "POST /conversations/{conversation}/triage": Verb({"on": True}, CREATOR, needs=str(CONFIGURE)),
    "POST /conversations/{conversation}/state": Verb(
        {"state": "archived"}, CREATOR, needs=str(CONFIGURE)
    ),
}


BY_VERBS: Final = frozenset({PLANTS[3].name, PLANTS[4].name})
"""The faults that no read shows."""


async def prove(proof: Proof) -> None:
    """Ask everything as everybody, then again where something was broken."""
    with temporary_server(FAST) as (server, home):
        async with _talking(server, home / "sound") as (team, vaults):
            looked, wrong = await try_reads(team, vaults[:2] if proof.quick else vaults)
            tried, more = await try_verbs(team)
            _show([*wrong, *more])
            proof.at_least("answers to reads", looked, "answers", 400)
            proof.at_most("wrong answers to reads", len(wrong), "answers", 0)
            proof.at_least("verbs tried", tried, "calls", len(VERBS) * (len(READERS) + len(OTHERS)))
            proof.at_most("verbs wrongly done or refused", len(more), "calls", 0)
            mailed = await list_mailed(team)
            proof.at_most(f"people with mail about it {mailed}", len(mailed), "people", 0)
        missed: list[str] = []
        for number, plant in enumerate(PLANTS):
            broken = await ensure_database(server, f"broken_{number}")
            await prepare_database(broken, TEAM, FakeClock(number).new_id())
            await install(broken, plant)
            async with _talking(broken, home / f"broken_{number}") as (team, vaults):
                if plant.name in BY_VERBS:
                    _, wrong = await try_verbs(team, is_brief=True)
                else:
                    # The fork of the one who was removed shows most of them at once.
                    _, wrong = await try_reads(team, vaults[::-1], is_brief=True)
            missed += [] if wrong else [plant.name]
        proof.at_least(
            f"planted omissions found (missed: {missed})", len(PLANTS) - len(missed), "faults",
            len(PLANTS),
        )  # fmt: skip


@asynccontextmanager
async def _talking(conninfo: str, home: Path) -> AsyncGenerator[tuple[Team, Sequence[Vault]]]:
    """Open a team that has held its conversation; yield what leads to it, and to its forks."""
    async with a_team(conninfo, home) as team:
        for name, role in (("pia", "member"), ("ron", "member"), ("gil", "guest"),
                           ("abe", "member"), ("fay", "member")):  # fmt: skip
            await team.tree.members.add(name, role)  # type: ignore[arg-type]
        settings = team.settings_of(TEAM, OWNER)
        async with turntree.open(settings, worker=True) as tree:
            vaults = await _hold(tree)
        for caller, (person, agent) in KEYS.items():
            _, team.keys[caller] = await team.of(person).keys.create(
                caller, expires_at=later(), agent=agent
            )
        yield team, vaults


async def _hold(tree: Tree) -> Sequence[Vault]:
    """Hold the conversation, fork it, and remove one who took part."""

    def seen_by(name: str) -> Tree:
        return tree.act_as(ExecutionContext.begin(Principal("human", name)))

    rules: list[Json] = [{"when": "", "replies": [{"text": f"{CANARY}, as the agent says"}]}]
    await tree.programs.create("provider", "script", {"provider_type": "scripted", "rules": rules})
    await tree.programs.create("model", "keen", {"model_id": "scripted-1", "provider": "@(script)"})
    agent: dict[str, Json] = {"default_model": "@(keen)"}
    await seen_by("abe").programs.create("agent", "echo", agent)
    await seen_by("abe").programs.create("agent", "atlas", agent)
    talk, pia, ron = tree.conversations, seen_by("pia"), seen_by("ron")
    people = [f"human:{name}" for name in ("pia", "ron", "gil")]
    made = await talk.create(TALK, title=f"{CANARY}, as its title says", participants=people)
    for words in ("first", "second"):
        posted = await talk.post(TALK, f"@[Echo](agent:echo) {CANARY}, {words}")
        await tree.runs.wait(RunId(posted.answers[0].run), timeout_s=SOON_S)
    turns = [one.turn for one in await talk.list_posts(TALK) if one.turn is not None]
    placed = [await tree.turns.get(str(turn)) for turn in turns]
    await pia.turns.tag(turns[0], "canary-tag")
    await ron.sessions.fork(str(turns[-1]), "rons-thread")
    await pia.sessions.fork(str(turns[-1]), "pias-thread")
    forked = await ron.conversations.fork(TALK, name="rons-talk")
    await talk.post(TALK, f"@[Ron](user:ron) {CANARY}, before you go")
    await talk.remove(TALK, "ron")
    await tree.search.fill()
    digests = tuple(one.turn.digest.removeprefix("sha256:") for one in placed)
    bound = next(one for one in await talk.list_participants(TALK) if one.session is not None)
    secret = (
        CANARY, "canary-tag", made.id, forked.id, str(bound.session), f"{TALK}:echo",
        *map(str, turns), *digests,
    )  # fmt: skip
    first = Vault(f"{TALK}:echo", tuple(map(str, turns)), digests[-1], secret, conversation=TALK)
    return (
        first,
        replace(first, label="rons-thread", conversation="rons-talk"),
        replace(first, label="pias-thread", conversation=made.id),
        replace(first, label=str(bound.session), conversation=forked.id),
    )


async def try_reads(
    team: Team, vaults: Sequence[Vault], *, is_brief: bool = False
) -> tuple[int, list[str]]:
    """Return how many answers were looked at, and which of them were wrong."""
    looked, wrong = 0, list[str]()
    async with serving_here(team) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for number, (call, is_first) in enumerate(_list_reads(vaults)):
            statuses: dict[str, int] = {}
            for caller in (*READERS, *OTHERS):
                answer = await send_call(client, team, replace(call, number=number), caller, "")
                looked += 1
                statuses[caller] = answer.status_code
                if caller in OTHERS:
                    wrong += [
                        f"{call.name} as {caller}: {it}" for it in _judge(call, caller, answer)
                    ]
                elif is_first:
                    # What is not there is not there for a guest either.
                    is_refused = statuses["owner"] == 200 and _is_refused(call, caller)
                    wanted = 403 if is_refused else statuses["owner"]
                    if answer.status_code != wanted:
                        wrong.append(f"{call.name} as {caller}: {answer.status_code}, not {wanted}")
                if wrong and is_brief:
                    return looked, wrong
    return looked, wrong


def _list_reads(vaults: Sequence[Vault]) -> Sequence[tuple[Call, bool]]:
    """Return the reads, and whether all who take part may see what each asks for."""
    calls: list[tuple[Call, bool]] = []
    for vault in vaults:
        for route in NETWORK_ROUTES:
            row = ROWS[f"{route.method} {route.path}"]
            is_first = vault.label == f"{TALK}:echo"
            # What names nothing is the same for all of them.
            if route.method != "GET" or route.right is None or not (is_first or route.path_names):
                continue
            revisions = [vault.label, vault.turns[-1], vault.digest[:12]]
            calls += [
                (Call(route, row, vault, revision, 0), is_first)
                for revision in (revisions if row.is_by_revision and is_first else revisions[:1])
            ]
    return calls


def _is_refused(call: Call, caller: str) -> bool:
    """Return whether a role has too few rights for a route, whatever that would show."""
    right = call.route.right
    return caller in GUESTS and right is not None and "guest" not in roles_with(right)


def _judge(call: Call, caller: str, answer: httpx2.Response) -> list[str]:
    """Return what is wrong with an answer to one who may see nothing."""
    found: list[str] = []
    expected = call.row.hidden | {403} if caller == "other workspace" else call.row.hidden
    # What only admins list, others may not even ask for.
    if answer.status_code not in expected | {403}:
        found.append(f"{answer.status_code} instead of {sorted(expected)}: {answer.text[:160]}")
    asked = unquote(call.request()[1])
    # The one who was removed knows its name.
    named = () if caller == "removed participant" else (TALK,)
    found += [f"shows {it!r}: {answer.text[:160]}" for it in (*call.vault.secrets, *named)
              if it in answer.text and it not in asked]  # fmt: skip
    return found


async def try_verbs(team: Team, *, is_brief: bool = False) -> tuple[int, list[str]]:
    """Return how many calls were made, and which of them did or refused something wrongly."""
    tried, wrong = 0, list[str]()
    routes = {f"{route.method} {route.path}": route for route in NETWORK_ROUTES}
    async with serving_here(team) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for name, verb in VERBS.items():
            for caller in (*READERS, *OTHERS):
                tried += 1
                label = f"talk-{tried}"
                await _begin(team, label)
                vault = Vault(label, (), "", (), conversation=label)
                row = Row(_given(label, verb.values))
                call = Call(routes[name], row, vault, label, tried)
                answer = await send_call(client, team, call, caller, "")
                expected = _expect(verb, caller)
                if answer.status_code not in expected:
                    wrong.append(f"{name} as {caller}: {answer.status_code} instead of"
                                 f" {sorted(expected)}: {answer.text[:200]}")  # fmt: skip
                    if is_brief:
                        return tried, wrong
    return tried, wrong


def _given(label: str, values: Mapping[str, Any]) -> Callable[[Vault, str], Mapping[str, Any]]:
    return lambda _vault, _revision: {"conversation": label, **values}


async def _begin(team: Team, label: str) -> None:
    """Begin a conversation with all who take part, and one who was removed."""
    talk = team.of(OWNER).conversations
    people = [f"human:{name}" for name in ("pia", "gil", "ron", "fay")]
    await talk.create(label, participants=[*people, "agent:echo"])
    await talk.post(label, "hello")
    await talk.remove(label, "ron")


def _expect(verb: Verb, caller: str) -> frozenset[int]:
    """Return the statuses that a caller of a verb may get."""
    if caller == "other workspace" or (verb.needs and caller in GUESTS):
        return frozenset({403})
    if caller in OTHERS:
        return frozenset({404})
    return frozenset({200 if caller in verb.allowed else verb.refused})


async def list_mailed(team: Team) -> list[str]:
    """Return who has unread notices about it without taking part."""
    everything = team.database.seen_by(EVERYTHING)
    rows = await everything.fetch(
        b"SELECT DISTINCT n.person FROM turntree.notices n WHERE n.read_at IS NULL"
        b" AND n.refs ? 'conversation' AND NOT EXISTS (SELECT FROM turntree.participants p"
        b" WHERE p.conversation_id::text = n.refs ->> 'conversation' AND p.principal = n.person"
        b" AND p.removed_at IS NULL)"
    )
    waiting = await DeliveryStore(everything, ("email",)).list_waiting()
    return [*[str(person) for (person,) in rows], *[one.person for one in waiting]]


def _show(wrong: Sequence[str]) -> None:
    for line in wrong[:WRONG_SHOWN_MAX]:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    run(prove, __doc__ or "")
