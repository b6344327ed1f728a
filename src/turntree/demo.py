"""Sample data: a small, believable tree for people who want to explore first.

Everything here is made up, and marked as such: the labels begin with ``demo/``, the sessions'
origin is ``turntree-demo``, and the command line puts it into a workspace of its own. The story is
data; it is recorded through the same interfaces as everything else. Timestamps are in minutes
before now, and ids are derived from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from turntree.api import Tree
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.errors import Hint, InvalidOperation
from turntree.core.ids import SessionId, Timestamp, TurnId, derived_id, instant, unix_ms
from turntree.core.message import Message, ToolResult, ToolStatus, ToolUse, assistant, tool, user
from turntree.core.message_context import FileUse, TouchedFile
from turntree.core.principal import Principal
from turntree.core.revision import check_label
from turntree.core.session import Origin, Session, Spawn
from turntree.core.turn import Outcome
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import value
from turntree.ledger.recorder import TurnDetails

ORIGIN: Final = "turntree-demo"
USES: Final[Mapping[str, FileUse]] = {"fs.read": "read", "fs.write": "written"}
"""How each tool of the story uses its file."""
PREFIX: Final = "demo/"
MINUTE_MS: Final = 60_000
ANA: Final = Principal("human", "ana")
BRUNO: Final = Principal("human", "bruno")
ATLAS: Final = Principal("agent", "atlas", on_behalf_of=BRUNO)
SONNET: Final = ("sonnet-4.5", "anthropic")
HAIKU: Final = ("haiku-4.5", "anthropic")
OPUS: Final = ("opus-4.1", "anthropic")
GPT: Final = ("gpt-5.2", "openai")


@value
class DemoCall:
    """A tool call in a scene, and its result."""

    tool: str
    args: Json
    output: Json
    status: ToolStatus = "ok"


@value
class Scene:
    """One turn of the story."""

    name: str
    minutes_ago: int
    by: Principal
    model: tuple[str, str]
    asks: str
    answers: str
    tokens: tuple[int, int, int]
    """Fresh input, cached input and output."""
    tools: tuple[DemoCall, ...] = ()
    outcome: Outcome = "completed"
    seconds: int = 20
    summarizes: int = 0
    """How many earlier turns it summarizes; 0 if it is not a compaction."""
    tags: tuple[str, ...] = ()


@value
class Act:
    """A session of the story: where it begins and what happens in it."""

    label: str
    scenes: tuple[Scene, ...]
    forks: str | None = None
    """The scene it is forked from."""
    spawned_by: str | None = None
    """The scene whose last tool call spawns it."""


STORY: Final = (
    Act(
        "demo/fix-login",
        (
            Scene(
                "why", 131, ANA, SONNET,
                "Why does login drop the query string? (sample data)",
                "`redirect()` in src/login.py rebuilds the address from its path alone, so what "
                "follows the question mark is lost. The resolver still has the whole address.",
                (2_310, 1_640, 412),
                (
                    DemoCall("fs.read", {"path": "src/login.py"}, "def redirect(path):\n    ..."),
                    DemoCall("fs.grep", {"pattern": "redirect\\(", "path": "src"}, "7 matches"),
                ),
                seconds=31,
            ),
            Scene(
                "test", 118, ANA, SONNET,
                "Add a failing test for the redirect",
                "tests/test_login.py asks for /login?next=/cart and expects to arrive at /cart. "
                "It fails, as it should.",
                (1_120, 6_880, 803),
                (
                    DemoCall("fs.write", {"path": "tests/test_login.py"}, "+18 -0"),
                    DemoCall("runtime.exec", {"command": "pytest tests -q"}, "1 failed", "error"),
                ),
                seconds=74, tags=("has-test",),
            ),
            Scene(
                "callers", 104, BRUNO, SONNET,
                "Who calls redirect() with a bare path?",
                "Four callers do: login, logout, SSO and the cart. Two of them lose something.",
                (940, 8_010, 377),
            ),
            Scene(
                "plan", 96, BRUNO, SONNET,
                "Write down the plan before we touch anything",
                "1. Keep the signature. 2. Take the query from the resolver. 3. Test the cart.",
                (610, 9_300, 290),
            ),
            Scene(
                "summary", 55, Principal("system", "turntree"), HAIKU,
                "",
                "Login loses the query because redirect() rebuilds the address from its path. A "
                "failing test exists. The plan: take the query from the resolver, keep the rest.",
                (11_200, 0, 840), seconds=9, summarizes=3,
            ),
            Scene(
                "check", 31, ATLAS, SONNET,
                "Check every caller of redirect()",
                "I sent a worker through src/. Besides login, SSO and the cart are wrong.",
                (1_050, 820, 331),
                (
                    DemoCall(
                        "agent.spawn", {"agent": "worker", "task": "scan src/ for redirect("},
                        "report: two more callers are wrong",
                    ),
                ),
                seconds=190,
            ),
            Scene(
                "fix", 1, BRUNO, SONNET,
                "Fix it in the resolver, keep the public signature",
                "The change is four lines in src/resolver.py. All 14 tests pass, the new one too.",
                (431, 1_980, 693),
                (
                    DemoCall("fs.read", {"path": "src/resolver.py"}, "class Resolver:\n    ..."),
                    DemoCall("fs.write", {"path": "src/resolver.py"}, "+4 -4"),
                    DemoCall("runtime.exec", {"command": "pytest -q"}, "14 passed"),
                ),
                seconds=62, tags=("to-review",),
            ),
        ),
    ),
    Act(
        "demo/middleware",
        (
            Scene("try", 112, ANA, GPT, "Try a middleware instead",
                  "A middleware can carry the query across the redirect.", (1_900, 5_100, 404)),
            Scene("where", 109, ANA, GPT, "Where would it be registered?",
                  "In src/app.py, before the session middleware.", (700, 6_900, 233)),
            Scene("cost", 106, ANA, GPT, "What does it cost per request?",
                  "About 40 microseconds: one parse and one copy.", (560, 7_400, 190)),
            Scene("cookie", 101, ANA, GPT, "Does it need the cookie?",
                  "No. The query is in the request that is redirected.", (510, 7_900, 168)),
            Scene("verdict", 50, ANA, GPT, "So which of the two would you choose?",
                  "The resolver. The middleware works, but it hides the mistake.",
                  (480, 8_300, 221)),
        ),
        forks="test",
    ),
    Act(
        "demo/opus",
        (
            Scene(
                "resolver", 63, BRUNO, OPUS, "Fix it in the resolver",
                "Done in src/resolver.py; the signature of redirect() has one parameter more.",
                (1_300, 6_900, 911), (DemoCall("fs.write", {"path": "src/resolver.py"}, "+9 -3"),),
            ),
            Scene(
                "sso", 58, BRUNO, OPUS, "Now the same for SSO", "", (420, 0, 0),
                (DemoCall("db.migrate", {"target": "head"}, "denied by a rule", "error"),),
                outcome="failed", seconds=4,
            ),
        ),
        forks="test",
    ),
    Act(
        "demo/worker-1",
        (
            Scene(
                "scan", 30, ATLAS, HAIKU, "scan src/ for redirect(",
                "11 calls in 7 files; I read each of them.", (6_100, 0, 402),
                (DemoCall("fs.grep", {"pattern": "redirect\\(", "path": "src"}, "11 matches"),),
            ),
            Scene(
                "report", 28, ATLAS, HAIKU, "report: which callers are wrong?",
                "Two more callers are wrong: src/sso.py line 41 and src/cart.py line 9.",
                (310, 620, 174),
            ),
        ),
        spawned_by="check",
    ),
)  # fmt: skip


class _Past:
    """A clock set to the time of the story, and ids derived from it."""

    def __init__(self, now: Timestamp) -> None:
        self._now_ms = unix_ms(now)
        self._at_ms = self._now_ms
        self._name = ""
        self._drawn = 0

    def go(self, minutes_ago: int, name: str) -> None:
        self._at_ms = self._now_ms - minutes_ago * MINUTE_MS
        self._name, self._drawn = name, 0

    def before(self, seconds: int) -> Timestamp:
        return instant(self._at_ms - seconds * 1000)

    def now(self) -> Timestamp:
        return instant(self._at_ms)

    def new_id(self) -> str:
        self._drawn += 1
        return derived_id(self._at_ms, ORIGIN, self._name, str(self._drawn))

    def nonce(self) -> str:
        return self.new_id()


async def plant_demo(tree: Tree) -> list[str]:
    """Create the sample tree and return the labels of its sessions; idempotent.

    Raises:
        InvalidOperation: A session of yours has one of the labels.
    """
    labels = [act.label for act in STORY]
    found = [await tree.sessions.ledger.find(label) for label in labels]
    for label, session in zip(labels, found, strict=True):
        if session is not None and (session.origin is None or session.origin.tool != ORIGIN):
            raise InvalidOperation(
                f"the session {label} exists and is not sample data",
                hint=Hint("session.rename", {"session": label}),
            )
    last = found[-1]
    if last is not None and last.version > len(STORY[-1].scenes):
        return labels  # All of it exists already, and changes since then were intended.
    past = _Past(tree.revisions.world.now())
    planted: dict[str, tuple[TurnId, Session]] = {}
    for act in STORY:
        await _DemoStage(tree, past, planted).play(act)
    return labels


@value
class _DemoStage:
    """Records the acts of the story in a tree."""

    tree: Tree
    past: _Past
    planted: dict[str, tuple[TurnId, Session]]

    async def play(self, act: Act) -> None:
        session = await self._begin(act)
        recorder = await self.tree.recorder(act.label)
        recorder.world = self.past
        if act.forks is not None:
            # Fork where the story does, not where an earlier run may have left the session.
            fork = await self.tree.turns.get(self.planted[act.forks][0])
            recorder.head, recorder.head_digest = fork.turn.id, fork.turn.digest
        thread: list[TurnId] = []
        for scene in act.scenes:
            self.past.go(scene.minutes_ago, scene.name)
            recorder.by = scene.by
            placed = await recorder.record(
                [] if scene.summarizes else [_asked(scene)],
                list(_reply(scene)),
                key=f"{ORIGIN}/{act.label}/{scene.name}",
                **self._details(scene, thread),
            )
            thread.append(placed.turn.id)
            self.planted[scene.name] = (placed.turn.id, session)
            turns = replace(self.tree.turns, world=self.past, by=scene.by)
            for tag in scene.tags:
                await turns.tag(placed.turn.id, tag)

    async def _begin(self, act: Act) -> Session:
        first = act.scenes[0]
        self.past.go(first.minutes_ago + 1, act.label)
        label = check_label(act.label)
        moved = await self.tree.sessions.ledger.create(
            SessionId(self.past.new_id()),
            label,
            by=str(first.by),
            at=self.past.now(),
            head=None if act.forks is None else self.planted[act.forks][0],
            key=f"{ORIGIN}/{act.label}",
            origin=Origin(ORIGIN, act.label),
            spawn=self._spawn(act),
        )
        return await self.tree.sessions.ledger.get(moved.session)

    def _spawn(self, act: Act) -> Spawn | None:
        if act.spawned_by is None:
            return None
        turn, session = self.planted[act.spawned_by]
        scene = next(s for other in STORY for s in other.scenes if s.name == act.spawned_by)
        return Spawn(session.id, turn, _call_id(scene, len(scene.tools)), task=act.scenes[0].asks)

    def _details(self, scene: Scene, thread: Sequence[TurnId]) -> TurnDetails:
        model, provider = scene.model
        fresh, cached, output = scene.tokens
        call = ModelCall(model, Usage(fresh, output, cached), provider, f"{ORIGIN}-{scene.name}")
        details = TurnDetails(
            calls=[call],
            outcome=scene.outcome,
            started_at=self.past.before(scene.seconds),
            by=scene.by,
        )
        if scene.summarizes:
            details["compaction"] = Compaction(
                summarized_through=thread[scene.summarizes - 1],
                first_kept=thread[scene.summarizes],
                turns_summarized=scene.summarizes,
                trigger="context_limit",
                tokens_before=fresh,
                tokens_after=output,
                summary_tokens=output,
                duration_ms=scene.seconds * 1000,
            )
        return details


def _asked(scene: Scene) -> Message:
    return user(scene.asks, source="human" if scene.by.kind == "human" else "agent")


def _reply(scene: Scene) -> Iterator[Message]:
    for place, call in enumerate(scene.tools, start=1):
        call_id = _call_id(scene, place)
        yield assistant(ToolUse(call_id, call.tool, call.args))
        yield replace(tool(ToolResult(call_id, call.status, call.output)), context=_touched(call))
    if scene.answers:
        yield assistant(scene.answers)


def _touched(call: DemoCall) -> dict[str, Json] | None:
    """Return the file that a call read or wrote, so that ``blame`` finds it."""
    args = call.args
    if call.tool not in USES or not isinstance(args, dict):
        return None
    return {"files": [TouchedFile(USES[call.tool], str(args["path"])).to_json()]}


def _call_id(scene: Scene, place: int) -> str:
    return f"{scene.name}-{place}"
