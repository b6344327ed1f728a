"""``pr``: the turns behind a branch, as Markdown for a pull request."""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner
from tests.cli.history.test_blame_commit import git
from tests.cli.project import Project

KEY = "sk-ant-api03-" + "Ab1" * 20
FENCE = re.compile(r"^(`{3,})text\n.*?^\1$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")


def commit_all(message: str) -> None:
    git("add", "-A")
    git("commit", "-qm", message)


def outside_of_code(text: str) -> str:
    """Return what a site would interpret of a document."""
    return CODE.sub("", FENCE.sub("", text))


@pytest.fixture
def branch(project: Project) -> tuple[str, str]:
    """A branch with the lines of two turns and of a person; the digests of the turns."""
    git("init", "-q", "-b", "main", ".")
    project.write({"cart.py": "import os\n", ".gitignore": "*.db\n"})
    commit_all("begin")
    project.turn("not part of the branch", {"old.py": "elsewhere = 1\n"})
    commit_all("on main")
    git("checkout", "-q", "-b", "feature")
    first = project.turn("write the total", {"cart.py": "import os\ndef total(items): ...\n"})
    commit_all("total")
    second = project.turn(
        "write the rest",
        {"cart.py": "import os\ndef total(items): ...\ndef count(items): ...\n", "a.bin": b"\0\1"},
    )
    project.write(
        {"cart.py": "import os\ndef total(items): ...\ndef count(items): ...\n# by hand, I think\n"}
    )
    commit_all("the rest")
    return first, second


def test_pr_names_the_turns_of_the_branch_and_no_other(
    turntree: Call, project: Project, branch: tuple[str, str]
) -> None:
    first, second = branch
    # Whatever git makes of the commits, and whatever happens after them.
    git("reset", "-q", "--soft", "main")
    commit_all("all at once")
    project.turn("later", {"later.py": "nothing_of_this = 'is committed'\n"})
    told = turntree("pr")
    assert told.code == 0, told.err
    assert "2 turns wrote 2 of the 3 lines that 1 commit (`main..HEAD`) added" in told.out
    assert f"#### 1. `{first[:8]}`" in told.out
    assert f"Address: `sha256:{second}`" in told.out
    assert "```text\nwrite the rest\n```" in told.out
    assert "not part of the branch" not in told.out
    assert "later" not in told.out
    assert "| `a.bin` |  | not read line by line |  |" in told.out
    assert f"| `cart.py` | 3 | `{first[:8]}` 33 %, `{second[:8]}` 33 % | 1 (33 %) |" in told.out
    assert "| Cost | unknown |" in told.out
    found = turntree("pr", "--json").document
    assert [turn["digest"] for turn in found["turns"]] == [f"sha256:{first}", f"sha256:{second}"]
    assert (found["lines"], found["lines_untold"], found["cost"]) == (3, 1, None)
    assert [turn["files"] for turn in found["turns"]] == [{"cart.py": 1}, {"cart.py": 1}]


def test_pr_writes_a_file_and_takes_a_range(
    turntree: Call, project: Project, branch: tuple[str, str]
) -> None:
    first, second = branch
    file = project.folder.parent / "body.md"
    told = turntree("pr", "HEAD~1..HEAD", "-o", str(file))
    assert told.lines == [f"{file} describes 1 turn behind HEAD~1..HEAD"]
    text = file.read_text()
    assert second[:8] in text
    assert first[:8] not in text
    document = turntree("pr", "main...feature", "-o", str(file), "--json").document
    assert document["file"] == str(file)
    assert first[:8] in file.read_text()
    git("checkout", "-q", "main")
    assert second[:8] in turntree("pr", "main..feature").out


def test_pr_cannot_be_broken_or_imitated_by_a_prompt(turntree: Call, project: Project) -> None:
    git("init", "-q", "-b", "main", ".")
    project.write({"begin.py": "begin = 1\n"})
    commit_all("begin")
    git("checkout", "-q", "-b", "feature")
    hostile = (
        f"my key is {KEY}\n</details>\n````\n~~~\n<!-- --> @octocat fixes #1\n# Approved\n"
        "| Cost | $0.00 |\n\u202ehidden\x1b[31m\r\n`````text\n<script>alert(1)</script>\n> quote"
    )
    name = "we`ird|@octocat </details>.py"
    project.turn(hostile, {name: "total_of_everything = 1\n"})
    commit_all("work")
    told = turntree("pr")
    assert told.code == 0, told.err
    assert KEY not in told.out
    assert "[redacted:" in told.out
    assert "@octocat fixes #1" in told.out
    outside = outside_of_code(told.out)
    for word in ("@", "#1", "<!--", "</details>", "script", "Approved", "$0.00", "quote"):
        assert word not in outside, word
    assert "\x1b" not in told.out
    assert "\u202e" not in told.out
    assert KEY not in turntree("pr", "--json").out


def test_pr_shortens_long_prompts_and_folds_long_lists(turntree: Call, project: Project) -> None:
    git("init", "-q", "-b", "main", ".")
    project.write({"begin.py": "begin = 1\n"})
    commit_all("begin")
    git("checkout", "-q", "-b", "feature")
    files: dict[str, str | bytes | None] = {
        f"file{n}.py": f"value_of_{n} = {n}\n" for n in range(20)
    }
    project.turn("word " * 1000, files)
    commit_all("work")
    told = turntree("pr").out
    assert "<summary>8 more files</summary>" in told
    assert "<summary>15 more files</summary>" in told
    assert told.count("<details>") == told.count("</details>") == 2
    assert told.count("word") < 300
    assert "…" in told


def test_pr_says_what_is_wrong(turntree: Call, project: Project, tmp_path: Path) -> None:
    told = turntree("pr")
    assert told.code == 3
    assert "is not in a git repository" in told.err
    git("init", "-q", "-b", "trunk", ".")
    project.write({"cart.py": "import os\n"})
    commit_all("begin")
    told = turntree("pr")
    assert (told.code, "there is no branch main or master" in told.err) == (3, True)
    git("branch", "-m", "main")
    told = turntree("pr")
    assert (told.code, "main..HEAD has no commits" in told.err) == (1, True)
    told = turntree("pr", "nowhere..HEAD")
    assert (told.code, "there is no commit 'nowhere'" in told.err) == (3, True)
    git("checkout", "-q", "-b", "feature")
    project.write({"cart.py": "import os\nby_hand = True\n"})
    commit_all("by hand")
    told = turntree("pr")
    assert (told.code, "no turn has a snapshot of" in told.err) == (3, True)
    project.turn("only read it", {})
    told = turntree("pr")
    assert (told.code, "no recorded turn wrote a line of main..HEAD" in told.err) == (3, True)


def test_hint_of_a_repository_without_main_describes_the_branch(
    turntree: Call, project: Project, branch: tuple[str, str], hints: HintRunner
) -> None:
    del project, branch
    git("branch", "-m", "main", "BASE")
    told = turntree("pr")
    assert (told.code, "there is no branch main or master" in told.err) == (3, True)
    hints.follow_in_shell(told, "turntree pr BASE..HEAD")


def test_pr_finds_turns_of_another_work_tree(turntree: Call, project: Project) -> None:
    git("init", "-q", "-b", "main", ".")
    project.write({"begin.py": "begin = 1\n"})
    commit_all("begin")
    first = project.turn("work in the first folder", {"cart.py": "total_of_all = 1\n"})
    commit_all("work")
    git("branch", "feature")
    git("reset", "-q", "--hard", "HEAD~1")
    git("worktree", "add", "-q", "../second", "feature")
    found = turntree("pr", "main..feature", "--json").document
    assert [turn["digest"] for turn in found["turns"]] == [f"sha256:{first}"]


def test_pr_does_not_name_a_turn_that_is_private_to_another(
    turntree: Call, project: Project, branch: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turntree("session", "create", "own", "--private").code == 0
    secret = project.turn("a private word", {"own.py": "hidden_value = 1\n"}, session="own")
    commit_all("private work")
    assert secret[:8] in turntree("pr").out
    monkeypatch.setenv("TURNTREE_USER", "bob")
    told = turntree("pr", "--json")
    assert [turn["digest"] for turn in told.document["turns"]] == [f"sha256:{d}" for d in branch]
    for hidden in ("a private word", secret[:8]):
        assert hidden not in told.out
    assert {"path": "own.py", "lines_untold": 1}.items() <= told.document["files"][-1].items()
