"""Lines are followed through states, across files, whatever git and formatters do to them."""

from collections.abc import Mapping, Sequence

from turntree.resources.line_origins import BEFORE, LineOrigin, LineOrigins

FIRST = ["def total(items):", "    return sum(items)"]
SECOND = ["def count(items):", "    return len(items)"]


def lines(*texts: str) -> list[bytes]:
    return [f"{text}\n".encode() for text in texts]


def states(*changes: Mapping[str, Sequence[str] | None]) -> LineOrigins:
    origins = LineOrigins()
    for number, change in enumerate(changes):
        texts = {path: None if text is None else lines(*text) for path, text in change.items()}
        origins.advance(number, texts)
    return origins


def trace(
    origins: LineOrigins, files: Mapping[str, Sequence[str]], **others: Sequence[str]
) -> dict[str, list[int | None]]:
    """Return the states that wrote the lines of a commit, which has other files, too."""
    found = origins.trace(
        {path: lines(*text) for path, text in files.items()},
        lambda path: lines(*others.get(path.replace(".", "_"), ())),
    )
    return {
        path: [None if origin is None else origin.state for origin in row]
        for path, row in found.items()
    }


def test_lines_that_two_branches_wrote_are_found_in_their_merge() -> None:
    known = states({"a.py": ["import os"]}, {"a.py": ["import os", *FIRST]})
    known.advance(2, {"a.py": lines("import os")})
    known.advance(3, {"a.py": lines("import os", *SECOND)})
    merged = ["import os", *FIRST, *SECOND, "by_hand = True"]
    assert trace(known, {"a.py": merged}) == {"a.py": [0, 1, 1, 3, 3, None]}


def test_a_line_that_git_puts_back_belongs_to_its_first_author() -> None:
    known = states({"a.py": FIRST}, {"a.py": None}, {"a.py": FIRST}, {"a.py": [*FIRST, *SECOND]})
    assert trace(known, {"a.py": [*FIRST, *SECOND]}) == {"a.py": [0, 0, 3, 3]}


def test_moved_lines_keep_their_author_and_copied_ones_do_not() -> None:
    known = states({"a.py": [*FIRST, *SECOND]})
    moved = trace(known, {"b.py": ["import os", *SECOND]}, a_py=FIRST)
    assert moved == {"b.py": [None, 0, 0]}
    copied = trace(known, {"b.py": ["import os", *SECOND]}, a_py=[*FIRST, *SECOND])
    assert copied == {"b.py": [None, None, None]}
    known.advance(1, {"a.py": lines(*FIRST), "b.py": lines(*SECOND)})
    assert trace(known, {"a.py": FIRST, "b.py": SECOND}) == {"a.py": [0, 0], "b.py": [0, 0]}


def test_a_formatter_writes_nothing_and_an_edit_does() -> None:
    call = "price_of_all = compute(cart_items, 'rate', tax_of_country)"
    known = states({"a.py": [*FIRST, call]}, {"a.py": [*FIRST, call, *SECOND]})
    split = [
        "price_of_all = compute(",
        "    cart_items,",
        '    "rate",',
        "    tax_of_country,",
        ")",
    ]
    told = trace(known, {"a.py": [FIRST[0], "\treturn sum(items)", *split, *SECOND]})
    assert told == {"a.py": [0, 0, 0, 0, 0, 0, 0, 1, 1]}
    edited = [line.replace("tax_of", "no_tax_of") for line in split]
    told = trace(known, {"a.py": [*FIRST, *edited, *SECOND]})
    assert told == {"a.py": [0, 0, None, None, None, None, None, 1, 1]}
    # A call is not a name: one bracket in one line is no layout.
    assert trace(known, {"a.py": [*FIRST, call.replace("(", "").replace(")", "")]}) == {
        "a.py": [0, 0, None]
    }
    joined = states({"a.py": [*FIRST, *split]})
    assert trace(joined, {"a.py": [*FIRST, call]}) == {"a.py": [0, 0, 0]}


def test_a_short_line_shows_no_author_by_itself() -> None:
    known = states({"a.py": ["return 1", *FIRST]}, {"a.py": FIRST}, {"b.py": SECOND})
    # Of the words alone it cannot be told whether that line came back or was written again.
    assert trace(known, {"b.py": [SECOND[0], "pass", SECOND[1]]}) == {"b.py": [2, None, 2]}


def test_lines_from_before_the_first_state_have_no_state() -> None:
    origins = LineOrigins()
    origins.begin("a.py", lines("import os"))
    origins.advance(1, {"a.py": lines("import os", *FIRST)})
    (row,) = origins.trace({"a.py": lines("import os", *FIRST)}, lambda _: []).values()
    assert row == [LineOrigin(BEFORE, "a.py"), LineOrigin(1, "a.py"), LineOrigin(1, "a.py")]
