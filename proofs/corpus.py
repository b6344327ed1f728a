"""Transcripts by the thousand, in the shape that Claude Code writes; sample data, all of it.

The shape is that of files which Claude Code 2.1 left behind: every record repeats the folder, the
session, the branch and the version; a message is a line a block, each with the whole usage; what a
tool answered stands in the record twice, once for the model (``content``) and once for people
(``toolUseResult``); a session begins with what it was told of its surroundings. Left out is the
log of requests that the newest versions add (``api-request-shape`` and its like, tens of kilobytes
a session which hardly take any room once packed): with it the figures would look better than they
are for most histories.

The words are slices of Python's own sources, so that they are as redundant as what agents read
and write all day.
"""

import random
import re
import sysconfig
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from turntree.core.ids import instant

BEGAN_MS = 1_750_000_000_000
TEXT_CHARS_MIN = 4_000
SLICE_MAX = 12_000
ENVELOPES_BYTES = 6_400
"""What a turn's records take without their words, and its share of the session's beginning."""
LISTING_CHARS = 6_500
THINKS_EVERY = 3
SIGNATURE_BYTES = 300
REMEMBERED_WORDS = 5
_WORD = re.compile(r"[A-Za-z_]{3,}")


@dataclass(slots=True)
class Corpus:
    """Writes sessions of a number of turns, about so many bytes each."""

    seed: int
    turn_bytes: int = 10_000

    def write(self, home: Path, sessions: int, turns: int) -> int:
        """Write transcripts under a home and return their bytes."""
        draw = random.Random(self.seed)
        texts = _texts()
        size = 0
        for number in range(sessions):
            folder = home / ".claude" / "projects" / f"-srv-project-{number % 40}"
            folder.mkdir(parents=True, exist_ok=True)
            session = _Session(draw, texts, _uuid(draw), number)
            share = max(self.turn_bytes - ENVELOPES_BYTES, 100)
            data = b"".join(line + b"\n" for line in session.lines(turns, share))
            (folder / f"{session.id}.jsonl").write_bytes(data)
            size += len(data)
        return size


def remember(home: Path, seed: int, count: int) -> list[str]:
    """Return half-sentences that somebody said in a corpus: a few words in a row of a prompt."""
    draw = random.Random(seed)
    files = sorted(home.glob(".claude/projects/*/*.jsonl"))
    found: list[str] = []
    while len(found) < count:
        lines = draw.choice(files).read_bytes().splitlines()
        asked = [orjson.loads(line) for line in lines if b'"promptSource"' in line]
        words = _WORD.findall(draw.choice(asked)["message"]["content"])[2:]
        if len(words) >= REMEMBERED_WORDS:
            start = draw.randrange(len(words) - REMEMBERED_WORDS + 1)
            found.append(" ".join(words[start : start + REMEMBERED_WORDS]))
    return found


@dataclass(slots=True)
class _Session:
    """One transcript: its records hang on one another by ``parentUuid``."""

    draw: random.Random
    texts: list[str]
    id: str
    number: int
    at_ms: int = BEGAN_MS
    parent: str | None = None

    def lines(self, turns: int, share: int) -> Iterator[bytes]:
        """Yield the records of so many turns with so many bytes of words each."""
        self.at_ms += self.number * 86_400_000 // 20
        for turn in range(turns):
            asked = f"turn {turn}: {self._slice(share // 12)}"
            yield self._asked(turn, asked)
            if turn == 0:
                yield from self._surroundings()
            yield from self._answered(turn, share)
            # What ``--continue`` reads, written again after every turn.
            yield orjson.dumps(
                {
                    "type": "last-prompt", "lastPrompt": asked[:200], "leafUuid": self.parent,
                    "sessionId": self.id,
                }
            )  # fmt: skip

    def _asked(self, turn: int, asked: str) -> bytes:
        prompt = {
            "promptId": _uuid(self.draw), "type": "user",
            "message": {"role": "user", "content": asked}, "permissionMode": "default",
            "promptSource": "user", "turnPosition": {"promptIndex": 0, "turnIndex": turn + 1},
        }  # fmt: skip
        line = self._line(prompt)
        # The files as they stood before the prompt, for the tool's own rewind.
        snapshot: dict[str, Any] = {
            "messageId": self.parent,
            "trackedFileBackups": {},
            "timestamp": self._now(),
        }
        kept = {"type": "file-history-snapshot", "messageId": self.parent, "snapshot": snapshot}
        return line + b"\n" + orjson.dumps({**kept, "isSnapshotUpdate": False})

    def _surroundings(self) -> Iterator[bytes]:
        """What the model is told once a session; the listing of skills is the longest by far."""
        folder = {"workingDirectory": f"/srv/project-{self.number % 40}", "platform": "linux"}
        yield self._attachment("environment", {"snapshot": folder}, "# Environment\nlinux, bash")
        listing = self.texts[0][:LISTING_CHARS]
        yield self._attachment("skill_listing", {"content": listing}, listing)
        yield self._attachment("date", {"date": "2026-11-15"}, "Today's date is 2026-11-15.")

    def _attachment(self, kind: str, held: dict[str, Any], told: str) -> bytes:
        rendered = [{"content": f"<system-reminder>\n{told}\n</system-reminder>"}]
        attachment = {"attachment": {"type": kind, **held}, "type": "attachment"}
        return self._line({**attachment, "rendered": rendered, "renderedRole": "system"})

    def _answered(self, turn: int, share: int) -> Iterator[bytes]:
        call, message = _name(self.draw, "toolu"), self._message()
        if turn % THINKS_EVERY == 0:
            # The thoughts themselves are withheld; what proves them to the vendor is kept.
            signature = b64encode(self.draw.randbytes(SIGNATURE_BYTES)).decode()
            thought = {"type": "thinking", "thinking": "", "signature": signature}
            yield self._said(message, thought, 0, "tool_use")
        path = f"/srv/project-{self.number % 40}/src/module_{self.draw.randrange(500)}.py"
        use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path}}
        text = {"type": "text", "text": self._slice(share // 8)}
        yield self._said(message, text, 1, "tool_use")
        yield self._said(message, use, 2, "tool_use")
        yield self._read(call, path, self._slice(share // 4))
        last = {"type": "text", "text": self._slice(share // 4)}
        yield self._said(self._message(), last, 0, "end_turn")

    def _message(self) -> dict[str, Any]:
        """An answer without its blocks: each of its lines repeats it, the usage too."""
        usage: dict[str, Any] = {
            "input_tokens": 12, "cache_creation_input_tokens": 800,
            "cache_read_input_tokens": 20_000 + self.draw.randrange(90_000),
            "output_tokens": self.draw.randrange(20, 900),
            "output_tokens_details": {"thinking_tokens": 0},
            "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 800},
            "inference_geo": "", "iterations": [], "speed": "standard",
        }  # fmt: skip
        return {
            "id": _name(self.draw, "msg"), "type": "message", "role": "assistant",
            "model": "claude-sonnet-4-5", "stop_sequence": None, "usage": usage,
            "stop_details": None,
        }  # fmt: skip

    def _read(self, call: str, path: str, text: str) -> bytes:
        """What Read answers: numbered lines for the model, the bare text for people."""
        lines = text.split("\n")
        numbered = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        result = {"tool_use_id": call, "type": "tool_result", "content": numbered}
        file = {
            "filePath": path, "content": text, "numLines": len(lines), "startLine": 1,
            "totalLines": len(lines),
        }  # fmt: skip
        return self._line(
            {
                "promptId": _uuid(self.draw), "type": "user",
                "message": {"role": "user", "content": [result]},
                "toolUseResult": {"type": "text", "file": file},
                "sourceToolAssistantUUID": self.parent,
                "permissionDecision": {
                    "decision": "accept", "source": "config", "reasonType": "rule",
                    "ruleSource": "cliArg",
                },
            }
        )  # fmt: skip

    def _said(self, message: dict[str, Any], block: dict[str, Any], place: int, stop: str) -> bytes:
        return self._line(
            {
                "message": {**message, "content": [block], "stop_reason": stop},
                "apiBlockIndex": place, "requestId": f"req_{message['id'][4:]}",
                "requestedModel": "claude-sonnet-4-5", "promptCacheRequested": "5m",
                "type": "assistant", "effort": "medium", "madeBy": "model",
            }
        )  # fmt: skip

    def _line(self, record: dict[str, Any]) -> bytes:
        """The envelope that every record of a thread has."""
        id = _uuid(self.draw)
        line = orjson.dumps(
            {
                "parentUuid": self.parent, "isSidechain": False, **record, "uuid": id,
                "timestamp": self._now(), "userType": "external", "entrypoint": "cli",
                "cwd": f"/srv/project-{self.number % 40}", "sessionId": self.id,
                "version": "2.1.325", "gitBranch": "main",
            }
        )  # fmt: skip
        self.parent = id
        return line

    def _now(self) -> str:
        self.at_ms += self.draw.randrange(200, 9000)
        return instant(self.at_ms)

    def _slice(self, length: int) -> str:
        length = min(1 + int(self.draw.expovariate(1 / length)), SLICE_MAX)
        text = self.draw.choice(self.texts)
        start = self.draw.randrange(max(len(text) - length, 1))
        return text[start : start + length]


def _texts() -> list[str]:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return [text for text in texts if len(text) > TEXT_CHARS_MIN]


def _name(draw: random.Random, kind: str) -> str:
    return f"{kind}_{draw.getrandbits(96):024x}"


def _uuid(draw: random.Random) -> str:
    digits = f"{draw.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
