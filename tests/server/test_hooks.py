"""Messages of other systems over the network, and the routes of webhooks and triggers."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook as StandardWebhook

from proofs.http_world import OWNER, TEAM
from tests.server.network import API, Client, problem
from turntree.triggers.trigger import BODY_BYTES_MAX

pytestmark = pytest.mark.anyio
BODY = b'{"type": "build.failed",\n "data": {}}'


async def send(
    client: Client, trigger: str, secret: str, *, id: str = "msg_1", body: bytes = BODY,
    workspace: str = TEAM,
) -> httpx2.Response:  # fmt: skip
    """Send a message as another system does."""
    at = datetime.now(UTC)
    headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": StandardWebhook(secret).sign(id, at, body.decode()),
        "content-type": "application/json",
    }
    path = f"/w/{workspace}/api/v1/hooks/{trigger}"
    return await client.http.post(path, content=body, headers=headers)


async def make(client: Client, caller: str = "owner", **more: Any) -> dict[str, Any]:
    asked = {"name": "builds", "target": "builds-inbox", **more}
    answer = await client.post(caller, "/triggers", asked)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_signed_message_becomes_one_message_of_its_owner(client: Client) -> None:
    made = await make(client)
    trigger = made["trigger"]["id"]
    first = await send(client, trigger, made["secret"])
    assert first.status_code == 200, first.text
    again = await send(client, trigger, made["secret"])
    assert (again.json()["run"], again.json()["repeated"]) == (first.json()["run"], True)
    waiting = (await client.get("owner", "/sessions/builds-inbox/runs")).text
    assert first.json()["run"] in waiting
    assert f"human:{OWNER}" in waiting
    firings = (await client.get("owner", f"/triggers/{trigger}/firings")).json()["firings"]
    assert [one["message"] for one in firings] == ["msg_1"]


async def test_all_who_know_no_secret_are_refused_with_the_same_words(client: Client) -> None:
    made = await make(client)
    trigger, secret = made["trigger"]["id"], made["secret"]
    unsigned = await client.http.post(f"{API}/hooks/{trigger}", json={})
    refused = [
        unsigned,
        await send(client, trigger, "whsec_" + "QUJD" * 8),
        await send(client, "tr-0000000000000000", secret),
        await send(client, trigger, secret, workspace="elsewhere"),
        await send(client, trigger, secret, workspace="nowhere"),
    ]
    await client.post("owner", f"/triggers/{trigger}/pause", {})
    refused.append(await send(client, trigger, secret))
    assert {(one.status_code, one.text) for one in refused} == {(403, unsigned.text)}
    assert problem(unsigned) == "message-refused"


async def test_a_message_that_is_too_long_is_refused(client: Client) -> None:
    made = await make(client)
    body = json.dumps("x" * BODY_BYTES_MAX).encode()
    answer = await send(client, made["trigger"]["id"], made["secret"], body=body)
    assert (answer.status_code, problem(answer)) == (413, "body-too-large")


async def test_secrets_are_in_no_list(client: Client) -> None:
    made = await make(client)
    hook = await client.post("owner", "/webhooks", {"url": "https://example.net/x"})
    secret = hook.json()["secret"]
    rotated = await client.post("owner", f"/webhooks/{hook.json()['webhook']['id']}/rotate", {})
    assert rotated.json()["secret"] != secret
    for path in ("/triggers", "/webhooks"):
        for caller in ("owner", "admin"):
            listed = (await client.get(caller, path)).text
            for one in (secret, made["secret"], rotated.json()["secret"]):
                assert one not in listed


async def test_events_take_an_admin_and_an_address_is_public(client: Client) -> None:
    asked = {"url": "https://example.net/x", "events": ["run.*"]}
    assert problem(await client.post("owner", "/webhooks", asked)) == "denied"
    assert (await client.post("admin", "/webhooks", asked)).status_code == 200
    near = await client.post("admin", "/webhooks", {"url": "https://127.0.0.1/x"})
    assert (near.status_code, "not a public address" in near.text) == (422, True)
