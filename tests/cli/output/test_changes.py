"""Changed files on a terminal: nothing in them is obeyed, and nothing is longer than asked."""

from turntree.cli.command import Terminal
from turntree.cli.output.changes import (
    diff_document,
    draw_diffs,
    draw_table,
    shown_line,
    shown_path,
    shown_size,
)
from turntree.core.ids import Digest
from turntree.resources.file_diff import diff_file
from turntree.resources.resource import FileChange, FileEntry

PLAIN = Terminal(color="never")


def entry(path: str, *, mode: int = 0o644, size: int = 5, of: str = "a") -> FileEntry:
    return FileEntry(path, "file", mode, size, Digest(f"sha256:{of * 64}"))


EDITED = diff_file(
    FileChange("a.py", "changed", entry("a.py"), entry("a.py", of="b", mode=0o755)),
    b"one\ntwo\n",
    b"one\n2",
)
PICTURE = diff_file(FileChange("p.png", "added", None, entry("p.png", size=2_500)), None, b"\0")


def test_a_table_counts_lines_and_says_why_it_does_not() -> None:
    assert list(draw_table([EDITED, PICTURE], PLAIN)) == [
        "  M a.py      +1    -1  +-  mode 0644 -> 0755",
        "  A p.png  binary, 2.5 kB",
        "  2 paths, 1 line in, 1 out",
    ]


def test_a_long_table_says_how_much_is_missing() -> None:
    lines = list(draw_table([EDITED, PICTURE], PLAIN, shown_max=1))
    assert lines[1:] == ["  … and 1 more path", "  2 paths, 1 line in, 1 out"]


def test_a_difference_reads_as_everybody_knows_it() -> None:
    assert list(draw_diffs([EDITED], PLAIN)) == [
        "--- a/a.py",
        "+++ b/a.py",
        "(mode 0644 -> 0755)",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
        "\\ no newline at the end",
    ]
    assert list(draw_diffs([PICTURE], PLAIN))[-1] == "(binary: 2.5 kB)"


def test_a_preview_ends_somewhere() -> None:
    lines = list(draw_diffs([EDITED, PICTURE], PLAIN, lines_max=3))
    assert lines[3:] == ["… 8 more lines"]


def test_nothing_in_a_file_is_obeyed_by_the_terminal() -> None:
    assert shown_line(b"\x1b[31mred\x1b[0m\tx\r\n") == "red    x^M"
    assert shown_line(b"\xff\n") == "\\xff"
    assert shown_path("caf\udce9/\x1b]0;x\x07 ü") == "caf\\xe9/\\x1b]0;x\\x07 ü"


def test_a_program_reads_the_same() -> None:
    document = diff_document(EDITED)
    assert document["lines"][0] == "@@ -1,2 +1,2 @@"
    assert (document["added"], document["new"]["mode"]) == (1, "0755")
    assert "lines" not in diff_document(EDITED, with_lines=False)


def test_sizes_are_short() -> None:
    assert [shown_size(n) for n in (0, 999, 1_000, 2_500_000, 3_100_000_000)] == [
        "0 B", "999 B", "1.0 kB", "2.5 MB", "3.1 GB"
    ]  # fmt: skip
