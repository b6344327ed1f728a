"""Who gets in, over the network: members, invitations and API keys, and attacks on them."""

import contextlib
from collections.abc import Generator
from typing import Any

import httpx2
import psycopg
import pytest

from proofs.http_world import OTHER, OWNER, TEAM, Team
from tests.databases import as_owner
from tests.server.network import API, Client, denials, later, problem
from turntree.boot.open import tree_on
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio
ACCEPT = "/accepted-invitations"


async def invite(client: Client, invitee: str, role: str = "member") -> dict[str, Any]:
    answer = await client.post("admin", "/invitations", {"invitee": invitee, "role": role})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def accept(client: Client, code: str, workspace: str = TEAM) -> httpx2.Response:
    return await client.http.post(f"/w/{workspace}/api/v1{ACCEPT}", json={"code": code})


async def names(client: Client) -> dict[str, str]:
    answer = await client.get("admin", "/members")
    return {one["name"]: one["role"] for one in answer.json()["members"]}


async def with_key(client: Client, key: str, path: str) -> httpx2.Response:
    return await client.http.get(f"{API}{path}", headers={"authorization": f"Bearer {key}"})


async def test_invited_person_gets_a_first_key_that_has_their_role(client: Client) -> None:
    made = await invite(client, "bo", "guest")
    answer = await accept(client, made["code"])
    assert answer.status_code == 200, answer.text
    assert answer.json()["holder"] == "human:bo"
    key = answer.json()["key"]
    assert (await with_key(client, key, "/me")).json()["user"] == "bo"
    assert (await names(client))["bo"] == "guest"
    assert problem(await with_key(client, key, "/invitations")) == "denied"
    (listed,) = (await client.get("admin", "/invitations")).json()["invitations"]
    assert (listed["state"], listed["accepted_by"]) == ("accepted", "human:bo")


async def test_invitation_for_an_address_makes_a_person_of_that_name(client: Client) -> None:
    made = await invite(client, "carl@example.org")
    answer = await client.http.post(f"{API}{ACCEPT}", json={"code": made["code"], "name": "olga"})
    assert (answer.status_code, problem(answer)) == (422, "invalid-input")
    assert (await accept(client, made["code"])).json()["holder"] == "human:carl@example.org"


async def test_code_is_accepted_once(client: Client) -> None:
    made = await invite(client, "bo")
    assert (await accept(client, made["code"])).status_code == 200
    again = await accept(client, made["code"])
    assert (again.status_code, problem(again)) == (422, "refused")
    assert "key" not in again.json()


@contextlib.contextmanager
def failing(conninfo: str, table: str, how: str) -> Generator[None, None, None]:
    """Let no row be added to a table within the block."""
    with psycopg.connect(as_owner(conninfo), autocommit=True) as database:
        database.execute(
            "CREATE FUNCTION turntree.fail_here() RETURNS trigger LANGUAGE plpgsql"
            f" SECURITY DEFINER AS $$ BEGIN {how}; RETURN NEW; END $$".encode()
        )
        database.execute(
            f"CREATE TRIGGER fail_here BEFORE INSERT ON turntree.{table}"
            " FOR EACH ROW EXECUTE FUNCTION turntree.fail_here()".encode()
        )
        try:
            yield
        finally:
            database.execute("DROP FUNCTION turntree.fail_here() CASCADE")


@pytest.mark.parametrize("how", [
    "RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'",
    "PERFORM pg_terminate_backend(pg_backend_pid())",
], ids=["raises", "dies"])  # fmt: skip
@pytest.mark.parametrize("way", ["key", "login"])
async def test_code_stays_good_if_the_server_fails_before_the_person_can_get_in(
    client: Client, conninfo: str, how: str, way: str
) -> None:
    made = await invite(client, "bo")

    async def get_in() -> httpx2.Response:
        if way == "key":
            return await accept(client, made["code"])
        path, body = f"{API}/login-sessions", {"invitation": made["code"]}
        return await client.http.post(path, json=body)

    with failing(conninfo, "api_keys" if way == "key" else "login_sessions", how):
        answer = await get_in()
        assert (answer.status_code, problem(answer)) == (503, "database-unavailable")
        assert "bo" not in await names(client)
    assert (await get_in()).status_code == 200
    assert (await names(client))["bo"] == "member"


async def test_code_of_an_ended_invitation_gives_nothing(client: Client) -> None:
    made = await invite(client, "bo")
    path = f"/invitations/{made['invitation']['id']}/revoke"
    assert (await client.post("admin", path, {})).status_code == 204
    assert (await accept(client, made["code"])).status_code == 422
    assert "bo" not in await names(client)


async def test_code_opens_its_own_workspace_only(client: Client, team: Team) -> None:
    made = await invite(client, "bo")
    wrong = "A" if made["code"][-1] != "A" else "B"
    answers = [
        await accept(client, made["code"], OTHER),
        await accept(client, made["code"], "none"),
        await accept(client, made["code"][:-1] + wrong),
        await accept(client, made["code"][:-1] + wrong, "none"),
        await accept(client, "guessed"),
        await accept(client, team.keys["admin"]),
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert len({answer.text for answer in answers}) == 1, "a stranger learns of no workspace"
    assert "bo" not in await names(client)


async def test_code_for_another_workspace_of_the_server_is_accepted_there(
    client: Client, team: Team
) -> None:
    database = await client.of_workspace(OTHER)
    zoe = tree_on(database, team.settings_of(OTHER, "zoe"), SystemClock())
    _, code = await zoe.invitations.create("bo", expires_at=later())
    key = (await accept(client, code, OTHER)).json()["key"]
    headers = {"authorization": f"Bearer {key}"}
    assert (await client.http.get(f"/w/{OTHER}/api/v1/me", headers=headers)).status_code == 200
    assert (await client.http.get(f"{API}/me", headers=headers)).status_code == 403


async def test_invitation_ends_with_the_role_of_the_admin_who_made_it(client: Client) -> None:
    await client.post("admin", "/members/mia/role", {"role": "admin"})
    answer = await client.post("member", "/invitations", {"invitee": "bo"})
    assert answer.status_code == 200, answer.text
    await client.post("admin", "/members/mia/role", {"role": "member"})
    assert (await accept(client, answer.json()["code"])).status_code == 422


async def test_members_are_added_changed_and_removed_by_admins_only(
    client: Client, team: Team
) -> None:
    for caller in ("member", "guest", "owner", "agent on behalf", "narrowed to reading"):
        for path, body in (
            ("/members", {"name": "eve", "role": "admin"}),
            ("/members/mia/role", {"role": "admin"}),
            ("/members/mia/remove", {}),
            ("/invitations", {"invitee": "eve", "role": "admin"}),
        ):
            assert problem(await client.post(caller, path, body)) == "denied", (caller, path)
    assert ("mia", "action:member.manage") in await denials(team)
    added = await client.post("admin", "/members", {"name": "bo", "role": "guest"})
    assert (added.json()["name"], added.json()["role"]) == ("bo", "guest")
    assert (await client.post("admin", "/members/bo/role", {"role": "member"})).status_code == 200
    assert (await names(client))["bo"] == "member"
    assert (await client.post("admin", "/members/bo/remove", {})).status_code == 204
    assert "bo" not in await names(client)
    assert (await client.post("admin", "/members/bo/remove", {})).status_code == 404
    assert (await client.post("admin", "/members/ana/remove", {})).status_code == 422
    assert (
        await client.post("admin", "/members", {"name": "x", "role": "root"})
    ).status_code == 422


async def test_removed_member_has_no_key_left(client: Client) -> None:
    made = (await client.post("member", "/keys", {"name": "laptop"})).json()
    assert (await with_key(client, made["key"], "/me")).status_code == 200
    assert (await client.post("admin", "/members/mia/remove", {})).status_code == 204
    for caller_key in (made["key"], client.team.keys["member"]):
        assert problem(await with_key(client, caller_key, "/me")) == "not-authenticated"
    assert (await client.post("admin", "/members", {"name": "mia"})).status_code == 200
    assert problem(await with_key(client, made["key"], "/me")) == "not-authenticated"


async def test_key_is_shown_once_and_its_list_has_no_secret(client: Client) -> None:
    body = {"name": "ci", "allow": ["action:read"], "expires_in_days": 3}
    made = (await client.post("member", "/keys", body)).json()
    answer = await client.get("member", "/keys")
    assert made["key"] not in answer.text
    listed = next(one for one in answer.json()["keys"] if one["id"] == made["id"])
    assert (listed["name"], listed["allow"], listed["state"]) == ("ci", ["action:read"], "valid")
    assert (await with_key(client, made["key"], "/sessions")).status_code == 200
    assert problem(await with_key(client, made["key"], "/keys")) == "denied"


async def test_key_that_permits_less_makes_none_that_permits_more(
    client: Client, team: Team
) -> None:
    narrow = {"name": "narrow", "allow": ["action:key.create", "action:read"]}
    key = (await client.post("admin", "/keys", narrow)).json()["key"]
    team.keys["narrow"] = key
    wide = (await client.post("narrow", "/keys", {"name": "wide"})).json()
    assert (await with_key(client, wide["key"], "/me")).status_code == 200
    assert problem(await with_key(client, wide["key"], "/invitations")) == "denied"
    listed = (await client.get("narrow", "/keys")).json()["keys"]
    assert {one["holder"] for one in listed} == {"human:ana"}, (
        "an admin's narrowed key sees its own"
    )


async def test_agent_creates_no_key_for_its_person(client: Client, team: Team) -> None:
    answer = await client.post("agent on behalf", "/keys", {"name": "mine"})
    assert (answer.status_code, problem(answer)) == (403, "denied")
    assert ("atlas", "action:key.create") in await denials(team)


async def test_keys_of_others_are_absent_for_all_but_admins(client: Client) -> None:
    made = (await client.post("owner", "/keys", {"name": "hers"})).json()
    for caller in ("member", "guest", "agent on behalf"):
        assert made["id"] not in (await client.get(caller, "/keys")).text
        answer = await client.post(caller, f"/keys/{made['id']}/revoke", {})
        assert problem(answer) == "not-found", caller
    assert (await with_key(client, made["key"], "/me")).json()["user"] == OWNER
    reason = {"reason": "it was in a log"}
    assert (await client.post("admin", f"/keys/{made['id']}/revoke", reason)).status_code == 204
    assert problem(await with_key(client, made["key"], "/me")) == "not-authenticated"
    listed = (await client.get("owner", "/keys")).json()["keys"]
    assert next(one for one in listed if one["id"] == made["id"])["reason"] == reason["reason"]


async def test_repeated_request_makes_one_key_and_shows_it_to_its_caller_only(
    client: Client,
) -> None:
    body = {"name": "laptop"}
    first = (await client.post("member", "/keys", body, key="k")).json()
    assert (await client.post("member", "/keys", body, key="k")).json() == first
    assert (await client.post("owner", "/keys", body, key="k")).json()["id"] != first["id"]


@pytest.mark.parametrize("days", [0, -1, 100_000, "x"])
async def test_expiry_of_a_key_is_limited(client: Client, days: object) -> None:
    answer = await client.post("member", "/keys", {"name": "x", "expires_in_days": days})
    assert problem(answer) == "invalid-input"
