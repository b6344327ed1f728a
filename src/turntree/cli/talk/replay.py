"""``replay`` and ``rerun``: repeat a turn from its events, or live."""

import difflib
import sys
from functools import partial
from typing import Final

import click

from turntree.cli.command import Paint, Terminal, verb
from turntree.cli.common.fork_files import find_privacy
from turntree.cli.common.listen import open_talk
from turntree.cli.common.reply import check_answer, talk_options, wait_for
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.history.diff import CONTEXT_LINES, say
from turntree.cli.output.parts import list_tool_calls
from turntree.cli.output.stream_printer import turn_document
from turntree.cli.output.text import clean, counted, digits
from turntree.cli.param_types import PROGRAM, REVISION
from turntree.core.errors import InvalidOperation
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.runs.replay import ReplayResult
from turntree.runs.rerun import RerunStarted
from turntree.runs.rerun import rerun as begin_again
from turntree.system.shell_words import joined, positional

_PAINTS: Final[dict[str, Paint]] = {"+": "good", "-": "bad", "@": "head"}


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.pass_context
def replay(context: click.Context, terminal: Terminal, revision: str) -> None:
    """Replay a turn from its recorded events, and check that the result is the same.

    The model and the tools give their recorded replies; no model is asked, no tool is called and
    nothing is written. Exits with 1 if the result is a different turn.
    """
    played = with_ledger(terminal, partial(_replay, revision=revision))
    lines = _differences(played.original, played.turn, ("recorded", "replayed"))
    if terminal.as_json:
        terminal.document(
            {
                "turn": played.original.id,
                "digest": played.original.digest,
                "replayed_digest": played.turn.digest,
                "same": played.is_same,
                "prompts": list(played.prompts),
                "lines": lines,
            }
        )
    else:
        terminal.say(_verdict(played))
        _draw(terminal, lines)
    context.exit(0 if played.is_same else 1)


async def _replay(opened: CliContext, *, revision: str) -> ReplayResult:
    return await opened.tree.replays.replay((await opened.tree.resolve(revision)).turn)


def _verdict(played: ReplayResult) -> str:
    name = digits(played.original.digest)
    calls = counted(len(played.prompts), "call")
    if not played.is_same:
        return f"{name} comes out as {digits(played.turn.digest)}"
    lost = played.prompts.count(False)
    if lost:
        # Recorded replies do not depend on prompts, so the turn is the same anyway.
        return f"{name} comes out the same; {lost} of {calls} would be given another prompt now"
    if not played.prompts:
        return f"{name} comes out the same; an earlier version assembled its prompts differently"
    return f"{name} comes out the same, and {calls} of the model would be given the same prompt"


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.option("--model", type=PROGRAM, help="Model to ask instead.")
@click.option("--session", "label", metavar="NAME", help="Label of the new session.")
@click.option("--yes", "-y", is_flag=True, help="No question before tools are called again.")
@talk_options
def rerun(
    terminal: Terminal,
    revision: str,
    model: str | None,
    label: str | None,
    yes: bool,
    tools: tuple[str, ...],
    no_worker: bool,
) -> None:
    """Ask a turn's query again, from the same parent, and show the difference.

    Creates a session at the turn's parent and sends it the same query: to the same model with the
    same parameters, or to another model. The first turn stays as it is, with the new one beside it.

    Tools are called for real. If the turn called one that is not declared repeatable, a terminal is
    asked first; without one, --yes is needed.
    """
    with open_talk(terminal, tools=tools, serves=False) as talk:
        if not yes and (risky := talk.call(partial(_list_unrepeatable, revision=revision))):
            chosen = (
                ("--model", model),
                ("--session", label),
                *(("--tools", one) for one in tools),
            )
            options = [
                word for name, given in chosen if given is not None for word in (name, given)
            ]
            options += ["--no-worker"] if no_worker else []
            _require_consent(terminal, risky, f"{joined(options)} {positional(revision)}".strip())
        if not no_worker:
            talk.serve()

        async def begin(opened: CliContext) -> tuple[ThreadTurn, RerunStarted, tuple[str, ...]]:
            tree = opened.tree
            placed = await tree.turns.get((await tree.resolve(revision)).turn)
            begun = await begin_again(
                tree.runs,
                tree.sessions,
                tree.ledger,
                tree.programs,
                placed,
                label=label,
                model=model,
            )
            return placed, begun, await find_privacy(opened, begun.session)

        placed, begun, privacy = talk.call(begin)
        answered = wait_for(talk, begun.posted.run, lambda _: None)
    name, turn = begun.session.label, answered.turn
    lines = _differences(placed.turn, turn, (digits(placed.turn.digest), digits(turn.digest)))
    if not terminal.as_json:
        _draw(terminal, lines)
    terminal.tell(
        f"{clean(name)} stands at {digits(turn.digest)}, beside {digits(placed.turn.digest)}: "
        + (f"{counted(len(lines), 'line')} of difference" if lines else "the same was said"),
        {"session": name, "of": placed.turn.id, "differ": bool(lines), "lines": lines,
         **turn_document(turn)},
        undo=f"turntree session archive {name}",
        then=(f"go on there with: turntree switch {name}", *privacy),
    )  # fmt: skip
    check_answer(answered)


async def _list_unrepeatable(opened: CliContext, *, revision: str) -> list[str]:
    """Return the tools that a turn called and a rerun could call again, unless repeatable."""
    tree = opened.tree
    turn = (await tree.turns.get((await tree.resolve(revision)).turn)).turn
    names = {str(call.use.tool): None for call in list_tool_calls(turn)}
    if not names:
        return []
    known = {spec.name: spec.is_repeatable for spec in opened.running.tool_specs}
    for name in names.keys() - known.keys():
        program = await tree.programs.find(name)
        if program is not None and program.kind == "code":
            known[name] = bool(program.config.get("repeatable"))
    # A worker elsewhere may have tools that this process does not know.
    others = bool(await tree.runs.workers.list_workers())
    return [name for name in names if not known.get(name, not others)]


def _require_consent(terminal: Terminal, tools: list[str], words: str) -> None:
    """Ask whether tools may be called again; ``words`` are those that the user typed.

    Raises:
        InvalidOperation: There is no terminal to ask on.
    """
    listed = clean(", ".join(tools))
    if not (terminal.is_live and sys.stdin.isatty()):
        raise InvalidOperation(
            f"the turn called {listed}, which is not declared repeatable",
            hint=command_hint(f"turntree rerun --yes {words}"),
        )
    terminal.note(f"The turn called {listed}, which is not declared repeatable.")
    click.confirm("call it again if the model wants to?", default=False, err=True, abort=True)


def _differences(left: Turn, right: Turn, names: tuple[str, str]) -> list[str]:
    before, after = list(say(left)), list(say(right))
    return list(difflib.unified_diff(before, after, *names, lineterm="", n=CONTEXT_LINES))


def _draw(terminal: Terminal, lines: list[str]) -> None:
    for line in lines:
        terminal.say(terminal.paint(line, _PAINTS.get(line[:1], "plain")))
