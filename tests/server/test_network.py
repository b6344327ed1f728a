"""The server on the network: a real socket, a real database, and keys of every kind."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import httpx2
import pytest

from proofs.http_world import OTHER, OWNER, TEAM, Team, serving_here
from tests.server.network import API, SOON_S, Client, answer_all, denials, later, problem
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, actions
from turntree.boot.open import load_token_key
from turntree.core.errors import Hint
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.server import dispatch
from turntree.server.access.caller import LocalCallers
from turntree.server.access.open_streams import OpenStreams
from turntree.server.access.rights import READ
from turntree.server.api_hints import STEPS, step_finder
from turntree.server.context import ServerContext
from turntree.server.dispatch import Dispatcher
from turntree.server.idempotency import IdempotentAnswers
from turntree.server.reads.runs import ADMITTED_S
from turntree.server.route import ApiRoute, NoValues
from turntree.server.routes import NETWORK_ROUTES
from turntree.server.security import BODY_BYTES_MAX

pytestmark = pytest.mark.anyio


async def test_stranger_cannot_tell_which_workspaces_there_are(client: Client) -> None:
    answers = [await client.http.get(f"/w/{name}/api/v1/me") for name in (TEAM, OTHER, "none")]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer ttk_" in answers[0].json()["next"][0]


@pytest.mark.parametrize("caller", ["expired", "revoked", "removed", "garbled"])
async def test_key_that_opens_nothing_is_refused(client: Client, caller: str) -> None:
    assert problem(await client.get(caller, "/me")) == "not-authenticated"


async def test_key_of_another_workspace_is_denied_and_recorded(client: Client, team: Team) -> None:
    answers = [
        await client.http.get(f"/w/{name}/api/v1/me", headers=team.headers("other workspace"))
        for name in (TEAM, "none")
    ]
    assert [problem(answer) for answer in answers] == ["other-workspace"] * 2
    assert answers[0].text == answers[1].text
    assert ("zoe", "action:workspace.enter") in await denials(team, OTHER)


async def test_caller_acts_as_themselves(client: Client) -> None:
    me = (await client.get("member", "/me")).json()
    assert (me["user"], me["workspace"], me["home"]) == ("mia", TEAM, "")
    made = await client.post("member", "/sessions", {"label": "mine"})
    assert made.status_code == 200, made.text
    (move,) = await client.team.tree.sessions.list_moves("mine")
    assert move.by == "human:mia"


async def test_missing_right_is_denied_and_recorded(client: Client, team: Team) -> None:
    answer = await client.post("narrowed to reading", "/sessions", {"label": "mine"})
    assert (answer.status_code, problem(answer)) == (403, "denied")
    assert "action:create" in answer.json()["next"][0]
    assert (OWNER, "action:create") in await denials(team)


async def test_private_session_is_not_there_for_others(client: Client, team: Team) -> None:
    vault = await team.add_vault(1)
    assert (await client.get("owner", f"/sessions/{vault.label}")).status_code == 200
    for caller in ("member", "admin", "guest", "agent on behalf"):
        assert problem(await client.get(caller, f"/sessions/{vault.label}")) == "not-found"
        assert problem(await client.get(caller, f"/turns/{vault.turns[0]}")) == "not-found"


async def test_message_is_sent_once_for_each_caller(client: Client) -> None:
    body = {"to": "lobby", "text": "hello"}
    first = (await client.post("member", "/runs", body, key="k")).json()
    again = (await client.post("member", "/runs", body, key="k")).json()
    other = (await client.post("owner", "/runs", body, key="k")).json()
    assert first["run"] == again["run"] != other["run"]
    state = (await client.get("guest", f"/runs/{first['run']}")).json()
    assert state["status"] == "waiting"


async def test_repeated_write_acts_once_however_much_others_write(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "IdempotentAnswers", partial(IdempotentAnswers, 2))
    async with serving_here(team) as url, httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http:
        client = Client(http, team)
        await client.post("owner", "/acts/archive", {"session": "lobby"}, key="k")
        await client.post("owner", "/acts/restore", {"session": "lobby"}, key="l")
        for label in ("a", "b", "c"):
            answer = await client.post("member", "/sessions", {"label": label})
            assert answer.status_code == 200, answer.text
        await client.post("owner", "/acts/archive", {"session": "lobby"}, key="k")
    assert (await team.tree.sessions.get("lobby")).status == "active"


async def test_read_ends_when_its_client_leaves(team: Team) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait_long(context: ServerContext, _: NoValues) -> None:
        del context
        began.set()
        try:
            await asyncio.sleep(4 * SOON_S)
        finally:
            ended.set()

    routes = (ApiRoute("GET", "/long", READ, wait_long, "Wait."),)
    async with serving_here(team, routes) as url, httpx2.AsyncClient(base_url=url) as http:
        asking = asyncio.create_task(Client(http, team).get("member", "/long"))
        async with asyncio.timeout(SOON_S):
            await began.wait()
            asking.cancel()
            await ended.wait()


async def test_streams_of_one_person_leave_others_theirs(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "OpenStreams", partial(OpenStreams, 2))
    async with serving_here(team) as url, httpx2.AsyncClient(base_url=url, timeout=SOON_S) as http:
        client = Client(http, team)
        run = (await client.post("member", "/runs", {"to": "lobby", "text": "hi"})).json()["run"]
        path = f"/runs/{run}/events"
        async with client.follow("owner", run), client.follow("agent on behalf", run):
            refused = await client.get("owner", path)
            assert (refused.status_code, problem(refused)) == (429, "too-many-streams")
            assert problem(await client.get("agent on behalf", path)) == "too-many-streams"
            async with client.follow("member", run):
                pass
        # Those that ended, and those that never began, take no place.
        for _ in range(3):
            assert (await client.get("owner", f"/runs/{UUID(int=1)}/events")).status_code == 404

        statuses = [await _status_of_stream(client, run)]
        for _ in range(100):
            if statuses[-1] == 200:
                break
            await asyncio.sleep(0.05)
            statuses.append(await _status_of_stream(client, run))
        assert statuses[-1] == 200


async def _status_of_stream(client: Client, run: str) -> int:
    headers = client.team.headers("owner")
    async with client.http.stream("GET", f"{API}/runs/{run}/events", headers=headers) as answer:
        return answer.status_code


async def test_key_of_a_message_outlives_the_server(team: Team) -> None:
    runs: list[dict[str, Any]] = []
    for _ in range(2):
        async with serving_here(team) as url, httpx2.AsyncClient(base_url=url) as http:
            body = {"to": "lobby", "text": "a"}
            answer = await Client(http, team).post("member", "/runs", body, key="k")
            runs.append(answer.json())
    assert runs[0]["run"] == runs[1]["run"]
    assert [run["repeated"] for run in runs] == [False, True]


async def test_message_for_another_head_is_refused(client: Client, team: Team) -> None:
    head = (await team.tree.sessions.get("lobby")).head
    assert head is not None
    newer = await team.tree.turns.record("lobby", [user("more")], [assistant("fine")])
    body = {"to": "lobby", "text": "hello"}
    by_header = await client.post("member", "/runs", body, if_match=f'"{head}"')
    assert (by_header.status_code, problem(by_header)) == (412, "head-moved")
    assert by_header.json()["head"] == newer.turn.id
    by_body = await client.post("member", "/runs", {**body, "expected_head": head})
    assert (by_body.status_code, problem(by_body)) == (409, "head-moved")
    right = await client.post("member", "/runs", body, if_match=f'"{newer.turn.id}"')
    assert right.status_code == 200, right.text


async def test_route_without_preconditions_answers_409_even_with_if_match(client: Client) -> None:
    named = await client.post("member", "/sessions", {"label": "lobby"}, if_match='"x"')
    assert (named.status_code, problem(named)) == (409, "conflict")


async def test_key_that_may_send_cannot_begin_sessions(client: Client, team: Team) -> None:
    answer = await client.post("narrowed to sending", "/runs", {"to": "fresh", "text": "hello"})
    assert (answer.status_code, problem(answer)) == (403, "denied")
    assert await team.tree.sessions.ledger.find("fresh") is None
    assert (OWNER, "action:create") in await denials(team)


async def test_session_is_forked_rewound_and_undone(client: Client, team: Team) -> None:
    await team.tree.turns.record("lobby", [user("more")], [assistant("fine")])
    lobby = (await client.get("member", "/sessions/lobby")).json()
    forked = (await client.post("member", "/sessions", {"label": "side", "at": "lobby~1"})).json()
    assert (forked["label"], forked["turns"]) == ("side", 1)
    body = {"to": forked["head"]}
    moved = await client.post(
        "member", "/sessions/lobby/rewind", body, if_match=f'"{lobby["head"]}"'
    )
    assert moved.json()["head"] == forked["head"]
    stale = await client.post("member", "/sessions/lobby/undo", {}, if_match=f'"{lobby["head"]}"')
    assert (stale.status_code, problem(stale)) == (412, "head-moved")
    undone = await client.post("member", "/sessions/lobby/undo", {})
    assert undone.json()["head"] == lobby["head"]


async def test_etag_is_of_the_bytes_and_changes_with_erasure(client: Client, team: Team) -> None:
    turn = (await team.tree.turns.get("lobby")).turn
    first = await client.get("member", f"/turns/{turn.id}")
    tag = first.headers["etag"]
    kept = await client.get("member", f"/turns/{turn.id}", if_none_match=tag)
    assert (kept.status_code, kept.content, kept.headers["etag"]) == (304, b"", tag)
    assert await team.tree.turns.erase(turn.id, 0, reason="asked for")
    erased = await client.get("member", f"/turns/{turn.id}", if_none_match=tag)
    assert erased.status_code == 200
    assert "hello" not in erased.text
    assert (await team.tree.turns.get(turn.id)).turn.digest == turn.digest


async def list_pages(client: Client, path: str, member: str, limit: int) -> list[Any]:
    """Return everything that a list has, read in pages."""
    found: list[Any] = []
    cursor = ""
    while True:
        answer = await client.get("member", f"{path}?limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page[member]) <= limit
        found += page[member]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next'].replace('+', '%2B')}"


async def test_lists_come_in_pages_without_a_gap(client: Client, team: Team) -> None:
    for number in range(5):
        await team.tree.turns.record(f"s{number}", [user("hello")], [assistant("yes")])
        await team.tree.turns.tag(f"s{number}", "good")
        await team.tree.turns.tag(f"s{number}", f"n{number}")
    labels = [one["label"] for one in await list_pages(client, "/sessions", "sessions", 2)]
    assert sorted(labels) == ["lobby", "s0", "s1", "s2", "s3", "s4"]
    tags = await list_pages(client, "/tags", "tags", 3)
    assert len(tags) == 10
    assert tags == sorted(tags, key=lambda one: (one["tag"], one["turn"]))
    for path in ("/sessions", "/tags", "/runs"):
        assert problem(await client.get("member", f"{path}?cursor=x")) == "refused"


async def test_stream_that_is_cut_resumes_without_gap_or_repeat(client: Client, team: Team) -> None:
    run = (await client.post("member", "/runs", {"to": "lobby", "text": "hello"})).json()["run"]
    await answer_all(team, "lobby")
    async with client.follow("member", run) as messages:
        whole = [message async for message in messages]
    assert whole[-1][1] == "end"
    assert whole[-1][2]["outcome"] == "completed"
    steps = [message for message in whole if message[1] == "step"]
    assert steps[0][2]["kind"] == "run.started"
    pieces: list[tuple[str, str, Any]] = []
    position = ""
    while not pieces or pieces[-1][1] != "end":
        async with client.follow("member", run, position) as messages:
            # Cut after each message: what is left comes with the next connection.
            pieces.append(await anext(messages))
            position = pieces[-1][0] or position
    assert pieces[:-1] == steps


async def test_stream_begins_while_the_message_waits(client: Client, team: Team) -> None:
    run = (await client.post("member", "/runs", {"to": "lobby", "text": "hello"})).json()["run"]
    async with client.follow("guest", run) as messages:
        answering = asyncio.create_task(answer_all(team, "lobby"))
        kinds = [kind async for _, kind, _ in messages]
        await answering
    assert kinds[-1] == "end"
    assert "step" in kinds


async def test_stream_of_a_revoked_key_ends_without_news(client: Client, team: Team) -> None:
    run = (await client.post("member", "/runs", {"to": "lobby", "text": "hello"})).json()["run"]
    async with client.follow("member", run) as messages:
        (made,) = await team.of("mia").keys.list_all()
        await team.of("mia").keys.revoke(made.id)
        await asyncio.sleep(ADMITTED_S)
        await answer_all(team, "lobby")
        async with asyncio.timeout(SOON_S):
            assert [message async for message in messages] == []
    assert (await client.get("admin", f"/runs/{run}")).json()["outcome"] == "completed"


async def test_client_that_goes_away_cancels_nothing(client: Client, team: Team) -> None:
    run = (await client.post("member", "/runs", {"to": "lobby", "text": "hello"})).json()["run"]
    async with client.follow("member", run):
        pass
    await answer_all(team, "lobby")
    assert (await client.get("member", f"/runs/{run}")).json()["outcome"] == "completed"


async def test_run_that_is_canceled_says_so(client: Client, team: Team) -> None:
    run = (await client.post("member", "/runs", {"to": "lobby", "text": "hello"})).json()["run"]
    canceled = await client.post("member", f"/runs/{run}/cancel", {})
    assert canceled.json() == {"run": run}
    nothing = await client.post("member", f"/runs/{UUID(int=1)}/cancel", {})
    assert problem(nothing) == "not-found"


async def test_token_acts_within_its_audience_and_role(client: Client, team: Team) -> None:
    tokens, key = team.tree.tokens, load_token_key(team.settings)
    ana = ExecutionContext.begin(Principal("human", "ana"), Permissions(actions("read")))
    text, nonce = await tokens.issue(ana, key=key, audience=f"server:{TEAM}", expires_at=later())
    client.team.keys["token"] = text
    assert (await client.get("token", "/me")).json()["user"] == "ana"
    assert problem(await client.post("token", "/sessions", {"label": "x"})) == "denied"
    elsewhere, _ = await tokens.issue(ana, key=key, audience=f"server:{OTHER}", expires_at=later())
    client.team.keys["elsewhere"] = elsewhere
    assert problem(await client.get("elsewhere", "/me")) == "not-authenticated"
    await tokens.revoke(nonce)
    assert problem(await client.get("token", "/me")) == "not-authenticated"
    assert ("ana", "action:token.use") in await denials(team)
    guest = ExecutionContext.begin(Principal("human", "gus"))
    client.team.keys["guest token"], _ = await tokens.issue(
        guest, key=key, audience=f"server:{TEAM}", expires_at=later()
    )
    assert problem(await client.post("guest token", "/sessions", {"label": "x"})) == "denied"
    stranger = ExecutionContext.begin(Principal("human", "eve"))
    client.team.keys["stranger"], _ = await tokens.issue(
        stranger, key=key, audience=f"server:{TEAM}", expires_at=later()
    )
    assert problem(await client.get("stranger", "/me")) == "not-authenticated"


async def test_foreign_host_is_refused(client: Client, team: Team) -> None:
    answer = await client.get("member", "/me", host="turntree.example.org")
    assert (answer.status_code, problem(answer)) == (421, "wrong-host")
    for path in ("/healthz", "/readyz"):
        assert (await client.http.get(path, headers={"host": "10.0.0.7"})).status_code == 200


async def test_body_that_is_too_large_or_no_json_is_refused(client: Client) -> None:
    large = await client.post("member", "/runs", {"to": "lobby", "text": "x" * BODY_BYTES_MAX})
    assert (large.status_code, problem(large)) == (413, "too-large")
    form = await client.http.post(
        f"{API}/runs", data={"to": "lobby"}, headers=client.team.headers("member")
    )
    assert (form.status_code, problem(form)) == (415, "wrong-media")


async def test_errors_say_what_to_ask_next_in_terms_of_the_api(client: Client) -> None:
    answer = await client.get("member", "/sessions/none")
    assert problem(answer) == "not-found"
    assert all(not step.startswith("turntree ") for step in answer.json().get("next", []))


async def test_request_that_is_refused_before_any_route_says_what_to_send(client: Client) -> None:
    http, member = client.http, client.team.headers("member")
    no_key = await http.post(f"{API}/runs", json={"to": "lobby", "text": "x"}, headers=member)
    form = await http.post(f"{API}/runs", data={"to": "lobby"}, headers=member)
    put = await http.put(f"{API}/runs", json={}, headers=member)
    for answer, status, name, step in (
        (await http.get("/"), 404, "no-such-route", "GET /api/v1/openapi.json"),
        (await http.get("/api/v1/sessions"), 404, "no-such-route", "GET /api/v1/openapi.json"),
        (await client.get("member", "/none"), 404, "no-such-route", "GET /api/v1/openapi.json"),
        (await http.put("/healthz"), 405, "method-not-allowed", "GET /api/v1/openapi.json"),
        (put, 405, "method-not-allowed", "GET /api/v1/openapi.json"),
        (form, 415, "wrong-media", "Content-Type: application/json"),
        (no_key, 400, "no-idempotency-key", "header Idempotency-Key"),
        (await client.get("member", "/sessions?x=1"), 422, "invalid-input", "limit"),
    ):
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        assert (answer.status_code, problem(answer)) == (status, name)
        assert step in answer.json()["next"][0]
    assert put.headers["allow"] == "GET, POST"


@pytest.mark.parametrize("action", STEPS)
def test_every_hint_of_the_api_can_be_written(action: str) -> None:
    names = ("run", "revision", "session", "program", "access", "grantee", "model")
    hint = Hint(action, dict.fromkeys(names, 'a/"b"'))
    step = step_finder("my team")(hint)
    assert step is not None
    assert "{" not in step.replace('{"', "")


async def test_description_of_the_network_is_open_and_complete(client: Client) -> None:
    document = (await client.http.get("/api/v1/openapi.json")).json()
    described = sum(len(operations) for operations in document["paths"].values())
    assert described == len(NETWORK_ROUTES)
    assert all(path.startswith("/w/{workspace}/api/v1/") for path in document["paths"])


async def test_route_without_a_right_stops_the_start(context: ServerContext) -> None:
    (first, *_) = (route for route in NETWORK_ROUTES if route.right is not None)
    with pytest.raises(ValueError, match="names no right"):
        Dispatcher(LocalCallers(context), [replace(first, right=None)])
    with pytest.raises(ValueError, match="is open and names a right"):
        Dispatcher(LocalCallers(context), [replace(first, is_open=True)])
