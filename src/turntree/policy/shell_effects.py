"""What the commands of a shell line may do, by the programs that they run.

Pure. A program that is not listed may do anything, and so may one that is given code: what it does
cannot be read from the line.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from turntree.auth.permissions import EFFECTS, Effect, read_effects
from turntree.policy.shell import DEVICES, ShellCommand, list_words_of_paths

_RUNS: Final = frozenset[Effect]({"exec"})
_READS: Final = frozenset[Effect]({"reads_private", "exec"})
_DESTROYS: Final = frozenset[Effect]({"destructive"})
_ANYTHING: Final = frozenset[Effect](EFFECTS)
_SAYING: Final = frozenset({
    "[", ":", "basename", "break", "continue", "date", "dirname", "echo", "exit", "expr", "false",
    "id", "printf", "pwd", "read", "return", "seq", "set", "shift", "shopt", "sleep",
    "test", "true", "tput", "tty", "type", "uname", "unset", "wait", "which", "whoami", "export",
    "declare", "local", "readonly", "typeset", "umask", "let", "trap", "nproc",
})  # fmt: skip
"""Programs that touch no file that their arguments name."""
_READING: Final = frozenset({
    "cat", "cd", "chdir", "cksum", "cmp", "column", "comm", "cut", "df", "diff", "du", "egrep",
    "fgrep", "fmt", "fold", "grep", "head", "hexdump", "join", "jq", "ls",
    "md5sum", "nl", "od", "paste", "readlink", "realpath", "rev", "sha1sum", "sha256sum",
    "shasum", "stat", "strings", "tac", "tail", "tr", "wc",
})  # fmt: skip
_WRITING: Final = frozenset({
    "chmod", "cp", "mkdir", "mktemp", "mv", "rm", "rmdir", "tee", "touch",
    "truncate", "apply_patch", "unlink",
})  # fmt: skip
_FIND_WRITING: Final = frozenset({"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"})
_FIND_RUNNING: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_RG_RUNNING: Final = frozenset({"--pre", "--hostname-bin"})
_OPTION_WRITING: Final = frozenset({
    "cp", "file", "git", "mktemp", "mv", "rg", "sed", "sort", "tree", "uniq", "xxd",
})  # fmt: skip
"""Programs whose options run something, or name a file or folder to write."""
_SECOND_WRITTEN: Final = frozenset({"uniq", "xxd"})
"""Programs that write to the second file that they are given."""
_WRITING_OPTIONS: Final = {
    "file": re.compile(r"--c|-[^-]*C"),
    "sort": re.compile(r"--o|-[^-]*o"),
    "tree": re.compile(r"--o|-[^-]*[oR]"),
    "uniq": re.compile(r"--o|-[^-]*o"),
    "xxd": re.compile(r"--o|-[^-]*o"),
}
"""Programs that read, and the options, maybe shortened, by which they write."""
_FOLLOWING: Final = {
    "cp": re.compile(r"--d|-[^-]*[LH]"),
    "diff": re.compile(r"--rec|-[^-]*r"),
    "du": re.compile(r"--d|-[^-]*[LDH]"),
    "egrep": re.compile(r"--deref|-[^-]*R"),
    "fgrep": re.compile(r"--deref|-[^-]*R"),
    "find": re.compile(r"-follow|-[HL]"),
    "grep": re.compile(r"--deref|-[^-]*R"),
    "ls": re.compile(r"--deref|-[^-]*[LH]"),
    "rg": re.compile(r"--follow|-[^-]*L"),
    "tree": re.compile(r"-[^-]*l"),
}
"""Options with which a program follows the links that it finds in a folder."""
_SHOWING_VARIABLES: Final = frozenset({
    "declare", "env", "export", "local", "readonly", "set", "typeset",
})  # fmt: skip
_TRANSPARENT: Final = frozenset({
    "builtin", "bash", "command", "coproc", "env", "eval", "exec", "nice", "nohup", "setsid", "sh",
    "stdbuf", "time", "timeout", "xargs", "zsh", "dash",
})  # fmt: skip
"""Programs that run others, which are commands of their own in the same line."""
_GIT_READING: Final = frozenset({
    "blame", "describe", "diff", "log", "ls-files", "ls-tree", "rev-list", "rev-parse",
    "shortlog", "show", "status",
})  # fmt: skip
_GIT_OPTION: Final = re.compile(r"--ou|--ext|--textc")
"""Options, maybe shortened, by which those write a file or run a program."""
_GIT_LISTING: Final = frozenset({
    "--contains", "--list", "--merged", "--no-contains", "--no-merged", "--points-at", "-l",
})  # fmt: skip
_GIT_SHOWING: Final = re.compile(
    "|".join((
        *_GIT_LISTING, "-[ailqrv]+", "--all", "--remotes", "--verbose", "--quiet", "--show-current",
        "--sort", "--format", "--(no-)?color", "--(no-)?column", "--(no-)?abbrev", "--ignore-case",
    ))
)  # fmt: skip
"""Options with which ``git branch`` shows branches; with any other it changes them."""
_SED: Final = re.compile(
    r"s([/|,#])(?:(?!\1)[^\n\\]|\\.)*\1(?:(?!\1)[^\n\\]|\\.)*\1[gIip0-9]*|[0-9,$]+[pd]"
)
_SED_OPTION: Final = re.compile(r"-[nErsi]+(\.bak)?|--in-place|--quiet|--regexp-extended")
_GIT_WRITING: Final = frozenset({"add", "checkout", "restore", "rm", "mv", "stash", "switch"})


def effects_of(commands: Sequence[ShellCommand]) -> tuple[Effect, ...] | None:
    """Return what the commands may do; None if that, or where they do it, cannot be told."""
    effects: set[Effect] = set()
    for command in commands:
        found = _effects(command)
        if found is None:
            return None
        effects |= found
    return read_effects(effects)


def is_following(command: ShellCommand) -> bool:
    """Return whether a command follows the links that it finds in the folders of its arguments."""
    option = _FOLLOWING.get(command.program or "")
    return option is not None and any(option.match(word or "") for word in command.words[1:])


def _effects(command: ShellCommand) -> frozenset[Effect] | None:
    writes = [target for target in command.writes if target not in DEVICES]
    redirected = _DESTROYS if writes else frozenset[Effect]()
    if any(target not in DEVICES for target in command.reads):
        redirected |= _READS
    if None in command.writes or None in command.reads:
        return None
    if not command.words:
        return redirected
    name = command.program
    if name is None or "/" in (command.words[0] or ""):
        # A program of a folder may have any name.
        return _ANYTHING if command.words[0] is not None else None
    words = command.words[1:]
    # A variable may hold a secret.
    if None in words or (name in _SHOWING_VARIABLES and words[:1] in ((), ("-p",))):
        redirected |= _READS
    if name in _SAYING:
        return _RUNS | redirected
    if command.folders is None:
        return None
    if name in _TRANSPARENT:
        # A script that is named and not shown may do anything.
        is_script = name in ("bash", "sh", "zsh", "dash") and not _is_shown(words)
        return _ANYTHING if is_script and words else _RUNS | redirected
    if any(word is None for word in list_words_of_paths(command)):
        return None
    if _may_have_option(name, command):
        return _ANYTHING
    return _listed(name, [word or "" for word in words]) | redirected


def _may_have_option(name: str, command: ShellCommand) -> bool:
    """Whether a file whose name looks like an option may become one, in place of a pattern."""
    if name == "find":
        # What it does is named by whole words, wherever they are.
        words = _FIND_WRITING | _FIND_RUNNING
        return any(fnmatchcase(word, one) for one in command.patterns for word in words)
    if name not in _OPTION_WRITING or (
        name == "git" and not _GIT_WRITING.isdisjoint(command.words[1:2])
    ):
        return False
    if name in _SECOND_WRITTEN and command.patterns:
        return True
    for word in command.words[1:]:
        if word == "--":
            return False
        if word in command.patterns and word.startswith(("*", "?", "[", "-")):
            return True
    return False


def _is_shown(words: Sequence[str | None]) -> bool:
    """Whether a shell is given its script in the line; after a script's name, -c is its own."""
    for place, word in enumerate(words):
        if word is None or not word.startswith(("-", "+")):
            if place and words[place - 1] in ("-o", "+o"):
                continue
            return False
        if not word.startswith("--") and "c" in word:
            return True
    return False


def _listed(name: str, words: Sequence[str]) -> frozenset[Effect]:
    if name in _READING:
        return _READS
    if name in _WRITING:
        return _RUNS | _DESTROYS
    if name == "find":
        return _READS if _FIND_WRITING.isdisjoint(words) else _READS | _DESTROYS
    if name == "rg":
        is_running = any(word.partition("=")[0] in _RG_RUNNING for word in words)
        return _ANYTHING if is_running else _READS
    if name in _WRITING_OPTIONS:
        # Options may be shortened, and one of sort runs a program.
        if name == "sort" and any(word.startswith("--c") for word in words):
            return _ANYTHING
        operands = [word for word in words if not word.startswith("-")]
        is_writing = name in _SECOND_WRITTEN and len(operands) > 1
        is_writing = is_writing or any(_WRITING_OPTIONS[name].match(word) for word in words)
        return _READS | _DESTROYS if is_writing else _READS
    if name == "sed":
        # A script of sed can run commands and write files, so only the plainest are let be.
        options = [word for word in words if word.startswith("-")]
        script = next((word for word in words if not word.startswith("-")), "")
        in_place = any(word.startswith(("-i", "--in-place")) for word in options)
        if _SED.fullmatch(script) is None or any(not _SED_OPTION.fullmatch(w) for w in options):
            return _ANYTHING
        return _READS | _DESTROYS if in_place else _READS
    if name == "git" and words:
        return _git(words[0], [word.partition("=")[0] for word in words[1:]])
    return _ANYTHING


def _git(verb: str, words: Sequence[str]) -> frozenset[Effect]:
    if verb in _GIT_READING:
        return _ANYTHING if any(map(_GIT_OPTION.match, words)) else _READS
    if verb == "branch":
        options = [word for word in words if word.startswith("-")]
        if any(word.startswith("--ed") for word in options):
            return _ANYTHING
        is_list = len(options) == len(words) or not _GIT_LISTING.isdisjoint(options)
        is_reading = is_list and all(map(_GIT_SHOWING.fullmatch, options))
        return _READS if is_reading else _READS | _DESTROYS
    return _READS | _DESTROYS if verb in _GIT_WRITING else _ANYTHING
