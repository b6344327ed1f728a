"""A thread that outgrows its model's window never fails for that reason, and nothing is forgotten.

A server of several vendors' protocols counts the tokens of every request in its own way and refuses
what is too long, in the words of each vendor. It asks for tool calls whose results are far longer
than the window of its model.

* ``turns-8000`` and so on: long turns end, no prompt is refused twice, and most consecutive prompts
  begin alike.
* ``threads-8000`` and so on: so do long threads; two forks send the same beginning.
* ``recall``: a model that searches its thread finds what was said or returned long ago.
* ``control`` plants a server that refuses everything: then the turn must fail.

The whole form makes some 10,000 model calls. Each part stands alone: ``--only`` takes them one by
one, or several side by side.
"""

import json
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.message import Message, ObjectRef, ToolResult, ToolUse, assistant, tool, user
from turntree.testing.scripted.dialect import Dialect, Document, OutgoingReply
from turntree.testing.scripted.server import (
    Call,
    Failure,
    RecordedExchange,
    Reply,
    ScriptedModel,
    ScriptRequest,
)

QUICK_SERVER: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
BYTES_PER_TOKEN: Final = 3.6
"""How the server counts; the product estimates in another way."""
MAX_TOKENS: Final = 1_000
TURN_CALLS: Final = (12, 100, 400)
TURN_CALLS_QUICK: Final = (40,)
WINDOWS: Final = (8_000, 32_000, 128_000, 200_000)
WINDOWS_QUICK: Final = (8_000, 32_000)
THREAD_TURNS, THREAD_TURNS_QUICK = 1_000, 160
SENT_TURNS, SENT_TURNS_QUICK = 200, 12
FACTS, FACTS_QUICK = 1_000, 40
BREAKS_BAR: Final = 1 / 8
FOUND_BAR: Final = 0.95
RECALLS_AT_ONCE: Final = 10
TIMEOUT_S: Final = 3600.0
"""A busy machine must not fail the proof: a turn that hangs is found all the same."""
VENDORS: Final = {"openai-chat": "/v1", "anthropic": "", "openai": "/v1", "google": ""}
_JOB: Final = re.compile(r"job (\S+), calls (\d+)")
WORDS: Final = tuple(
    "harbour lantern quarry meadow copper violin thunder basket ribbon saddle orchard granite "  # noqa: SIM905
    "compass anchor feather barrel candle marble velvet timber".split()
)


async def prove(proof: Proof) -> None:
    """Show that nothing fails for its length, and that this can fail."""
    with (
        temporary_server(QUICK_SERVER) as (conninfo, folder),
        CountingModel() as server,
    ):
        settings = Settings(home=folder / "own", database_url=conninfo, user="ana")
        async with open_tree(settings, worker=True, tools=[dig]) as tree:
            for window in WINDOWS_QUICK if proof.quick else WINDOWS:
                if proof.begins(f"turns-{window}"):
                    await prove_turns(proof, tree, server, window)
                if proof.begins(f"threads-{window}"):
                    await prove_threads(proof, tree, server, window)
            if proof.begins("recall"):
                await prove_recall(proof, tree, server)
            if proof.begins("control"):
                await prove_control(proof, tree, server)


def dig(number: int) -> str:
    """Return a long text; its length depends on the number."""
    chance = random.Random(number)
    words = chance.choices(WORDS, k=chance.choice((30, 300, 1200, 4000)))
    words.insert(len(words) // 2, f"nugget-{number}")
    return " ".join(words)


async def prove_turns(proof: Proof, tree: Tree, server: "CountingModel", window: int) -> None:
    """Take turns of many calls, with every vendor's refusals."""
    failed, refused, jobs = 0, server.refused, list[str]()
    for vendor in list(VENDORS)[: 2 if proof.quick else None]:
        for calls in TURN_CALLS_QUICK if proof.quick else TURN_CALLS:
            job = f"{vendor}-{window}-{calls}"
            # What the config says is too much, so that the first long prompt is refused.
            await furnish(tree, server, job, vendor, window, told=window * 3 // 2)
            begun = time.process_time()
            failed += await send(tree, job, f"job {job}, calls {calls}", job) != "completed"
            spent = time.process_time() - begun
            proof.note(f"{vendor}, a turn of {calls} calls", 1000 * spent / calls, "CPU ms a call")
            jobs.append(job)
    proof.at_most("long turns that failed", failed, "turns", 0)
    judge(proof, server, "long turns", jobs)
    if window == WINDOWS[0]:
        proof.at_least("prompts that were refused once", server.refused - refused, "prompts", 1)


async def prove_threads(proof: Proof, tree: Tree, server: "CountingModel", window: int) -> None:
    """Go on with a long thread, and fork it."""
    turns = THREAD_TURNS_QUICK if proof.quick else THREAD_TURNS
    sent = SENT_TURNS_QUICK if proof.quick else SENT_TURNS
    failed = 0
    name = f"thread-{window}"
    await furnish(tree, server, name, "openai-chat", window)
    await record(tree, name, turns, {})
    begun = time.process_time()
    for number in range(sent):
        failed += await send(tree, name, f"job {name}, calls {number % 3}", name) != "completed"
    spent = time.process_time() - begun
    proof.note(f"a message in a thread of {turns} turns", 1000 * spent / sent, "CPU ms")
    head = (await tree.sessions.get_or_create(name)).head
    assert head is not None, "the thread has turns"
    bodies: list[list[Any]] = []
    for side in ("left", "right"):
        job = f"{name}-{side}"
        fork = await tree.sessions.fork(head, job)
        failed += await send(tree, fork.label, f"job {job}, calls 0", name) != "completed"
        bodies.append(server.jobs[job].prompts[-1][:-1])
    proof.at_most("turns of long threads that failed", failed, "turns", 0)
    judge(proof, server, "long threads", [name])
    proof.at_most("forks that begin differently", bodies[0] != bodies[1], "pairs", 0)


async def prove_recall(proof: Proof, tree: Tree, server: "CountingModel") -> None:
    """Have a model search its thread for facts, half of them inside long tool results."""
    count = FACTS_QUICK if proof.quick else FACTS
    chance = random.Random(proof.seed)
    facts = {
        f"{chance.choice(WORDS)}-{chance.choice(WORDS)}-{number}": f"K{number:04}Q"
        for number in range(count)
    }
    name = "recall"
    await furnish(tree, server, name, "openai-chat", 32_000)
    await record(tree, name, count, facts)
    server.asks = [f"code of the depot {place}" for place in facts]
    await send(tree, name, f"job {name}, calls {-(-count // RECALLS_AT_ONCE)}", name)
    (last,) = await tree.threads.read(name, last=1)
    found = 0
    for place, code in facts.items():
        hits = await results_of(tree, last.turn.reply, f"code of the depot {place}")
        found += any(code in hit["text"] for hit in hits[:5])
    proof.at_least(f"share of {count} facts in the first five hits", found / count, "", FOUND_BAR)


async def prove_control(proof: Proof, tree: Tree, server: "CountingModel") -> None:
    """Take a turn with a model that refuses every prompt."""
    await furnish(tree, server, "tiny", "openai-chat", 10)
    outcome = await send(tree, "tiny", "job tiny, calls 1", "tiny")
    proof.at_least("control: a turn that is always refused fails", outcome == "failed", "", 1)


def judge(proof: Proof, server: "CountingModel", what: str, names: list[str]) -> None:
    """Compare consecutive prompts, and look for one that was refused twice."""
    calls = breaks = 0
    for name in names:
        prompts = server.jobs[name].prompts
        for before, after in pairwise(prompts):
            calls += 1
            breaks += after[: len(before)] != before
    proof.note(f"prompts of {what}", calls + len(names), "prompts")
    proof.at_most(f"{what}: share of prompts that begin anew", breaks / calls, "", BREAKS_BAR)
    twice = sum(server.jobs[name].refused_twice for name in names)
    proof.at_most(f"{what}: prompts refused twice", twice, "prompts", 0)


async def furnish(
    tree: Tree, server: "CountingModel", name: str, vendor: str, window: int, *, told: int = 0
) -> None:
    """Create a provider and a model with a window."""
    config: dict[str, Any] = {"provider_type": vendor, "base_url": server.url + VENDORS[vendor]}
    await tree.programs.create("provider", f"p-{name}", config)
    model: dict[str, Any] = {
        "model_id": f"window-{window}",
        "provider": f"@(p-{name})",
        "context_tokens": told or window,
        "max_tokens": MAX_TOKENS if window > MAX_TOKENS else 1,
    }
    await tree.programs.create("model", f"m-{name}", model)


async def send(tree: Tree, session: str, text: str, model: str) -> str:
    """Return the outcome of a turn."""
    posted = await tree.runs.post(session, text, model=f"m-{model}")
    return (await tree.runs.wait(posted.run, timeout_s=TIMEOUT_S)).turn.header.outcome


async def record(tree: Tree, name: str, turns: int, facts: Mapping[str, str]) -> None:
    """Record a thread whose turns hold facts, every other one inside a long tool result."""
    recorder = await tree.recorder(name)
    places = list(facts.items())
    for number in range(turns):
        chance = random.Random(number)
        said = (
            f"The code of the depot {places[number][0]} is {places[number][1]}." if places else ""
        )
        long_result = " ".join(chance.choices(WORDS, k=1200 if places else 60)).split()
        long_result.insert(600, said if number % 2 else "")
        answer = " ".join(chance.choices(WORDS, k=20)) + ("" if number % 2 else f" {said}")
        reply = [
            assistant(ToolUse(f"c{number}", "dig", {"number": number})),
            tool(ToolResult(f"c{number}", "ok", " ".join(long_result))),
            assistant(answer),
        ]
        await recorder.record(
            [user(" ".join(chance.choices(WORDS, k=12)))],
            reply if places or number % 8 == 0 else [assistant(answer)],
        )


async def results_of(tree: Tree, reply: Any, words: str) -> list[dict[str, Any]]:
    """Return the hits of a call of ``ledger.recall``."""
    messages = [message for message in reply if isinstance(message, Message)]
    ids = [
        use.call_id
        for message in messages
        for use in message.tool_uses
        if isinstance(use, ToolUse) and use.args == {"words": words}
    ]
    for message in messages:
        for part in message.tool_results:
            if part.call_id in ids:
                if isinstance(part, ObjectRef):
                    document: Any = json.loads(await tree.ledger.get_object(part.object))
                    return list(document["output"]["hits"])
                output: Any = part.output
                return list(output["hits"])
    return []


@dataclass(slots=True)
class Job:
    """What the server was sent for one piece of work."""

    prompts: list[list[Any]] = field(default_factory=list[list[Any]])
    asked: int = 0
    was_refused: bool = False
    refused_twice: int = 0


class CountingModel(ScriptedModel):
    """A server that counts tokens and refuses as vendors do."""

    def __init__(self) -> None:
        """Begin without jobs."""
        super().__init__()
        self.jobs: dict[str, Job] = {}
        self.asks: list[str] = []
        self.refused = 0
        self._counting = threading.Lock()

    def answer(
        self, dialect: Dialect, path: str, headers: Mapping[str, str], body: Document
    ) -> tuple[ScriptRequest, OutgoingReply | Failure]:
        """Refuse a request that is too long; else ask for a tool, or end the turn."""
        asked = dialect.reads(path.partition("?")[0], body)
        window = int(asked.model.rpartition("-")[2])
        sent = round(len(json.dumps(body, ensure_ascii=False).encode()) / BYTES_PER_TOKEN)
        with self._counting:
            number = len(self.exchanges)
            self.exchanges.append(RecordedExchange(number, "POST", path, headers, None))
            found = [match for one in asked.said if (match := _JOB.search(one.text))]
            job = self.jobs.setdefault(found[-1][1], Job())
            if sent + MAX_TOKENS * (window > MAX_TOKENS) > window:
                self.refused += 1
                job.refused_twice += job.was_refused
                job.was_refused = True
                return asked, refusal(dialect.name, sent, window)
            job.was_refused = False
            job.prompts.append(messages_of(body))
            reply = self._reply(job, int(found[-1][2]), found[-1][1])
            return asked, OutgoingReply("window", number, asked.model, reply)

    def _reply(self, job: Job, calls: int, name: str) -> Reply:
        if job.asked >= calls:
            job.asked = 0
            return Reply(f"Done with {name}.")
        job.asked += 1
        if name == "recall":
            first = (job.asked - 1) * RECALLS_AT_ONCE
            words = self.asks[first : first + RECALLS_AT_ONCE]
            return Reply(calls=tuple(Call("ledger_recall", {"words": one}) for one in words))
        return Reply("Dig.", calls=(Call("dig", {"number": job.asked}),))


def refusal(dialect: str, sent: int, window: int) -> Failure:
    """Return a vendor's own words for a prompt that is too long."""
    if dialect == "anthropic":
        return Failure(400, f"prompt is too long: {sent} tokens > {window - MAX_TOKENS} maximum")
    if dialect == "google":
        said = f"The input token count ({sent}) exceeds the maximum number of tokens allowed"
        return Failure(400, f"{said} ({window - MAX_TOKENS}).")
    if dialect == "openai":
        said = "Your input exceeds the context window of this model. Please adjust your input"
        return Failure(400, f"{said} and try again.", code="context_length_exceeded")
    said = f"This model's maximum context length is {window} tokens. However, you requested"
    said += f" {sent + MAX_TOKENS} tokens ({sent} in the messages, {MAX_TOKENS} in the completion)."
    return Failure(400, said, code="context_length_exceeded")


def messages_of(body: Document) -> list[Any]:
    """Return the messages of a request under the name its vendor gives them."""
    found: Any = body.get("messages") or body.get("input") or body.get("contents")
    # A mark where the vendor's cache ends is no part of what it reads.
    texts = [json.dumps(one, sort_keys=True) for one in found]
    return [re.sub(r'"cache_control": {[^}]*}, ', "", text) for text in texts]


if __name__ == "__main__":
    run(prove, "no thread outgrows its model")
