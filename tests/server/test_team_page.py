"""The page over the network: which paths are its, how it is guarded, and what ``me`` tells it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

from proofs.http_world import OTHER, TEAM, Team, serving_here
from tests.server.network import API, SOON_S, Client, problem
from turntree.server.page import Page

pytestmark = pytest.mark.anyio
DOCUMENT = "<!doctype html><title>Turntree</title>"


@pytest.fixture
async def http(team: Team, tmp_path: Path) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """A client of a server with a page of three files."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(DOCUMENT)
    (tmp_path / "icon.svg").write_text("<svg/>")
    (tmp_path / "assets" / "main-1a2b.js").write_text("1")
    async with (
        serving_here(team, page=Page(tmp_path)) as url,
        httpx2.AsyncClient(base_url=url, timeout=SOON_S) as client,
    ):
        yield client


@pytest.mark.parametrize("path", [
    f"/w/{TEAM}", f"/w/{TEAM}/", f"/w/{TEAM}/s/demo%2Fshop", f"/w/{TEAM}/t/e9177?turn=1",
    f"/w/{TEAM}/keys", f"/w/{TEAM}/apis", "/w/a%2Fb/", f"/w/{OTHER}/", "/w/none/",
])  # fmt: skip
async def test_every_path_of_a_workspace_is_the_same_document(
    http: httpx2.AsyncClient, path: str
) -> None:
    answer = await http.get(path)
    assert (answer.status_code, answer.text) == (200, DOCUMENT)
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", [
    f"{API}/none", f"/w/{TEAM}/api", f"/w/{TEAM}/api/v2/me", "/w/a%2Fb/api/v1/none", "/w/", "/",
])  # fmt: skip
async def test_path_of_the_api_is_never_the_document(http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code in (401, 404)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_assets_are_shared_by_all_workspaces_and_kept(http: httpx2.AsyncClient) -> None:
    asset = await http.get("/assets/main-1a2b.js")
    assert asset.headers["content-type"].startswith("text/javascript")
    assert "immutable" in asset.headers["cache-control"]
    assert (await http.get("/icon.svg")).headers["content-type"] == "image/svg+xml"
    assert (await http.get("/assets/none.js")).status_code == 404
    assert (await http.get("/index.html")).status_code == 404


async def test_link_of_another_site_opens_the_page_and_writes_nothing(
    http: httpx2.AsyncClient,
) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await http.get(f"/w/{TEAM}/s/main", headers=link)).text == DOCUMENT
    answer = await http.post(f"/w/{TEAM}/s/main", json={}, headers={**link, "cookie": "a=b"})
    assert problem(answer) == "foreign-site"
    elsewhere = await http.get(f"/w/{TEAM}/", headers={"host": "evil.example"})
    assert problem(elsewhere) == "wrong-host"


async def test_write_to_a_path_of_the_page_is_refused(http: httpx2.AsyncClient) -> None:
    assert problem(await http.post(f"/w/{TEAM}/s/main", json={})) == "no-such-route"


@pytest.mark.parametrize(("caller", "may"), [
    ("admin", {"read", "invoke", "create", "configure", "key.create", "key.manage",
               "member.manage"}),
    ("member", {"read", "invoke", "create", "configure", "key.create"}),
    ("guest", {"read", "invoke", "key.create"}),
    ("narrowed to reading", {"read"}),
])  # fmt: skip
async def test_me_tells_what_the_caller_may_do(client: Client, caller: str, may: set[str]) -> None:
    me = (await client.get(caller, "/me")).json()
    assert (set(me["may"]), me["login"]) == (may, None)


async def test_me_tells_which_login_session_asks(client: Client, team: Team) -> None:
    url = str(client.http.base_url).rstrip("/")
    headers = team.headers("logged in", url)
    me = (await client.http.get(f"{API}/me", headers=headers)).json()
    open_now = (await client.http.get(f"{API}/login-sessions", headers=headers)).json()
    assert me["login"] in [one["id"] for one in open_now["login_sessions"]]
