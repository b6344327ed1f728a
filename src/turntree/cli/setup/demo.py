"""``demo``: create the sample data."""

from pathlib import Path

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.head_file import write_head
from turntree.cli.settings import merged_environment
from turntree.demo import PREFIX, STORY, plant_demo


@verb()
def demo(terminal: Terminal) -> None:
    """Create a small tree of sample data to explore.

    It has forks, a compaction, a subagent, a failed turn and tags, in sessions whose labels begin
    with demo/. Running it again changes nothing.
    """

    async def plant(opened: CliContext) -> tuple[list[str], int]:
        before = await opened.tree.turns.index.count()
        labels = await plant_demo(opened.tree)
        return labels, await opened.tree.turns.index.count() - before

    labels, turns = with_ledger(terminal, plant, waits=False)
    undo = f"turntree session archive {' '.join(labels)}"
    if terminal.as_json:
        terminal.document({"sessions": labels, "turns": turns, "undo": undo})
        return
    if turns:
        terminal.say(
            f"planted {turns} turns of sample data in {len(labels)} sessions ({PREFIX}...)"
        )
    else:
        terminal.say(f"the sample data is already here, in {len(labels)} sessions ({PREFIX}...)")
    first = STORY[0].label
    if merged_environment().get("TURNTREE_SESSION") is None:
        write_head(Path.cwd(), first)
        terminal.note(f"HEAD is {first} now")
    terminal.note("next: turntree log --graph")
    terminal.note("      turntree show HEAD")
    terminal.note(f"undo with: {undo}")
