"""What a server remembers of its callers opens nothing that was revoked or has expired."""

import time

import anyio
import httpx2
import pytest

from proofs.http_world import OWNER, Team, later, serving_apart
from tests.server.network import API, SOON_S, Client, problem
from turntree.auth.permissions import EVERYTHING
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio
REVOKED_S_MAX = 1.0
LIFE_MS = 600


async def make_key(team: Team, person: str, life_ms: int = 60_000) -> tuple[str, Timestamp]:
    """Return the id of a new key, which its caller has by that name, and when it expires."""
    expires_at = later(life_ms)
    made, key = await team.of(person).keys.create("tested", expires_at=expires_at)
    team.keys[made.id] = key
    return made.id, expires_at


async def test_key_revoked_by_the_servers_process_opens_nothing_from_then_on(
    client: Client, team: Team
) -> None:
    for _ in range(3):
        key, _ = await make_key(team, OWNER)
        assert (await client.get(key, "/me")).status_code == 200
        await team.of(OWNER).keys.revoke(key)
        assert problem(await client.get(key, "/me")) == "not-authenticated"


async def test_member_removed_by_the_servers_process_is_no_caller_from_then_on(
    client: Client, team: Team
) -> None:
    assert (await client.get("member", "/me")).status_code == 200
    await team.tree.members.remove("mia")
    assert problem(await client.get("member", "/me")) == "not-authenticated"


async def test_role_changed_by_the_servers_process_counts_from_then_on(
    client: Client, team: Team
) -> None:
    assert (await client.post("member", "/sessions", {"label": "one"})).status_code == 200
    await team.tree.members.set_role("mia", "guest")
    assert problem(await client.post("member", "/sessions", {"label": "two"})) == "denied"
    await team.tree.members.set_role("mia", "member")
    assert (await client.post("member", "/sessions", {"label": "two"})).status_code == 200


@pytest.mark.slow
async def test_another_process_revokes_a_key_and_changes_a_role_within_a_second(
    team: Team,
) -> None:
    key, _ = await make_key(team, OWNER)
    async with (
        serving_apart(team.settings, "--no-worker") as served,
        httpx2.AsyncClient(base_url=served.url, timeout=SOON_S) as http,
    ):
        client = Client(http, team)
        for caller in (key, "member"):
            assert (await client.get(caller, "/me")).status_code == 200
        await team.of(OWNER).keys.revoke(key)
        revoked_at = time.monotonic()
        with anyio.fail_after(SOON_S):
            while (await client.get(key, "/me")).status_code == 200:
                assert time.monotonic() - revoked_at < REVOKED_S_MAX
        # Another key of the workspace is what it was, until its holder is another.
        assert (await client.post("member", "/sessions", {"label": "one"})).status_code == 200
        await team.tree.members.set_role("mia", "guest")
        changed_at, label = time.monotonic(), 0
        with anyio.fail_after(SOON_S):
            while True:
                label += 1
                answer = await client.post("member", "/sessions", {"label": f"more-{label}"})
                if answer.status_code == 403:
                    break
                assert time.monotonic() - changed_at < REVOKED_S_MAX


async def test_key_opens_nothing_once_it_has_expired(client: Client, team: Team) -> None:
    key, expires_at = await make_key(team, OWNER, LIFE_MS)
    statuses: list[tuple[bool, int]] = []
    while not statuses or not statuses[-1][0]:
        is_over = SystemClock().now() >= expires_at
        statuses.append((is_over, (await client.get(key, "/me")).status_code))
    assert statuses[0] == (False, 200)
    assert statuses[-1] == (True, 401)


async def test_code_of_a_cookie_is_no_key_in_a_header(client: Client, team: Team) -> None:
    url = str(client.http.base_url).rstrip("/")
    cookie = team.headers("logged in", url)
    code = cookie["cookie"].partition("=")[2]
    for _ in range(2):
        answer = await client.http.get(f"{API}/me", headers=cookie)
        assert answer.status_code == 200
        answer = await client.http.get(f"{API}/me", headers={"authorization": f"Bearer {code}"})
        assert problem(answer) == "not-authenticated"


async def test_caller_remembered_in_one_workspace_is_none_in_another(client: Client) -> None:
    assert (await client.get("owner", "/me")).status_code == 200
    for name in ("other", "none"):
        path = f"/w/{name}/api/v1/me"
        answer = await client.http.get(path, headers=client.team.headers("owner"))
        assert problem(answer) == "other-workspace"


async def test_use_of_a_key_is_noted_again_after_a_minute(team: Team) -> None:
    id, _ = await make_key(team, OWNER, 600_000)
    first = await team.of(OWNER).keys.verify(team.keys[id])
    noted_at = first.record.last_used_at
    assert noted_at is not None
    (noted,) = [one for one in await team.of(OWNER).keys.list_all() if one.id == id]
    assert (noted.last_used_at, noted.scopes) == (noted_at, EVERYTHING)
    soon, later_on = (instant(unix_ms(noted_at) + ms) for ms in (59_999, 60_000))
    assert soon < first.record.current_until, "it was noted a moment ago"
    assert first.record.current_until == later_on, "then it is verified, and its use noted"


async def test_viewers_of_one_server_share_no_list(client: Client, team: Team) -> None:
    vault = await team.add_vault(1)
    owner = team.of(OWNER)

    async def labels(caller: str) -> set[str]:
        answer = await client.get(caller, "/sessions")
        return {one["label"] for one in answer.json()["sessions"]}

    for _ in range(2):
        assert vault.label in await labels("owner")
        assert vault.label not in await labels("member")
    program = str((await owner.sessions.get(vault.label)).id)
    await owner.programs.grant(program, "human:mia", "read")
    assert vault.label in await labels("member")
    assert vault.label not in await labels("guest")
    await owner.programs.grant(program, "human:mia", "read", on=False)
    assert vault.label not in await labels("member")
