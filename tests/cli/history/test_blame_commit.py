"""``blame --commit``: from a line of a git commit to the turn that wrote it."""

import os
import subprocess

from tests.cli.conftest import Call
from tests.cli.project import Project

FIRST = "def total(items):\n    return sum(item.price for item in items)\n"
SECOND = "\n\ndef count(items):\n    return len(items)\n"


def git(*words: str) -> None:
    names = {f"GIT_{who}_{what}": "ana@example.org" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    environ = {**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_EDITOR": "true"}
    subprocess.run(["git", *words], check=True, capture_output=True, env=environ)


def commit_all(message: str) -> None:
    git("add", "cart.py")
    git("commit", "-qm", message)


def writers(turntree: Call, commit: str, path: str = "cart.py") -> dict[str, list[str]]:
    """Return the digests of the turns that wrote each line, by the line's words."""
    rows = turntree("blame", path, "--lines", "--commit", commit, "--json").documents
    return {
        row["text"].strip(): [
            turn["digest"].removeprefix("sha256:") for turn in row["turns"] if row["by"] == "turn"
        ]
        for row in rows
        if row["text"].strip()
    }


def test_a_line_of_a_commit_leads_to_its_turn_whatever_git_did_to_the_commit(
    turntree: Call, project: Project
) -> None:
    git("init", "-q", "-b", "main", ".")
    project.write({"cart.py": "import os\n"})
    commit_all("begin")
    git("branch", "other")
    first = project.turn("write the total", {"cart.py": f"import os\n{FIRST}"})
    commit_all("total")
    second = project.turn("write the count", {"cart.py": f"import os\n{FIRST}{SECOND}"})
    commit_all("count")
    expected = {
        "import os": [],
        "def total(items):": [first],
        "return sum(item.price for item in items)": [first],
        "def count(items):": [second],
        "return len(items)": [second],
    }
    assert writers(turntree, "HEAD") == expected
    git("commit", "-q", "--amend", "-m", "count them")
    git("branch", "two")
    assert writers(turntree, "HEAD") == expected
    git("checkout", "-q", "other")
    git("merge", "-q", "--squash", "main")
    commit_all("squashed")
    assert writers(turntree, "other") == expected
    git("checkout", "-q", "-b", "third", "main~2")
    git("commit", "-q", "--allow-empty", "-m", "elsewhere")
    git("cherry-pick", "main~1")
    assert writers(turntree, "third") == {
        line: turns for line, turns in expected.items() if turns != [second]
    }
    git("checkout", "-q", "main")
    git("rebase", "-q", "third")
    assert writers(turntree, "main") == expected
    # A formatter's indents, and a hand's line, in a commit; then the file is written anew.
    project.write({"cart.py": f"import os\n{FIRST}{SECOND}# by hand\n".replace("    ", "\t")})
    commit_all("format")
    project.turn("throw it away", {"cart.py": "pass\n"})
    assert writers(turntree, "main") == {**expected, "# by hand": []}
    assert writers(turntree, "main~1") == expected


def test_commit_or_file_that_does_not_exist_is_named(turntree: Call, project: Project) -> None:
    project.turn("write it", {"cart.py": FIRST})
    git("init", "-q", ".")
    answer = turntree("blame", "cart.py:1", "--commit", "nowhere")
    assert answer.code == 3
    assert "cart.py in commit nowhere" in answer.err
    assert turntree("blame", "cart.py:1", "--commit", "HEAD", "--at", "HEAD").code == 2
