"""The story of the sample data: two people, one bug, and the branches they try.

Everything here is made up, and marked as such: the labels begin with ``demo/``, the sessions'
origin is ``turntree-demo``, and the command line puts it into a workspace of its own. The story is
data; times are in minutes before now.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from turntree.core.canonical import Json
from turntree.core.message import ToolStatus
from turntree.core.message_context import FileUse
from turntree.core.principal import Principal
from turntree.core.turn import Outcome
from turntree.core.value import value

ORIGIN: Final = "turntree-demo"
USES: Final[Mapping[str, FileUse]] = {"fs.read": "read", "fs.write": "written"}
"""How each tool of the story uses its file."""
PREFIX: Final = "demo/"
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
    touches: tuple[FileUse, str] | None = None
    """The file that it uses, where its tool is not one of ``USES``."""


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
    writes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that it writes into the folder of its act, where there is one."""


@value
class Act:
    """A session of the story: where it begins and what happens in it."""

    label: str
    scenes: tuple[Scene, ...]
    forks: str | None = None
    """The scene it is forked from."""
    spawned_by: str | None = None
    """The scene whose last tool call spawns it."""
    folder: str | None = None
    """The name of the folder that it works in."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the folder contains before, if this act is the first in it."""


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
