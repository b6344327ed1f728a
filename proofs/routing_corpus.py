"""Writes the threads and messages that ``proofs.routing`` is judged by, from hand-written tables.

``python -m proofs.routing_corpus`` writes ``routing_data/threads.jsonl`` and
``routing_data/messages.jsonl``, the same ones every time. They were written before the ranker
was tuned, and are kept with the source, so that the history shows it. A thread is about one
component and one issue; five threads share each component and fifty each issue, so that a message
has to be right about both. A message belongs to one thread and mentions it as people do: in
other words, by an error number, by a name of code, by a file, or half and half. Which messages the
ranker may be tuned on is a rule of their ids, not a choice: see ``is_held_out``.
"""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("routing_data")
SEED = 20_261_115
ISSUES_A_COMPONENT = 5
MESSAGES = 300
STYLES = ("paraphrase", "mixed", "name", "words", "paraphrase", "file", "mixed", "code")
"""In turn: a quarter says everything in other words, an eighth says nothing but an error number."""
PLAIN_WORDS = {
    "memory": "memory leak", "slow": "latency problem", "timeout": "timeouts and retries",
    "twice": "duplicate requests", "timezone": "daylight saving problem", "flaky": "flaky tests",
    "unicode": "garbled accents", "access": "missing authorisation",
    "migration": "schema migration",
    "upgrade": "framework upgrade", "deadlock": "race condition", "paging": "pagination bug",
    "rounding": "rounding errors", "validation": "input validation", "settings": "documentation",
    "noise": "log volume", "startup": "crash at start", "orphans": "orphaned rows",
    "stale": "cache invalidation", "export": "CSV export",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation: what was asked and answered, turn by turn."""

    id: str
    turns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Something that somebody says later, and the thread it belongs to."""

    id: str
    text: str
    thread: str
    style: str


@dataclass(frozen=True, slots=True)
class _Component:
    project: str
    c: str
    k: str
    file: str
    name: str


def is_held_out(message: Labelled) -> bool:
    """Say whether a message is kept for the verdict: by the first bit of its id's digest."""
    return hashlib.sha256(message.id.encode()).digest()[0] >= 128


def load() -> tuple[list[Thread], list[Labelled]]:
    """Return the threads and messages as they were committed."""
    threads = [
        Thread(one["id"], tuple((asked, told) for asked, told in one["turns"]))
        for one in _lines("threads.jsonl")
    ]
    return threads, [Labelled(**one) for one in _lines("messages.jsonl")]


def _lines(file: str) -> list[dict[str, Any]]:
    text = (FOLDER / file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write() -> tuple[list[Thread], list[Labelled]]:
    """Return the threads and messages that the tables give."""
    dice = random.Random(SEED)
    components, issues, frames = _components(), _issues(), _frames()
    threads: list[Thread] = []
    about: list[tuple[str, dict[str, str], str]] = []
    kinds = list(issues)
    for number, component in enumerate(components):
        for issue in dice.sample(kinds, ISSUES_A_COMPONENT):
            code = f"{dice.choice('ABCDEFGHKLMNPRSTVWXZ')}{dice.randrange(1000, 10_000)}"
            words = {**asdict(component), "code": code, "w": PLAIN_WORDS[issue]}
            id = f"{component.project}-{number:03}-{issue}"
            threads.append(Thread(id, tuple(_turns(dice, words, issues[issue], frames))))
            about.append((id, words, issue))
    dice.shuffle(about)
    messages = [
        _message(dice, place, id, words, issues[issue], frames)
        for place, (id, words, issue) in enumerate(about[:MESSAGES])
    ]
    return threads, messages


def _turns(
    dice: random.Random,
    words: dict[str, str],
    issue: dict[str, list[str]],
    frames: dict[str, list[str]],
) -> Iterator[tuple[str, str]]:
    def said(kind: str) -> str:
        return dice.choice(issue[kind]).format(**words)

    yield said("ask"), said("reply")
    yield said("more"), said("told")
    asked, told = dice.choice(frames["filler"]).split(" | ")
    yield asked, told


def _message(
    dice: random.Random,
    place: int,
    thread: str,
    words: dict[str, str],
    issue: dict[str, list[str]],
    frames: dict[str, list[str]],
) -> Labelled:
    style = STYLES[place % len(STYLES)]
    frame = dice.choice(frames[style])
    return Labelled(
        f"m{place:03}", frame.format(**words, t=dice.choice(issue["talk"])), thread, style
    )


def _components() -> list[_Component]:
    return [
        _Component(*(cell.strip() for cell in line.split("|"))) for line in _table("components")
    ]


def _issues() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for line in _table("issues"):
        if line.startswith("= "):
            current = found.setdefault(line[2:], {})
        else:
            kind, _, text = line.partition(": ")
            current.setdefault(kind, []).append(text)
    return found


def _frames() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _table("frames"):
        kind, _, text = line.partition(": ")
        found.setdefault(kind, []).append(text)
    return found


def _table(name: str) -> list[str]:
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def main() -> None:
    """Write both files."""
    threads, messages = write()
    _save("threads.jsonl", [asdict(one) for one in threads])
    _save("messages.jsonl", [asdict(one) for one in messages])


def _save(file: str, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (FOLDER / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
