"""Words for a shell: printable, and split back into what they were."""

import subprocess

import pytest

from turntree.system.shell_words import joined, positional, quoted

HOSTILE = (
    "\x1b[201~ls", "a\x1b]52;c;eA==\x07b", "\x9b2J", "it's\r\nrm -rf", "a\u202eb\u2066c\u200bd",
    "two words", "$(id)", "-x", "\\x41\x00"[:-1], "日本\u0085", "\udcff\udc80.txt", "",
)  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_hostile_word_is_printable_and_bash_splits_it_back(word: str, locale: str) -> None:
    line = joined(["turntree", "tag", "HEAD", word, "last"])
    assert line.isprintable()
    script = f"turntree() {{ printf '%s\\0' \"$@\"; }}; {line}"
    printed = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": locale},
    ).stdout  # fmt: skip
    words = [one.decode("utf-8", "surrogateescape") for one in printed.split(b"\0")[:-1]]
    assert words == ["tag", "HEAD", word, "last"]


def test_paste_end_in_a_tag_becomes_an_escape() -> None:
    assert quoted("\x1b[201~ls") == r"$'\x1b[201~ls'"


def test_positional_word_is_never_an_option() -> None:
    assert positional("-x", "plain") == "-- -x plain"
    assert positional("plain") == "plain"
