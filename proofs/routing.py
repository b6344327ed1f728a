"""The claim: a message finds the thread it belongs to, better than by words or by meanings alone.

A thousand threads are recorded, and messages that belong to some of them are routed by what they
say: by the router, by its words alone and by its meanings alone, in one run on the same turns. The
data was written and committed before the ranker was tuned (``proofs.routing_corpus`` says how), the
ranker was tuned on one half of the messages, and the verdict is about the other. A thread that the
sender may not read is never among the candidates: that is tried on every message of some threads.
``--quick`` records 500 of the threads, those of the messages among them; without the weights of an
embedder there is nothing to compare, and the proof fails and says so.
"""

import time
from collections.abc import Sequence

from proofs import figures
from proofs.figures import Proof
from proofs.routing_corpus import Labelled, Thread, is_held_out, load
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.ids import Label
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.search.embedders.minilm import find_minilm
from turntree.system.clock import SystemClock

THREADS_QUICK = 500
CLOSED = 20
TOP = 3
SIDES = {
    "merged": {"by_words": True, "by_meaning": True},
    "words alone": {"by_words": True, "by_meaning": False},
    "meanings alone": {"by_words": False, "by_meaning": True},
}


async def prove(proof: Proof) -> None:
    """Record the threads, route the messages, and compare."""
    if find_minilm() is None:
        proof.at_least("embedders with weights", 0, "embedders", 1)
        return
    threads, messages = choose(*load(), quick=proof.quick)
    with figures.temporary_server() as (server, folder):
        conninfo = await ensure_database(server, "proof_routing")
        workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            tree = tree_on(database, Settings(folder, user="ana"), SystemClock())
            await record(tree, threads)
            proof.note("threads", len(threads), "threads")
            await judge(proof, tree, [one for one in messages if is_held_out(one)])
            await hide(proof, tree, messages)


def choose(
    threads: Sequence[Thread], messages: Sequence[Labelled], *, quick: bool
) -> tuple[list[Thread], list[Labelled]]:
    """Return what is recorded and routed; of fewer threads, the same ones every time."""
    if not quick:
        return list(threads), list(messages)
    wanted = {message.thread for message in messages}
    others = [thread for thread in threads if thread.id not in wanted]
    step = len(others) / (THREADS_QUICK - len(wanted))
    kept = {others[int(place * step)].id for place in range(THREADS_QUICK - len(wanted))} | wanted
    return [thread for thread in threads if thread.id in kept], list(messages)


async def record(tree: Tree, threads: Sequence[Thread]) -> None:
    """Record each thread as a session of its own, and fill both indexes."""
    for thread in threads:
        recorder = await tree.recorder(thread.id)
        for asked, told in thread.turns:
            await recorder.record([user(asked)], [assistant(told)])
    await tree.search.fill()
    await tree.search.fill_meanings()


async def judge(proof: Proof, tree: Tree, messages: Sequence[Labelled]) -> None:
    """Compare the three on messages that nothing was tuned on."""
    proof.note("messages held out", len(messages), "messages")
    shares: dict[str, tuple[float, float]] = {}
    for name, sides in SIDES.items():
        places, spent = [], []
        for message in messages:
            start = time.perf_counter()
            places.append(await place_of(tree, message, **sides))
            spent.append((time.perf_counter() - start) * 1000)
        first = sum(place == 1 for place in places) / len(places)
        among = sum(0 < place <= TOP for place in places) / len(places)
        shares[name] = first, among
        proof.note(f"{name}: median time to route", sorted(spent)[len(spent) // 2], "ms")
    for name in list(SIDES)[1:]:
        proof.note(f"{name}: right at once", shares[name][0], "of messages")
        proof.note(f"{name}: right among {TOP}", shares[name][1], "of messages")
    best_first = max(shares[name][0] for name in list(SIDES)[1:])
    best_among = max(shares[name][1] for name in list(SIDES)[1:])
    more = 1 / len(messages)
    proof.at_least("merged: right at once", shares["merged"][0], "of messages", best_first + more)
    proof.at_least(
        f"merged: right among {TOP}", shares["merged"][1], "of messages", best_among + more
    )


async def place_of(tree: Tree, message: Labelled, **sides: bool) -> int:
    """Return at which place a message's own thread comes; 0 if it does not."""
    matched = await tree.router.matcher.match(
        message.text, sender=str(tree.router.by), limit=TOP, **sides
    )
    labels = [candidate.label for candidate in matched.candidates]
    return labels.index(Label(message.thread)) + 1 if message.thread in labels else 0


async def hide(proof: Proof, tree: Tree, messages: Sequence[Labelled]) -> None:
    """Close some threads to a stranger and route their messages in his name."""
    stranger = Principal("human", "mallory")
    closed = messages[:CLOSED]
    for message in closed:
        await tree.programs.create("session", message.thread, {}, visibility="private")
    shown = 0
    for message in closed:
        route = await tree.router.resolve(text=message.text, sender=stranger, limit=50)
        shown += any(candidate.label == message.thread for candidate in route.candidates)
    proof.at_most("threads shown to who may not read them", shown, "threads", 0)


if __name__ == "__main__":
    figures.run(prove, str(__doc__))
