"""What the description of a branch says about models, cost and long branches. Pure."""

from decimal import Decimal

from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.usage import Usage
from turntree.resources.commits import CommitRange
from turntree.transfer.branch import BranchFile, BranchReport, BranchTurn
from turntree.transfer.pull_request import DOCUMENT_CHARS_MAX, to_pull_request

RANGE = CommitRange("main..HEAD", "0" * 40, "1" * 40, 3)


def turn(number: int, prompt: str = "write it") -> BranchTurn:
    return BranchTurn(
        TurnId(f"id-{number}"), Digest(f"sha256:{number:064x}"),
        Timestamp("2026-11-18T09:30:00.000Z"), "ana", "Codex", ("gpt-5",), prompt, {"cart.py": 2},
        Usage(input=10, output=5), 1, Decimal("0.25"),
    )  # fmt: skip


def report(*turns: BranchTurn, **more: object) -> BranchReport:
    shares = {one.id: 2 for one in turns}
    files = (BranchFile("cart.py", 2 * len(turns) + 3, shares, 1),)
    known = {"cost": Decimal("1.5"), "calls": 3, "prices": "list 1", **more}
    return BranchReport(RANGE, files, turns, usage=Usage(input=10, output=5), **known)  # type: ignore[arg-type]


def test_costs_that_are_unknown_are_called_unknown() -> None:
    whole = to_pull_request(report(turn(1)), "footer")
    assert "| Cost | $1.50 at list prices (`list 1`) |" in whole
    partly = to_pull_request(report(turn(1), unpriced={"own-model": 2}), "footer")
    assert (
        "| Cost | $1.50 at list prices (`list 1`), and unknown for 2 calls of `own-model` |"
        in partly
    )
    assert "| Cost | unknown |" in to_pull_request(report(turn(1), unpriced={"own": 3}), "footer")
    assert "| Tokens | unknown |" in to_pull_request(report(turn(1), calls=0), "footer")


def test_lines_of_no_turn_and_of_several_are_counted() -> None:
    text = to_pull_request(report(turn(1)), "footer")
    assert "1 turn wrote 2 of the 5 lines that 3 commits (`main..HEAD`) added or changed." in text
    assert "| Lines by no recorded turn | 2 (40 %) |" in text
    assert "| Lines by one of several turns | 1 (20 %) |" in text
    assert "asked by `ana` · `Codex` · `gpt-5` · 2 lines · 15 tokens · $0.25" in text


def test_a_long_branch_is_folded_and_stays_short_enough() -> None:
    some = to_pull_request(report(*map(turn, range(12))), "footer")
    assert "<summary>4 more turns</summary>" in some
    many = [turn(number, "word " * 400) for number in range(200)]
    text = to_pull_request(report(*many), "footer")
    assert len(text) < DOCUMENT_CHARS_MAX + 5_000
    assert "more turns not shown" in text
    assert text.endswith("<sub>footer</sub>\n")
    assert text.count("<details>") == text.count("</details>")
