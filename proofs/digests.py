"""Digests: pinned for ever, the same by any reader's arithmetic, and blind to crashes.

* ``golden``: every vector in ``tests/core/golden`` is matched by the product, and by RFC 8785
  and SHA-256 alone.
* ``fuzz``: the fast way of writing a document gives the bytes of RFC 8785. The control is the
  same encoder without our check, which must be caught.
* ``crash``: a story told in a world whose process dies before or after any write, and again
  while it recovers, leaves the digests of the calm world. The control changes one word.
"""

import hashlib
import itertools
import json
import random
import struct
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import rfc8785

from proofs.figures import Proof, run, temporary_server
from turntree.core import event, message, turn
from turntree.core.canonical import INTEGER_MAX, NESTING_MAX, _is_plain, canonical, digest
from turntree.core.ids import uuid7
from turntree.core.message import Message
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.db.shard import SLOTS
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.testing.fakes import START_MS, CrashPlan, Fate
from turntree.testing.scenarios import STORY, OtherWriter, PostStep, Scene, play

GOLDEN = Path(__file__).parent.parent / "tests/core/golden"
DOCUMENTS = 100_000
RANDOM_WORLDS, RANDOM_WORLDS_QUICK = 1000, 16
FATES: tuple[Fate, ...] = ("live", "die before", "die after")
DEATHS: tuple[Fate, ...] = ("die before", "die after")
SIGNS = 'aZ_~ \x00\x1f\x7f"\\/\n\té\u2028\ue000\ufb33\uffff\U00010000\U0001f600'
# A process dies here, never the server, so nothing has to reach the disk.
QUICK_SERVER = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


async def prove(proof: Proof) -> None:
    """Show the three parts."""
    if proof.wants("golden"):
        prove_golden(proof)
    if proof.wants("fuzz"):
        prove_fuzz(proof)
    if proof.wants("crash"):
        with temporary_server(QUICK_SERVER) as (server, _):
            await prove_crashes(proof, await ensure_database(server, "digests"))


def prove_golden(proof: Proof) -> None:
    """Every vector is matched twice over."""
    matches = list(golden_matches())
    proof.at_least("golden vectors that match", sum(matches), "vectors", len(matches))


def golden_matches() -> Iterator[bool]:
    """Say of each vector whether the product and a stranger both arrive at it."""
    values = load("canonical")
    for case in values["values"]:
        value = json.loads(case["json"])
        yield canonical(value).decode() == case["canonical"] and digest(value) == case["digest"]
    for case in values["numbers"]:
        (number,) = struct.unpack(">d", bytes.fromhex(case["double"]))
        yield canonical(number).decode() == case["canonical"]
    for case in load("messages")["messages"]:
        line = message.line_of(message.from_json(case["document"]))
        same = line == rfc8785.dumps(case["document"]) == case["canonical"].encode()
        yield same and sha256(line) == case["digest"]
    for case in load("events")["events"]:
        recorded = event.record(event.from_json(case["document"]))
        same = recorded.body == rfc8785.dumps(case["document"]).decode() == case["canonical"]
        yield same and recorded.id == sha256(recorded.body.encode()) == case["digest"]
    for case in load("turns")["turns"]:
        yield turn_matches(case)


def turn_matches(case: dict[str, Any]) -> bool:
    """Compute a turn's body and digest anew, without the product, and compare all three."""
    lines = [rfc8785.dumps(said) for said in [*case["query"], *case["reply"]]]
    digests = [sha256(line) for line in lines]
    proof: dict[str, Any] = {
        "count": len(lines),
        "digest": sha256(rfc8785.dumps(digests)),
        "query": len(case["query"]),
    }
    head = rfc8785.dumps({**case["header"], "messages": proof})
    body = b"\n".join([head, *lines]).decode()
    pinned = "\n".join([case["canonical_header"], *case["canonical_messages"]])
    verdict = turn.verify(pinned, case["digest"], case["header"].get("parent"))
    read = turn.read(pinned, case["digest"])
    said = [one for one in read.messages if isinstance(one, Message)]
    sealed = turn.seal(read.header, said[: read.query_count], said[read.query_count :])
    return (
        body == pinned == sealed.body
        and sha256(head) == case["digest"] == sealed.turn.digest
        and verdict == "whole"
    )


def prove_fuzz(proof: Proof) -> None:
    """The fast path and RFC 8785 never differ, and the check can fail."""
    chance = random.Random(proof.seed)
    fast = wrong = naive = 0
    for _ in range(DOCUMENTS):
        document = draw_document(chance, 2, plain=chance.random() < 0.5)
        judged = rfc8785.dumps(document)
        fast += _is_plain(document, NESTING_MAX)
        wrong += canonical(document) != judged
        naive += orjson.dumps(document, option=orjson.OPT_SORT_KEYS) != judged
    proof.note("fuzzed documents", DOCUMENTS, "documents")
    proof.at_least("documents that took the fast path", fast, "documents", DOCUMENTS // 10)
    proof.at_most("documents not written as RFC 8785 asks", wrong, "documents", 0)
    proof.at_least("control: documents a naive encoder writes wrongly", naive, "documents", 1)


def draw_document(chance: random.Random, depth: int, *, plain: bool) -> dict[str, Any]:
    """Draw a document; a plain one has ASCII keys and no floats, as most of ours."""
    draw_name = draw_key if plain else draw_text
    return {
        draw_name(chance): draw_value(chance, depth, plain=plain)
        for _ in range(chance.randrange(6))
    }


def draw_value(chance: random.Random, depth: int, *, plain: bool) -> Any:
    """Draw a member of a document."""
    match chance.randrange(8 if depth else 6):
        case 0:
            return chance.choice([None, True, False])
        case 1 | 2:
            return chance.randint(-INTEGER_MAX, INTEGER_MAX) >> chance.randrange(53)
        case 3 if not plain:
            return draw_float(chance)
        case 3 | 4 | 5:
            return draw_text(chance)
        case 6:
            size = chance.randrange(4)
            return [draw_value(chance, depth - 1, plain=plain) for _ in range(size)]
        case _:
            return draw_document(chance, depth - 1, plain=plain)


def draw_float(chance: random.Random) -> float:
    """Draw a double of any size below 2**53, from its bits."""
    while True:
        (number,) = struct.unpack(">d", chance.randbytes(8))
        if abs(number) <= INTEGER_MAX:
            return float(number)


def draw_text(chance: random.Random) -> str:
    """Draw awkward signs."""
    return "".join(chance.choices(SIGNS, k=chance.randrange(6)))


def draw_key(chance: random.Random) -> str:
    """Draw a key as most documents have."""
    return "".join(chance.choices("abcXYZ_019", k=chance.randrange(1, 6)))


async def prove_crashes(proof: Proof, conninfo: str) -> None:
    """No death at any write leaves a trace."""
    calm = CrashPlan()
    expected = await tell(conninfo, STORY, calm)
    scripts = list(single_deaths(calm.writes))
    scripts += random_deaths(proof, calm.writes)
    if not proof.quick:
        scripts += double_deaths(calm.writes)
    differ = 0
    for script in scripts:
        differ += await tell(conninfo, STORY, CrashPlan(script)) != expected
    control = await tell(conninfo, (PostStep("main", "hallo"), *STORY[1:]), CrashPlan())
    proof.note("writes of the story, each died before and after", calm.writes, "writes")
    proof.note("worlds in which the process died", len(scripts), "worlds")
    proof.at_most("worlds whose digests differ from the calm one", differ, "worlds", 0)
    proof.at_least("control: one changed word is noticed", control != expected, "worlds", 1)


def single_deaths(writes: int) -> Iterator[list[Fate]]:
    """Die once, before or after each write."""
    for place, fate in itertools.product(range(writes), DEATHS):
        yield [*living(place), fate]


def double_deaths(writes: int) -> Iterator[list[Fate]]:
    """Die at each write, and again at one of the first three of whoever recovers."""
    for place, fate, then, again in itertools.product(range(writes), DEATHS, range(3), DEATHS):
        yield [*living(place), fate, *living(then), again]


def random_deaths(proof: Proof, writes: int) -> Iterator[list[Fate]]:
    """Die again and again, by chance."""
    chance = random.Random(proof.seed)
    for _ in range(RANDOM_WORLDS_QUICK if proof.quick else RANDOM_WORLDS):
        yield chance.choices(FATES, weights=[4, 1, 1], k=2 * writes)


def living(writes: int) -> list[Fate]:
    """Return the fate of writes that nobody dies around."""
    return ["live" for _ in range(writes)]


_worlds = itertools.count(1)


async def tell(conninfo: str, story: Sequence[Scene], dying: CrashPlan) -> dict[str, Any]:
    """Tell a story in a workspace of its own and return the picture of what it left."""
    async with a_world(conninfo) as world:
        return await play(world, story, dying)


@asynccontextmanager
async def a_world(conninfo: str) -> AsyncGenerator[OtherWriter, None]:
    """Open a workspace in which nothing has happened yet."""
    number = next(_worlds)
    # The name of a workspace decides the last bits of its id.
    new_id = uuid7(START_MS, number * SLOTS)
    workspace = await prepare_database(conninfo, f"world {number}", new_id)
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        yield OtherWriter(
            Ledger(database),
            SessionStore(database),
            ReflogStore(database),
            ThreadStore(database),
        )


def load(name: str) -> Any:
    """Return a file of vectors."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def sha256(data: bytes) -> str:
    """Return a digest without the help of the product."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    run(prove, "digests are pinned, portable and blind to crashes")
