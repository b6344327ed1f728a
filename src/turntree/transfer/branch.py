"""``tree.branches``: the turns, prompts, models and cost behind the commits of a branch.

Compares what a branch adds with what turns wrote; no note or trailer in a commit is needed. Reads
only. Secrets are removed, because a description of a branch is published.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any

from turntree.core.errors import Hint, NotFound
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.message import Message, Text
from turntree.core.message_context import without_injected
from turntree.core.redaction import Redactor
from turntree.core.turn import Turn
from turntree.core.usage import ModelCall, Usage
from turntree.core.value import Facet, value
from turntree.ledger.turns import Turns
from turntree.resources.blame import FileLine, LineBlame
from turntree.resources.commits import AddedLines, CommitRange, Repository
from turntree.resources.files import Report
from turntree.resources.service import in_thread
from turntree.stats.costs import find_cost
from turntree.stats.prices import load_genai_prices
from turntree.transcripts.display import tool_title
from turntree.transcripts.store import ImportStore


@value
class BranchFile:
    """A file that a branch adds lines to."""

    path: str
    lines: int
    """Lines that were added or changed."""
    turns: Mapping[TurnId, int]
    """How many of them each turn wrote, the most first."""
    unclear: int = 0
    """Lines that one of several turns wrote."""
    is_text: bool = True
    """Whether it was read line by line: a binary or a large file is not."""

    @property
    def untold(self) -> int:
        """Lines that no recorded turn wrote."""
        return self.lines - self.unclear - sum(self.turns.values())


@value
class BranchTurn:
    """A turn that wrote lines of a branch."""

    id: TurnId
    digest: Digest
    at: Timestamp
    asker: str
    """The person who asked; empty if that is not known."""
    agent: str
    """The tool or the agent that worked; empty if a person recorded the turn."""
    models: tuple[str, ...]
    prompt: str
    files: Mapping[str, int]
    """How many lines of the branch it wrote in each file."""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    cost: Decimal | None = None
    """In US dollars, at list prices; None if the price of a call is unknown, or without calls."""

    @property
    def lines(self) -> int:
        """How many lines of the branch it wrote."""
        return sum(self.files.values())


@value
class BranchReport:
    """What is known about how a branch was written."""

    commits: CommitRange
    files: tuple[BranchFile, ...]
    turns: tuple[BranchTurn, ...]
    """The oldest first."""
    cost: Decimal = Decimal(0)
    """Sum over the calls whose price is known, each counted once."""
    calls: int = 0
    unpriced: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many calls of each model have no known price."""
    usage: Usage = field(default_factory=Usage)
    prices: str | None = None
    """The price list that was used."""
    is_cut: bool = False
    """Whether older snapshots exist that were not read."""

    @property
    def lines(self) -> int:
        """Lines that the branch adds or changes."""
        return sum(one.lines for one in self.files)

    @property
    def unclear(self) -> int:
        """Lines that one of several turns wrote."""
        return sum(one.unclear for one in self.files)

    @property
    def untold(self) -> int:
        """Lines that no recorded turn wrote."""
        return sum(one.untold for one in self.files)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "range": self.commits.name,
            "base": self.commits.base,
            "head": self.commits.head,
            "commits": self.commits.commits,
            "lines": self.lines,
            "lines_unclear": self.unclear,
            "lines_untold": self.untold,
            "tokens": self.usage.total,
            "cost": float(self.cost) if self.calls > sum(self.unpriced.values()) else None,
            "calls": self.calls,
            "calls_unpriced": dict(self.unpriced),
            "prices": self.prices,
            "is_cut": self.is_cut,
            "turns": [_turn_document(turn) for turn in self.turns],
            "files": [_file_document(file) for file in self.files],
        }


@value
class Branches(Facet):
    """The facet ``tree.branches``."""

    blame: LineBlame
    turns: Turns
    imports: ImportStore
    redactor: Redactor

    async def describe(
        self,
        folder: str = ".",
        commits: str | None = None,
        *,
        report: Report = lambda done, total: None,  # noqa: ARG005  (no progress wanted)
    ) -> BranchReport:
        """Return the turns behind a branch of the git repository around a folder.

        ``commits`` is ``BASE..HEAD``; by default the commits since the branch left main, or
        whatever the repository's first branch is called. A turn is behind a branch if it wrote a
        line that the branch adds or changes.

        Raises:
            NotFound: There is no repository, no such commit, or no turn wrote any of it.
            InvalidOperation: There are no commits in between.
        """
        repository = await in_thread(Repository, folder)
        chosen = await in_thread(repository.get_range, commits)
        added = await in_thread(repository.list_added, chosen)
        texts = [one.path for one in added if one.numbers]
        blamed = await self.blame.of_commit(repository, chosen.head, texts, report=report)
        files = [self._file(one, blamed.files.get(one.path, ())) for one in added]
        files = [file for file in files if file.lines or not file.is_text]
        shares = dict[TurnId, dict[str, int]]()
        for file in files:
            for turn, lines in file.turns.items():
                shares.setdefault(turn, {})[file.path] = lines
        if not shares:
            raise NotFound(
                f"no recorded turn wrote a line of {chosen.name}", hint=Hint("hook.install")
            )
        found = BranchReport(chosen, tuple(files), (), is_cut=blamed.is_cut)
        return await self._with_turns(found, shares)

    def _file(self, added: AddedLines, lines: Sequence[FileLine]) -> BranchFile:
        authors = [line.writer for line in lines if line.number in added.numbers]
        turns = Counter(one.turns[0] for one in authors if one.kind == "turn")
        unclear = sum(one.kind == "mixed" for one in authors)
        path = self._clean(added.path)
        return BranchFile(path, len(authors), dict(turns.most_common()), unclear, added.is_text)

    async def _with_turns(
        self, found: BranchReport, shares: Mapping[TurnId, Mapping[str, int]]
    ) -> BranchReport:
        placed = await self.turns.restore([await self.turns.get(turn) for turn in shares])
        turns = sorted((one.turn for one in placed), key=lambda turn: turn.header.started_at)
        askers = await self.imports.list_importers(list(shares))
        calls = await self.turns.list_calls(list(shares))
        prices = await in_thread(load_genai_prices) if calls else None
        told = list[BranchTurn]()
        # Two turns of one session may record the same call: it was paid for once.
        unique = dict[str, tuple[ModelCall, Decimal | None]]()
        for turn in turns:
            made, costs = calls.get(turn.id, []), list[Decimal | None]()
            for place, call in enumerate(made):
                assert prices is not None, "there are calls"
                cost = find_cost(call, turn.header.started_at, prices)
                costs.append(cost)
                unique.setdefault(call.call_id or f"{turn.id}/{place}", (call, cost))
            one = self._turn(turn, made, shares[turn.id], askers.get(turn.id, ""))
            known = [cost for cost in costs if cost is not None]
            is_known = bool(known) and len(known) == len(costs)
            told.append(replace(one, cost=sum(known, Decimal(0)) if is_known else None))
        return replace(
            found,
            turns=tuple(told),
            cost=sum((cost for _, cost in unique.values() if cost is not None), Decimal(0)),
            calls=len(unique),
            unpriced=Counter(call.model for call, cost in unique.values() if cost is None),
            usage=sum((call.usage for call, _ in unique.values()), Usage()),
            prices=None if prices is None else prices.name,
        )

    def _turn(
        self, turn: Turn, calls: Sequence[ModelCall], files: Mapping[str, int], asker: str
    ) -> BranchTurn:
        by = turn.header.by
        person = by.person
        models = [call.model for call in calls] or [turn.header.model or ""]
        return BranchTurn(
            turn.id,
            turn.digest,
            turn.header.started_at,
            asker=self._clean(asker if person is None else person.id),
            agent=self._clean(tool_title(by.id)) if by.kind == "agent" else "",
            models=tuple(dict.fromkeys(model for model in models if model)),
            prompt=self._clean(_prompt_of(turn)),
            files=dict(files),
            usage=sum((call.usage for call in calls), Usage()),
            calls=len(calls),
        )

    def _clean(self, text: str) -> str:
        data, count = self.redactor.redact(text.encode("utf-8", "surrogateescape"))
        return data.decode("utf-8", "replace") if count else text


def _prompt_of(turn: Turn) -> str:
    """Return what the person wrote, without what a tool added to it."""
    texts = [
        without_injected(part.text).strip()
        for message in turn.query
        if isinstance(message, Message) and message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    ]
    return "\n\n".join(text for text in texts if text) or turn.title


def _turn_document(turn: BranchTurn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "digest": turn.digest,
        "started_at": turn.at,
        "asked_by": turn.asker or None,
        "agent": turn.agent or None,
        "models": list(turn.models),
        "prompt": turn.prompt,
        "lines": turn.lines,
        "files": dict(turn.files),
        "tokens": turn.usage.total if turn.calls else None,
        "cost": None if turn.cost is None else float(turn.cost),
    }


def _file_document(file: BranchFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "is_text": file.is_text,
        "lines": file.lines,
        "lines_unclear": file.unclear,
        "lines_untold": file.untold,
        "turns": dict(file.turns),
    }
