"""A home with transcripts in it, in the shape that Claude Code writes; sample data, all of it.

Besides sessions by the dozen there are those that a first run has something to say about: one
with a sentence that somebody remembers, a copy of it that was continued, and one that broke off.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from proofs.corpus import Corpus
from turntree.core.ids import instant

REMEMBERED = "rounding of the Northgate inv"
UNTOUCHED_DAYS = 27
_DAY_S = 24 * 60 * 60
_USAGE = {
    "input_tokens": 9, "output_tokens": 210, "cache_read_input_tokens": 14_000,
    "cache_creation_input_tokens": 500,
}  # fmt: skip


def write_sample_home(home: Path, corpus: Corpus, sessions: int, turns: int) -> list[Path]:
    """Write transcripts under a home and return their files."""
    corpus.write(home, sessions, turns)
    folder = home / ".claude" / "projects" / "-srv-invoices"
    folder.mkdir(parents=True)
    began = int(time.time() * 1000) - 28 * _DAY_S * 1000
    told = [*_asked(), *_answered()]
    more = [_prompt("Write a test for it."), _said("msg_sample3", _text("There it is."))]
    broken = [_renamed(record) for record in _asked()]
    written = ((told, None), ([*told, *more], _FIRST), (broken, None))
    for number, (records, copied_from) in enumerate(written, start=1):
        session = str(UUID(int=number << 96))
        lines = _lines(records, session, began, copied_from=copied_from)
        file = folder / f"{session}.jsonl"
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        untouched = time.time() - UNTOUCHED_DAYS * _DAY_S
        os.utime(file, (untouched, untouched))
    return sorted((home / ".claude" / "projects").rglob("*.jsonl"))


_FIRST = str(UUID(int=1 << 96))


def _asked() -> list[dict[str, Any]]:
    use = {
        "type": "tool_use", "id": "toolu_sample1", "name": "Read",
        "input": {"file_path": "/srv/invoices/ledger.py"},
    }  # fmt: skip
    return [
        _prompt("Why is the rounding of the Northgate invoice off by one cent?"),
        _said("msg_sample1", _text("I look at how the lines are added up.")),
        _said("msg_sample1", use),
    ]


def _answered() -> list[dict[str, Any]]:
    result = {
        "type": "tool_result", "tool_use_id": "toolu_sample1",
        "content": "total = sum(round(line, 2) for line in lines)",
    }  # fmt: skip
    said = "Each line is rounded before the sum in ledger.py. Round the sum instead."
    return [
        {"type": "user", "message": {"role": "user", "content": [result]}},
        _said("msg_sample2", _text(said)),
    ]


def _prompt(words: str) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": words}}


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _said(message: str, block: dict[str, Any]) -> dict[str, Any]:
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    return {
        "type": "assistant",
        "message": {
            "id": message, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "stop_reason": stop, "usage": _USAGE,
        },
    }  # fmt: skip


def _renamed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of another conversation, which is about another customer."""
    text = orjson.dumps(record).replace(b"_sample", b"_broken").replace(b"Northgate", b"Eastwood")
    return dict(orjson.loads(text))


def _lines(
    records: list[dict[str, Any]], session: str, began: int, *, copied_from: str | None
) -> Iterator[bytes]:
    parent = None
    for place, record in enumerate(records):
        id = str(UUID(int=UUID(session).int + place + 1))
        original = {"sessionId": copied_from, "messageUuid": str(UUID(int=(1 << 96) + place + 1))}
        yield orjson.dumps(
            {
                "parentUuid": parent, "isSidechain": False, "userType": "external",
                "cwd": "/srv/invoices", "sessionId": session, "version": "2.1.325",
                "gitBranch": "main", **record, "uuid": id,
                "timestamp": instant(began + place * 4_000),
                **({} if copied_from is None else {"forkedFrom": original}),
            }
        )  # fmt: skip
        parent = id
