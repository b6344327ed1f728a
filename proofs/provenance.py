"""The claim: a line of a commit leads to the turn that wrote it, whatever git did to the commits.

Turns and a person write Python files in a real git repository, on a branch that is now and then
left for main and rebased. Then the branch is rebased, fixed up, squashed, amended, picked from,
formatted by a real formatter, or its files and lines are moved; each of these starts from the same
branch. For every line of the commit that results, ``tree.blame.of_commit`` names a turn or none,
and ``tree.branches.describe`` the turns behind the branch.

The judge reads who wrote a line from the line itself: each ends in a number that is written in
blanks and tabs. Git carries them along, and the matcher, which ignores blanks, cannot see them:
about a third of the lines have the same words as others. A formatter removes the marks, so there
the judge compares the letters of both texts one after another. It shares no code with the matcher.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from proofs.figures import Proof, run, temporary_server
from turntree.api import Tree
from turntree.boot.open import Settings, open_tree
from turntree.core.errors import NotFound
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.db.database import ensure_database
from turntree.resources.commits import Repository

HISTORIES, HISTORIES_QUICK = 500, 4
EPISODES: Final = (4, 7)
PRECISION_MIN, RECALL_MIN = 0.98, 0.95
TURNS_WRONG_MAX: Final = 0.03
"""A turn may have left nothing but a line that others wrote with the same words."""
SKIPPED_MAX: Final = 0.05
TAKE: Final = ("-X", "theirs")
"""Which of two changes of the same lines git takes; both carry their marks."""
TRIES: Final = 6
"""How often a way is tried with other edits, until git finds no conflict."""
MARK_BITS: Final = 20
MARK: Final = str.maketrans("01", " \t")
LINE_LENGTH: Final = "72"
COMMON: Final = (
    "return None", "return result", "pass", "result = []", "count += 1", "self.check()",
    "raise ValueError(name)", "result.append(item)",
)  # fmt: skip
"""Lines that several authors write with the same words."""
ENVIRON: Final = {
    **os.environ,
    **{
        f"GIT_{who}_{what}": "ana@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
}
Files = dict[str, list[str]]


@dataclass(slots=True)
class Writer:
    """Makes lines, and remembers who wrote each."""

    draw: random.Random
    authors: list[TurnId | None] = field(default_factory=list[TurnId | None])
    """By the number of a line; None is a person."""

    def line(self, text: str) -> str:
        """Return a line that ends in its number, written in blanks."""
        number = len(self.authors)
        self.authors.append(None)
        return text + "".join(f"{number:0{MARK_BITS}b}").translate(MARK)

    def author(self, line: str) -> TurnId | None:
        """Return who wrote a line."""
        bits = line[-MARK_BITS:]
        assert len(bits) == MARK_BITS, line
        assert not bits.strip(" \t"), line
        return self.authors[int(bits.replace(" ", "0").replace("\t", "1"), 2)]

    def statement(self) -> str:
        """Return a line inside of a function."""
        if self.draw.random() < 0.35:
            return self.line("    " + self.draw.choice(COMMON))
        name, pieces = self._name(), self.draw.randrange(1, 5)
        values = ", ".join(f"{self._name()}['{self._name()}']" for _ in range(pieces))
        return self.line(f"    {name} = {self._name()}({values})")

    def function(self) -> list[str]:
        """Return the lines of a function."""
        body = [self.statement() for _ in range(self.draw.randrange(2, 7))]
        end = self.line("    " + self.draw.choice(COMMON[:2]))
        head = self.line(f"def {self._name()}({self._name()}, {self._name()}):")
        return [head, *body, end, self.line(""), self.line("")]

    def _name(self) -> str:
        words = ("cart", "item", "price", "order", "total", "user", "key", "rate", "page", "row")
        return "_".join(self.draw.choice(words) for _ in range(2)) + str(self.draw.randrange(400))


class History:
    """A repository in which turns and a person work."""

    def __init__(self, tree: Tree, folder: Path, draw: random.Random) -> None:
        self.tree, self.folder, self.draw = tree, folder, draw
        self.writer = Writer(draw)
        self.turns = dict[TurnId, int]()

    def git(self, *words: str, check: bool = True) -> str:
        """Run git."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=ENVIRON, capture_output=True, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"git {words}: {done.stderr.decode()}")
        return done.stdout.decode() if not done.returncode else "failed"

    def read(self) -> Files:
        """Return the lines of all files."""
        return {
            path.name: path.read_text(encoding="utf-8").splitlines()
            for path in sorted(self.folder.glob("*.py"))
        }

    def write(self, files: Mapping[str, Sequence[str]]) -> None:
        """Write some files."""
        for name, lines in files.items():
            text = "".join(f"{line}\n" for line in lines)
            (self.folder / name).write_text(text, encoding="utf-8")

    def commit(self, message: str, *options: str) -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", *options, "-m", message)

    async def build(self) -> None:
        """Let turns and a person work on a branch."""
        writer, draw = self.writer, self.draw
        self.folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", ".")
        await self.tree.sessions.create(self.folder.name)
        names = [f"module{n}.py" for n in range(3)]
        self.write({name: [line for _ in range(2) for line in writer.function()] for name in names})
        self.commit("begin")
        await self._turn()
        self.commit("a turn on main")
        self.git("checkout", "-q", "-b", "feature")
        for number in range(draw.randrange(*EPISODES)):
            if number and draw.random() < 0.3:
                self._visit_main()
            await self._turn()
            if draw.random() < 0.5:
                self.edit()
            self.commit(f"step {number}")

    async def _turn(self) -> None:
        resource = await self.tree.resources.ensure_directory(str(self.folder), self.folder.name)
        keeper, clock = self.tree.resources.keeper_of(resource), self.tree.revisions.world
        began, before = clock.now(), keeper.snapshot(resource.place)
        first = len(self.writer.authors)
        for _ in range(self.draw.randrange(1, 4)):
            self.edit()
        after = keeper.snapshot(resource.place)
        words = [user(f"prompt {len(self.turns)}")], [assistant("done")]
        turn = (await self.tree.turns.record(self.folder.name, *words)).turn.id
        await self.tree.resources.pin(turn, resource, before, after, began, clock.now())
        self.turns[turn] = len(self.turns)
        self.writer.authors[first:] = [turn] * (len(self.writer.authors) - first)

    def edit(self) -> None:
        """Change a file; the caller says who did."""
        files, draw = self.read(), self.draw
        name = draw.choice([*files, f"fresh{draw.randrange(4)}.py"])
        lines = files.get(name, [])
        heads = [place for place, line in enumerate(lines) if line.startswith("def ")]
        inside = [place for place, line in enumerate(lines) if line.startswith("    ")]
        way = draw.random()
        if not inside or way < 0.35:
            place = draw.choice([*heads, len(lines)])
            lines[place:place] = self.writer.function()
        elif way < 0.65:
            place = draw.choice(inside)
            fresh = [self.writer.statement() for _ in range(draw.randrange(1, 4))]
            lines[place:place] = fresh
        elif way < 0.85:
            lines[draw.choice(inside)] = self.writer.statement()
        elif len(heads) > 1:
            place = heads.index(draw.choice(heads))
            end = heads[place + 1] if place + 1 < len(heads) else len(lines)
            del lines[heads[place] : end]
        self.write({name: lines})

    def _visit_main(self) -> None:
        """Do something on main, and come back to a branch that begins there or does not."""
        self.git("checkout", "-q", "main")
        self.edit()
        self.commit("by hand on main")
        self.git("checkout", "-q", "feature")
        if self.draw.random() < 0.5 and self.git("rebase", "-q", "main", check=False) == "failed":
            self.git("rebase", "--abort")


def rebase(history: History) -> bool:
    """Rebase the branch onto a main that has moved."""
    history.git("checkout", "-q", "-B", "main2", "main")
    history.edit()
    history.commit("main moves on")
    history.git("checkout", "-q", "work")
    return history.git("rebase", "-q", *TAKE, "main2", check=False) != "failed"


def fixup(history: History) -> bool:
    """Add to an earlier commit of the branch."""
    history.edit()
    history.git("add", "-A")
    behind = len(history.git("rev-list", "main..work").splitlines())
    target = f"HEAD~{history.draw.randrange(behind)}"
    history.git("commit", "-q", "--allow-empty", f"--fixup={target}")
    words = ("rebase", "-q", "-i", "--autosquash", *TAKE, "main")
    return history.git(*words, check=False) != "failed"


def squash(history: History) -> bool:
    """Merge the branch into main as one commit."""
    history.git("checkout", "-q", "-B", "squashed", "main")
    if history.git("merge", "-q", "--squash", *TAKE, "work", check=False) == "failed":
        return False
    history.commit("squashed")
    return True


def amend(history: History) -> bool:
    """Change the last commit by hand."""
    history.edit()
    history.commit("amended", "--amend")
    return True


def cherry_pick(history: History) -> bool:
    """Apply some commits of the branch elsewhere."""
    picked = history.git("rev-list", "--reverse", "main..work").splitlines()
    history.git("checkout", "-q", "-B", "picked", "main")
    count = history.draw.randrange(1, len(picked) + 1)
    words = ("cherry-pick", "--allow-empty", *TAKE, *picked[:count])
    return history.git(*words, check=False) != "failed"


def move(history: History) -> bool:
    """Rename a file, and move functions to others."""
    files, draw = history.read(), history.draw
    name = draw.choice([name for name in files if files[name]])
    history.git("mv", name, "renamed.py")
    files["renamed.py"] = files.pop(name)
    for _ in range(2):
        source = draw.choice([one for one in files if files[one]])
        lines = files[source]
        heads = [place for place, line in enumerate(lines) if line.startswith("def ")]
        if not heads:
            continue
        place = draw.randrange(len(heads))
        end = heads[place + 1] if place + 1 < len(heads) else len(lines)
        target = files.setdefault(draw.choice([*files, "moved.py"]), [])
        block = lines[heads[place] : end]
        del lines[heads[place] : end]
        target.extend(block)
    history.write(files)
    history.commit("move")
    return True


def formatter(history: History) -> bool:
    """Format every file."""
    words = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "-q",
        "--isolated",
        "--line-length",
        LINE_LENGTH,
    ]
    subprocess.run([*words, "."], cwd=history.folder, check=True)
    history.commit("format")
    return True


WAYS: Final[Mapping[str, Callable[[History], bool]]] = {
    "rebase": rebase, "fixup": fixup, "squash merge": squash, "amend": amend,
    "cherry-pick": cherry_pick, "formatter": formatter, "move": move,
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What was right and wrong in the commits of one kind."""

    commits: int = 0
    skipped: int = 0
    lines: int = 0
    written: int = 0
    """Lines that a turn wrote."""
    named: int = 0
    """Lines for which a turn was named."""
    right: int = 0
    behind: int = 0
    """Turns behind branches."""
    missing: int = 0
    foreign: int = 0
    """Turns that were named and are not behind the branch."""

    def judge(self, truth: Sequence[TurnId | None], told: Sequence[TurnId | None]) -> None:
        """Count the lines of a file."""
        self.lines += len(truth)
        for right, said in zip(truth, told, strict=True):
            self.written += right is not None
            self.named += said is not None
            self.right += right is not None and said == right


def formatted_authors(
    writer: Writer, before: Sequence[str], after: Sequence[str]
) -> list[TurnId | None]:
    """Return who wrote the lines that a formatter made, by their letters in order."""
    letters = [(letter, writer.author(line)) for line in before for letter in _letters(line)]
    authors, at = list[TurnId | None](), 0
    for line in after:
        mine = _letters(line)
        assert [letter for letter, _ in letters[at : at + len(mine)]] == mine, line
        authors.append(letters[at if mine else at - 1][1])
        at += len(mine)
    return authors


def _letters(line: str) -> list[str]:
    return [letter for letter in line if letter.isalnum() or letter == "_"]


async def prove(proof: Proof) -> None:
    """Show every figure."""
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    tallies = {name: Tally() for name in WAYS if proof.wants(name)}
    with temporary_server(settings) as (server, folder):
        here = Settings(folder / "home", await ensure_database(server, "lines"), user="ana")
        scratch = Path(tempfile.mkdtemp(prefix="turntree-provenance-"))
        try:
            async with open_tree(here) as tree:
                for number in range(HISTORIES_QUICK if proof.quick else HISTORIES):
                    draw = random.Random(f"{proof.seed}/{number}")
                    history = History(tree, scratch / f"history{number}", draw)
                    await history.build()
                    for name, tally in tallies.items():
                        await _judge(history, name, tally)
                    shutil.rmtree(history.folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    for name, tally in tallies.items():
        _show(proof, name, tally)


async def _judge(history: History, name: str, tally: Tally) -> None:
    # A file that one side deletes and the other changes stays a conflict.
    for _ in range(TRIES):
        history.git("checkout", "-q", "-f", "-B", "work", "feature")
        before = history.read()
        if WAYS[name](history):
            break
        for words in (("rebase", "--abort"), ("cherry-pick", "--abort"), ("reset", "-q", "--hard")):
            history.git(*words, check=False)
    else:
        tally.skipped += 1
        return
    tally.commits += 1
    after = {path: lines for path, lines in history.read().items() if lines}
    writer = history.writer
    if name == "formatter":
        authors = {
            path: formatted_authors(writer, before[path], lines) for path, lines in after.items()
        }
    else:
        authors = {path: [writer.author(line) for line in lines] for path, lines in after.items()}
    written = {
        path: [place for place, line in enumerate(lines) if line.strip()]
        for path, lines in after.items()
    }
    repository = Repository(str(history.folder))
    blamed = await history.tree.blame.of_commit(repository, "HEAD", list(after))
    for path, places in written.items():
        told = [line.writer for line in blamed.files[path]]
        tally.judge(
            [authors[path][place] for place in places],
            [told[place].turns[0] if told[place].kind == "turn" else None for place in places],
        )
    await _judge_branch(history, authors, after, tally)


async def _judge_branch(
    history: History,
    authors: Mapping[str, Sequence[TurnId | None]],
    after: Files,
    tally: Tally,
) -> None:
    """Compare the turns behind the branch with those whose lines it adds."""
    base = history.git("merge-base", "main", "HEAD").strip()
    added = _list_added(history, base)
    behind = {
        authors[path][number - 1]
        for path, numbers in added.items()
        for number in numbers
        if path in after and after[path][number - 1].strip()
    } - {None}
    try:
        found = await history.tree.branches.describe(str(history.folder), "main..HEAD")
        told = {turn.id for turn in found.turns}
    except NotFound:
        told = set[TurnId]()
    tally.behind += len(behind)
    tally.missing += len(behind - told)
    tally.foreign += len(told - behind)


def _list_added(history: History, base: str) -> dict[str, list[int]]:
    """Return the numbers of the lines that git itself says were added to each file."""
    path, found = "", dict[str, list[int]]()
    for line in history.git("diff", "-M", "-U0", base, "HEAD").splitlines():
        if line.startswith("+++ "):
            path = line[6:]
        elif line.startswith("@@ "):
            start, _, count = line.split()[2][1:].partition(",")
            found.setdefault(path, []).extend(range(int(start), int(start) + int(count or "1")))
    return found


def _show(proof: Proof, name: str, tally: Tally) -> None:
    proof.begins(name)
    commits = f"of {tally.commits} commits, {tally.lines} lines"
    tried = tally.commits + tally.skipped
    left_out = f"{name}: left out because of a conflict"
    proof.at_most(left_out, tally.skipped / tried, f"of {tried}", SKIPPED_MAX)
    proof.at_least(f"{name}: precision", tally.right / max(1, tally.named), commits, PRECISION_MIN)
    proof.at_least(f"{name}: recall", tally.right / max(1, tally.written), commits, RECALL_MIN)
    turns = f"of {tally.behind} turns"
    missing, foreign = tally.missing / max(1, tally.behind), tally.foreign / max(1, tally.behind)
    proof.at_most(f"{name}: turns behind a branch, not named", missing, turns, TURNS_WRONG_MAX)
    proof.at_most(f"{name}: turns named, not behind it", foreign, turns, TURNS_WRONG_MAX)


if __name__ == "__main__":
    run(prove, __doc__ or "")
