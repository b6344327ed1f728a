"""``webhook`` and ``trigger``: what leaves to other systems, and what comes in from them."""

import anyio
import psycopg

from tests.cli.conftest import Call, forging
from tests.cli.project import Project
from turntree.boot.open import open_tree

FAIL = b"""
INSERT INTO turntree.notice_deliveries (workspace_id, id, person, channel, address, created_at,
    next_attempt_at, event_stream, event_seq, outcome, ended_at, error, attempts)
  SELECT e.workspace_id, 'msg-' || md5(e.seq::text), 'human:ana', 'webhook', %s, now(), now(),
      e.stream_id, e.seq, 'failed', now(), '500: no', 90
    FROM turntree.events e ORDER BY e.n DESC LIMIT 1
"""
FIRE = b"""
INSERT INTO turntree.trigger_firings
    (workspace_id, trigger_id, message_id, owner, digest, run_id, at)
  SELECT t.workspace_id, t.id, 'msg-1', t.owner, sha256('x'), %s::uuid, now()
    FROM turntree.triggers t
"""


async def post(project: Project) -> str:
    """Post a message that nothing answers yet; return its run."""
    async with open_tree(project.settings) as tree:
        return str((await tree.runs.post("main", "hello")).run)


def forge(statement: bytes, value: str) -> None:
    """Change the database of the command line as a worker or a server would."""
    with psycopg.connect(forging(), autocommit=True) as owner:
        owner.execute(statement, (value,))


def test_a_webhook_is_made_shown_rotated_paused_and_deleted(turntree: Call) -> None:
    assert "there are no webhooks" in turntree("webhook", "list").err
    made = turntree("webhook", "create", "https://example.net/hook", "--event", "run.failed")
    secret = made.out.strip()
    assert secret.startswith("whsec_")
    assert "is for events run.failed" in made.err
    (listed,) = turntree("webhook", "list", "--json").documents
    assert (listed["url"], listed["secrets"]) == ("https://example.net/hook", 1)
    id = listed["id"]
    assert secret not in turntree("webhook", "list").out + turntree("webhook", "show", id).out
    rotated = turntree("webhook", "rotate", id, "--keep", "1", "--json").document
    assert (rotated["secrets"], rotated["secret"] == secret) == (2, False)
    assert "is paused" in turntree("webhook", "pause", id).out
    assert turntree("webhook", "show", id, "--json").document["state"] == "paused"
    assert "is active" in turntree("webhook", "resume", id).out
    assert "nothing has left yet" in turntree("webhook", "deliveries", id).err
    assert "no delivery was given up" in turntree("webhook", "deliveries", id, "--failed").err
    assert turntree("webhook", "resend", "msg-unknown").code == 3
    assert "is deleted" in turntree("webhook", "delete", id).out
    assert turntree("webhook", "show", id).code == 3


def test_a_webhook_leads_to_a_public_address(turntree: Call) -> None:
    refused = turntree("webhook", "create", "https://10.0.0.1/hook")
    assert "10.0.0.1 is not a public address" in refused.err
    assert "next: turntree config add webhook_hosts 10.0.0.1" in refused.err
    assert "sent by https" in turntree("webhook", "create", "http://example.net").err
    assert "not a pattern" in turntree("webhook", "create", "https://x.example", "--event", "!").err


def test_notices_are_sent_to_a_webhook_by_choice(turntree: Call) -> None:
    made = turntree("webhook", "create", "https://example.net/mine", "--json").document
    assert made["events"] == []
    turntree("human", "create", "me", "--channel", "webhook", "--webhook", made["id"])
    shown = turntree("human", "show", "me", "--json").document
    assert made["id"] in str(shown)
    assert turntree("human", "configure", "me", "--webhook", "nothing").code != 0


def test_a_trigger_is_made_shown_rotated_paused_and_deleted(turntree: Call) -> None:
    assert "there are no triggers" in turntree("trigger", "list").err
    turntree("agent", "create", "builder")
    made = turntree("trigger", "create", "builds", "builder", "--prompt", "look into it")
    secret = made.out.strip()
    assert secret.startswith("whsec_")
    (listed,) = turntree("trigger", "list", "--json").documents
    assert (listed["name"], listed["target"]) == ("builds", "builder")
    assert listed["address"].endswith(f"/api/v1/hooks/{listed['id']}")
    id = listed["id"]
    shown = turntree("trigger", "show", id).out
    assert "prompt: look into it" in shown
    assert secret not in shown + turntree("trigger", "list").out
    rotated = turntree("trigger", "rotate", id, "--json").document
    assert (rotated["secrets"], rotated["secret"] == secret) == (2, False)
    assert "is paused" in turntree("trigger", "pause", id).out
    assert "is active" in turntree("trigger", "resume", id).out
    assert "nothing has come in yet" in turntree("trigger", "firings", id).err
    assert "is deleted" in turntree("trigger", "delete", id).out
    assert turntree("trigger", "show", id).code == 3
    assert turntree("trigger", "create", "builds", "@(missing)").code == 3


def test_what_was_given_up_is_sent_again(turntree: Call) -> None:
    made = turntree("webhook", "create", "https://example.net/x", "--event", "*", "--json").document
    forge(FAIL, made["id"])
    shown = turntree("webhook", "show", made["id"])
    assert "1 failed" in shown.out
    assert f"next: turntree webhook deliveries {made['id']} --failed" in shown.err
    (failed,) = turntree("webhook", "deliveries", made["id"], "--json").documents
    assert (failed["state"], failed["error"]) == ("failed", "500: no")
    assert "next: turntree webhook resend" in turntree("webhook", "deliveries", made["id"]).err
    turntree("webhook", "pause", made["id"])
    turntree("webhook", "resume", made["id"])


def test_messages_that_came_in_lead_to_their_runs(turntree: Call, project: Project) -> None:
    made = turntree("trigger", "create", "builds", "main", "--json").document
    run = anyio.run(post, project)
    forge(FIRE, run)
    (fired,) = turntree("trigger", "firings", made["id"], "--json").documents
    assert (fired["message"], fired["run"]) == ("msg-1", run)
    assert run in turntree("trigger", "firings", made["id"]).out
    turntree("trigger", "pause", made["id"])
    turntree("trigger", "resume", made["id"])
