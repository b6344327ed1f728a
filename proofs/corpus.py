"""Transcripts by the thousand, in the shape that Claude Code writes; sample data, all of it.

The words are slices of Python's own sources, so that they are as redundant as what agents read
and write all day.
"""

import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from turntree.domain.ids import instant

BEGAN_MS = 1_750_000_000_000
TEXT_CHARS_MIN = 4_000
SLICE_MAX = 12_000


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
            session = _uuid(draw)
            lines = self._session(draw, texts, session, number, turns)
            data = b"".join(line + b"\n" for line in lines)
            (folder / f"{session}.jsonl").write_bytes(data)
            size += len(data)
        return size

    def _session(
        self, draw: random.Random, texts: list[str], session: str, number: int, turns: int
    ) -> Iterator[bytes]:
        at = BEGAN_MS + number * 86_400_000 // 20
        parent: str | None = None
        for turn in range(turns):
            for record in self._turn(draw, texts, turn):
                at += draw.randrange(200, 9000)
                id = _uuid(draw)
                yield orjson.dumps(
                    {
                        "parentUuid": parent, "isSidechain": False, "userType": "external",
                        "cwd": f"/srv/project-{number % 40}", "sessionId": session,
                        "version": "2.1.325", "gitBranch": "main", **record,
                        "uuid": id, "timestamp": instant(at),
                    }
                )  # fmt: skip
                parent = id

    def _turn(self, draw: random.Random, texts: list[str], turn: int) -> Iterator[dict[str, Any]]:
        # The envelopes of its six records take about 2,500 bytes.
        share = max(self.turn_bytes - 2_500, 100)
        call, message = f"toolu_{draw.getrandbits(96):024x}", f"msg_{draw.getrandbits(96):024x}"
        asked = f"turn {turn}: {_slice(draw, texts, share // 20)}"
        yield {"type": "user", "message": {"role": "user", "content": asked}}
        use = {
            "type": "tool_use", "id": call, "name": "Read",
            "input": {"file_path": f"/srv/src/module_{draw.randrange(500)}.py"},
        }  # fmt: skip
        yield _said(message, {"type": "text", "text": _slice(draw, texts, share // 8)}, "tool_use")
        yield _said(message, use, "tool_use")
        read = _slice(draw, texts, share // 2)
        result = {"type": "tool_result", "tool_use_id": call, "content": read}
        yield {"type": "user", "message": {"role": "user", "content": [result]}}
        last = f"msg_{draw.getrandbits(96):024x}"
        yield _said(last, {"type": "text", "text": _slice(draw, texts, share // 3)}, "end_turn")


def _said(message: str, block: dict[str, Any], stop: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 12, "output_tokens": 340, "cache_read_input_tokens": 21_000,
        "cache_creation_input_tokens": 800,
    }  # fmt: skip
    return {
        "type": "assistant",
        "requestId": f"req_{message[4:]}",
        "message": {
            "id": message, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "stop_reason": stop, "usage": usage,
        },
    }  # fmt: skip


def _texts() -> list[str]:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return [text for text in texts if len(text) > TEXT_CHARS_MIN]


def _slice(draw: random.Random, texts: list[str], length: int) -> str:
    length = min(1 + int(draw.expovariate(1 / length)), SLICE_MAX)
    text = draw.choice(texts)
    start = draw.randrange(max(len(text) - length, 1))
    return text[start : start + length]


def _uuid(draw: random.Random) -> str:
    digits = f"{draw.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
