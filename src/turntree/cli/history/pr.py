"""``pr``: the turns behind a branch, for the description of a pull request."""

from functools import partial
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.changes import shown_path
from turntree.cli.output.output_file import output_file
from turntree.cli.output.progress import Report, counting
from turntree.cli.output.text import counted, digits
from turntree.transfer.branch import BranchReport
from turntree.transfer.pull_request import to_pull_request

FOOTER: Final = (
    "Written by `turntree pr` from recorded turns. `turntree show ADDRESS` shows a turn,"
    " and `turntree verify ADDRESS` checks it."
)


@verb()
@click.argument("commits", metavar="[BASE..HEAD]", required=False)
@click.option(
    "-o", "--output", metavar="FILE", default="-", help="File to write, instead of stdout."
)
def pr(terminal: Terminal, commits: str | None, output: str) -> None:
    """Write the turns behind a branch as Markdown for a pull request.

    It lists the prompts, agents, models and cost of the turns that wrote the lines which the branch
    adds, how much of each file is theirs, and which lines no recorded turn wrote. Without an
    argument these are the commits since the branch left the repository's main branch.

    The lines are compared with what turns wrote, so that it does not matter whether the commits
    were amended, rebased, squashed or picked. Secrets are removed.
    """
    with counting(terminal, "reading states") as report:
        found = with_ledger(terminal, partial(_describe, commits=commits, report=report))
    if terminal.as_json and output == "-":
        terminal.document(found.document())
        return
    text = to_pull_request(found, FOOTER)
    if output == "-":
        terminal.page(text.splitlines())
        return
    with output_file(output) as file:
        file.write(text.encode("utf-8", "replace"))
    turns = counted(len(found.turns), "turn")
    if terminal.as_json:
        terminal.document({"file": output, **found.document()})
        return
    terminal.say(f"{shown_path(output)} describes {turns} behind {found.commits.name}")
    terminal.note(f"next: turntree show {digits(found.turns[0].digest)}")


async def _describe(opened: CliContext, *, commits: str | None, report: Report) -> BranchReport:
    return await opened.tree.branches.describe(".", commits, report=report)
