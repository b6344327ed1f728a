"""Faults for ``proofs.fsck``: each breaks one rule for a number of subjects, and says for whom.

Statements in ``fsck_plants.sql`` change rows. What only sealing refuses is forged here: a body or
an event that proves itself, and says what nobody could have recorded. Must never know how fsck
finds any of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import orjson
import psycopg

from proofs.figures import load_statements
from turntree.core.canonical import canonical, digest_bytes, digest_raw

STATEMENTS: Final = load_statements(Path(__file__).with_name("fsck_plants.sql"))
Documents = list[dict[str, Any]]
Connection = psycopg.Connection[tuple[Any, ...]]

# Spelt in halves, so that no search for keys finds these.
KEYS: Final = (
    "sk-" + "proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "xoxb" + "-123456789012-abcdefGHIJKLmnopqrst",
    "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7bq5y0s9m5mXhY1Yd3d2c9a8",
)
_keys = cycle(KEYS)


@dataclass(frozen=True, slots=True)
class Forgery:
    """Turns or events that hold a text, and how their documents are changed."""

    like: str
    change: Callable[[Documents], None]


def _say(members: Mapping[str, Any]) -> Callable[[Documents], None]:
    """Return the change that puts members into the last message."""
    return lambda documents: documents[-1].update(members)


def _head(**members: object) -> Callable[[Documents], None]:
    return lambda documents: documents[0].update(members)


def _miscount(documents: Documents) -> None:
    documents[0]["messages"]["count"] += 1


def _swallow(documents: Documents) -> None:
    documents[0]["messages"]["query"] = 0


def _rename_call(kind: str, member: str, word: str) -> Callable[[Documents], None]:
    def change(documents: Documents) -> None:
        for said in documents[1:]:
            for part in said["parts"]:
                if part["kind"] == kind:
                    part[member] = word

    return change


def _leave_open(documents: Documents) -> None:
    for said in documents[1:]:
        said["parts"] = [part for part in said["parts"] if part["kind"] != "tool_result"]


def _tell_secret(documents: Documents) -> None:
    documents[-1]["parts"] = [{"kind": "text", "text": f"the key\nis {next(_keys)} now"}]


def _misanswer(documents: Documents) -> None:
    documents[0]["correlation_id"] = "nobody asked"


def _replace_itself(documents: Documents) -> None:
    data = documents[0]["data"]
    data["replacement"] = data["original"]


def _bring_back(documents: Documents) -> None:
    documents[0]["data"]["outcome"] = "ok"


def _keep_twice(documents: Documents) -> None:
    plan = documents[0]["data"]["volume_plan"]
    plan.append(plan[-1])


def _add(**members: object) -> Callable[[Documents], None]:
    """Return the change that puts members into an event's data."""
    return lambda documents: documents[0]["data"].update(members)


def _leap(documents: Documents) -> None:
    documents[0]["data"]["to"] = "deprecated"


def _widen(documents: Documents) -> None:
    documents[0]["data"]["permissions"] = {"tools": ["*"]}


TURNS: Final[Mapping[str, Forgery]] = {
    "I4": Forgery("%", _head(sealed_at="2026-11-15 09:30:00+01:00")),
    "I15": Forgery("%", _miscount),
    "I16": Forgery('%"kind":"normal"%', _swallow),
    "I17": Forgery('%"tool_result"%', _leave_open),
    "I18": Forgery('%"tool_result"%', _rename_call("tool_result", "call_id", "use-9")),
    "I19": Forgery('%"role":"assistant"}', _say({"source": "human"})),
    "I21": Forgery('%"manifest"%', _rename_call("tool_use", "tool", "write")),
    "I22": Forgery('%"manifest"%', _rename_call("tool_use", "tool", "write")),
    "I40": Forgery("%", _head(derived_from=["sha256:" + "0" * 64])),
    "I61": Forgery('%"role":"assistant"}', _tell_secret),
}
EVENTS: Final[Mapping[str, Forgery]] = {
    "I36": Forgery('%"kind":"model_call.finished"%', _misanswer),
    "I39": Forgery('%"kind":"event.substituted"%', _replace_itself),
    "I45": Forgery('%"outcome":"unsupported"%"kind":"snapshot.restore_attempted"%', _bring_back),
    "I46": Forgery('%"kind":"session.forked"%', _keep_twice),
    "I48": Forgery('%"kind":"snapshot.created"%', _add(liveness="alive")),
    "I49": Forgery('%"kind":"resource.created"%', _add(content="aGVsbG8=")),
    "I58": Forgery('%"kind":"provider.state_changed"%', _leap),
    "I60": Forgery('%"kind":"permission.granted"%', _widen),
}
ROWS: Final = tuple(name for name in STATEMENTS if name[0] == "i" and name[1:].isdigit())
RULES: Final = tuple(
    sorted(
        {f"I{int(name[1:])}" for name in ROWS} | TURNS.keys() | EVENTS.keys(),
        key=lambda rule: int(rule[1:]),
    )
)
"""Every rule that can be broken here."""


def plant(connection: Connection, workspace: UUID, rule: str, seed: int, count: int) -> list[str]:
    """Break a rule for some subjects and return them as fsck should name them."""
    drawn = {"workspace": workspace, "seed": str(seed), "count": count}
    if rule in TURNS:
        return _forge_turns(connection, TURNS[rule], drawn)
    if rule in EVENTS:
        return _forge_events(connection, EVENTS[rule], drawn)
    name = f"i{int(rule[1:]):02}"
    if f"{name}_open" in STATEMENTS:
        connection.execute(STATEMENTS[f"{name}_open"])
    return sorted({subject for (subject,) in connection.execute(STATEMENTS[name], drawn)})


def _forge_turns(connection: Connection, forgery: Forgery, drawn: dict[str, Any]) -> list[str]:
    found = connection.execute(STATEMENTS["draw_turns"], {**drawn, "like": forgery.like}).fetchall()
    for turn, body in found:
        forged, digest = forge(body, forgery.change)
        values = {"turn": UUID(turn), "body": forged, "digest": digest}
        connection.execute(STATEMENTS["forge_turn"], {**drawn, **values})
    return [turn for turn, _ in found]


def forge(body: str, change: Callable[[Documents], None]) -> tuple[str, bytes]:
    """Return a changed body that nobody checked, and the digest that it proves."""
    documents = [orjson.loads(line) for line in body.split("\n")]
    change(documents)
    lines = [canonical(document) for document in documents[1:]]
    digests = [
        one.get("erased", digest_bytes(line))
        for one, line in zip(documents[1:], lines, strict=True)
    ]
    documents[0]["messages"]["digest"] = digest_bytes(canonical(digests))
    head = canonical(documents[0])
    return b"\n".join((head, *lines)).decode(), digest_raw(digest_bytes(head))


def _forge_events(connection: Connection, forgery: Forgery, drawn: dict[str, Any]) -> list[str]:
    found = connection.execute(STATEMENTS["draw_events"], {**drawn, "like": forgery.like})
    subjects: list[str] = []
    for stream, seq, body in found.fetchall():
        documents = [orjson.loads(body)]
        forgery.change(documents)
        forged = canonical(documents[0])
        id = digest_raw(digest_bytes(forged))
        values = {"stream": UUID(stream), "seq": seq, "body": forged.decode(), "id": id}
        connection.execute(STATEMENTS["forge_event"], {**drawn, **values})
        # A replacement is named by its id, everything else by its place.
        subjects.append(
            id.hex() if documents[0]["kind"] == "event.substituted" else f"{stream} at {seq}"
        )
    return subjects
