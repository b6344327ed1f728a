"""Fork a session together with its files, after showing the plan.

Gathers the data; ``cli.output.fork_plan`` prints it.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_path
from turntree.cli.output.fork_plan import draw_fork, fork_document
from turntree.cli.output.progress import spinner
from turntree.cli.output.session import privacy_hints, session_row_document
from turntree.cli.output.text import digits
from turntree.core.errors import DataMissing, NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.program import Visibility
from turntree.core.session import Session
from turntree.core.value import value
from turntree.resources.plans.fork import Choice, ForkPlan
from turntree.system.head_file import write_own_head
from turntree.system.shell_words import joined, quoted


@value
class ForkRequest:
    """The fork that was asked for on the command line."""

    revision: str
    label: str | None
    place: str | None
    choices: Mapping[str, Choice]
    before: bool = False
    """Whether the files are to be as the turn found them, not as it left them."""
    visibility: Visibility | None = None
    """Visibility of the new session; None inherits it from the source."""

    def command(self, place: str | None, *options: str) -> str:
        """Return the command that makes this fork, in the given folder or in a new one."""
        words = ["turntree", "fork", self.revision, self.label or "LABEL", "--files"]
        words += [*([] if place is None else [place]), *options]
        words += [] if self.visibility is None else [f"--{self.visibility}"]
        words += [word for name, choice in self.choices.items() for word in (f"--{choice}", name)]
        return joined(words)


def show_plan(terminal: Terminal, wanted: ForkRequest, *, switches: bool) -> None:
    """Print what a fork would do, and do nothing."""
    plan, digests = with_ledger(terminal, partial(_propose, wanted=wanted))
    if terminal.as_json:
        terminal.document(fork_document(plan))
        return
    terminal.page(draw_fork(plan, digests, terminal))
    command = wanted.command(wanted.place, *["--switch"] * switches)
    terminal.note(f"nothing was done     carry it out with: {command}")


def fork_with_files(terminal: Terminal, wanted: ForkRequest, *, switches: bool) -> None:
    """Create a session with folders of its own, and print the result."""
    with spinner(terminal, "forking files"):
        plan, session, privacy = with_ledger(terminal, partial(_carry_out, wanted=wanted))
    places = plan.places
    for place in places:
        # Commands run in a fork's folder work on the fork.
        write_own_head(Path(place), session.label)
    if switches:
        with_ledger(terminal, lambda opened: opened.choose(session.label))
    made = ", ".join(shown_path(place) for place in places) or "no files belong to it"
    removal = " && ".join(f"turntree worktree --remove {quoted(one)}" for one in places)
    archive = f"turntree session archive {session.label}"
    folders = [quoted(place) for place in places if Path(place).is_dir()]
    terminal.tell(
        f"{session.label} begins at {digits(session.head_digest)}   ({made})",
        {**session_row_document(session), **fork_document(plan), "places": places},
        undo=f"{removal} && {archive}" if removal else archive,
        then=(
            *(f"work there with: cd {folder}" for folder in folders[:1]),
            *_give_back(plan),
            *privacy,
        ),
    )


def _give_back(plan: ForkPlan) -> list[str]:
    """Return the command that gives the source session back what the fork took from it."""
    if plan.source is None:
        return []
    label, taken = plan.source.label, [one for one in plan.items if one.kept_by == plan.session]
    return [
        f"{label} works there again with: turntree snapshot -s {label} {quoted(one.resource.place)}"
        for one in taken
        if one.resource.kind in ("directory", "file")
    ]


async def _propose(
    opened: CliContext, *, wanted: ForkRequest
) -> tuple[ForkPlan, dict[TurnId, Digest]]:
    plan = await propose(opened, wanted)
    pinning = {item.pinned_by for item in plan.items if item.pinned_by is not None}
    turns = {turn: (await opened.tree.turns.get(turn)).turn.digest for turn in pinning}
    return plan, turns


async def propose(opened: CliContext, wanted: ForkRequest) -> ForkPlan:
    """Return the plan of a fork; without a label, only the plan for its resources."""
    place = None if wanted.place is None else str(Path(wanted.place).absolute())  # noqa: ASYNC240
    try:
        return await opened.tree.plans.propose_fork(
            wanted.revision,
            wanted.label,
            place=place,
            choices=wanted.choices,
            before=wanted.before,
            visibility=wanted.visibility,
        )
    except DataMissing:
        raise
    except NotFound as error:
        if not wanted.choices:
            raise
        command = f"turntree fork {wanted.revision} {wanted.label or 'LABEL'} --plan"
        raise NotFound(str(error), hint=command_hint(command)) from error


async def _carry_out(
    opened: CliContext, *, wanted: ForkRequest
) -> tuple[ForkPlan, Session, tuple[str, ...]]:
    plan = await propose(opened, wanted)
    (await opened.tree.plans.carry_out(plan)).check()
    assert plan.session is not None, "a session was asked for"
    session = await opened.tree.sessions.ledger.get(plan.session)
    return plan, session, await find_privacy(opened, session, wanted.visibility)


async def find_privacy(
    opened: CliContext, session: Session, visibility: Visibility | None = None
) -> tuple[str, ...]:
    """Return what to print about who can see a session that was just created."""
    programs = opened.tree.programs
    program, is_opened = await programs.find(session.id), visibility == "public"
    return privacy_hints(session, program, str(programs.by), opened=is_opened)
