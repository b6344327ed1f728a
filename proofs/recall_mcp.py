"""The claim: an agent finds what was said or printed before, asked in other words.

    python -m proofs.recall_mcp [--quick]

Histories in the shape that Claude Code writes, full of Python's own sources, are imported. In each
stand facts that no source has, half of them in the middle of what a tool printed. Every fact is
asked for through ``turntree mcp``, by the official client over standard input and output. A
question shares the name of its subject with the fact, and one more word at most. A fact is found if
one of the turns that the first answer cites holds it. Every passage that an answer quotes has to
stand in the turn that it cites, no answer may cost more than 800 tokens, and no model may be
called.

Then real Claude Code and Codex, each in a new home with a scripted model, start the server that
``turntree mcp install`` gave them. They search for a decision in other words and fork: the new
session has to stand at the turn that decided.

mem0 is asked the same about ten of the histories where it can be installed; its figure has no bar.
It stores messages as they are, with the embedder that Turntree comes with, and has fewer turns to
choose from: embedding all would take longer than all the rest.

200 facts in 50 histories; ``--quick`` takes 24 in 6, and runs neither agents nor mem0.
"""

import asyncio
import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psycopg
from anyio import run_process
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from proofs.agents.asking import ask_past
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.stage import AgentFailed
from proofs.corpus import Corpus
from proofs.figures import Proof, run, temporary_server
from proofs.recall_rival import RivalMissing, ask_mem0
from turntree.boot.open import Settings, open_tree
from turntree.core.ids import Label, TurnId
from turntree.core.message import ErasedMessage, Text, ToolResult, ToolUse, assistant, user
from turntree.db.database import ensure_database
from turntree.memory.answer import TOKENS_MAX
from turntree.models.token_estimate import estimate_text, estimate_value
from turntree.search.tokenizer import lexemes_of

SUBJECTS = (
    "billing", "checkout", "invoices", "payroll", "shipping", "catalog", "loyalty", "refunds",
    "coupons", "warehouse", "tracking", "onboarding", "newsletter", "leaderboard", "chatroom",
    "thumbnails", "geocoder", "calendar", "surveys", "backups",
)  # fmt: skip
KINDS = (
    ("{s} listens on port {v}", "where can I reach {s}, on what port?"),
    ("we settled on a timeout of {v} ms for {s}", "how patient is {s}, its timeout I mean"),
    ("{s} lives in region zone-{v}", "which region hosts {s} nowadays"),
    ("the owner of {s} is team-{v}", "who is the owner responsible for {s}"),
    ("{s} gives up after {v} attempts", "number of attempts that {s} makes"),
    ("the database of {s} is called store{v}", "what is {s} keeping its data in, which database"),
    ("bucket artifacts-{v} holds uploads of {s}", "find the bucket with files for {s}"),
    ("{s} was pinned to version 4.{v}", "version that {s} must stay at"),
    ("the alert of {s} fires above {v} percent", "when does the alert about {s} go off"),
    ("feature flag flip-{v} guards {s}", "is there a flag that turns {s} off"),
)
SHARED_MAX = 2
TURNS = 8
FACTS = 4
"""In each history."""
HIT_MIN = 0.9
LIST_TOKENS_MAX = 2_000
RIVAL_SESSIONS = 10
AGENTS = ("claude", "codex")
DECISION = "Settled: carts live in Redis, because they have to outlive a deploy."
DECISION_QUERY = "which storage was chosen for shopping carts"
_CITED = re.compile(r"^\[([0-9a-f]{12})\]", re.MULTILINE)
_QUOTED = re.compile(r"^\[([0-9a-f]{12})\].*\n  (\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence that stands in one turn, and a question that it answers."""

    said: str
    question: str
    in_result: bool


async def prove(proof: Proof) -> None:
    """Plant, import, ask, and judge every answer."""
    sessions = 6 if proof.quick else 50
    draw = random.Random(proof.seed)
    facts = _facts(draw, sessions * FACTS)
    shared = max(len(_words(fact.said) & _words(fact.question)) for fact in facts)
    proof.at_most("words that a question shares with its fact", shared, "words", SHARED_MAX)
    with temporary_server() as (server, folder):
        conninfo = await ensure_database(server, "recall")
        person = folder / "person"
        Corpus(proof.seed, turn_bytes=24_000).write(person, sessions, TURNS)
        _plant(draw, person, facts)
        environ = {
            **os.environ, "HOME": str(person), "TURNTREE_HOME": str(folder / "own"),
            "TURNTREE_DATABASE_URL": conninfo, "TURNTREE_USER": "ana",
        }  # fmt: skip
        command = [sys.executable, "-m", "turntree"]
        await run_process([*command, "import"], env=environ)
        calls = _count_calls(conninfo)
        started = StdioServerParameters(command=command[0], args=[*command[1:], "mcp"], env=environ)
        async with Client(started) as client:
            tools = (await client.list_tools()).tools
            listed = [
                one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in tools
            ]
            tokens = estimate_value(json.loads(json.dumps(listed)))
            proof.at_most("list of tools", tokens, "tokens", LIST_TOKENS_MAX)
            began = time.perf_counter()
            answers = [await _ask(client, fact) for fact in facts]
            seconds = time.perf_counter() - began
        proof.note("an answer, wall", 1000 * seconds / len(facts), "ms")
        settings = Settings(folder / "own", conninfo, user="ana")
        await _judge(proof, settings, facts, answers)
        proof.at_most("model calls", _count_calls(conninfo) - calls, "calls", 0)
        _note_size(proof, conninfo)
        if not proof.quick:
            await _note_rival(proof, settings, facts)
            await _prove_agents(proof, settings, folder)


def _facts(draw: random.Random, count: int) -> list[Fact]:
    pairs = [(subject, kind) for subject in SUBJECTS for kind in KINDS]
    draw.shuffle(pairs)
    return [
        Fact(
            said.format(s=subject, v=draw.randrange(1_000, 9_999)),
            asked.format(s=subject),
            in_result=number % 2 == 0,
        )
        for number, (subject, (said, asked)) in enumerate(pairs[:count])
    ]


def _words(text: str) -> set[str]:
    return set(lexemes_of(text))


def _plant(draw: random.Random, person: Path, facts: list[Fact]) -> None:
    """Put each fact into a turn of its own: into the last words, or into the middle of a result."""
    files = sorted(person.glob(".claude/projects/*/*.jsonl"))
    waiting = list(facts)
    for file in files:
        lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        results = [block for record in lines for block in _blocks(record, "tool_result")]
        replies = [
            block
            for record in lines
            if record.get("message", {}).get("stop_reason") == "end_turn"
            for block in _blocks(record, "text")
        ]
        for turn in draw.sample(range(TURNS), FACTS):
            fact = waiting.pop()
            block, member = (
                (results[turn], "content") if fact.in_result else (replies[turn], "text")
            )
            told = block[member].split("\n")
            told.insert(len(told) // 2, fact.said)
            block[member] = "\n".join(told)
        file.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in lines))
    assert not waiting, "every fact has its turn"


def _blocks(record: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    content = record.get("message", {}).get("content")
    if isinstance(content, list):
        yield from (block for block in content if block.get("type") == kind)


async def _ask(client: Client, fact: Fact) -> str:
    result = await client.call_tool("search", {"query": fact.question})
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    return content.text


async def _judge(proof: Proof, settings: Settings, facts: list[Fact], answers: list[str]) -> None:
    texts: dict[str, str] = {}
    async with open_tree(settings) as tree:
        for cited in {one for answer in answers for one in _CITED.findall(answer)}:
            (placed,) = await tree.turns.restore([await tree.turns.get(cited)])
            texts[cited] = " ".join(_texts(placed.turn.messages))
    found = {
        place: any(fact.said in texts[cited] for cited in _CITED.findall(answer))
        for place, (fact, answer) in enumerate(zip(facts, answers, strict=True))
    }
    for in_result, where in ((True, "in tool results"), (False, "in replies")):
        places = [place for place, fact in enumerate(facts) if fact.in_result is in_result]
        share = sum(found[place] for place in places) / len(places)
        proof.note(f"facts {where} found among five", share, "share")
    for place, is_found in found.items():
        if not is_found:
            print(f"not found: {facts[place].question!r} for {facts[place].said!r}")
    proof.at_least("facts found among five", sum(found.values()) / len(facts), "share", HIT_MIN)
    quoted = [pair for answer in answers for pair in _QUOTED.findall(answer)]
    # Of a call only the words are quoted, not how its arguments are named.
    quoted = [(cited, text) for cited, where, text in quoted if where not in {"tool", "file"}]
    wrong = [
        text
        for cited, text in quoted
        if any(_plain(piece) not in _plain(texts[cited]) for piece in text.split("…"))
    ]
    for text in wrong:
        print(f"quoted, but not said: {text!r}")
    proof.at_least("passages quoted", len(quoted), "passages", len(facts))
    proof.at_most("passages that their turn does not hold", len(wrong), "passages", 0)
    costs = [estimate_text(answer) for answer in answers]
    proof.at_most("the longest answer", max(costs), "tokens", TOKENS_MAX)
    proof.note("an answer, on average", sum(costs) / len(costs), "tokens")


async def _note_rival(proof: Proof, settings: Settings, facts: list[Fact]) -> None:
    """Show what mem0 finds of the facts in some of the histories."""
    texts: dict[str, list[str]] = {}
    async with open_tree(settings) as tree:
        sessions = sorted([one.label async for one in tree.sessions.list_all()])
        for session in sessions[:RIVAL_SESSIONS]:
            turns = await tree.threads.page(session, low=1, high=TURNS)
            for placed in await tree.turns.restore(turns):
                texts[placed.turn.id] = [*_texts(placed.turn.messages)]
    everything = " ".join(text for each in texts.values() for text in each)
    some = [fact for fact in facts if fact.said in everything]
    try:
        asked = [fact.question for fact in some]
        answers = await asyncio.to_thread(ask_mem0, [*texts.items()], asked)
    except RivalMissing as error:
        say(f"mem0: {error}")
        proof.note("mem0: skipped", 1, "programs")
        return
    found = [
        any(fact.said in text for turn in answer for text in texts[turn])
        for fact, answer in zip(some, answers, strict=True)
    ]
    proof.note("mem0: facts", len(some), "facts")
    for in_result, where in ((True, "in tool results"), (False, "in replies")):
        kind = [is_found for fact, is_found in zip(some, found, strict=True)
                if fact.in_result is in_result]  # fmt: skip
        proof.note(f"mem0: facts {where} found among five", sum(kind) / len(kind), "share")
    proof.note("mem0: facts found among five", sum(found) / len(found), "share")


async def _prove_agents(proof: Proof, settings: Settings, folder: Path) -> None:
    """Have real agents find a decision among all that, and fork where it was made."""
    turns: list[TurnId] = []
    async with open_tree(settings) as tree:
        for asked, answer in (
            ("What is slow?", "The page of a customer."),
            ("Where do we keep what is in a basket?", DECISION),
            ("And the pictures?", "They stay where they are."),
        ):
            placed = await tree.turns.record("plans", [user(asked)], [assistant(answer)])
            turns.append(placed.turn.id)
    for program in PROGRAMS:
        if program.name in AGENTS:
            head = await _fork_by(proof, settings, folder, program)
            name = f"{program.name}: forks at the turn that decided"
            proof.at_least(name, int(head == turns[1]), "forks", 1)


async def _fork_by(
    proof: Proof, settings: Settings, folder: Path, program: Program
) -> TurnId | None:
    """Return the turn from which an agent forked."""
    label, home = f"from-{program.name}", folder / program.name
    ledger = {"database_url": str(settings.database_url), "user": str(settings.user)}
    try:
        asked = await asyncio.to_thread(ask_past, program, home, ledger, DECISION_QUERY, label)
    except (NotInstalled, AgentFailed) as error:
        say(f"{program.name}: {error}")
        return None
    proof.note(f"{program.name}: search and fork", asked.seconds, "s")
    proof.at_most(f"{program.name}: left running", asked.left_running, "processes", 0)
    async with open_tree(settings) as tree:
        heads = {one.label: one.head async for one in tree.sessions.list_all()}
    return heads.get(Label(label))


def _texts(messages: tuple[Any, ...]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ErasedMessage):
            continue
        for part in message.parts:
            match part:
                case Text(text):
                    yield text
                case ToolResult(output=output):
                    yield output if isinstance(output, str) else json.dumps(output)
                case ToolUse(_, tool, args):
                    yield f"{tool} {json.dumps(args, ensure_ascii=False)}"
                case _:
                    pass


def _plain(text: str) -> str:
    """Return the words of a text alone: a passage is quoted on one line."""
    return re.sub(r"\W+", " ", text.replace("\\n", " ")).strip()


def _count_calls(conninfo: str) -> int:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute("SELECT count(*) FROM turntree.model_calls").fetchone()
        return 0 if row is None else int(row[0])


def _note_size(proof: Proof, conninfo: str) -> None:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(
            "SELECT pg_total_relation_size('turntree.search_documents')::float8"
            " / greatest(count(*), 1) FROM turntree.search_documents"
        ).fetchone()
    proof.note("index of words, for each turn", 0 if row is None else float(row[0]), "bytes")


if __name__ == "__main__":
    run(prove, str(__doc__))
