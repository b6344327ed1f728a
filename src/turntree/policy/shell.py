"""What a shell line would run: its simple commands, where each runs and what it redirects.

Pure. A line is parsed with tree-sitter's grammar of bash, and nothing of it is run. What this
module does not understand for certain makes the whole line ``None``, and the caller asks a person:
a command that is overlooked would be one without a decision.

Folders are followed: ``cd a && b`` runs ``b`` in ``a``, and ``cd a; b`` runs it in ``a`` or, if
there is no ``a``, where the line began. So a command has several folders in which it may run.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from turntree.core.canonical import Json
from turntree.core.value import value

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LINE_CHARS_MAX: Final = 65_536
DEPTH_MAX: Final = 60
COMMANDS_MAX: Final = 500
FOLDERS_MAX: Final = 16
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_GLOB: Final = re.compile(r"[*?\[]")
_ESCAPED: Final = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_STRING: Final = re.compile(r"\\(\n|[$`\"\\])")
_BRACES: Final = re.compile(r"([^{}]*)\{([^{},]*(?:,[^{},]*)+)\}([^{}]*)")
_HIDDEN: Final = re.compile(r"\[[^\]]*(\$\(|`)")
"""An index that a later arithmetic expression would evaluate, and so run what is in it."""
_BETWEEN: Final = re.compile(rb"(?:[ \t\n]|\\\n)*")
_TRAPS: Final = frozenset({
    "BASHOPTS", "BASH_ENV", "CDPATH", "EDITOR", "ENV", "HOME", "IFS", "LESSCLOSE", "LESSOPEN",
    "OLDPWD", "PAGER", "PATH", "PROMPT_COMMAND", "PS4", "PWD", "RIPGREP_CONFIG_PATH", "SHELLOPTS",
    "VISUAL", "XDG_CONFIG_HOME",
})  # fmt: skip
"""Variables that change what the rest of a line means, or name a program that others run."""
_TRAP_STARTS: Final = ("LD_", "DYLD_", "BASH_FUNC_", "GIT_")
_HARMLESS: Final = frozenset({"GIT_PAGER=cat", "PAGER=cat", "GIT_PAGER=", "PAGER="})
_SETTING: Final = frozenset(
    {"eval", "getopts", "mapfile", "read", "readarray", "source", ".", "trap"}
)
"""Builtins that may give any variable any value."""
_COUNTED: Final = re.compile(r"\$\{#[\w@*\[\]]+\}|\$[#?$!]|\b\d\w*(#\w+)?")
"""What is a number, whatever happened before."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_NUMBER: Final = re.compile(r"[\"']?-?\d*[\"']?|\{\d+\.\.\d+\}")
_STARTING: Final = re.compile(r"\(\(\s*([A-Za-z_]\w*)\s*=[^=]")
_COMPARING: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_SET_OPTION: Final = re.compile(r"[-+][befhmnuvxCE]*o?|--")
_SAFE_OPTIONS: Final = frozenset({
    "errexit", "errtrace", "nounset", "noclobber", "noglob", "pipefail", "verbose", "xtrace",
})  # fmt: skip
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_WRAPPERS: Final = {
    "builtin": "", "command": "", "coproc": "", "env": "uC", "exec": "a", "nice": "n",
    "nohup": "", "setsid": "", "stdbuf": "ioe", "sudo": "ugCDhpRT", "time": "of", "timeout": "ks",
    "xargs": "adEIILnPs",
}  # fmt: skip
"""Commands that run another one, each with the letters of its options that take a value."""
_PLAIN_OPTIONS: Final = {
    "command": "p", "env": "i0", "exec": "cl", "setsid": "cfw", "sudo": "AbEHKknSs", "time": "pv",
    "timeout": "v", "xargs": "0prtx",
}  # fmt: skip
"""The letters of options that take none and leave the command that follows a command."""
_DECLARING: Final = frozenset({"declare", "export", "local", "readonly", "typeset", "let"})
_EVALUATING: Final = _DECLARING | {"getopts", "mapfile", "read", "readarray", "unset", "wait"}
"""Builtins that evaluate the index in the name of a variable."""
DEVICES: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
"""Files outside of every folder that hold nothing."""
_FOLDER_CHANGING: Final = frozenset({"cd", "chdir", "popd", "pushd"})
_SPLIT: Final = frozenset({"simple_expansion", "expansion", "command_substitution"})
"""What may become several words where it is not quoted."""
_SILENT: Final = frozenset({
    "comment", "file_descriptor", "heredoc_start", "heredoc_end", "heredoc_content",
})  # fmt: skip

Folders = frozenset[str] | None
"""Where the next command may run; None if that is not known."""


@value
class ShellCommand:
    """One simple command of a line."""

    words: tuple[str | None, ...]
    """The program and its arguments; None for one that the shell only knows when it runs."""
    folders: tuple[str, ...] | None
    """The folders in which it may run; None if they are not known."""
    reads: tuple[str | None, ...] = ()
    """Files that its input is redirected from."""
    writes: tuple[str | None, ...] = ()
    """Files that its output is redirected to."""
    variables: tuple[str, ...] = ()
    """Names of the variables that are set for it."""
    patterns: frozenset[str] = frozenset()
    """Those of the words that the shell replaces with the names of files that match."""

    @property
    def program(self) -> str | None:
        """The name of the program without its folder; None if it is not known."""
        return posixpath.basename(self.words[0] or "") or None if self.words else None

    def to_json(self) -> dict[str, Json]:
        """Return the document that a policy reads."""
        return {
            "program": self.program,
            "words": [*self.words],
            "folders": None if self.folders is None else [*self.folders],
            "reads": [*self.reads],
            "writes": [*self.writes],
            "variables": [*self.variables],
        }


class _NotUnderstood(Exception):
    """The line holds something whose effect is not known for certain."""


def read_commands(line: str, cwd: str, home: str | None = None) -> tuple[ShellCommand, ...] | None:
    """Return every simple command of a line, in the order in which they are written.

    Those in pipes, subshells, loops, functions, ``$(…)``, ``sh -c '…'`` and behind ``env``,
    ``sudo`` or ``xargs`` are among them. None if the line could not be understood.
    """
    if (
        len(line) > LINE_CHARS_MAX
        or _CONTROL.search(line)
        or not line.replace("\n", " ").replace("\t", " ").isprintable()
    ):
        return None
    reader = _LineReader(home)
    try:
        reader.read(line, frozenset({posixpath.normpath(cwd)}), 0)
        reader.check_counting()
    except (_NotUnderstood, UnicodeEncodeError):
        return None
    return tuple(reader.commands)


def list_words_of_paths(command: ShellCommand) -> Iterator[str | None]:
    """Yield what of a command may name a file outside of its folder; None for what is not known.

    A word without a slash names something in the folder, unless it is ``..`` or begins with ``~``.
    """
    for target in (*command.reads, *command.writes):
        if target not in DEVICES:
            yield target
    for place, word in enumerate(command.words):
        if word is None:
            yield None
        elif place == 0:
            if "/" in word:
                yield word
        else:
            if "://" in word:
                continue
            # A value may follow its option, as in --file=/etc/passwd, -I/usr or if=/dev/sda.
            parts = {word, word.partition("=")[2], word.partition(":")[2]}
            if word.startswith("-") and not word.startswith("--"):
                parts.add(word[2:])
            for part in sorted(parts):
                if part not in DEVICES and ("/" in part or part == ".." or part.startswith("~")):
                    yield part


@cache
def _parser() -> "Parser":
    # Imported here: a command that judges no shell line should not wait for the grammar.
    import tree_sitter  # noqa: PLC0415
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _LineReader:
    """Collects the commands of a line while it follows the folder."""

    def __init__(self, home: str | None) -> None:
        self.commands: list[ShellCommand] = []
        self._home = home
        self._depth = 0
        self._functions: set[str] = set()
        self._moves = False
        self._numbers: frozenset[str] = frozenset()
        self._counts = False
        self._sets = False
        self._patterns: set[str] = set()
        """Words of the line that have a pattern outside of quotes."""

    def read(self, line: str, folders: Folders, depth: int) -> Folders:
        """Read a line, and return where a command after it would run."""
        if depth > DEPTH_MAX:
            raise _NotUnderstood
        # The grammar reads on after an error, and what it makes of the rest may be anything.
        root = _parser().parse(line.encode()).root_node
        if root.has_error or _HIDDEN.search(line) or not _is_covered(root, line.encode()):
            raise _NotUnderstood
        outer, self._depth = self._depth, depth
        known, self._numbers = self._numbers, _find_numbers(root)
        self._moves = self._moves or bool(re.search(r"\b(cd|chdir|pushd|popd)\b", line))
        succeeded, failed = self._sequence(root.children, folders)
        self._depth, self._numbers = outer, known
        return _either(succeeded, failed)

    def check_counting(self) -> None:
        """Refuse arithmetic with variables to which something in the line gives any value."""
        # The shell evaluates what is in a variable, and runs the commands in an index there.
        if self._counts and self._sets:
            raise _NotUnderstood

    def _check_number(self, text: str) -> None:
        """Refuse arithmetic with anything but numbers and variables that hold one."""
        rest = _COUNTED.sub("0", text)
        names = set(_NAME.findall(rest))
        if re.search(r"[`'\"\\@]|\$[^A-Za-z_{]|\$\{[^A-Za-z_]", rest) or not names <= self._numbers:
            raise _NotUnderstood
        self._counts = self._counts or bool(names)

    def _sequence(self, nodes: Sequence["Node"], folders: Folders) -> tuple[Folders, Folders]:
        """Read statements one after another; return where the line stands then."""
        succeeded = failed = folders
        for place, node in enumerate(nodes):
            if not node.is_named or node.type in _SILENT:
                continue
            start = _either(succeeded, failed)
            succeeded, failed = self._statement(node, start)
            if place + 1 < len(nodes) and nodes[place + 1].type == "&":
                # In the background it runs in a process of its own.
                succeeded = failed = start
        return succeeded, failed

    def _statement(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        """Read one statement; return the folders after it succeeded, and after it failed."""
        self._depth += 1
        if self._depth > DEPTH_MAX or len(self.commands) > COMMANDS_MAX:
            raise _NotUnderstood
        try:
            return self._read_statement(node, folders)
        finally:
            self._depth -= 1

    def _read_statement(  # noqa: PLR0911 - a case for each kind of statement
        self, node: "Node", folders: Folders
    ) -> tuple[Folders, Folders]:
        match node.type:
            case "command":
                return self._command(node, folders, ())
            case "redirected_statement":
                return self._redirected(node, folders)
            case "list":
                return self._list(node, folders)
            case "pipeline":
                # Each part runs in a process of its own, so the line stays where it is.
                for part in _named(node):
                    self._statement(part, folders)
                return folders, folders
            case "negated_command":
                (inner,) = _named(node)
                succeeded, failed = self._statement(inner, folders)
                return failed, succeeded
            case "subshell":
                self._sequence(node.children, folders)
                return folders, folders
            case "compound_statement" if node.children[0].type != "((":
                return self._sequence(node.children, folders)
            case "do_group" | "else_clause":
                return self._sequence(node.children, folders)
            case "if_statement" | "elif_clause":
                return self._if(node, folders)
            case "while_statement" | "for_statement" | "c_style_for_statement":
                return self._loop(node, folders)
            case "case_statement":
                return self._case(node, folders)
            case "function_definition":
                return self._function(node, folders)
            case "variable_assignment" | "variable_assignments":
                self._assignments(node, folders)
                return folders, folders
            case "declaration_command" | "unset_command":
                self._declaration(node, folders)
                return folders, folders
            case "test_command" | "compound_statement":
                self._substitutions(node, folders)
                return folders, folders
            case _:
                raise _NotUnderstood

    def _list(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        left, operator, right = node.children
        succeeded, failed = self._statement(left, folders)
        return self._joined(operator.type, right, succeeded, failed)

    def _joined(
        self, operator: str, right: "Node", succeeded: Folders, failed: Folders
    ) -> tuple[Folders, Folders]:
        match operator:
            case "&&":
                done, broken = self._statement(right, succeeded)
                return done, _either(failed, broken)
            case "||":
                done, broken = self._statement(right, failed)
                return _either(succeeded, done), broken
            case _:
                raise _NotUnderstood

    def _if(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        conditions, bodies, rest = _split_if(node)
        succeeded, failed = self._sequence(conditions, folders)
        ends = [_either(*self._sequence(bodies, succeeded))]
        for clause in rest:
            ends.append(_either(*self._statement(clause, failed)))
            failed = _either(failed, ends[-1])
        end = failed
        for one in ends:
            end = _either(end, one)
        return end, end

    def _loop(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        for child in node.children_by_field_name("variable"):
            _check_variable(_text(child))
        if node.type == "c_style_for_statement":
            self._check_number(_text(node).partition("((")[2].partition("))")[0])
        start, kept = folders, len(self.commands)
        parts = [
            child
            for place, child in enumerate(node.children)
            if node.field_name_for_child(place) != "variable"
        ]
        end = self._loop_parts(parts, start)
        if end != start:
            # The second round begins where the first one ended.
            del self.commands[kept:]
            end = self._loop_parts(parts, None)
        return end, end

    def _loop_parts(self, parts: Sequence["Node"], folders: Folders) -> Folders:
        for part in parts:
            if not part.is_named or part.type in _SILENT:
                continue
            if _is_statement(part):
                folders = _either(folders, _either(*self._statement(part, folders)))
            else:
                self._substitutions(part, folders)
        return folders

    def _case(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        end = folders
        for child in _named(node):
            if child.type != "case_item":
                self._substitutions(child, folders)
                continue
            patterns = child.children_by_field_name("value")
            for pattern in patterns:
                self._substitutions(pattern, folders)
            body = [one for one in child.children if one not in patterns]
            end = _either(end, _either(*self._sequence(body, end)))
        return end, end

    def _function(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            raise _NotUnderstood
        self._functions.add(_text(name))
        # It runs where it is called, and may be called anywhere.
        self._statement(body, None if self._moves else folders)
        return folders, folders

    def _redirected(self, node: "Node", folders: Folders) -> tuple[Folders, Folders]:
        redirects = node.children_by_field_name("redirect")
        body = node.child_by_field_name("body")
        while body is not None and body.type in ("list", "pipeline", "negated_command"):
            # The grammar hangs a redirect on the whole list, the shell on its last command.
            return self._redirected_last(body, redirects, folders)
        if body is not None and body.type == "command":
            return self._command(body, folders, redirects)
        told = _Redirects()
        ends = self._redirects(redirects, folders, told)
        if told.extra:
            raise _NotUnderstood
        if told.reads or told.writes:
            self._keep((), folders, told, ())
        if body is None:
            return folders, folders
        after = self._statement(body, folders)
        return self._tail(ends, after)

    def _redirected_last(
        self, node: "Node", redirects: Sequence["Node"], folders: Folders
    ) -> tuple[Folders, Folders]:
        if node.type == "list":
            left, operator, right = node.children
            succeeded, failed = self._statement(left, folders)
            inner = _LastRedirected(right, redirects)
            start = succeeded if operator.type == "&&" else failed
            done, broken = self._last(inner, start)
            if operator.type == "&&":
                return done, _either(failed, broken)
            return _either(succeeded, done), broken
        parts = _named(node)
        for part in parts[:-1]:
            self._statement(part, folders)
        done, broken = self._last(_LastRedirected(parts[-1], redirects), folders)
        return (folders, folders) if node.type == "pipeline" else (broken, done)

    def _last(self, last: "_LastRedirected", folders: Folders) -> tuple[Folders, Folders]:
        if last.node.type in ("list", "pipeline", "negated_command"):
            return self._redirected_last(last.node, last.redirects, folders)
        if last.node.type == "command":
            return self._command(last.node, folders, last.redirects)
        told = _Redirects()
        ends = self._redirects(last.redirects, folders, told)
        if told.extra:
            raise _NotUnderstood
        if told.reads or told.writes:
            self._keep((), folders, told, ())
        return self._tail(ends, self._statement(last.node, folders))

    def _tail(
        self, ends: Sequence[tuple[str, "Node"]], after: tuple[Folders, Folders]
    ) -> tuple[Folders, Folders]:
        """Read what the grammar puts into a here-document: the rest of its line."""
        for operator, right in ends:
            if operator in ("|", "|&"):
                self._statement(right, _either(*after))
            else:
                after = self._joined(operator, right, *after)
        return after

    def _redirects(
        self, nodes: Sequence["Node"], folders: Folders, told: "_Redirects"
    ) -> list[tuple[str, "Node"]]:
        """Note what is redirected; return what else is on the line of a here-document."""
        rest: list[tuple[str, Node]] = []
        for node in nodes:
            match node.type:
                case "file_redirect":
                    self._file_redirect(node, folders, told)
                case "herestring_redirect":
                    told.has_input = True
                    for child in _named(node):
                        self._word(child, folders)
                case "heredoc_redirect":
                    told.has_input = True
                    rest += self._heredoc(node, folders, told)
                case _:
                    raise _NotUnderstood
        return rest

    def _file_redirect(self, node: "Node", folders: Folders, told: "_Redirects") -> None:
        operator = next(child.type for child in node.children if not child.is_named)
        targets = node.children_by_field_name("destination")
        if not targets:
            return  # It closes a descriptor.
        target, *extra = (self._word(child, folders) for child in targets)
        told.extra += extra
        match operator:
            case ">&" | "<&" if target is not None and re.fullmatch(r"\d+-?|-", target):
                told.has_input = told.has_input or operator == "<&"
            case "<":
                told.reads.append(target)
                told.has_input = True
            case ">" | ">>" | "&>" | "&>>" | ">|" | ">&":
                told.writes.append(target)
            case _:
                raise _NotUnderstood

    def _heredoc(
        self, node: "Node", folders: Folders, told: "_Redirects"
    ) -> list[tuple[str, "Node"]]:
        rest: list[tuple[str, Node]] = []
        operator = ""
        for place, child in enumerate(node.children):
            match node.field_name_for_child(place), child.type:
                case "operator", _:
                    operator = child.type
                case "right", _:
                    rest.append((operator, child))
                case "redirect", _:
                    rest += self._redirects([child], folders, told)
                case "argument", _:
                    told.extra.append(self._word(child, folders))
                case "descriptor", _:
                    pass
                case _, "pipeline":
                    rest.append(("|", child))
                case _, "heredoc_body":
                    self._substitutions(child, folders)
                case _, kind if child.is_named and kind not in _SILENT:
                    raise _NotUnderstood
                case _:
                    pass
        return rest

    def _command(
        self, node: "Node", folders: Folders, redirects: Sequence["Node"]
    ) -> tuple[Folders, Folders]:
        told = _Redirects()
        words: list[str | None] = []
        variables: list[str] = []
        inner: list[Node] = []
        for place, child in enumerate(node.children):
            match child.type:
                case "variable_assignment":
                    variables.append(self._assignment(child, folders))
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    inner.append(child)
                case "$":
                    # The grammar's way of reading $"…".
                    raise _NotUnderstood
                case "command_name":
                    words.append(self._word(child.children[0], folders))
                case "subshell":
                    raise _NotUnderstood
                case _ if node.field_name_for_child(place) == "argument":
                    words += self._expanded(child, folders)
                case _:
                    raise _NotUnderstood
        ends = self._redirects([*inner, *redirects], folders, told)
        words += told.extra
        after = self._run(words, folders, told, variables)
        return self._tail(ends, after)

    def _run(
        self,
        words: Sequence[str | None],
        folders: Folders,
        told: "_Redirects",
        variables: Sequence[str],
    ) -> tuple[Folders, Folders]:
        """Keep a command and what it runs in turn; return where the line stands after it."""
        if not words:
            return folders, folders
        if words[0] is not None and _GLOB.search(words[0]):
            raise _NotUnderstood
        self._keep(words, folders, told, variables)
        name = posixpath.basename(words[0] or "")
        rest = words[1:]
        self._check_setting(name, rest)
        if name in self._functions:
            return (None, None) if self._moves else (folders, folders)
        if name in _FOLDER_CHANGING:
            return self._cd(name, rest, folders), folders
        if name in ("eval", "trap"):
            script = rest if name == "eval" else rest[:1]
            if any(word is None for word in script):
                raise _NotUnderstood
            line = " ".join(word for word in script if word is not None)
            if name == "trap":
                self.read(line, None if self._moves else folders, self._depth + 1)
                return folders, folders
            end = self.read(line, folders, self._depth + 1)
            return end, end
        if name in ("source", "."):
            # The file may change the folder, and what it runs is not in the line.
            return None, None
        if name in _DECLARING or name in ("alias", "enable", "set", "shopt", "hash", "repeat"):
            # From here on, names mean something else than the rest of the line says.
            if name in ("alias", "enable", "hash", "repeat"):
                raise _NotUnderstood
            return folders, folders
        if name in _SHELLS:
            self._shell(rest, folders)
        elif name == "find":
            self._find(rest, folders)
        elif name in _WRAPPERS:
            after = self._wrapper(name, rest, folders, told)
            if name in ("builtin", "command", "time"):
                return after
        return folders, folders

    def _check_setting(self, name: str, words: Sequence[str | None]) -> None:
        """Refuse a builtin that may set a trap, or evaluate what a variable holds."""
        named: Sequence[str | None] = ()
        if name in _EVALUATING and not self._patterns.isdisjoint(word or "" for word in words):
            # A file may be called a[$(…)], and the shell would evaluate the index.
            raise _NotUnderstood
        if name in _SETTING:
            self._sets = True
            named = words if name in ("getopts", "mapfile", "read", "readarray") else ()
        elif name == "let":
            for word in words:
                self._check_number(word or "$(")
        elif name in _DECLARING or name == "unset":
            self._sets = self._sets or name != "unset"
            named = words
            # One name for another, and variables that are evaluated whenever they are set.
            if any(word and re.match(r"[-+]\w*[in]", word) for word in words):
                raise _NotUnderstood
        elif name == "printf" and self._patterns.intersection(word or "" for word in words[:1]):
            raise _NotUnderstood
        elif name == "printf" and (not words or words[0] is None or words[0].startswith("-v")):
            self._sets = True
            named = [words[0][2:] if words and words[0] else None, *words[1:2]]
        elif name == "test":
            self._check_test(words)
        elif name == "wait" and any(word is None or word.startswith("-p") for word in words):
            raise _NotUnderstood
        elif name == "set":
            _check_options(words)
        elif name == "shopt" and any(word is not None and "cdable" in word for word in words):
            raise _NotUnderstood
        for word in named:
            if word is None or "[" in word:
                raise _NotUnderstood
            _check_variable(word.partition("=")[0].rstrip("+"))

    def _check_operand(self, node: "Node") -> None:
        """Refuse what may become several words between brackets: ``-v a[$(…)]`` runs a command."""
        text = _text(node)
        if node.type in _SPLIT or any(child.type in _SPLIT for child in node.children):
            self._check_number(text)
        elif node.type != "raw_string" and _names_variable(text):
            raise _NotUnderstood

    def _check_test(self, words: Sequence[str | None]) -> None:
        """Refuse a test that may ask for a variable: the shell evaluates an index in its name."""
        patterns = self._patterns.intersection(word or "" for word in words)
        is_known = None not in words and {"-v", "-R"}.isdisjoint(words)
        if not is_known or any(map(_names_variable, patterns)):
            raise _NotUnderstood

    def _keep(
        self,
        words: Sequence[str | None],
        folders: Folders,
        told: "_Redirects",
        variables: Sequence[str],
    ) -> None:
        known = None if folders is None else tuple(sorted(folders))
        patterns = self._patterns.intersection(word or "" for word in words)
        self.commands.append(
            ShellCommand(
                tuple(words), known, tuple(told.reads), tuple(told.writes), tuple(variables),
                frozenset(patterns),
            )
        )  # fmt: skip

    def _cd(self, name: str, rest: Sequence[str | None], folders: Folders) -> Folders:
        # With -P links are followed, and where they lead is not in the line.
        words = [word for word in rest if word not in ("--", "-L")]
        if name in ("pushd", "popd") or len(words) > 1:
            return None
        target = words[0] if words else self._home
        if target is None or target.startswith(("-", "+")) or _GLOB.search(target):
            return None
        if target.startswith("/"):
            return frozenset({posixpath.normpath(target)})
        if folders is None or target.startswith("~"):
            return None
        return frozenset(posixpath.normpath(posixpath.join(one, target)) for one in folders)

    def _shell(self, rest: Sequence[str | None], folders: Folders) -> None:
        """Read what a shell is given to run."""
        waiting = list(rest)
        while waiting:
            word = waiting.pop(0)
            if word is None:
                raise _NotUnderstood
            if word in ("--norc", "--noprofile", "--posix", "--login"):
                continue
            if word in ("-o", "+o"):
                _check_options((word, *waiting[:1]))
                waiting[:1] = []
                continue
            if not word.startswith(("-", "+")) or word in ("-", "--"):
                break
            if word.startswith("--") or not re.fullmatch(r"[-+][celuxvn]+", word):
                if word == "--version":
                    return
                raise _NotUnderstood
            if word.startswith("-") and "c" in word:
                if not waiting or waiting[0] is None:
                    raise _NotUnderstood
                self.read(waiting[0], folders, self._depth + 1)
                return
        else:
            # It runs what it is sent.
            raise _NotUnderstood
        if word in ("-", "--"):
            raise _NotUnderstood

    def _find(self, rest: Sequence[str | None], folders: Folders) -> None:
        for place, word in enumerate(rest):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                inner: list[str | None] = []
                for one in rest[place + 1 :]:
                    if one in (";", "+"):
                        break
                    inner.append(None if one is not None and "{}" in one else one)
                where = folders if word in ("-exec", "-ok") else None
                self._run(inner, where, _Redirects(), ())

    def _wrapper(
        self, name: str, rest: Sequence[str | None], folders: Folders, told: "_Redirects"
    ) -> tuple[Folders, Folders]:
        """Read the command that another one runs; return where the line would stand after it."""
        waiting, variables = list(rest), list[str]()
        valued, plain = _WRAPPERS[name], _PLAIN_OPTIONS.get(name, "")
        if name == "command" and waiting[:1] in (["-v"], ["-V"]):
            return folders, folders
        moved: Folders = folders
        while waiting and waiting[0] is not None and waiting[0].startswith("-"):
            option = waiting.pop(0) or ""
            if option == "--":
                break
            letters = option[1:]
            if name == "nice" and letters.isdigit():
                continue
            if option == "-" or option.startswith("--"):
                raise _NotUnderstood
            if letters[0] in valued:
                if not letters[1:]:
                    waiting[:1] = []
                if letters[0] in "CD" and name in ("env", "sudo"):
                    moved = None
            elif any(letter not in plain for letter in letters) or (
                name == "sudo" and "s" in letters
            ):
                raise _NotUnderstood
        if name in ("env", "sudo"):
            while waiting and waiting[0] is not None and re.match(r"\w+=", waiting[0]):
                variables.append(_check_variable((waiting.pop(0) or "").partition("=")[0]))
        if name == "timeout":
            waiting[:1] = []
        # It may stand for several words, one of which then is the command.
        if not self._patterns.isdisjoint(word or "" for word in rest[: len(rest) - len(waiting)]):
            raise _NotUnderstood
        if not waiting:
            return folders, folders
        if name == "xargs":
            # It adds words that it reads.
            waiting = [None if word is not None and "{}" in word else word for word in waiting]
            waiting.append(None)
        if waiting[0] is None:
            raise _NotUnderstood
        return self._run(waiting, moved, told if name == "exec" else _Redirects(), variables)

    def _assignments(self, node: "Node", folders: Folders) -> None:
        for one in [node] if node.type == "variable_assignment" else _named(node):
            self._assignment(one, folders)

    def _assignment(self, node: "Node", folders: Folders) -> str:
        name = node.child_by_field_name("name")
        if name is None:
            raise _NotUnderstood
        self._substitutions(node, folders)
        if _text(node) in _HARMLESS:
            return _text(name)
        return _check_variable(_text(name).partition("[")[0])

    def _declaration(self, node: "Node", folders: Folders) -> None:
        words: list[str | None] = [node.children[0].type]
        for child in _named(node):
            match child.type:
                case "variable_assignment":
                    name = self._assignment(child, folders)
                    words.append(name)
                case "variable_name":
                    words.append(_check_variable(_text(child)))
                case _:
                    words.append(self._word(child, folders))
                    self._check_setting("declare", words[-1:])
        if words[0] != "unset" and any(one.type != "variable_assignment" for one in _named(node)):
            # An attribute may make arithmetic, or a name for another one, of what comes later.
            self._sets = True
        self._keep(words, folders, _Redirects(), ())

    def _substitutions(self, node: "Node", folders: Folders) -> None:
        """Read the commands in ``$(…)`` and ``<(…)``, wherever they are in something else."""
        match node.type:
            case "command_substitution" | "process_substitution":
                inner = [child for child in node.children if child.is_named]
                if len(inner) == 1 and inner[0].type == "file_redirect":
                    told = _Redirects()
                    self._redirects(inner, folders, told)
                    self._keep((), folders, told, ())
                    return
                self._depth += 1
                if self._depth > DEPTH_MAX:
                    raise _NotUnderstood
                self._sequence(node.children, folders)
                self._depth -= 1
            case "expansion":
                # ${name@P} runs what is in the variable, and ${!name} reads another one.
                if any(child.type in ("@", "!") for child in node.children):
                    raise _NotUnderstood
                if any(child.type in ("=", ":=") for child in node.children):
                    self._sets = True
                    _check_variable(_NAME.findall(_text(node))[0])
                _, colon, cut = _text(node).partition(":")
                if colon and cut[:1] not in ("-", "=", "?", "+"):
                    self._check_number(cut[:-1])
                for child in node.children:
                    self._substitutions(child, folders)
            case "arithmetic_expansion":
                text = _text(node)
                self._check_number(text[3:-2] if text.startswith("$((") else text[2:-1])
                for child in node.children:
                    self._substitutions(child, folders)
            case "compound_statement" if node.children[0].type == "((":
                self._check_number(_text(node)[2:-2])
            case "subscript":
                index = _text(node).partition("[")[2].rpartition("]")[0]
                if index not in ("@", "*"):
                    self._check_number(index)
                for child in node.children:
                    self._substitutions(child, folders)
            case "test_operator" if _text(node) in ("-v", "-R"):
                raise _NotUnderstood
            case "test_command" if node.children[0].type == "[[" and any(
                one in _text(node) for one in _COMPARING
            ):
                self._check_number(" ".join(_operands(node)))
                for child in node.children:
                    self._substitutions(child, folders)
            case "test_command" if node.children[0].type == "[":
                for operand in _leaves(node):
                    self._check_operand(operand)
                for child in node.children:
                    self._substitutions(child, folders)
            case "extglob_pattern" if "$" in _text(node) or "`" in _text(node):
                raise _NotUnderstood
            case _:
                for child in node.children:
                    self._substitutions(child, folders)

    def _expanded(self, node: "Node", folders: Folders) -> list[str | None]:
        """Return the words that an argument becomes: several, if it has braces."""
        text, inner = _text(node), node.children or [node]
        is_braced = any("{" in _text(child) for child in inner if child.type == "word")
        if node.type in ("concatenation", "word") and is_braced and text != "{}":
            found = _BRACES.fullmatch(text)
            is_plain = all(child.type in ("word", "number") for child in inner)
            if found is None or not is_plain or "\\" in text or "~" in text:
                self._substitutions(node, folders)
                # A brace that is no list stays as it is, and one that is quoted does too.
                if not is_plain or "," in text or ".." in text or "\\" in text:
                    return [None]
                return [text]
            before, parts, after = found.groups()
            words = [f"{before}{part}{after}" for part in parts.split(",")]
            self._patterns.update(filter(_GLOB.search, words))
            return [*words]
        return [self._word(node, folders)]

    def _word(  # noqa: PLR0911 - a case for each kind of word
        self, node: "Node", folders: Folders
    ) -> str | None:
        """Return what a word means to the command, or None if only the shell knows."""
        text = _text(node)
        match node.type:
            case "word" | "number":
                if node.children:
                    self._substitutions(node, folders)
                    return None
                word = self._tilde(_ESCAPED.sub(_unescape, text), text)
                if word is not None and _GLOB.search(_ESCAPED.sub("", text)):
                    self._patterns.add(word)
                return word
            case "raw_string":
                return text[1:-1]
            case "string":
                return self._string(node, folders)
            case "concatenation":
                parts = [self._part(child, folders, is_first=place == 0)
                         for place, child in enumerate(node.children)]  # fmt: skip
                end = node.start_byte
                for child in node.children:
                    if child.start_byte != end:
                        return None
                    end = child.end_byte
                if any(child.type == "$" for child in node.children):
                    raise _NotUnderstood
                if any(part is None for part in parts):
                    return None
                word = "".join(part for part in parts if part is not None)
                if any(part in self._patterns for part in parts):
                    self._patterns.add(word)
                return word
            case "simple_expansion":
                return self._variable(text[1:], folders)
            case "expansion":
                self._substitutions(node, folders)
                return self._variable(text[2:-1], folders)
            case (
                "ansi_c_string" | "translated_string" | "command_substitution"
                | "process_substitution" | "arithmetic_expansion" | "brace_expression"
            ):  # fmt: skip
                self._substitutions(node, folders)
                return None
            case "variable_name" | "special_variable_name" | "test_operator":
                return text
            case _:
                raise _NotUnderstood

    def _part(self, node: "Node", folders: Folders, *, is_first: bool) -> str | None:
        word = self._word(node, folders)
        # A tilde means a home only where a word begins.
        if not is_first and node.type == "word" and _text(node).startswith("~"):
            return _ESCAPED.sub(_unescape, _text(node))
        return word

    def _string(self, node: "Node", folders: Folders) -> str | None:
        text, whole, start = "", node.text or b"", node.start_byte
        at, is_known = node.start_byte + 1, True
        for child in node.children:
            if child.type in ("simple_expansion", "expansion", "command_substitution",
                              "arithmetic_expansion"):  # fmt: skip
                text += _ESCAPED_IN_STRING.sub(
                    _unescape, whole[at - start : child.start_byte - start].decode()
                )
                at = child.end_byte
                word = self._word(child, folders)
                is_known = is_known and word is not None
                text += word or ""
        text += _ESCAPED_IN_STRING.sub(_unescape, whole[at - start : -1].decode())
        return text if is_known else None

    def _tilde(self, word: str, written: str) -> str | None:
        if not written.startswith("~"):
            return word
        if self._home is not None and (written == "~" or written.startswith("~/")):
            return self._home + word[1:]
        return None

    def _variable(self, name: str, folders: Folders) -> str | None:
        if name == "HOME":
            return self._home
        if name == "PWD" and folders is not None and len(folders) == 1:
            (folder,) = folders
            return folder
        return None


class _Redirects:
    """What a command's redirects name."""

    def __init__(self) -> None:
        self.reads: list[str | None] = []
        self.writes: list[str | None] = []
        self.extra: list[str | None] = []
        """Arguments that are written after a redirect."""
        self.has_input = False


@value
class _LastRedirected:
    """The last command of a list, and the redirects that are its own."""

    node: Any
    redirects: Any


def _is_covered(root: "Node", line: bytes) -> bool:
    """Whether the grammar has read all of a line: it loses the ``-`` of ``python3 - <<EOF``."""
    at, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        if node.children:
            waiting += reversed(node.children)
            continue
        if _BETWEEN.fullmatch(line, at, max(at, node.start_byte)) is None:
            return False
        at = max(at, node.end_byte)
    return _BETWEEN.fullmatch(line, at) is not None


def _split_if(
    node: "Node",
) -> tuple[list["Node"], list["Node"], list["Node"]]:
    """Return the conditions, the body, and the clauses that follow."""
    conditions: list[Node] = []
    bodies: list[Node] = []
    rest: list[Node] = []
    into = conditions
    for child in node.children:
        if child.type == "then":
            into = bodies
        elif child.type in ("elif_clause", "else_clause"):
            rest.append(child)
        else:
            into.append(child)
    return conditions, bodies, rest


def _find_numbers(root: "Node") -> frozenset[str]:
    """Return the variables that hold a number, whatever of a line runs."""
    found, other, waiting = set[str](_STARTING.findall(_text(root))), set[str](), [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type == "variable_assignment":
            name, given = node.child_by_field_name("name"), node.child_by_field_name("value")
            is_number = (
                given is None
                or given.type == "arithmetic_expansion"
                or bool(_NUMBER.fullmatch(_text(given)))
            )
            if name is not None:
                (found if is_number else other).add(_text(name))
        elif node.type == "for_statement":
            values = [_text(one) for one in node.children_by_field_name("value")]
            is_number = bool(values) and all(map(_NUMBER.fullmatch, values))
            for name in node.children_by_field_name("variable"):
                (found if is_number else other).add(_text(name))
    return frozenset(found - other)


def _operands(node: "Node") -> Iterator[str]:
    """Yield both sides of each comparison of numbers in a test."""
    if node.type == "binary_expression" and len(node.children) == len(("left", "-eq", "right")):
        left, operator, right = node.children
        if _text(operator) in _COMPARING:
            yield from (_text(side).strip('"') for side in (left, right))
            return
    for child in node.children:
        yield from _operands(child)


def _names_variable(pattern: str) -> bool:
    """Whether a file may have the name of an option of ``test`` that evaluates an index."""
    return bool(_GLOB.search(pattern)) and any(fnmatchcase(one, pattern) for one in ("-v", "-R"))


def _leaves(node: "Node") -> Iterator["Node"]:
    """Yield the operands of a test in brackets."""
    for child in node.children:
        if child.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
            yield from _leaves(child)
        elif child.is_named and child.type != "string":
            yield child


def _check_options(words: Sequence[str | None]) -> None:
    """Refuse an option of the shell that changes what the rest of a line means."""
    for place, word in enumerate(words):
        if word is None:
            raise _NotUnderstood
        if word == "--":
            return
        if word.startswith(("-", "+")):
            if _SET_OPTION.fullmatch(word) is None:
                raise _NotUnderstood
        elif place == 0 or not (words[place - 1] or "").endswith("o"):
            return
        elif word not in _SAFE_OPTIONS:
            raise _NotUnderstood


def _is_statement(node: "Node") -> bool:
    return node.type in (
        "command", "redirected_statement", "list", "pipeline", "negated_command", "subshell",
        "compound_statement", "do_group", "if_statement", "while_statement", "for_statement",
        "c_style_for_statement", "case_statement", "function_definition", "test_command",
        "variable_assignment", "variable_assignments", "declaration_command", "unset_command",
    )  # fmt: skip


def _either(one: Folders, other: Folders) -> Folders:
    if one is None or other is None or len(one | other) > FOLDERS_MAX:
        return None
    return one | other


def _check_variable(name: str) -> str:
    if name in _TRAPS or name.startswith(_TRAP_STARTS):
        raise _NotUnderstood
    return name


def _named(node: "Node") -> list["Node"]:
    return [child for child in node.children if child.is_named and child.type not in _SILENT]


def _text(node: "Node") -> str:
    return (node.text or b"").decode()


def _unescape(found: re.Match[str]) -> str:
    return "" if found.group(1) == "\n" else found.group(1)
