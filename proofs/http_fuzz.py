"""The claim: whatever is sent to the server, it answers as its OpenAPI document says.

    python -m proofs.http_fuzz [--quick] [--only cases|plants]

schemathesis makes requests from the document that ``turntree serve`` gives out: half of them fit it
and half do not. Callers of every kind send them, with and without a key. Most requests name real
sessions, turns and runs, so that they reach what lies behind "not found". No answer may be a fault
of the server; the status, the media type and each member of its body have to be in the document.

Then the same is asked of servers with a planted fault each, which must be found.
"""

import asyncio
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import httpx2
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from jsonschema_rs import Draft202012Validator
from schemathesis.generation import GenerationMode
from starlette.responses import PlainTextResponse

from proofs.figures import Proof, run, temporary_server
from proofs.http_world import (
    OWNER,
    TEAM,
    Team,
    a_team,
    serving_apart,
    serving_here,
)
from turntree.auth.member import ROLES
from turntree.boot.open import tree_on
from turntree.demo.planting import plant_demo
from turntree.server.context import ServerContext
from turntree.server.openapi import describe_api
from turntree.server.problems import Refusal
from turntree.server.reads.me import get_me
from turntree.server.route import Handler, NoValues, adapter_of
from turntree.server.routes import NETWORK_ROUTES
from turntree.testing.fakes import FakeClock

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
CASES, CASES_QUICK = 20_000, 1_000
CASES_OF_PLANT: Final = 60
REAL_SHARE: Final = 0.8
"""Of the requests that could name something that exists, how many do."""
REFRESH_CASES: Final = 40
"""Cases after which the labels are read again, because other cases rename sessions."""
ANSWER_S_MAX: Final = 60.0
WRONG_SHOWN_MAX: Final = 20
TURNS_MAX: Final = 40
"""What requests name, of each kind."""
MORE_MAX: Final = 5
"""How often a route that was never answered with 200 gets as many cases again."""
FILES_MAX: Final = 3
"""Of one turn."""
APART_SHARE: Final = 0.25
"""Of the requests, how many name things that need not belong together."""
OK_SHARE_MIN: Final = 0.25
UNREACHABLE: Final = frozenset(
    f"POST /w/{{workspace}}/api/v1/{path}"
    for path in (
        "first-key", "accepted-invitations", "logout",
        "login-sessions", "login-sessions/{login}/end",
        "identity-logins", "identity-logins/finish", "identities/{identity}/unlink",
        "hooks/{trigger}", "deliveries/{delivery}/resend",
    )
)  # fmt: skip
"""What no generated value opens: a code, a password, a signature, what only a browser that logged
in has, an account at an identity provider, of which the server has none, and a delivery that a
worker has ended."""
MANAGED: Final = re.compile("/(members|keys|invitations|webhooks|triggers)")
"""Routes that only admins may call, or that list one's own: their cases are an admin's."""
ENDING: Final = re.compile("/(remove|revoke|end|delete)$")
"""Routes whose cases come last: those of the others name what they end."""
LISTS: Final = {
    "member": ("members", "name"),
    "key": ("keys", "id"),
    "invitation": ("invitations", "id"),
    "webhook": ("webhooks", "id"),
    "trigger": ("triggers", "id"),
}
"""By parameter the route that lists what it names, and the member of a row that it takes."""
SUPPRESSED: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large,
                     HealthCheck.large_base_example)  # fmt: skip
"""What hypothesis would say of any schema with a body."""
CALLERS: Final = ("owner",) * 12 + ("admin",) * 4 + (
    "member", "guest", "agent on behalf", "narrowed to reading", "narrowed to sending",
    "other workspace", "revoked", "anonymous",
)  # fmt: skip
"""Who sends a case, drawn at random."""
CHOICES: Final = {"role": ROLES, "url": ("https://example.net/hook",)}
REVISIONS: Final = ("revision", "a", "b", "at", "to", "expected_head", "if-match")
SESSIONS: Final = ("session",)
RUNS: Final = ("run",)


@dataclass(slots=True)
class World:
    """What a server has that a request can name."""

    url: str
    headers: Callable[[str], Mapping[str, str]]
    turns: Sequence[str]
    digests: Sequence[str]
    labels: Sequence[str] = ()
    files: Sequence[tuple[str, str]] = ()
    """Turns, and a file that each left."""
    known: set[str] = field(default_factory=set[str])
    """Members and keys with which cases are sent; none of them is removed."""
    accounts: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Members, keys and invitations that cases have made, by parameter."""

    def refresh(self, session: requests.Session) -> None:
        """Read the names of sessions again; those that were archived keep theirs."""
        answer = session.get(
            f"{self.url}/w/{TEAM}/api/v1/sessions?limit=50&archived=true",
            headers=dict(self.headers("owner")),
            timeout=ANSWER_S_MAX,
        )
        self.labels = [row["label"] for row in answer.json()["sessions"]]
        self.accounts = {
            name: [one for one in self._list_accounts(session, name) if one not in self.known]
            for name in LISTS
        }

    def keep_accounts(self, session: requests.Session) -> None:
        """Remember who sends the cases, and with which keys."""
        self.known = {one for name in LISTS for one in self._list_accounts(session, name)}

    def _list_accounts(self, session: requests.Session, name: str) -> list[str]:
        path, member = LISTS[name]
        answer = session.get(
            f"{self.url}/w/{TEAM}/api/v1/{path}",
            headers=dict(self.headers("admin")),
            timeout=ANSWER_S_MAX,
        )
        return [row[member] for row in answer.json()[path]]

    def find_files(self, session: requests.Session) -> None:
        """Read which files the turns left."""
        for turn in self.turns:
            answer = session.get(
                f"{self.url}/w/{TEAM}/api/v1/turns/{turn}/files",
                headers=dict(self.headers("owner")),
                timeout=ANSWER_S_MAX,
            )
            if answer.status_code == HTTPStatus.OK:
                rows = answer.json()["entries"]
                changed = [row for row in rows if row["change"] in {"added", "changed"}]
                self.files = [*self.files, *((turn, row["path"]) for row in changed[:FILES_MAX])]

    def pick_together(self, by: random.Random) -> Mapping[str, str]:
        """Return names that belong together, by parameter, or none."""
        if by.random() < APART_SHARE:
            return {}
        (turn, path), label = by.choice(self.files), by.choice(self.labels)
        return {"revision": turn, "path": path, "session": label, "to": f"{label}~1"}

    def pick(self, name: str, by: random.Random) -> object:
        """Return something that exists for a parameter, or None if it names nothing."""
        if name in REVISIONS:
            suffix = by.choice(("", "", "", "", "~1", "^", "@{1}", "~2..", "^2"))
            return by.choice((*self.turns, *self.digests, *self.labels)) + suffix
        if name in SESSIONS:
            return by.choice(self.labels)
        if name in RUNS:
            # A waiting run is followed until it is answered, which is never without a worker.
            return by.choice(self.turns)
        if name == "path":
            return by.choice(self.files)[1]
        if name == "turns":
            return ",".join(by.sample(list(self.turns), 2))
        if name in CHOICES:
            return by.choice(CHOICES[name])
        if name in {"message", "part", "low", "high"}:
            return by.choice((0, 0, 1, 2))
        if name in LISTS:
            return by.choice(self.accounts[name]) if self.accounts.get(name) else None
        if name == "idempotency-key":
            # A key of an earlier request now and then, which then has another body.
            return f"{by.randrange(500)}"
        return None


@dataclass(slots=True)
class Findings:
    """What was sent, and which answers were wrong."""

    cases: int = 0
    statuses: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])
    wrong: dict[str, str] = field(default_factory=dict[str, str])
    """The first example of each kind of fault, by the route and the fault."""

    def add(self, label: str, fault: str, case: str) -> None:
        """Note a fault, once for each route."""
        self.wrong.setdefault(f"{label}: {fault}", case)


@dataclass(slots=True)
class Fuzzer:
    """Sends cases to one server."""

    world: World
    judge: "Judge"
    seed: int
    findings: Findings = field(default_factory=Findings)
    session: requests.Session = field(default_factory=requests.Session)

    def run(self, cases: int, *, only: str = "") -> Findings:
        """Send a number of cases, as many to each route, and return what was found."""
        schema: Any = schemathesis.openapi.from_dict({**self.judge.document})
        operations: list[Any] = [it.ok() for it in schema.get_all_operations()]
        self.world.find_files(self.session)
        self.world.keep_accounts(self.session)
        chosen = sorted(
            (it for it in operations if only in it.label),
            key=lambda it: ENDING.search(it.label) is not None,
        )
        each = math.ceil(cases / len(chosen) / len(GenerationMode))
        for number, operation in enumerate(chosen):
            self.world.refresh(self.session)
            for mode in GenerationMode:
                self._try_operation(operation, mode, each, f"{self.seed}-{number}-{mode.name}")
            for more in range(MORE_MAX):
                # A few cases for each route may all be refused: then more of them tell of answers.
                if operation.label in UNREACHABLE or self._is_reached(operation.label):
                    break
                seed = f"{self.seed}-{number}-more-{more}"
                self._try_operation(operation, GenerationMode.POSITIVE, each, seed)
            if number % 10 == 9:
                say(
                    f"{number + 1} of {len(chosen)} routes, {self.findings.cases} cases,"
                    f" {len(self.findings.wrong)} kinds of wrong answers: {operation.label}"
                )
        # Of a route without parameters there are few different cases.
        for number, operation in enumerate(chosen):
            if self.findings.cases >= cases:
                break
            self.world.refresh(self.session)
            mode = GenerationMode.NEGATIVE
            self._try_operation(operation, mode, each, f"{self.seed}-{number}-again")
        return self.findings

    def _is_reached(self, label: str) -> bool:
        return count_done(self.findings.statuses.get(label, Counter[int]())) > 0

    def _try_operation(self, operation: Any, mode: GenerationMode, each: int, seed: str) -> None:
        by = random.Random(seed)

        @seeded(by.randrange(2**32))
        @settings(
            max_examples=each,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=SUPPRESSED,
        )
        @given(case=operation.as_strategy(mode))
        def send(case: Any) -> None:
            self._send(case, by)

        try:
            send()
        except Unsatisfiable:
            # A route that takes no values cannot be given wrong ones.
            if mode is GenerationMode.POSITIVE:
                raise

    def _send(self, case: Any, by: random.Random) -> None:
        if self.findings.cases % REFRESH_CASES == 0:
            self.world.refresh(self.session)
        self.findings.cases += 1
        self._name_real_things(case, by)
        caller = by.choice(CALLERS)
        if caller == "owner" and MANAGED.search(case.operation.path):
            # The owner of sessions is an ordinary member.
            caller = "admin"
        sent = case.as_transport_kwargs(base_url=self.world.url)
        sent["url"] = write_url(self.world.url, case) or sent["url"]
        headers = {k: v for k, v in sent["headers"].items() if k.lower() != "authorization"}
        sent["headers"] = {**headers, **self.world.headers(caller)}
        label = case.operation.label
        told = (
            f"{caller}: {case.method} {case.formatted_path} {case.query} {case.headers} {case.body}"
        )
        # The stream of the workspace does not end: its head is what is judged.
        is_endless = case.operation.path.endswith("/stream")
        try:
            answer = self.session.request(**sent, timeout=ANSWER_S_MAX, stream=is_endless)
            if is_endless and answer.status_code == HTTPStatus.OK:
                answer.close()
        except requests.RequestException as error:
            self.findings.add(label, f"no answer: {error!r}", told)
            return
        self.findings.statuses.setdefault(label, Counter())[answer.status_code] += 1
        for fault in self.judge.list_faults(case.method, case.operation.path, answer):
            self.findings.add(label, fault, f"{told} -> {answer.status_code} {answer.text[:300]}")

    def _name_real_things(self, case: Any, by: random.Random) -> None:
        """Put names of what exists in place of some generated ones."""
        if case.path_parameters is not None and "workspace" in case.path_parameters:
            case.path_parameters["workspace"] = TEAM if by.random() < 0.97 else "nowhere"
        parts = [
            cast("dict[str, object]", values)
            for values in (case.path_parameters, case.query, case.headers, case.body)
            if isinstance(values, Mapping)
        ]
        together = self.world.pick_together(by)
        for values in parts:
            for name in [*values]:
                real = together.get(name) or self.world.pick(name, by)
                if real is not None and by.random() < REAL_SHARE:
                    values[name] = real


@dataclass(slots=True)
class Judge:
    """Says what is wrong with an answer, by the description of the API.

    schemathesis 4.32 has checks for this, and rewrites the schema of a pair, which is valid in
    OpenAPI 3.1, into one that its own validator refuses.
    """

    document: Mapping[str, Any]
    validators: dict[str, Draft202012Validator] = field(
        default_factory=dict[str, Draft202012Validator]
    )
    """By schema. The validator in Rust: one in Python took a third of the time of a case."""

    def list_faults(self, method: str, path: str, answer: requests.Response) -> list[str]:
        """Return what the answer of a route has that its description lacks."""
        status = answer.status_code
        faults = (
            [f"a fault of the server: {status}"]
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR
            else []
        )
        response = self.document["paths"][path][method.lower()]["responses"].get(str(status))
        if response is None:
            return [*faults, f"the status {status} is not documented"]
        if "$ref" in response:
            name = response["$ref"].rpartition("/")[2]
            response = self.document["components"]["responses"][name]
        contents: Mapping[str, Any] = response.get("content", {})
        media = answer.headers.get("content-type", "").partition(";")[0]
        if not contents:
            return [*faults, f"{status} has a body"] if answer.content else faults
        if media not in contents:
            return [*faults, f"{status} is {media or 'of no type'}, documented: {[*contents]}"]
        if media.endswith("json"):
            faults += self._list_misfits(contents[media]["schema"], answer)
        return faults

    def _list_misfits(self, schema: Mapping[str, Any], answer: requests.Response) -> list[str]:
        key = json.dumps(schema)
        if key not in self.validators:
            whole = {**schema, "components": self.document["components"]}
            self.validators[key] = Draft202012Validator(whole)
        try:
            body = answer.json()
        except ValueError:
            return ["the body is not JSON"]
        return [
            f"{'/'.join(map(str, one.instance_path)) or 'the body'}: {one.message[:200]}"
            for one in self.validators[key].iter_errors(body)
        ]


def say(words: str) -> None:
    """Tell how far it has come."""
    print(words, file=sys.stderr, flush=True)


def count_done(statuses: Counter[int]) -> int:
    """Return how many cases did what they asked for."""
    return statuses[HTTPStatus.OK] + statuses[HTTPStatus.NO_CONTENT]


def write_url(url: str, case: Any) -> str | None:
    """Return the address of a case, or None if schemathesis has to write it.

    It would leave the slashes of a label as they are, and never find a session that has one.
    """
    path: str = case.operation.path
    names: Mapping[str, object] = case.path_parameters or {}
    for name, text in names.items():
        if not isinstance(text, str | int):
            return None
        path = path.replace(f"{{{name}}}", quote(str(text), safe="~"))
    return url + path


def close_objects(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description with every object closed: a member that it does not name is wrong."""

    def close(node: object) -> Any:
        if isinstance(node, list):
            return [close(item) for item in cast("list[object]", node)]
        if not isinstance(node, dict):
            return node
        members = {k: close(item) for k, item in cast("dict[str, Any]", node).items()}
        if members.get("type") == "object" and isinstance(members.get("properties"), dict):
            members.setdefault("additionalProperties", False)
        return members

    return cast("dict[str, Any]", close(dict(document)))


async def make_world(team: Team, url: str, folder: Path) -> World:
    """Plant sample data and a private session, and return what requests can name."""
    settings = replace(team.settings, user=OWNER)
    tree = tree_on(team.database, settings, FakeClock(), engine=team.engine)
    await plant_demo(tree, folder)
    await tree.search.fill(everything=True)
    vault = await team.add_vault(1)
    turns = [placed.turn for placed in await tree.turns.list_newest(limit=TURNS_MAX)]
    return World(
        url,
        team.headers,
        [*(str(turn.id) for turn in turns), *vault.turns],
        [turn.digest.removeprefix("sha256:")[:16] for turn in turns],
    )


async def _raise(_: ServerContext, __: object) -> object:
    raise RuntimeError("planted")


async def _refuse(_: ServerContext, __: object) -> object:
    raise Refusal(HTTPStatus.PAYMENT_REQUIRED, "planted", "pay first")


async def _say_more(context: ServerContext, _: object) -> bytes:
    me = await get_me(context, NoValues())
    return adapter_of(dict[str, Any]).dump_json({**asdict(me), "planted": True})


async def _say_less(context: ServerContext, _: object) -> bytes:
    me = await get_me(context, NoValues())
    return adapter_of(dict[str, Any]).dump_json({"user": me.user})


async def _say_plainly(_: ServerContext, __: object) -> PlainTextResponse:
    return PlainTextResponse("olga")


PLANTS: Final[Mapping[str, Handler]] = {
    "a handler that raises": _raise,
    "a status that is not documented": _refuse,
    "a member that is not documented": _say_more,
    "a member that is missing": _say_less,
    "a media type that is not documented": _say_plainly,
}
"""Faults of the handler of ``GET /me``, each by what is wrong."""


async def is_found(team: Team, world: World, plant: Handler, seed: int) -> bool:
    """Return whether the cases find a handler that is not as described."""
    routes = [
        replace(route, handler=plant) if route.handler is get_me else route
        for route in NETWORK_ROUTES
    ]
    # The description is that of the sound server: only what it answers has changed.
    judge = Judge(close_objects(describe_api(NETWORK_ROUTES, is_network=True)))
    async with serving_here(team, routes) as url:
        fuzzer = Fuzzer(replace(world, url=url), judge, seed)
        findings = await asyncio.to_thread(fuzzer.run, CASES_OF_PLANT, only="/api/v1/me")
    return bool(findings.wrong)


async def prove(proof: Proof) -> None:
    """Send cases to the typed command, then to servers with a fault."""
    with temporary_server(QUICK_SERVER) as (server, home):
        async with a_team(server, home / "proof") as team:
            world = await make_world(team, "", home / "work")
            if proof.begins("cases"):
                await prove_cases(proof, team, world)
            if proof.begins("plants"):
                missed = [
                    name
                    for name, plant in PLANTS.items()
                    if not await is_found(team, world, plant, proof.seed)
                ]
                proof.at_least(f"planted faults found (missed: {missed})",
                               len(PLANTS) - len(missed), "faults", len(PLANTS))  # fmt: skip


async def prove_cases(proof: Proof, team: Team, world: World) -> None:
    """Send as many cases to each route, and judge the answers."""
    wanted = CASES_QUICK if proof.quick else CASES
    async with serving_apart(team.settings, "--no-worker") as served:
        url = served.url
        async with httpx2.AsyncClient(base_url=url) as client:
            description = (await client.get("/api/v1/openapi.json")).json()
        fuzzer = Fuzzer(replace(world, url=url), Judge(close_objects(description)), proof.seed)
        began = time.monotonic()
        findings = await asyncio.to_thread(fuzzer.run, wanted)
        proof.note("seconds for the cases", time.monotonic() - began, "s")
    for fault, case in [*findings.wrong.items()][:WRONG_SHOWN_MAX]:
        say(f"{fault}\n    {case}")
    proof.at_least("cases", findings.cases, "cases", wanted)
    # What only ever meets a refusal shows nothing of the answers.
    reached = {label for label, counts in findings.statuses.items() if count_done(counts)}
    unreached = sorted(set(findings.statuses) - reached - UNREACHABLE)
    proof.at_most(f"routes that only refused {unreached}", len(unreached), "routes", 0)
    done = sum(map(count_done, findings.statuses.values()))
    proof.at_least("cases answered with 200 or 204", done / findings.cases, "of all", OK_SHARE_MIN)
    proof.at_most("kinds of wrong answers", len(findings.wrong), "kinds", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
