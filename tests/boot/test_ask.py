"""``tree.ask`` and ``open(providers=…, model=…)``, as a program uses them."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import turntree
from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.core.canonical import Json
from turntree.core.message import PART_INLINE_MAX_BYTES, assistant
from turntree.core.secret_refs import read_hosts
from turntree.core.usage import Usage
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.testing.scripted.server import MODEL, Reply, ScriptedModel

pytestmark = pytest.mark.anyio

SCRIPT: dict[str, Json] = {"provider_type": "scripted"}
ECHO: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
FAILING: Json = [{"when": "", "replies": [{"failures": [{"kind": "refused"}]}]}]


class Backwards:
    """Replies with the last message, reversed."""

    def __init__(self, name: str = "acme", model: str = "backwards-1") -> None:
        self.name = name
        self.model = model
        self.is_closed = False

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        answer = await self.request(model, prompt, settings)
        yield ReplyDelta("text", answer.message.text)
        yield answer

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        del settings
        text = prompt.messages[-1].text[::-1]
        return ModelReply(assistant(text), Usage(input=1, output=1), model, "stop")

    async def list_models(self) -> list[str]:
        return [self.model]

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture
def settings(conninfo: str, tmp_path: Path) -> Settings:
    return Settings(tmp_path, database_url=conninfo, workspace="asking", user="ana")


async def connect_script(tree: Tree, **members: Json) -> None:
    await tree.programs.ensure("provider", "script", {**SCRIPT, **members})
    await tree.programs.ensure("model", "echo", ECHO)


@pytest.mark.parametrize("worker", [False, True])
async def test_ask_returns_the_text_and_the_turn(settings: Settings, *, worker: bool) -> None:
    for run in (1, 2):
        async with turntree.open(settings, worker=worker) as tree:
            await connect_script(tree)
            answer = await tree.ask("talk", "Say this again.")
            assert answer.text == str(answer) == "Say this again."
            assert answer.turn.depth == run
            assert answer.turn.turn.id == (await tree.sessions.get("talk")).head
            same = await tree.ask("talk", "Once.", key=f"once-{run}")
            assert await tree.ask("talk", "Once.", key=f"once-{run}") == same
            await tree.sessions.rewind("talk", "talk~1")


async def test_ask_reads_a_long_answer_back(settings: Settings) -> None:
    text = "oak" * PART_INLINE_MAX_BYTES
    async with turntree.open(settings) as tree:
        await connect_script(tree, script=[{"text": text}])
        assert (await tree.ask("talk", "Go on.")).text == text


async def test_ask_of_a_failed_run_says_why_and_which_turn(settings: Settings) -> None:
    async with turntree.open(settings) as tree:
        await connect_script(tree, rules=FAILING)
        with pytest.raises(turntree.TurnFailed, match="the turn is failed: provider_refused") as it:
            await tree.ask("talk", "Hello?")
        assert (await tree.turns.get(it.value.turn)).turn.header.outcome == "failed"


async def test_ask_without_a_model_says_so(settings: Settings) -> None:
    async with turntree.open(settings) as tree:
        with pytest.raises(turntree.ProviderNotConfigured, match="there is no model"):
            await tree.ask("talk", "Hello?")


async def test_ask_where_no_worker_runs_posts_nothing(tree: Tree) -> None:
    with pytest.raises(turntree.NoWorker, match="no worker is running"):
        await tree.ask("talk", "Hello?")
    assert [one async for one in tree.sessions.list_all()] == []


async def test_ask_that_takes_too_long_names_the_run(settings: Settings) -> None:
    slow: Json = [{"when": "", "replies": [{"text": "late", "delay_s": 60}]}]
    async with turntree.open(settings) as tree:
        await connect_script(tree, rules=slow)
        with pytest.raises(TimeoutError, match=r"no answer in talk after 0\.5 s; the run"):
            await tree.ask("talk", "Hello?", timeout_s=0.5)
        assert await tree.runs.cancel("talk") is not None


async def test_open_with_a_provider_object_answers_with_its_model(settings: Settings) -> None:
    for _ in range(2):
        provider = Backwards()
        async with turntree.open(settings, providers=[provider], model="backwards-1") as tree:
            answer = await tree.ask("talk", "live")
            assert answer.text == "evil"
            assert answer.turn.turn.header.model == "backwards-1"
            assert (await tree.programs.get("acme")).version.number == 1
        assert provider.is_closed
    async with turntree.open(settings) as tree:
        with pytest.raises(turntree.ProviderNotConfigured, match="is a Python object, and this"):
            await tree.ask("talk", "live")


async def test_open_with_several_providers_asks_which_has_the_model(settings: Settings) -> None:
    both = [Backwards(), Backwards("other", "sideways-1")]
    async with turntree.open(settings, providers=both, model="sideways-1") as tree:
        await tree.ask("talk", "live")
        assert (await tree.programs.get("sideways-1")).config["provider"] == "@(other)"
    with pytest.raises(turntree.InvalidOperation, match="none of the providers acme, other has"):
        async with turntree.open(settings, providers=both, model="up-1"):
            pass


@pytest.mark.parametrize("name", ["claude", MODEL])
async def test_open_uses_the_key_of_a_vendor_that_offers_the_model(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with ScriptedModel([Reply("Hello from the vendor."), Reply("Hello again.")]) as model:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        with pytest.raises(turntree.PermissionDenied, match="may not be sent to"):
            async with turntree.open(settings, model=name):
                pass
        host = model.url.removeprefix("http://")
        allowed = replace(settings, secret_hosts=read_hosts(f"ANTHROPIC_API_KEY@{host}"))
        with pytest.raises(turntree.NotFound, match="there is no model 'nope'"):
            async with turntree.open(allowed, model="nope"):
                pass
        for answer in ("Hello from the vendor.", "Hello again."):
            async with turntree.open(allowed, model=name, worker=True) as tree:
                assert (await tree.ask("talk", "hello")).text == answer
                models = [one.name async for one in tree.programs.list_all(kind="model")]
                assert models == [name]


async def test_open_never_replaces_a_provider_or_a_model_of_the_workspace(
    settings: Settings,
) -> None:
    async with turntree.open(settings) as tree:
        await connect_script(tree)
        await tree.programs.ensure("provider", "acme", {"provider_type": "anthropic"})
    with pytest.raises(turntree.InvalidOperation, match=r"@\(acme\) exists already"):
        async with turntree.open(settings, providers=[Backwards()]):
            pass
    async with turntree.open(settings, providers=[Backwards("b")], model="echo") as tree:
        assert (await tree.ask("talk", "live")).text == "live"
    with pytest.raises(turntree.NotFound, match="there is no model 'nope'"):
        async with turntree.open(settings, model="nope"):
            pass


async def test_completion_shows_only_what_is_public(settings: Settings) -> None:
    assert set(dir(turntree)) == {*turntree.__all__, "__version__"}
    async with turntree.open(settings) as tree:
        assert {"ask", "programs", "runs", "sessions", "turns"} <= set(dir(tree))
        assert [name for name in dir(tree) if name.startswith("_")] == []
        assert "with_facets" not in dir(tree)
        for facet in (tree.runs, tree.turns, tree.sessions, tree.programs):
            assert [name for name in dir(facet) if not callable(getattr(facet, name))] == []
        assert "ask" in dir(tree.runs)
        assert "inbox" not in dir(tree.runs)
