"""Three texts merged by line: as git merges them, and nothing lost."""

import subprocess
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from turntree.resources.line_diff import apply_hunks, hunks_of, split_lines
from turntree.resources.line_merge import conflicts_of, mark, merge_lines, prefer

BASE = [b"%d\n" % number for number in range(12)]
TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"}\n"]), max_size=12)


@st.composite
def edits(draw: st.DrawFn) -> list[bytes]:
    """A text that was made from the base: each line stays, goes, changes or gets a new one."""
    side = draw(st.sampled_from(["x", "y"]))
    lines: list[bytes] = []
    for number, line in enumerate(BASE):
        match draw(st.sampled_from(["stay"] * 8 + ["go", "change", "insert"])):
            case "stay":
                lines.append(line)
            case "change":
                lines.append(f"{side} instead of {number}\n".encode())
            case "insert":
                lines += [f"{side} before {number}\n".encode(), line]
            case _:
                pass
    return lines


@given(edits(), edits())
def test_merges_as_git_does(present: list[bytes], wanted: list[bytes]) -> None:
    chunks = merge_lines(BASE, present, wanted)
    theirs = merge_with_git(present, wanted)
    is_clean = theirs is not None
    assert is_clean == (not conflicts_of(chunks))
    if is_clean:
        assert prefer(chunks, "present") == theirs


@given(TEXTS, TEXTS)
def test_a_side_that_changed_nothing_gets_the_other(base: list[bytes], text: list[bytes]) -> None:
    for present, wanted in ((base, text), (text, base), (text, text)):
        chunks = merge_lines(base, present, wanted)
        assert not conflicts_of(chunks)
        assert prefer(chunks, "present") == b"".join(text)


@given(TEXTS, TEXTS, TEXTS)
def test_preferring_a_side_keeps_all_of_its_conflicts(
    base: list[bytes], present: list[bytes], wanted: list[bytes]
) -> None:
    chunks = merge_lines(base, present, wanted)
    for conflict in conflicts_of(chunks):
        start = conflict.start - 1
        assert tuple(present[start : start + len(conflict.present)]) == conflict.present
    marked = mark(chunks, "now", "then")
    assert marked.count(b"<<<<<<< now\n") == len(conflicts_of(chunks))


@given(TEXTS, TEXTS)
def test_all_hunks_of_a_diff_lead_to_the_new_text(old: list[bytes], new: list[bytes]) -> None:
    for context in (0, 3):
        hunks = hunks_of(old, new, context=context)
        assert apply_hunks(old, hunks) == new
        assert apply_hunks(old, []) == old


def test_a_missing_last_line_end_stays_missing() -> None:
    chunks = merge_lines(split_lines(b"a\nb\nc"), split_lines(b"a\nb\nc"), split_lines(b"x\nb\nc"))
    assert prefer(chunks, "present") == b"x\nb\nc"


def merge_with_git(present: list[bytes], wanted: list[bytes]) -> bytes | None:
    """Return the merge of git; None if it has conflicts."""
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / name for name in ("present", "base", "wanted")]
        for name, lines in zip(names, (present, BASE, wanted), strict=True):
            name.write_bytes(b"".join(lines))
        ended = subprocess.run(
            ["git", "merge-file", "-p", *map(str, names)], check=False, capture_output=True
        )
        return ended.stdout if ended.returncode == 0 else None
