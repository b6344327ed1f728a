"""What a model is given for a run: who is asked, with what, and what stands before the thread."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson
import pytest

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, credentials, right, tools
from turntree.auth.persona import Identity, Persona
from turntree.core.canonical import Json, canonical
from turntree.core.errors import Hint, InvalidOperation, ProviderNotConfigured
from turntree.core.event import Event
from turntree.core.ids import RunId, SessionId, TurnId
from turntree.core.manifest import Manifest
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.core.run import Run, RunEvent
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage
from turntree.core.usage import to_json as call_to_json
from turntree.ledger.thread_store import ThreadStore
from turntree.models.prompt import Prompt, ToolSpec
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.runs.model_call import TooLongPrompt
from turntree.runs.request_builder import BuiltRequest, RequestBuilder
from turntree.runs.request_resolver import RequestResolver
from turntree.testing.fakes import FakeClock
from turntree.tools.toolset import ToolContext

pytestmark = pytest.mark.anyio

HUMAN = ExecutionContext.begin(Principal("human", "ana"))


@dataclass(frozen=True)
class Silent:
    """A provider that is never asked."""

    name: str

    async def stream(
        self, model: str, prompt: Prompt, settings: Mapping[str, Json]
    ) -> AsyncGenerator[ReplyDelta | ModelReply, None]:
        raise AssertionError(f"nobody asks {model} {prompt} {settings}")
        yield

    async def request(self, model: str, prompt: Prompt, settings: Mapping[str, Json]) -> ModelReply:
        raise AssertionError(f"nobody asks {model} {prompt} {settings}")

    async def list_models(self) -> list[str]:
        return []

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True)
class Shelf:
    """Tools that nobody calls."""

    specs: Sequence[ToolSpec]

    async def call(self, use: ToolUse, occasion: ToolContext) -> ToolResult:
        del occasion
        return ToolResult(use.call_id, "ok", None)


@dataclass(frozen=True)
class Asked:
    """A run as far as it got."""

    run: Run
    session: SessionId | None
    parent: TurnId | None
    started: Mapping[str, Json]
    requested: Mapping[str, Json] | None = None
    refused: TooLongPrompt | None = None


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, f"Does {name}.", {"type": "object", "properties": {}})


SHELF = Shelf([spec("write"), spec("read"), spec("fetch")])


@dataclass
class CountedThreads:
    """Threads that count how often they are read."""

    threads: ThreadStore
    reads: int = 0

    def __getattr__(self, name: str) -> object:
        self.reads += 1
        return getattr(self.threads, name)


def assembly_on(
    tree: Tree, *, shelf: Shelf = SHELF, threads: ThreadStore | None = None
) -> RequestBuilder:
    def build(program: Program) -> Silent:
        return Silent(str(program.config["provider_type"]))

    pinning = RequestResolver(tree.programs, tree.ledger, tree.turns.threads, [shelf])
    return RequestBuilder(pinning, tree.ledger, threads or tree.turns.threads, build)


async def ask(
    assembly: RequestBuilder,
    tree: Tree,
    text: str = "hello",
    *,
    session: str = "main",
    **options: Json,
) -> BuiltRequest:
    return await assembly(await question(tree, text, session=session, **options))


async def question(
    tree: Tree, text: str = "hello", *, session: str = "main", **options: Json
) -> Asked:
    found = await tree.sessions.get_or_create(session)
    run = Run(RunId(tree.turns.world.new_id()), 1, (user(text),))
    return Asked(run, found.id, found.head, {"by": "human:ana", "options": options})


@pytest.fixture
async def models(tree: Tree) -> Tree:
    await tree.programs.create("provider", "claude", {"provider_type": "anthropic"})
    await tree.programs.create("provider", "gateway", {"provider_type": "openai-compatible"})
    sonnet: dict[str, Json] = {
        "model_id": "claude-sonnet-4-5",
        "provider": "@(claude)",
        "temperature": 0.7,
        "situations": {"coding": {"temperature": 0}},
    }
    await tree.programs.create("model", "sonnet", sonnet)
    return tree


async def test_a_session_without_any_config_asks_the_only_model_there_is(models: Tree) -> None:
    asked = await ask(assembly_on(models), models)
    assert (asked.model, asked.provider.name) == ("claude-sonnet-4-5", "anthropic")
    assert asked.settings == {"temperature": 0.7}
    assert asked.request["param_sources"]["model"] == {"value": "@(sonnet)", "from": "workspace"}  # type: ignore[index,call-overload]
    assert [said.text for said in asked.prompt.messages] == ["hello"]


async def test_without_a_model_it_is_said_what_to_run(tree: Tree) -> None:
    with pytest.raises(InvalidOperation, match="no model that could answer") as refused:
        await ask(assembly_on(tree), tree)
    assert refused.value.hint == Hint("model.create")


async def test_of_several_models_the_one_with_the_tag_is_asked(models: Tree) -> None:
    await models.programs.create("model", "local", {"model_id": "x", "provider": "@(gateway)"})
    with pytest.raises(InvalidOperation, match="available: local, sonnet"):
        await ask(assembly_on(models), models)
    local = await models.programs.get("local")
    await models.turns.marks.set_tag(
        local.id, "default", on=True, by="human:ana", at=models.turns.world.now()
    )
    assert (await ask(assembly_on(models), models)).model == "x"


async def test_a_message_names_its_own_model_parameters_and_situation(models: Tree) -> None:
    await models.programs.create("model", "local", {"model_id": "x", "provider": "@(gateway)"})
    asked = await ask(
        assembly_on(models), models, model="sonnet", situation="coding", params={"max_tokens": 9}
    )
    assert asked.settings == {"temperature": 0, "max_tokens": 9}
    values: Mapping[str, Mapping[str, Json]] = asked.request["param_sources"]  # type: ignore[assignment]
    assert {name: said["from"] for name, said in values.items()} == {
        "max_tokens": "turn",
        "model": "turn",
        "model_id": "model",
        "temperature": "situation",
    }
    pins: Mapping[str, Mapping[str, Json]] = asked.request["versions"]  # type: ignore[assignment]
    assert pins["model"]["address"] == "@(sonnet)"
    assert pins["provider"]["version"] == 1


async def test_model_without_provider_raises_provider_not_configured(tree: Tree) -> None:
    await tree.programs.create("model", "lonely", {"model_id": "grok-9"})
    with pytest.raises(ProviderNotConfigured, match="names no provider") as refused:
        await ask(assembly_on(tree), tree)
    assert refused.value.hint == Hint("model.set_provider", {"model": "lonely"})


async def test_a_name_that_is_no_model_is_refused(models: Tree) -> None:
    with pytest.raises(InvalidOperation, match="nobody-such"):
        await ask(assembly_on(models), models, model="nobody-such")


async def test_an_agent_gives_its_prompt_and_the_tools_it_lists(models: Tree) -> None:
    await models.programs.create("code", "read", {"language": "javascript", "source": "x"})
    agent: dict[str, Json] = {"system_prompt": "Be brief.", "tools": ["@(read)", "@(main-task)"]}
    await models.programs.create("task", "main-task", {"title": "x"})
    await models.programs.create("agent", "atlas", agent)
    asked = await ask(assembly_on(models), models, agent="atlas")
    assert asked.prompt.system == ("Be brief.",)
    assert [one.name for one in asked.prompt.tools] == ["main-task", "read"]
    assert "missing_tools" not in asked.request


async def test_an_agent_gets_the_functions_it_lists(models: Tree) -> None:
    await models.programs.create("agent", "atlas", {"functions": ["write", "fly"]})
    asked = await ask(assembly_on(models), models, agent="atlas")
    assert [one.name for one in asked.prompt.tools] == ["write"]
    assert asked.request["missing_tools"] == ["fly"]


async def test_what_a_persona_denies_is_not_offered(models: Tree) -> None:
    await taken_under(models, persona(allow=("*",), deny=("fetch",)))
    asked = await ask(assembly_on(models), models)
    assert asked.prompt.system == ("You are Atlas.\n\nBe kind.",)
    assert [one.name for one in asked.prompt.tools] == ["read", "write"]


async def test_a_fork_under_another_persona_is_shown_the_other_one(models: Tree) -> None:
    await taken_under(models, persona(allow=("*",)))
    weaker = replace(persona(allow=("read",)), version=2, identity=Identity("Atlas", "Be shy."))
    await models.personas.fork("main", "side", weaker, context=HUMAN)
    side = await ask(assembly_on(models), models, session="side")
    assert side.prompt.system == ("You are Atlas.\n\nBe shy.",)
    assert [one.name for one in side.prompt.tools] == ["read"]
    main = await ask(assembly_on(models), models)
    assert main.prompt.system == ("You are Atlas.\n\nBe kind.",)


async def test_a_persona_widens_nothing_that_its_agent_denies(models: Tree) -> None:
    config: dict[str, Json] = {"credentials": ["ITS_KEY"], "permissions": {"deny": ["tool:write"]}}
    await models.programs.create("agent", "atlas", config)
    await models.turns.record("main", [user("one")], [assistant("two")])
    rights = Permissions((*tools("*"), *credentials("ITS_KEY", "OTHER_KEY")))
    wider = replace(persona(allow=()), rights=rights)
    await models.personas.fork(
        "main", "side", wider, owner_grants=True, confirmed=True, context=HUMAN
    )
    side = await ask(assembly_on(models), models, session="side", agent="atlas")
    assert [one.name for one in side.prompt.tools] == ["fetch", "read"]
    (granted,) = [
        entry.object
        for entry in Manifest.from_json(
            orjson.loads(await models.ledger.get_object(side.manifest))
        ).entries
        if entry.kind == "permissions"
    ]
    rights = Permissions.from_json(orjson.loads(await models.ledger.get_object(granted)))
    assert rights.permits(right("credential", "ITS_KEY"))
    assert not rights.permits(right("credential", "OTHER_KEY"))


async def test_two_forks_share_the_manifest_and_the_prefix(models: Tree) -> None:
    await models.turns.record("main", [user("one")], [assistant("two")])
    await models.sessions.fork("main", "side")
    await models.programs.configure("main", {"params": {"top_p": 0.5}})
    await models.programs.configure("side", {"params": {"top_p": 0.5}})
    assembly = assembly_on(models)
    left, right = await ask(assembly, models, "a"), await ask(assembly, models, "b", session="side")
    assert left.manifest == right.manifest
    assert left.prompt.prefix == right.prompt.prefix
    assert left.prompt.digest != right.prompt.digest
    assert left.request["prompt"] == left.prompt.digest


async def test_a_thread_is_read_once_for_all_calls_of_a_turn(models: Tree) -> None:
    await models.turns.record("main", [user("one")], [assistant("two")])
    await models.turns.record("main", [user("three")], [assistant("four")])
    counted = CountedThreads(models.turns.threads)
    assembly = assembly_on(models, threads=counted)  # type: ignore[arg-type]
    asked = await question(models, "five")
    first = await assembly(asked)
    assert first.request["input_refs"] == [f"{asked.parent}/1"]
    before = counted.reads
    later = replace(asked, run=stepped(asked.run))
    again = await assembly(later)
    assert counted.reads == before
    assert [said.role for said in again.prompt.messages[-3:]] == ["user", "assistant", "tool"]
    assert "param_sources" not in again.request
    # What the run itself holds is no reference: its own events tell it.
    assert "input_refs" not in again.request


async def test_a_run_that_was_forgotten_is_assembled_again_as_before(
    models: Tree, world: FakeClock
) -> None:
    await models.turns.record("main", [user("one")], [assistant("two")])
    asked = await question(models, "three")
    assert asked.session is not None
    first = Event(asked.run.id, 0, "run.started", world.now(), {"session": asked.session})
    assembly = assembly_on(models)
    request = await assembly(asked)
    call = Event(asked.run.id, 1, "model_call.started", world.now(), request.request)
    opened = RunEvent.of(first, asked.run.query[0])
    epoch = await models.ledger.start(asked.run.id, asked.session, opened)
    await models.ledger.append_fact(RunEvent(call), epoch=epoch)
    later = replace(asked, run=stepped(asked.run))
    kept = await assembly(later)
    assembly.forget(asked.run.id)
    assembly.forget(asked.run.id)
    assert (await assembly(later)).prompt == kept.prompt


async def test_a_config_that_changes_during_a_turn_changes_the_next_one(
    models: Tree, world: FakeClock
) -> None:
    asked = await question(models)
    assert asked.session is not None
    first = Event(asked.run.id, 0, "run.started", world.now(), {"session": asked.session})
    epoch = await models.ledger.start(
        asked.run.id, asked.session, RunEvent.of(first, asked.run.query[0])
    )
    before = await assembly_on(models)(asked)
    request = Event(asked.run.id, 1, "model_call.started", world.now(), before.request)
    await models.ledger.append_fact(RunEvent(request), epoch=epoch)
    await models.programs.configure("sonnet", {"temperature": 0.1})
    # Another worker goes on, and knows what was recorded.
    other = assembly_on(models, shelf=Shelf([]))
    for run in (replace(asked.run, requested=True), stepped(asked.run)):
        after = await other(replace(asked, run=run))
        assert after.settings == before.settings
        assert after.manifest == before.manifest
        assert after.prompt.prefix == before.prompt.prefix
    assert (await other(replace(asked, run=replace(asked.run, requested=True)))).prompt.digest == (
        before.prompt.digest
    )
    assert (await ask(other, models)).settings == {"temperature": 0.1}


async def test_a_request_that_was_never_recorded_is_told_in_full_again(models: Tree) -> None:
    assembly, asked = assembly_on(models), await question(models)
    assert (await assembly(asked)).request == (await assembly(asked)).request


async def test_a_long_thread_is_cut_and_read_from_its_end_alone(models: Tree) -> None:
    await models.programs.configure("sonnet", {"context_tokens": 4000, "max_tokens": 1000})
    recorder = await models.recorder("main")
    for number in range(200):
        await recorder.record([user(f"question {number} " + "word " * 40)], [assistant("yes")])
    counted = CountedThreads(models.turns.threads)
    asked = await ask(assembly_on(models, threads=counted), models)  # type: ignore[arg-type]
    assert asked.prompt.left_out + asked.prompt.thread_turns == 200
    assert 10 < asked.prompt.thread_turns < 60
    first = asked.prompt.messages[0].text.splitlines()[0]
    assert first == f"[{asked.prompt.left_out} earlier turns are not shown.]"
    assert asked.prompt.estimated_tokens <= 3000
    assert counted.reads <= 4


async def test_the_budget_shrinks_where_a_provider_counts_more_than_was_estimated(
    models: Tree, world: FakeClock
) -> None:
    await models.programs.configure("sonnet", {"context_tokens": 4000, "max_tokens": 1000})
    asked = await question(models, "word " * 1500)
    assert asked.session is not None
    first = Event(
        asked.run.id, 0, "run.started", world.now(),
        {"session": asked.session, "parent": None, "parent_digest": None},
    )  # fmt: skip
    await models.ledger.start(asked.run.id, asked.session, RunEvent.of(first, asked.run.query[0]))
    before = await assembly_on(models)(asked)
    estimated = before.request["estimated_tokens"]
    assert isinstance(estimated, int)
    request = Event(asked.run.id, 1, "model_call.started", world.now(), before.request)
    call = call_to_json(ModelCall("claude-sonnet-4-5", Usage(input=estimated * 3 // 2)))
    response = RunEvent.of(
        Event(asked.run.id, 2, "model_call.finished", world.now(), {"call": call}), assistant("yes")
    )
    for fact in (RunEvent(request), response):
        await models.ledger.append_fact(fact, epoch=1)
    # The turn that the run would leave is stood in for by one with the same stream.
    parent = replace(asked, parent=await sealed(models, asked.run, world))
    after = await assembly_on(models)(
        replace(parent, run=replace(asked.run, id=RunId(world.new_id())))
    )
    assert after.request["estimate_factor"] == 1.5
    assert after.request["budget_tokens"] == 2000


async def sealed(tree: Tree, run: Run, world: FakeClock) -> TurnId:
    at = world.now()
    header = Header(TurnId(run.id), None, Principal("human", "ana"), at, at)
    left = seal(header, run.query, [assistant("yes")])
    await tree.ledger.seal(left, None, by="human:ana", at=at, epoch=1)
    return left.turn.id


def stepped(run: Run) -> Run:
    said: tuple[Message, ...] = (
        assistant(ToolUse("c1", "read", {})),
        tool(ToolResult("c1", "ok", "words")),
    )
    return replace(run, seq=5, reply=said)


def persona(*, allow: tuple[str, ...], deny: tuple[str, ...] = ()) -> Persona:
    return Persona(
        "atlas", 1, Identity("Atlas", "Be kind."), Permissions(tools(*allow), tools(*deny))
    )


async def taken_under(tree: Tree, persona: Persona) -> None:
    manifest = Manifest(await tree.personas.pin(persona, context=HUMAN))
    digest = await tree.ledger.put_object(canonical(manifest.to_json()))
    await tree.turns.record("main", [user("hi")], [assistant("hello")], manifest=digest)
