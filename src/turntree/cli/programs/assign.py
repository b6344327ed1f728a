"""``agent assign``: give a task to an agent, and follow it to the end."""

from dataclasses import replace
from typing import Any

import click

from turntree.agents.assignments import AssignmentStatus
from turntree.cli.command import Terminal, verb
from turntree.cli.common.listen import ChatSession, open_talk
from turntree.cli.common.reply import nothing, streaming, talk_options, wait
from turntree.cli.context import CliContext
from turntree.cli.hints import command_hint
from turntree.cli.output.program import program_document
from turntree.cli.output.text import clean
from turntree.cli.param_types import PROGRAM
from turntree.core.errors import InvalidOperation, ProviderNotConfigured
from turntree.core.program import Program
from turntree.core.value import value
from turntree.programs.model_choice import choose_model


@value
class _AssignedTask:
    """An assigned task, and why it does not start yet, if so."""

    task: Program
    waits: str | None


@verb()
@click.argument("agent", type=PROGRAM)
@click.argument("task", type=PROGRAM)
@click.option("--wait/--no-wait", "waits", default=True,
              help="Wait for the end of the task (default), or only its start.")  # fmt: skip
@click.option("--stream", is_flag=True, help="Live output of the agent.")
@talk_options
def assign(
    terminal: Terminal,
    agent: str,
    task: str,
    waits: bool,
    stream: bool,
    tools: tuple[str, ...],
    no_worker: bool,
) -> None:
    """Assign a task to an agent, which works on it in a session of its own.

    The agent's harness limits it: see --max-steps, --checkpoint-every and --reflect-on-failure of
    `turntree agent create`. Afterwards the criteria of the task are checked; if one is not met and
    the agent reflects, it is told so and gets one more turn. Assign an interrupted task again to
    continue it. With --no-wait a worker completes it. A task for a busy agent waits until `turntree
    task start` gives it to the workers; a task for a person waits for that person.
    """
    with open_talk(terminal, tools=tools, serves=waits and not no_worker) as talk:
        given = talk.call(lambda opened: _give(opened, agent, task))
        if given.waits is not None or not waits:
            if given.waits is None:
                begun, *_ = talk.call(
                    lambda opened: opened.running.assignments.begin(given.task.id)
                )
                given = replace(given, task=begun)
            _tell_given(terminal, given)
            return
        done = _work(terminal, talk, given.task, stream=stream)
    _tell_done(terminal, done)


async def _give(opened: CliContext, agent: str, task: str) -> _AssignedTask:
    programs = opened.tree.programs
    found, actor = await programs.get(task), await programs.get(agent)
    is_his = found.details.get("assignee") == actor.name and "session" in found.details
    if not (is_his and found.state in ("pending", "active")):
        found = await programs.assign(found.id, actor.id)
        actor = await programs.get(actor.id)
    if actor.kind != "agent":
        return _AssignedTask(found, "it is a person's now")
    if not await programs.is_free(actor, found):
        return _AssignedTask(found, f"{actor.address} is busy with {actor.details['current_task']}")
    try:
        await choose_model(programs, session=str(found.details["session"]))
    except (ProviderNotConfigured, InvalidOperation) as error:
        return _AssignedTask(found, str(error))
    return _AssignedTask(found, None)


def _work(
    terminal: Terminal, talk: ChatSession, task: Program, *, stream: bool
) -> AssignmentStatus:
    assignments = talk.opened.running.assignments
    shown = streaming(terminal, shows_query=True) if stream else nothing
    return wait(talk.begin(lambda hear: assignments.work(task.id, hear)), shown)


def _tell_given(terminal: Terminal, given: _AssignedTask) -> None:
    task, session = given.task, given.task.details.get("session")
    where = "" if session is None else f", in the session {session}"
    terminal.tell(
        f"{task.address} is for {clean(str(task.config['assignee']))}{clean(where)}",
        {**program_document(task), "waits": given.waits},
        undo=None,
        then=(
            "any worker sees it through; start one with: turntree worker"
            if task.state == "active"
            else f"start it with: turntree task start {task.name}",
        ),
    )
    if given.waits is not None and not terminal.as_json:
        terminal.note(f"it has not started yet: {clean(given.waits)}")


def _tell_done(terminal: Terminal, done: AssignmentStatus) -> None:
    task = done.task
    met = sum(1 for one in done.verdicts if one["ok"])
    document: dict[str, Any] = {
        **program_document(task),
        "turns": [placed.turn.id for placed in done.turns],
        "verdicts": [dict(one) for one in done.verdicts],
    }
    session = clean(str(task.details.get("session")))
    count = f"{len(done.turns)} turn{'s' if len(done.turns) != 1 else ''}"
    checked = f", {met} of {len(done.verdicts)} criteria met" if done.verdicts else ""
    sentence = f"{task.address} is {task.state} after {count} in {session}{checked}"
    if task.state != "completed":
        seen = "\n".join(
            clean(f"{one['kind']}: {one['seen']}") for one in done.verdicts if not one["ok"]
        )
        if terminal.as_json:
            terminal.document(document)
        raise InvalidOperation(
            f"{sentence}\n{seen}".rstrip(), hint=command_hint(f"turntree tail {session}")
        )
    terminal.tell(sentence, document, undo=None, then=(f"see it with: turntree tail {session}",))
