"""A thread that two vendors took part in, and what exporters are given for it."""

from pathlib import Path

from turntree.core.canonical import digest_bytes
from turntree.core.compaction import Compaction
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import (
    Media,
    Message,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    assistant,
    tool,
    user,
)
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Header, Turn
from turntree.models.portable_thread import PortableMessage, hand_over
from turntree.transcripts.exporter import HandoffRequest

AT = Timestamp("2026-11-15T09:30:00.000Z")
SESSION = "01a1dda6-59c6-7b3e-924d-de29e937ad11"
ORDER = HandoffRequest(SESSION, AT, Path("/home/ana/my project"), "Look (e9177)")
PICTURE = Media("image", "image/png", url="data:image/png;base64,cG5n", name="a.png")
FAR_PICTURE = Media("image", "image/png", url="https://example.com/a.png")
SOUND = Media("audio", "audio/wav", name="a.wav")
ANTHROPIC = ("claude-sonnet-4-5", "anthropic")
OPENAI = ("gpt-5.2", "openai")


def placed(
    depth: int,
    query: list[Message],
    reply: list[Message],
    model: tuple[str, str] = ANTHROPIC,
    compaction: Compaction | None = None,
    by: str = "ana",
) -> ThreadTurn:
    header = Header(
        TurnId(f"turn-{depth}"), None, Principal("human", by), AT, AT,
        kind="normal" if compaction is None else "compaction",
        model=model[0], provider=model[1], compaction=compaction,
    )  # fmt: skip
    digest = digest_bytes(str(depth).encode())
    return ThreadTurn(Turn(header, len(query), (*query, *reply), digest), depth, None)


THREAD = (
    placed(
        1,
        [
            Message("system", (Text("Be brief."),)),
            Message("user", (Text("What is here?"), PICTURE, FAR_PICTURE, SOUND)),
        ],
        [
            assistant(
                Reasoning("Two at once.", "c2ln"),
                "Let me look.",
                ToolUse("toolu_a", "Bash", {"command": "ls"}),
                ToolUse("odd id!", "fs.read", {"path": "a.txt"}),
            ),
            tool(
                ToolResult("toolu_a", "ok", "a.txt"),
                ToolResult("odd id!", "ok", [{"type": "text", "text": "hello"}]),
            ),
            assistant("One file."),
        ],
    ),
    placed(
        2,
        [user("Patch it.")],
        [
            assistant(
                Reasoning("Patching.", "Z3B0"),
                ToolUse("call_p", "apply_patch", "*** Begin Patch"),
            ),
            tool(ToolResult("call_p", "error", None)),
            assistant("It failed."),
        ],
        OPENAI,
    ),
)
COMPACTED = (
    placed(
        3, [user("Compact.")], [assistant("We looked.")],
        compaction=Compaction(TurnId("turn-1"), TurnId("turn-2"), 1),
    ),
    THREAD[1],
)  # fmt: skip


def told(thread: tuple[ThreadTurn, ...] = THREAD) -> list[PortableMessage]:
    return hand_over(thread, {})
