"""The claim: over HTTP every caller gets what the table of routes and the ledger permit, no more.

    python -m proofs.http_access [--quick]

Every route of the network's table is called by every kind of caller: without a key, with a key of
another workspace, as a guest, a member, the owner of what is asked for, an admin, an agent on the
owner's behalf, with keys that permit less, with the cookie of a login session, and with keys and
cookies that expired, were revoked, or whose holder was removed. What is asked for is always a
private session of the owner, by label, by address and by digest, with the owner's ETag and the
owner's Idempotency-Key. What each call must answer
follows from the right in the table and from one row a route, below: a route without a row falls
short. No answer to another caller may contain a text, an address or a digest of the private
session. Every denial of a known principal must be an event.

Then the same is asked of servers with a planted omission each, which must be found.

The part ``oidc`` logs in to the typed command with two identity providers on loopback, as a client
that follows redirects: oidc-provider-mock, and for what that does not check a strict provider of
our own, which also forges tokens. The part ``pooler`` starts the command behind a real pgbouncer in
every mode, which it has to refuse.
"""

import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import quote
from uuid import UUID

import httpx2

from proofs.figures import Proof, run, temporary_server
from proofs.http_world import (
    OTHER,
    OWNER,
    TEAM,
    Team,
    Vault,
    a_team,
    run_refused,
    serving_apart,
    serving_here,
)
from proofs.identity_attacks import (
    ATTACKS_OF_MOCK,
    ATTACKS_OF_STRICT,
    LOGIN_PLANTS,
    attack_logins,
    attack_mock,
    log_in_with_mock,
)
from proofs.identity_provider import (
    CLIENT,
    CLIENT_SECRET,
    FORGERIES,
    mock_provider,
    strict_provider,
)
from proofs.pooling import MODES, find_pgbouncer, pooling
from turntree import Settings, Tree
from turntree.auth import api_key
from turntree.auth.api_key import ApiKey
from turntree.auth.api_keys import workspace_of_key
from turntree.auth.delegation import DelegationChain
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.logins.login_session import LoginSession
from turntree.auth.member import CREATE_KEYS, MANAGE_MEMBERS, RIGHTS, Role
from turntree.auth.permissions import EVERYTHING, Permissions, Right, actions
from turntree.boot.open import tree_on
from turntree.core import viewer
from turntree.core.event import BEGINNING
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.core.principal import Principal
from turntree.core.viewer import sight_of
from turntree.db.embedded.account import find_account
from turntree.server.access.caller import ApiCaller
from turntree.server.access.network_callers import NetworkCallers
from turntree.server.access.rights import CONFIGURE, CREATE, INVOKE, READ
from turntree.server.access.verified_callers import VerifiedCredential
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute, NoValues
from turntree.server.routes import NETWORK_ROUTES
from turntree.system.clock import SystemClock

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
WRONG_SHOWN_MAX: Final = 12
UNKNOWN: Final = (
    "anonymous", "expired", "revoked", "removed", "garbled", "logged out",
    "logged in, then removed",
)  # fmt: skip
PERMITTED: Final[Mapping[str, Permissions]] = {
    "owner": RIGHTS["member"],
    "member": RIGHTS["member"],
    "guest": RIGHTS["guest"],
    "admin": RIGHTS["admin"],
    "logged in": RIGHTS["member"],
    "agent on behalf": RIGHTS["member"],
    "narrowed to reading": Permissions(actions("read")),
    "narrowed to sending": Permissions(actions("invoke")),
}
"""What each caller with a valid key or login session may do at most."""
CALLERS: Final = ("owner", *(name for name in PERMITTED if name != "owner"), "other workspace",
                  *UNKNOWN)  # fmt: skip
"""The owner first: others then try the owner's ETag and Idempotency-Key."""
SEES_VAULT: Final = frozenset({"owner", "narrowed to reading", "narrowed to sending"})
"""One person, with different keys."""
OK: Final = frozenset({200})
HIDDEN: Final = frozenset({404})


@dataclass(frozen=True, slots=True)
class Row:
    """How a route is called with a private session, and what that must answer."""

    values: Callable[[Vault, str], Mapping[str, Any]]
    """What is asked, of a session and by a revision of it."""
    seen: frozenset[int] = OK
    """What a caller gets who may see the session, and has the right of the route."""
    hidden: frozenset[int] = HIDDEN
    """What a caller gets who has the right, and may not see the session."""
    is_by_revision: bool = False
    """Whether it is asked by label, by address and by digest."""
    is_for_people: bool = False
    """Whether an agent is refused, whatever it may do."""
    takes_cookies: bool = True
    """Whether callers send the cookies that they have."""


def _nothing(_: Vault, __: str) -> Mapping[str, Any]:
    return {}


def _revision(**more: Any) -> Row:
    return Row(lambda _, revision: {"revision": revision, **more}, is_by_revision=True)


def _list(**asked: Any) -> Row:
    return Row(lambda _, __: asked, hidden=OK)


def _act(values: Callable[[Vault, str], Mapping[str, Any]], *seen: int) -> Row:
    return Row(values, frozenset(seen or (200,)))


def _talk(**more: Any) -> Row:
    return Row(lambda vault, _: {"conversation": vault.conversation, **more})


def _approval(seen: int = 200, **more: Any) -> Row:
    # Only a person who acts directly decides.
    return Row(
        lambda vault, _: {"approval": vault.approval, **more}, frozenset({seen}), is_for_people=True
    )


def _webhook(*hidden: int, **more: Any) -> Row:
    # An admin sees it, and may stop it.
    return Row(
        lambda vault, _: {"webhook": vault.webhook, **more}, hidden=frozenset({404, *hidden})
    )


def _trigger(*hidden: int, **more: Any) -> Row:
    return Row(
        lambda vault, _: {"trigger": vault.trigger, **more}, hidden=frozenset({404, *hidden})
    )


ROWS: Final[Mapping[str, Row]] = {
    "POST /first-key": Row(lambda _, __: {"code": "guessed"}, frozenset({403}), frozenset({403})),
    "POST /accepted-invitations": Row(
        lambda _, __: {"code": "guessed"}, frozenset({403}), frozenset({403})
    ),
    "GET /invitations": _list(),
    "POST /invitations": Row(lambda vault, _: {"invitee": f"new-{vault.label}"}, hidden=OK),
    "POST /invitations/{invitation}/revoke": Row(
        lambda vault, _: {"invitation": vault.invitation}, hidden=frozenset({204})
    ),
    "POST /login-sessions": Row(
        lambda _, __: {"key": "guessed"}, frozenset({403}), frozenset({403})
    ),
    "POST /login-previews": Row(
        lambda _, __: {"key": "guessed"}, frozenset({403}), frozenset({403})
    ),
    # Who is logged in and logs out is another caller from then on: they send no cookie here.
    "POST /logout": Row(_nothing, frozenset({204}), frozenset({204}), takes_cookies=False),
    "GET /login-sessions": _list(),
    # The owner has ended it when the others try.
    "POST /login-sessions/{login}/end": Row(
        lambda vault, _: {"login": vault.login}, frozenset({204})
    ),
    # The server of the matrix has no provider: the part oidc logs in with one.
    "GET /identity-provider": _list(),
    "POST /identity-logins": Row(_nothing, HIDDEN, HIDDEN),
    "POST /identity-logins/finish": Row(lambda _, __: {"state": "guessed"}, HIDDEN, HIDDEN),
    "GET /identities": _list(),
    # The owner has unlinked it when the others try.
    "POST /identities/{identity}/unlink": Row(
        lambda vault, _: {"identity": vault.identity}, frozenset({204})
    ),
    "GET /members": _list(),
    "POST /members": Row(lambda vault, _: {"name": f"new-{vault.label}"}, hidden=OK),
    "POST /members/{member}/role": Row(
        lambda vault, _: {"member": f"in-{vault.label}", "role": "guest"}, hidden=OK
    ),
    "POST /members/{member}/remove": Row(
        lambda vault, _: {"member": f"in-{vault.label}"}, hidden=frozenset({204})
    ),
    "GET /keys": _list(),
    "POST /keys": Row(lambda vault, _: {"name": vault.label}, hidden=OK, is_for_people=True),
    # The owner has revoked it when the others try; an admin is told so.
    "POST /keys/{key}/revoke": Row(
        lambda vault, _: {"key": vault.key}, frozenset({204}), frozenset({404, 422})
    ),
    "GET /me": _list(),
    "GET /stream": _list(after="0-0-0"),
    "GET /shape": _list(),
    "GET /shape/activity": _list(),
    "GET /rows": Row(lambda vault, _: {"turns": ",".join(vault.turns)}, hidden=OK),
    "GET /spine/{revision}": _revision(),
    "GET /search/places": _list(q="canary"),
    "GET /search": _list(q="canary"),
    "GET /sessions": _list(),
    "GET /sessions/{session}": Row(lambda vault, _: {"session": vault.label}),
    "GET /threads/{revision}": _revision(),
    "GET /threads/{revision}/sealed": _revision(),
    "GET /turns/{revision}": _revision(),
    "GET /turns/{revision}/sealed": _revision(),
    "GET /sealed": Row(lambda vault, _: {"turns": ",".join(vault.turns)}, hidden=OK),
    "GET /turns/{revision}/text/{message}/{part}": _revision(message=0, part=0),
    "GET /turns/{revision}/files": replace(_revision(), seen=frozenset({200, 404})),
    "GET /turns/{revision}/files/diff": replace(_revision(path="a"), seen=HIDDEN),
    "GET /turns/{revision}/files/content": replace(_revision(path="a"), seen=HIDDEN),
    "GET /turns/{revision}/blame": replace(_revision(path="a"), seen=HIDDEN),
    "GET /turns/{revision}/context": _revision(),
    "GET /turns/{revision}/permissions": _revision(),
    "GET /turns/{revision}/causes": _revision(),
    "GET /turns/{revision}/raw": _revision(),
    "GET /turns/{revision}/share": _revision(),
    "GET /compare/{a}...{b}": Row(
        lambda vault, revision: {"a": revision, "b": vault.turns[0]}, is_by_revision=True
    ),
    "GET /compare/{a}...{b}/diff": Row(
        lambda vault, revision: {"a": revision, "b": vault.turns[0], "path": "a"}, HIDDEN
    ),
    "GET /costs": _list(),
    "GET /tags": _list(),
    # The owner has read it when the others try: they have inboxes of their own, without it.
    "GET /inbox": _list(everything="true"),
    "POST /inbox/read": Row(lambda vault, _: {"ids": [vault.notice]}, frozenset({200, 404})),
    # An agent of the owner does not see it either: it could answer what it asks itself.
    "GET /approvals": _list(everything="true"),
    "GET /approvals/{approval}": replace(_approval(), is_for_people=False),
    "POST /approvals/{approval}/approve": _approval(),
    "POST /approvals/{approval}/reject": _approval(),
    "POST /approvals/{approval}/edit": _approval(args={"command": "true"}),
    "POST /approvals/{approval}/answer": _approval(422, answer="yes"),
    "POST /sessions/{session}/reject-waiting": _act(lambda vault, _: {"session": vault.label}),
    "GET /runs": _list(),
    # A name that another person's private session has is as good as none: it would be a new one.
    "GET /runs/preview": Row(lambda vault, _: {"to": vault.label}, hidden=frozenset({200, 404})),
    "GET /sessions/{session}/runs": Row(lambda vault, _: {"session": vault.label}),
    "GET /runs/{run}": Row(lambda vault, _: {"run": vault.turns[1]}),
    "GET /runs/{run}/events": Row(lambda vault, _: {"run": vault.turns[1]}),
    # A name that another person's private session has is taken: that much a sender may learn.
    "POST /runs": Row(
        lambda vault, _: {"to": vault.label, "text": "hello"}, hidden=frozenset({403, 404, 409})
    ),
    "POST /runs/{run}/cancel": _act(lambda vault, _: {"run": vault.turns[1]}),
    "POST /sessions": _act(lambda vault, _: {"label": f"fork-{vault.label}", "at": vault.turns[0]}),
    "POST /sessions/{session}/rewind": _act(
        lambda vault, _: {"session": vault.label, "to": vault.turns[0]}, 200, 422
    ),
    "POST /sessions/{session}/undo": _act(lambda vault, _: {"session": vault.label}),
    "POST /acts/tag": _act(lambda vault, _: {"at": vault.turns[0], "name": "good"}),
    "POST /acts/untag": _act(lambda vault, _: {"at": vault.turns[0], "name": "good"}),
    "POST /acts/rename": _act(
        lambda vault, _: {"session": vault.label, "label": f"new-{vault.label}"}
    ),
    "POST /acts/archive": _act(lambda vault, _: {"session": vault.label}),
    "POST /acts/restore": _act(lambda vault, _: {"session": vault.label}),
    "GET /conversations": _list(),
    "GET /conversations/{conversation}": _talk(),
    "GET /conversations/{conversation}/posts": _talk(),
    "GET /conversations/{conversation}/posts/{post}/explanation": _talk(post=1),
    "GET /conversations/{conversation}/posts/{post}/runs": _talk(post=1),
    "GET /conversations/{conversation}/suggestions": _talk(typed="in"),
    # The owner has taken the name when the others try.
    "POST /conversations": Row(
        lambda vault, _: {"name": f"own-{vault.label}", "title": "A talk"}, hidden=frozenset({409})
    ),
    "POST /conversations/{conversation}/state": _talk(state="archived"),
    "POST /conversations/{conversation}/triage": _talk(on=True),
    "POST /conversations/{conversation}/posts": _talk(text="hello"),
    "POST /conversations/{conversation}/participants": _act(
        lambda vault, _: {
            "conversation": vault.conversation, "participant": f"human:late-{vault.label}",
        }
    ),
    "POST /conversations/{conversation}/participants/remove": _act(
        lambda vault, _: {
            "conversation": vault.conversation, "participant": f"human:friend-of-{vault.label}",
        },
        200, 404,
    ),
    "POST /conversations/{conversation}/fork": _act(
        lambda vault, _: {"conversation": vault.conversation, "name": f"split-{vault.label}"},
        200, 409,
    ),
    "POST /conversations/{conversation}/posts/{post}/erase": _talk(post=1),
    "GET /webhooks": _list(),
    "POST /webhooks": Row(
        lambda _, __: {"url": "https://example.net/hook"}, hidden=OK, is_for_people=True
    ),
    "GET /webhooks/{webhook}": _webhook(200),
    # Of an admin, too, nothing that left: only that there is something.
    "GET /webhooks/{webhook}/deliveries": _webhook(200),
    "POST /webhooks/{webhook}/rotate": _webhook(403),
    "POST /webhooks/{webhook}/pause": _webhook(200),
    "POST /webhooks/{webhook}/resume": _webhook(200),
    # The owner has deleted it when the others try.
    "POST /webhooks/{webhook}/delete": _webhook(),
    "POST /deliveries/{delivery}/resend": Row(lambda _, __: {"delivery": "msg-guessed"}, HIDDEN),
    "GET /triggers": _list(),
    "POST /triggers": Row(
        lambda vault, _: {"name": vault.label, "target": "inbox"}, hidden=OK, is_for_people=True
    ),
    "GET /triggers/{trigger}": _trigger(200),
    "GET /triggers/{trigger}/firings": _trigger(200),
    "POST /triggers/{trigger}/rotate": _trigger(403),
    "POST /triggers/{trigger}/pause": _trigger(200),
    "POST /triggers/{trigger}/resume": _trigger(200, 403),
    "POST /triggers/{trigger}/delete": _trigger(),
    "POST /hooks/{trigger}": Row(
        lambda vault, _: {"trigger": vault.trigger, "type": "guessed"},
        frozenset({403}), frozenset({403}),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the matrix."""

    route: ApiRoute
    row: Row
    vault: Vault
    revision: str
    number: int

    @property
    def name(self) -> str:
        """The route, as the rows name it."""
        return _name_of(self.route)

    def request(self) -> tuple[str, str, bytes]:
        """Return the method, the path with its query, and the body."""
        values = dict(self.row.values(self.vault, self.revision))
        path = self.route.path
        for name in self.route.path_names:
            path = path.replace(f"{{{name}}}", quote(str(values.pop(name)), safe="~"))
        if self.route.method == "POST":
            return "POST", path, json.dumps(values).encode()
        query = "&".join(f"{name}={quote(str(text))}" for name, text in values.items())
        return "GET", f"{path}?{query}" if query else path, b""

    def expected(self, caller: str) -> frozenset[int]:
        """Return the statuses that a caller may get."""
        right = self.route.right
        if right is None:
            return self.row.seen
        if caller in UNKNOWN:
            return frozenset({401})
        if caller == "other workspace" or not PERMITTED[caller].permits(right):
            return frozenset({403})
        if self.row.is_for_people and caller == "agent on behalf":
            return frozenset({403})
        return self.row.seen if caller in SEES_VAULT else self.row.hidden


def _name_of(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


def list_without_row(routes: Sequence[ApiRoute]) -> list[str]:
    """Return the routes that no row says how to call."""
    return [_name_of(route) for route in routes if _name_of(route) not in ROWS]


async def make_calls(team: Team, routes: Sequence[ApiRoute]) -> AsyncGenerator[Call, None]:
    """Yield the calls of all routes, each route with a private session of its own."""
    for number, route in enumerate(routes):
        name, vault = _name_of(route), await team.add_vault(number)
        if name == "POST /sessions/{session}/undo":
            await team.of(OWNER).sessions.rewind(vault.label, vault.turns[0])
        if name == "POST /acts/untag":
            await team.of(OWNER).turns.tag(vault.turns[0], "good")
        if "{member}" in route.path:
            await team.tree.members.add(f"in-{vault.label}")
        if "{conversation}" in route.path:
            vault = await team.add_conversation(vault)
        if "/inbox" in route.path:
            vault = await team.add_notice(vault)
        if "/approvals" in route.path:
            vault = await team.add_approval(vault)
        if "{key}" in route.path:
            vault = await team.add_key(vault)
        if "{login}" in route.path:
            vault = await team.add_login(vault)
        if "{identity}" in route.path:
            vault = await team.add_identity(vault)
        if "{webhook}" in route.path:
            vault = await team.add_webhook(vault)
        if "{trigger}" in route.path:
            vault = await team.add_trigger(vault)
        if "{invitation}" in route.path:
            vault = await team.add_invitation(vault)
        revisions = [vault.label]
        if ROWS[name].is_by_revision:
            revisions += [vault.turns[-1], vault.digest[:12]]
        for revision in revisions:
            yield Call(route, ROWS[name], vault, revision, number)


async def try_matrix(
    team: Team, url: str, routes: Sequence[ApiRoute], *, is_brief: bool = False
) -> tuple[int, list[str]]:
    """Return how many answers were looked at, and which of them were wrong.

    ``is_brief`` ends with the first that is wrong.
    """
    wrong: list[str] = []
    looked = 0
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        async for call in make_calls(team, routes):
            tag = ""
            for caller in CALLERS:
                response = await send_call(client, team, call, caller, tag)
                looked += 1
                tag = tag or response.headers.get("etag", "")
                wrong += [f"{call.name} as {caller}: {it}" for it in _judge(call, caller, response)]
                if wrong and is_brief:
                    return looked, wrong
    return looked, wrong


async def send_call(
    client: httpx2.AsyncClient, team: Team, call: Call, caller: str, tag: str
) -> httpx2.Response:
    """Return the answer to a caller; ``tag`` is the ETag that another one got."""
    method, path, body = call.request()
    url = str(client.base_url).rstrip("/")
    headers = {**team.headers(caller, url), "content-type": "application/json"}
    if not call.row.takes_cookies:
        headers.pop("cookie", None)
    if method == "POST":
        # The same for all: one caller's answer must not be another's.
        headers["idempotency-key"] = f"{call.vault.label}-{call.number}"
    elif tag and caller not in SEES_VAULT:
        headers["if-none-match"] = tag
    url = f"/w/{TEAM}/api/v1{path}"
    if call.name == "GET /stream":
        return await _listen(client, url, headers)
    return await client.request(method, url, content=body or None, headers=headers)


async def _listen(
    client: httpx2.AsyncClient, url: str, headers: Mapping[str, str]
) -> httpx2.Response:
    """Return a stream that does not end by itself, with what it says first."""
    async with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code != 200:
            await answer.aread()
            return answer
        text = b""
        async for piece in answer.aiter_bytes():
            text += piece
            if b"event: changed" in text:
                break
    return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=text)


def _judge(call: Call, caller: str, response: httpx2.Response) -> list[str]:
    """Return what is wrong with an answer."""
    found: list[str] = []
    expected = call.expected(caller)
    # Bytes that are the same for all, such as those of an empty list, may be kept.
    if 200 in call.row.hidden:
        expected |= {304} if 200 in expected else set()
    if response.status_code not in expected:
        found.append(f"{response.status_code} instead of {sorted(expected)}: {response.text[:200]}")
    if caller not in SEES_VAULT:
        _, path, body = call.request()
        asked = f"{path} {body.decode()}"
        found += [f"shows {it!r}" for it in call.vault.secrets
                  if it in response.text and it not in asked]  # fmt: skip
    if response.status_code >= 400 and not response.headers["content-type"].startswith(
        "application/problem+json"
    ):
        found.append("an error that is no problem")
    return found


DENIALS: Final = {
    ("human:gus", CREATE), ("human:gus", CONFIGURE), ("human:gus", MANAGE_MEMBERS),
    ("human:olga", MANAGE_MEMBERS), ("human:olga", CREATE_KEYS), ("agent:atlas", CREATE_KEYS),
    ("human:olga", INVOKE), ("human:olga", CREATE), ("human:olga", CONFIGURE), ("human:olga", READ),
    ("human:olga", Right("action:key.use")), ("human:rex", Right("action:key.use")),
}  # fmt: skip
"""Who must have been denied what, in the events of the workspace."""


async def list_missing_denials(team: Team) -> list[str]:
    """Return the denials that no event tells of."""
    everything = team.database.seen_by(viewer.EVERYTHING)
    places = {name: id for id, name in await everything.list_workspaces()}
    wanted = {TEAM: DENIALS, OTHER: {("human:zoe", Right("action:workspace.enter"))}}
    missing: list[str] = []
    for name, denials in wanted.items():
        database = team.database.in_workspace(WorkspaceId(places[name]))
        tree = tree_on(database, team.settings, SystemClock(), sight=viewer.EVERYTHING)
        missing += [f"{by} {right}" for by, right in sorted(denials - await _read_denials(tree))]
    return missing


async def _read_denials(tree: Tree) -> set[tuple[str, Right]]:
    found: set[tuple[str, Right]] = set()
    position = BEGINNING
    while recorded := await tree.feed.read(position, limit=1000):
        position = recorded[-1][0]
        for _, event in recorded:
            if event.kind == "permission.denied":
                by: Any = event.data["by"]
                found.add((f"{by['kind']}:{by['id']}", Right(str(event.data["permission"]))))
    return found


async def _let_in(self: ApiCaller, wanted: Right) -> None:
    del self, wanted


_ALWAYS: Final = Timestamp("9999-12-31T23:59:59.999Z")


async def _forget_workspace(self: NetworkCallers, name: str, key: str) -> VerifiedCredential:
    keyed = await self.workspaces.find(UUID(workspace_of_key(key)))
    asked = await self.workspaces.find_named(name)
    assert keyed is not None, "the proof's keys are for workspaces that exist"
    assert asked is not None, "the proof asks for a workspace that exists"
    chain = (await keyed.tree.keys.verify(key)).chain
    return VerifiedCredential(asked, ExecutionContext(chain), _ALWAYS)


def _see_all(_: Principal) -> viewer.Sight:
    return viewer.EVERYTHING


def _stay_valid(_: ApiKey | LoginSession, __: Timestamp) -> str:
    return "valid"


_CHAIN_AS: Final = ApiKey.chain_as


def _ignore_scopes(self: ApiKey, role: Role) -> DelegationChain:
    return _CHAIN_AS(replace(self, scopes=EVERYTHING), role)


async def _echo(context: ServerContext, _: NoValues) -> str:
    return context.settings.user


PLANTS: Final[Mapping[str, Callable[[], AbstractContextManager[object]]]] = {
    "the right of the table is not asked": lambda: mock.patch.object(ApiCaller, "require", _let_in),
    "callers see what the server sees": lambda: mock.patch("turntree.api.sight_of", _see_all),
    "an agent sees what its person sees": lambda: mock.patch(
        "turntree.api.sight_of", lambda by: sight_of(by.person or by)
    ),
    "keys never end": lambda: mock.patch.object(ApiKey, "state_at", _stay_valid),
    "login sessions never end": lambda: mock.patch.object(LoginSession, "state_at", _stay_valid),
    "a key opens every workspace": lambda: mock.patch.object(
        NetworkCallers, "_verify_key", _forget_workspace
    ),
    "a guest has the rights of a member": lambda: mock.patch.object(
        api_key, "RIGHTS", {**RIGHTS, "guest": RIGHTS["member"]}
    ),
    "scopes of a key are ignored": lambda: mock.patch.object(ApiKey, "chain_as", _ignore_scopes),
    "one Idempotency-Key serves all callers": lambda: mock.patch.object(ApiCaller, "name", "all"),
}
"""Omissions in the server, each by what it lacks."""


async def is_found(team: Team, plant: Callable[[], AbstractContextManager[object]]) -> bool:
    """Return whether the matrix finds an omission."""
    # Writes first: what is missing there is found with the fewest calls.
    routes = sorted(NETWORK_ROUTES, key=lambda route: route.method != "POST")
    with plant():
        async with serving_here(team) as url:
            _, wrong = await try_matrix(team, url, routes, is_brief=True)
    return bool(wrong)


async def prove(proof: Proof) -> None:
    """Try the matrix on the typed command, then on servers that lack something."""
    with temporary_server(QUICK_SERVER) as (server, home):
        async with a_team(server, home / "proof") as team:
            if proof.begins("matrix"):
                await prove_matrix(proof, team)
            if proof.begins("plants"):
                await prove_plants(proof, team)
            if proof.begins("oidc"):
                await prove_logins(proof, team, home)
        if proof.begins("pooler"):
            await prove_pooler(proof, server, home)


async def prove_matrix(proof: Proof, team: Team) -> None:
    """Call every route as every caller."""
    without = list_without_row(NETWORK_ROUTES)
    proof.at_most(f"routes without a row {without}", len(without), "routes", 0)
    stale = sorted(set(ROWS) - {_name_of(route) for route in NETWORK_ROUTES})
    proof.at_most(f"rows without a route {stale}", len(stale), "rows", 0)
    async with serving_apart(team.settings, "--no-worker") as served:
        looked, wrong = await try_matrix(team, served.url, NETWORK_ROUTES)
    for line in wrong[:WRONG_SHOWN_MAX]:
        print(line, file=sys.stderr)
    proof.note("routes", len(NETWORK_ROUTES), "routes")
    proof.at_least("answers looked at", looked, "answers", len(NETWORK_ROUTES) * len(CALLERS))
    proof.at_most("wrong answers", len(wrong), "answers", 0)
    missing = await list_missing_denials(team)
    proof.at_most(f"denials without an event {missing}", len(missing), "denials", 0)


async def prove_plants(proof: Proof, team: Team) -> None:
    """Leave something out, and see that it is missed."""
    plain = ApiRoute("GET", "/extra", READ, _echo, "Extra.", answers=str)
    missed: list[str] = []
    if list_without_row([*NETWORK_ROUTES, plain]) != ["GET /extra"]:
        missed.append("a route without a row")
    with contextlib.suppress(ValueError):
        async with serving_here(team, [*NETWORK_ROUTES, replace(plain, right=None)]):
            missed.append("a route without a right")
    for name, plant in PLANTS.items():
        if not await is_found(team, plant):
            missed.append(name)
    count = len(PLANTS) + 2
    proof.at_least(f"planted omissions found (missed: {missed})", count - len(missed), "faults",
                   count)  # fmt: skip


async def prove_logins(proof: Proof, team: Team, home: Path) -> None:
    """Log in with identity providers, and attack it; then plant faults, which must be found."""
    file = home / "providers.toml"
    async with mock_provider("--require-nonce") as issuer, strict_provider() as provider:
        file.write_text(
            f'[mock]\nissuer = "{issuer}"\nclient_id = "{CLIENT}"\n'
            f'client_secret = "${{SECRET}}"\nworkspaces = ["{OTHER}"]\n'
            f'[strict]\nissuer = "{provider.issuer}"\n'
            f'client_id = "{CLIENT}"\nclient_secret = "${{SECRET}}"\nworkspaces = ["{TEAM}"]\n'
        )
        words = ("--no-worker", "--identity-providers", str(file))
        async with serving_apart(team.settings, *words, SECRET=CLIENT_SECRET) as served:
            provider.redirect_uris = {f"{served.url}/w/{TEAM}/login"}
            proof.at_least(
                "login with oidc-provider-mock", await log_in_with_mock(team, issuer, served.url),
                "logins", 1,
            )  # fmt: skip
            missed = await attack_mock(served.url)
            wrong = await attack_logins(team, provider, served.url)
        count = len(FORGERIES) + ATTACKS_OF_MOCK + ATTACKS_OF_STRICT
        proof.note("attacks on a login", count, "attacks")
        proof.at_most(f"attacks that got in {missed + wrong}", len(missed + wrong), "attacks", 0)
        undetected: list[str] = []
        for name, plant in LOGIN_PLANTS.items():
            with plant():
                async with serving_here(team, providers=[provider.config()]) as url:
                    provider.redirect_uris = {f"{url}/w/{TEAM}/login"}
                    if not await attack_logins(team, provider, url, is_brief=True):
                        undetected.append(name)
        wanted = len(LOGIN_PLANTS)
        proof.at_least(f"planted faults of logins found (missed: {undetected})",
                       wanted - len(undetected), "faults", wanted)  # fmt: skip


async def prove_pooler(proof: Proof, server: str, home: Path) -> None:
    """Start the command behind a pooler, in every mode."""
    program = find_pgbouncer()
    if program is None:
        raise SystemExit("pgbouncer is not installed: apt-get install pgbouncer")
    folder = home / "pooler"
    folder.mkdir()
    find_account(home / "home").give(folder)
    refused: list[str] = []
    for mode in MODES:
        with pooling(program, server, mode, home / "home", folder) as pooled:
            settings = Settings(home / "proof", database_url=pooled, workspace=TEAM, user="ana")
            status, said = await run_refused(settings)
            if status != 0 and "connect directly, not through a pooler" in said:
                refused.append(mode)
            else:
                print(f"{mode}: {status} {said}", file=sys.stderr)
    proof.at_least(f"modes of pgbouncer that are refused {refused}", len(refused), "modes",
                   len(MODES))  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
