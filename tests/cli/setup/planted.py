"""A workspace in which every name is one that no figure and no span may tell, and its first key."""

from collections.abc import Mapping

import httpx2

from proofs.http_world import ServeProcess

LABEL, WORKSPACE, TEXT = "zebra-crossing", "okapi-house", "wombats at dawn"
PROVIDER, MODEL, KEY, PATH = "giraffe", "narwhal", "quokka-key", "axolotl"
PERSON = "ignatia"
PLANTED = (LABEL, WORKSPACE, TEXT, PROVIDER, MODEL, KEY, PATH, PERSON)


async def first_key(http: httpx2.AsyncClient, served: ServeProcess) -> dict[str, str]:
    code = served.told["link"].partition("#code=")[2]
    answer = await http.post(f"/w/{WORKSPACE}/api/v1/first-key", json={"code": code})
    return {"authorization": f"Bearer {answer.json()['key']}"}


async def send(http: httpx2.AsyncClient, caller: Mapping[str, str]) -> str:
    body = {"to": LABEL, "text": TEXT, "model": MODEL}
    headers = {**caller, "idempotency-key": KEY}
    answer = await http.post(f"/w/{WORKSPACE}/api/v1/runs", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["run"])
