"""``policy``: what decides about tool calls before they are made."""

import json
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.verdicts import require_person
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import age, clean, counted, table
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp
from turntree.system.shell_words import positional, quoted

if TYPE_CHECKING:
    from turntree.policy.policies import PolicyTestResult, RecordedDecision
    from turntree.policy.policy import Policy
    from turntree.policy.store import PolicyVersion

LIMIT = 20_000
SHOWN = 20
ARGS_CHARS = 60
TOLD_EVERY = 500
_AGENT_HELP = "Agent whose calls it judges; by default every agent."
_LANE_HELP = "Interpreter: monty, or process for what Monty cannot run."


@click.group()
def policy() -> None:
    """Decide which tool calls are made, denied, or put to a person.

    A policy is a function decide(request) with a docstring and tests, in one file. It is proposed,
    tried on recorded calls, and activated by an admin.
    """


@verb()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--agent", metavar="AGENT", help=_AGENT_HELP)
@click.option("--lane", type=click.Choice(["monty", "process"]), help=_LANE_HELP)
@click.option("--note", metavar="TEXT", help="Reason for the proposal.")
def propose(terminal: Terminal, file: Path, agent: str | None, lane: Any, note: str | None) -> None:
    """Propose a policy; nothing changes until it is activated."""
    read = _read(file, lane)

    async def act(opened: CliContext) -> "tuple[PolicyVersion, list[PolicyTestResult]]":
        policies = opened.tree.policies
        made = await policies.propose(
            read.source, language=read.language, lane=read.lane, agent=agent, notes=note
        )
        return made, await policies.test(read)

    made, results = with_ledger(terminal, act)
    failed = [one for one in results if not one.has_passed]
    document = {**_document(made), "tests": _tests_document(results)}
    said = f"policy {made.number} is proposed; {_summary(results)}"
    terminal.tell(said, document, undo=None)
    if not terminal.as_json:
        _print_failed(terminal, failed)
        if not failed:
            terminal.note(f"next: turntree policy try {positional(str(file))}")
            terminal.note(f"      turntree policy activate {made.number}{_of(agent)}")


@verb()
@click.argument("what", metavar="[FILE|NUMBER]", default="")
@click.option("--agent", metavar="AGENT", help=_AGENT_HELP)
@click.option("--lane", type=click.Choice(["monty", "process"]), help=_LANE_HELP)
def test(terminal: Terminal, what: str, agent: str | None, lane: Any) -> None:
    """Run the tests of a policy: of a file, of a version, or of the one in force."""

    async def act(opened: CliContext) -> "list[PolicyTestResult]":
        policies = opened.tree.policies
        if what.isdecimal():
            tested = (await policies.get(int(what), agent=agent)).policy
        elif what:
            tested = _read(Path(what), lane)
        else:
            tested = (await policies.get_active(agent=agent)).policy
        return await policies.test(tested)

    results = with_ledger(terminal, act)
    failed = [one for one in results if not one.has_passed]
    if terminal.as_json:
        terminal.document(_tests_document(results))
    else:
        terminal.say(_summary(results))
        _print_failed(terminal, failed)
    if failed:
        raise SystemExit(1)


@verb()
@click.argument("number", metavar="NUMBER", type=click.IntRange(0))
@click.option("--agent", metavar="AGENT", help=_AGENT_HELP)
def activate(terminal: Terminal, number: int, agent: str | None) -> None:
    """Put a version in force, for every call from now on; 0 is the shipped one.

    A version with a failing test is refused. Only an admin can activate one, and no
    agent can do it for them.
    """
    require_person()

    async def act(opened: CliContext) -> "tuple[PolicyVersion, PolicyVersion]":
        policies = opened.tree.policies
        before = await policies.get_active(agent=agent)
        made = await policies.activate(number, agent=agent)
        if agent is None:
            from turntree.policy.local import publish_local

            # Judges of other coding agents on this machine have no database.
            publish_local(opened.settings.home, made.policy, f"human:{opened.settings.user}")
        return before, made

    before, made = with_ledger(terminal, act)
    undo = f"turntree policy activate {before.number}{_of(agent)}"
    is_new = (before.number, before.agent) != (made.number, made.agent)
    said = f"policy {made.number} is in force"
    terminal.tell(said, _document(made), undo=undo if is_new and before.agent == agent else None)


@verb()
@click.option("--agent", metavar="AGENT", help=_AGENT_HELP)
def history(terminal: Terminal, agent: str | None) -> None:
    """List the versions of the policy, newest first; * marks the one in force."""

    async def act(opened: CliContext) -> "tuple[list[PolicyVersion], Timestamp]":
        return await opened.tree.policies.history(agent=agent), opened.now

    found, now = with_ledger(terminal, act)
    if terminal.as_json:
        terminal.documents(map(_document, found))
        return
    terminal.page(table([_row(one, now) for one in found]))


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
def explain(terminal: Terminal, revision: str) -> None:
    """Show how the tool calls of a turn were judged: by which line of which policy, and why."""
    documents = with_ledger(terminal, partial(_read_judged, revision=revision))
    if terminal.as_json:
        terminal.documents(documents)
        return
    if not documents:
        terminal.note("no call of this turn was judged")
    for one in documents:
        said = f": {one['reason']}" if one["reason"] else ""
        terminal.say(f"{one['decision']:7} {clean(str(one['tool']))}{clean(said)}")
        where = one.get("policy", "no policy was asked")
        terminal.say(f"        {one['effects_text']}; {where[:19]}")
        if one.get("source_line"):
            terminal.say(f"        line {one['line']}: {clean(one['source_line'])}")


@verb("try")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--limit", "-n", metavar="N", type=click.IntRange(1), default=LIMIT,
              help=f"Number of calls to try it on, newest first; by default {LIMIT}.")  # fmt: skip
@click.option("--lane", type=click.Choice(["monty", "process"]), help=_LANE_HELP)
def try_(terminal: Terminal, file: Path, limit: int, lane: Any) -> None:
    """Try a policy on recorded tool calls, imported ones too; nothing changes."""
    read = _read(file, lane)
    shown: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()

    async def act(opened: CliContext) -> None:
        async for one in opened.tree.policies.try_on(read, limit=limit):
            counts[one.decision.verdict] += 1
            if one.decision.verdict != "allow":
                shown.append(_tried_document(one))
            total = counts.total()
            if total % TOLD_EVERY == 0 and terminal.is_live and not terminal.as_json:
                terminal.note(f"{total} calls tried")

    with_ledger(terminal, act)
    if terminal.as_json:
        terminal.document({"calls": counts.total(), **counts, "not_allowed": shown})
        return
    total = counts.total()
    if total == 0:
        terminal.note("there are no recorded tool calls to try it on")
        terminal.note("next: turntree import     imports those of your coding agents")
        return
    terminal.say(
        f"of your last {counted(total, 'call')}, it would ask about {counts['ask']},"
        f" deny {counts['deny']} and rewrite {counts['rewrite']}"
    )
    for one in shown[:SHOWN]:
        args = json.dumps(one["args"], ensure_ascii=False)[:ARGS_CHARS]
        terminal.say(
            f"  {one['decision']:7} {one['turn'][:13]}  {clean(one['tool'])} {clean(args)}"
        )
        terminal.say(f"          {clean(one['reason'])}")
    if len(shown) > SHOWN:
        terminal.note(f"and {len(shown) - SHOWN} more; --json lists all")


def _read(file: Path, lane: Any) -> "Policy":
    from turntree.policy.policy import language_of, read_policy

    try:
        # Some editors begin a file with a byte order mark.
        source = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidOperation(f"cannot read {str(file)[-60:]!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidOperation(f"{str(file)[-60:]!r} is not UTF-8 text") from error
    return read_policy(source, language_of(file.name), lane)


async def _read_judged(opened: CliContext, *, revision: str) -> list[dict[str, Any]]:
    tree = opened.tree
    turn = (await tree.resolve(revision)).turn
    facts = await tree.ledger.facts(turn)
    judged: list[dict[str, Any]] = [
        dict(fact.event.data) for fact in facts if fact.event.kind == "tool_call.judged"
    ]
    sources: dict[str, list[str]] = {}
    for agent in {one.get("agent") for one in judged} | {None}:
        for version in await tree.policies.history(agent=agent):
            sources[version.digest] = version.source.splitlines()
    for one in judged:
        lines, line = sources.get(one.get("policy", ""), []), one.get("line")
        if isinstance(line, int) and 0 < line <= len(lines):
            one["source_line"] = lines[line - 1].strip()
        declared = "" if one.get("effects_declared") else " (undeclared: the worst is assumed)"
        one["effects_text"] = f"effects: {', '.join(one['effects']) or 'none'}{declared}"
    return judged


def _document(version: "PolicyVersion") -> dict[str, Any]:
    return asdict(version)


def _tests_document(results: "list[PolicyTestResult]") -> dict[str, Any]:
    failed = [one for one in results if not one.has_passed]
    return {
        "total": len(results),
        "failed": [
            {"name": one.test.name, "expected": one.test.verdict, **one.decision.to_json()}
            for one in failed
        ],
    }


def _tried_document(one: "RecordedDecision") -> dict[str, Any]:
    return {
        "turn": one.turn,
        "tool": one.call.tool,
        "args": one.call.args,
        "recorded": one.recorded,
        **one.decision.to_json(),
    }


def _summary(results: "list[PolicyTestResult]") -> str:
    passed = sum(one.has_passed for one in results)
    return f"{passed} of {counted(len(results), 'test')} passed"


def _print_failed(terminal: Terminal, failed: "list[PolicyTestResult]") -> None:
    for one in failed:
        said = f": {one.decision.reason}" if one.decision.reason else ""
        line = f", line {one.decision.line}" if one.decision.line is not None else ""
        given = one.decision.verdict
        what = "denied" if one.decision.has_failed else f"{given} instead of {one.test.verdict}"
        terminal.say(f"  {clean(one.test.name)}: {what}{clean(said)}{line}")


def _row(version: "PolicyVersion", now: Timestamp) -> tuple[str, ...]:
    by, at = version.activated_by or version.proposed_by, version.activated_at
    at = at or version.proposed_at
    return (
        "*" if version.is_active else "",
        str(version.number),
        version.digest[7:13],
        "" if at is None else age(at, now),
        by or "shipped",
        clean(version.docstring.splitlines()[0] if version.docstring else ""),
    )


def _of(agent: str | None) -> str:
    return "" if agent is None else f" --agent {quoted(agent)}"


for _command in (propose, test, activate, history, explain, try_):
    policy.add_command(_command)
