import subprocess
from pathlib import Path
from typing import Any

import pytest

from turntree.hooks.foreign_call import read_call
from turntree.policy.call import JudgedCall


def call(folder: Path, tool: str, cwd: Path | None = None, **args: Any) -> JudgedCall:
    told = {"session_id": "s", "cwd": str(cwd or folder), "tool_name": tool, "tool_input": args}
    return read_call("claude-code", told, str(folder), "human:ana", ()).call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (tmp_path / "project/link").symlink_to(tmp_path / "secret")
    (tmp_path / "project/up").symlink_to(tmp_path)
    (tmp_path / "project/sub").mkdir()
    (tmp_path / "project/sub/far").symlink_to(tmp_path)
    return tmp_path / "project"


@pytest.mark.parametrize(
    "line",
    [
        "cat ../secret", "cat link", "cat < link", "echo x > link", "cat up/secret", "cd .. && ls",
        "cd up && ls", "cat l*", "cat [^x]ink", "cat [[:alpha:]]ink", "cat sub/f?r/secret",
        "grep -Rn x .", "rg -L x", "rg --follow x", "find -L . -name x", "tree -l", "ls -RL",
        "du -L", "cp -rL sub b", "diff -r sub b", "cat u*/secret", "cat ~/x",
        "cat $HOME/x", "cp a /srv/b", "tar xf a --directory=/srv",
        "sh -c 'cat ../secret'", "find .. -name x", "ls up/..",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch\nEOF",
        "cd sub && apply_patch <<'E'\n*** Begin Patch\n*** Add File: far/x\n+x\n*** End Patch\nE",
    ],
)  # fmt: skip
def test_line_that_leaves_the_folder_names_a_path_outside(folder: Path, line: str) -> None:
    assert call(folder, "Bash", command=line).outside


@pytest.mark.parametrize(
    ("line", "effects"),
    [
        ("ls -la", ("reads_private", "exec")),
        ("echo hi", ("exec",)),
        ("cat a 2>/dev/null", ("reads_private", "exec")),
        ("echo hi > a", ("exec", "destructive")),
        ("rm -rf build", ("exec", "destructive")),
        ("cd sub && grep -r x . | head", ("reads_private", "exec")),
        ("sed -i 's/a/b/g' a", ("reads_private", "exec", "destructive")),
        ("git status && git diff", ("reads_private", "exec")),
        ("git branch -vv", ("reads_private", "exec")),
        ("git branch --sort=-committerdate", ("reads_private", "exec")),
        ("git branch --contains HEAD", ("reads_private", "exec")),
        ("git branch --list 'x*'", ("reads_private", "exec")),
        ("git branch -D x", ("reads_private", "exec", "destructive")),
        ("git branch --del x", ("reads_private", "exec", "destructive")),
        ("git branch --list -d x", ("reads_private", "exec", "destructive")),
        ("git branch -m a b", ("reads_private", "exec", "destructive")),
        ("git branch -f a HEAD~1", ("reads_private", "exec", "destructive")),
        ("git branch a", ("reads_private", "exec", "destructive")),
        ("file -C -m a", ("reads_private", "exec", "destructive")),
        ("tree -R", ("reads_private", "exec", "destructive")),
        ("read x < a", ("reads_private", "exec")),
        ("echo $TOKEN", ("reads_private", "exec")),
        ("env", ("reads_private", "exec")),
        ("export -p", ("reads_private", "exec")),
    ],
)
def test_line_that_stays_declares_what_it_may_do(
    folder: Path, line: str, effects: tuple[str, ...]
) -> None:
    judged = call(folder, "Bash", command=line)
    assert (judged.effects, judged.outside) == (effects, ())


@pytest.mark.parametrize(
    "line",
    ["python3 x.py", "npm test", "curl http://127.0.0.1/", "./run.sh", "bash run.sh",
     "bash run.sh -c", "bash -c 'sh run.sh -c'", "sort -S1k --compress=./x a", "patch -p0 < a",
     "ln a b && cp x b/config",
     "sed '1e id' a", "sed 'w b' a", "git -c core.pager=id log", "git push", "sudo ls", "make",
     "bin/ls", "rg --pre=./x a", "rg --hostname-bin ./x a", "git diff --ext-diff",
     "git log -p --textconv", "git show --outp=a", "git branch --edit-description"],
)  # fmt: skip
def test_program_that_is_not_known_may_do_anything(folder: Path, line: str) -> None:
    judged = call(folder, "Bash", command=line)
    assert judged.effects is not None
    assert "external_write" in judged.effects


@pytest.mark.parametrize(
    "line",
    ["cat $X", "$X", "ls | xargs rm", "cd $X && rm a", "echo x > .git/config",
     "cp a .claude/settings.json", "find . -exec rm {} +", "echo x > $X", 'eval "$X"',
     "PATH=. ls", "ls |", "cp a .git", "mv a .envrc", "cp a .g*", "uniq a .git/config",
     "xxd -r a .git/config", "tree -o .git/config", "sort -uo .git/config a",
     "sort -o.git/config a", "command cd .git && tee config < a"],
)  # fmt: skip
def test_line_that_is_not_certain_declares_nothing(folder: Path, line: str) -> None:
    assert call(folder, "Bash", command=line).effects is None


@pytest.mark.parametrize(
    "line",
    ["rg *", "rg x *.py", "rg x -*", "rg x {a,*}", "eval 'rg *'", "sort *", "uniq *", "tree *",
     "find *", "find . -ex*", "sed s/a/b/ *", "git diff *", "git log -?*", "cp * sub",
     "mv [a-z]* sub"],
)  # fmt: skip
def test_pattern_that_may_stand_for_an_option_may_do_anything(tmp_path: Path, line: str) -> None:
    judged = call(tmp_path, "Bash", command=line)
    assert judged.effects is not None
    assert "external_write" in judged.effects


@pytest.mark.parametrize(
    "line",
    ["rg x -- *", "rg x ./*", "rg '[a-z]*' src", "rg \\*a src/*", "find . -name *.py", "cat *",
     "mv -- * sub", "git add *"],
)  # fmt: skip
def test_pattern_that_stands_for_no_option_that_matters_is_let_be(
    tmp_path: Path, line: str
) -> None:
    judged = call(tmp_path, "Bash", command=line)
    assert judged.effects is not None
    assert "external_write" not in judged.effects


@pytest.fixture
def bare(folder: Path) -> Path:
    """A folder of the project that git takes for a repository, whose settings name a program."""
    for name in ("objects", "refs"):
        (folder / "sub" / name).mkdir()
    (folder / "sub/HEAD").write_text("ref: refs/heads/x\n", encoding="utf-8")
    (folder / "sub/config").write_text(
        '[core]\nrepositoryformatversion = 0\nworktree = ..\nfsmonitor = "touch ran; false"\n',
        encoding="utf-8",
    )
    return folder / "sub"


def test_git_in_a_folder_that_was_made_a_repository_declares_nothing(bare: Path) -> None:
    subprocess.run(["git", "status"], cwd=bare, capture_output=True, check=False)
    assert (bare.parent / "ran").exists(), "git runs what the settings of such a folder name"
    assert call(bare.parent, "Bash", command="cd sub && git status").effects is None
    assert call(bare.parent, "Bash", cwd=bare, command="git status").effects is None
    assert call(bare.parent, "Bash", command="git status").effects == ("reads_private", "exec")


def test_git_declares_nothing_where_the_line_may_make_a_repository(folder: Path) -> None:
    line = "cp -r a/HEAD b/objects b/refs sub && cd sub && git status"
    assert call(folder, "Bash", command=line).effects is None
    assert call(folder, "Bash", command="cd sub && git add a && git diff").effects is not None
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    assert call(folder, "Bash", command="touch a && git status").effects is not None


@pytest.mark.parametrize(
    ("tool", "args", "outside"),
    [
        ("Read", {"file_path": "a.py"}, False),
        ("Read", {"file_path": "../secret"}, True),
        ("Read", {"file_path": "link"}, True),
        ("Grep", {"pattern": "x", "path": "/srv"}, True),
        ("Glob", {"pattern": "**/*.py"}, False),
        ("Glob", {"pattern": "/srv/**"}, True),
        ("Glob", {"pattern": "../*"}, True),
        ("Write", {"file_path": "sub/new.py", "content": ""}, False),
        ("apply_patch", {"input": "*** Update File: ../x\n"}, True),
    ],
)
def test_path_of_a_tool_is_resolved(
    folder: Path,
    tool: str,
    args: dict[str, Any],
    outside: bool,  # noqa: FBT001
) -> None:
    assert bool(call(folder, tool, **args).outside) is outside


def test_file_that_others_run_is_written_by_no_declared_tool(folder: Path) -> None:
    assert call(folder, "Write", file_path=".git/hooks/pre-commit", content="").effects is None
    assert call(folder, "Edit", file_path=".claude/settings.json").effects is None
    assert call(folder, "Read", file_path=".git/config").effects == ("reads_private",)


@pytest.mark.parametrize(
    "name", [".mcp.json", ".GIT/config", ".Claude/settings.json", ".gemini/settings.json",
             ".cursor/hooks.json", ".opencode/plugins/x.js"],
)  # fmt: skip
def test_settings_of_an_agent_are_written_by_no_declared_tool(folder: Path, name: str) -> None:
    assert call(folder, "Write", file_path=name).effects is None
    assert call(folder, "Bash", command=f"echo x > {name}").effects is None


@pytest.mark.parametrize("args", [{}, {"filePath": "../x"}, {"file_path": ["../x"]}])
def test_tool_that_does_not_say_which_file_declares_nothing(
    folder: Path, args: dict[str, Any]
) -> None:
    assert call(folder, "Write", **args).effects is None


def test_pattern_with_too_many_files_counts_as_outside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turntree.hooks.foreign_call.LOOKED_AT_MAX", 50)
    for number in range(60):
        (folder / f"sub/{number}.txt").touch()
    assert call(folder, "Bash", command="cat */*/zzz").outside == ("/",)
    assert call(folder, "Bash", command="cat sub/a.txt").outside == ()


def test_tool_that_is_not_known_declares_nothing(folder: Path) -> None:
    judged = call(folder, "mcp__chat__post", text="x")
    assert (judged.server, judged.effects) == ("mcp:chat", None)
    assert call(folder, "Novelty").effects is None


def test_command_without_a_project_is_outside(tmp_path: Path) -> None:
    told = {"session_id": "s", "cwd": str(tmp_path), "tool_name": "Bash",
            "tool_input": {"command": "ls"}}  # fmt: skip
    judged = read_call("codex", told, None, None, ()).call
    assert judged.outside == (str(tmp_path.resolve()),)
