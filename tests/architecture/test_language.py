"""Ratchets on the language of the source: HOUSE_STYLE.md gives the reasons.

Each limit is the count on the day it was last lowered. Lower it when you beat it; never raise it.
The goal stands behind it. A count is an alarm, not the goal: the goal is that a stranger reads the
code without stopping.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from tests.architecture.source import FUNCTION, is_command, modules, name_of, texts
from turntree.cli import aliases
from turntree.cli.root import root

PRONOUNS_MAX = 24  # goal: 40, reached
PARTICIPLE_CLASSES_MAX = 4  # goal: 10, reached
DUPLICATE_CLASSES_MAX = 0  # goal: 10, reached
HELPERS_USED_ONCE_SHARE_MAX = 0.265  # goal: 0.12
COMMENT_SHARE_MIN = 0.013  # goal: 0.025
COMMANDS_NAMED_MAX = 0  # goal: 0, reached
FILES_PER_FOLDER_MAX = 25  # goal: 25, reached

PRONOUN = re.compile(
    r"\b(?:(?:some|no|any|every)body|(?:some|any|every)one|no one|who(?:m|se)?(?:so)?ever)\b",
    re.IGNORECASE,
)
PARTICIPLE = re.compile(
    r"_?(?:[A-Z][a-z]*(?:ed|ing)|Begun|Bound|Brought|Built|Chosen|Cut|Done|Drawn|Driven|Found"
    r"|Forgotten|Given|Gone|Heard|Held|Hidden|Kept|Known|Left|Lent|Lost|Made|Met|Overtaken|Paid"
    r"|Seen|Sent|Shown|Spoken|Spent|Swept|Said|Taken|Thrown|Told|Understood|Won|Written)"
)
# They end like a participle and are nouns.
NOUNS = {"Feed", "Finding", "Mapping", "Reasoning", "Ring", "Setting", "Spending", "String"}


def test_indefinite_pronouns_only_fall() -> None:
    hits = [f"{name_of(path)}: {word}" for path, text in texts().items() for word in pronouns(text)]
    assert len(hits) <= PRONOUNS_MAX, hits


def test_participle_class_names_only_fall() -> None:
    names = sorted({name for _, name in classes() if is_participle(name)})
    assert len(names) <= PARTICIPLE_CLASSES_MAX, names


def test_class_names_defined_twice_only_fall() -> None:
    counts = Counter(name for _, name in classes())
    repeated = sorted(name for name, count in counts.items() if count > 1)
    assert len(repeated) <= DUPLICATE_CLASSES_MAX, repeated


def test_helpers_used_once_only_fall() -> None:
    # A protocol's methods have no body. Counted, they would make each removed protocol a failure.
    functions = sum(
        isinstance(node, FUNCTION) and not is_stub(node)
        for tree in trees()
        for node in ast.walk(tree)
    )
    once = [name for tree in trees() for name in helpers_used_once(tree)]
    assert len(once) <= HELPERS_USED_ONCE_SHARE_MAX * functions, len(once) / functions


def test_comment_share_only_rises() -> None:
    lines = [line for path in modules() for line in texts()[path].splitlines()]
    comments = sum(is_comment(line) for line in lines)
    assert comments >= COMMENT_SHARE_MIN * len(lines), comments / len(lines)


def test_commands_named_in_lower_packages_only_fall() -> None:
    hits = [
        f"{name_of(path)}: {command}"
        for path, text in texts().items()
        if not is_command(path)
        for command in commands_named(text)
    ]
    assert len(hits) <= COMMANDS_NAMED_MAX, hits


def test_files_per_folder_only_fall() -> None:
    folder, count = Counter(path.parent for path in texts()).most_common(1)[0]
    assert count <= FILES_PER_FOLDER_MAX, folder


def test_pronouns_are_found_in_any_case() -> None:
    assert pronouns("Nobody knows; whoever asks anyone, or no one. A body, one.") == [
        "Nobody",
        "whoever",
        "anyone",
        "no one",
    ]


def test_participles_exclude_nouns_and_compounds() -> None:
    names = ["Said", "_Kept", "Pinned", "Asking", "Feed", "Reasoning", "SealedTurn", "Bed", "Turn"]
    assert [name for name in names if is_participle(name)] == ["Said", "_Kept", "Pinned", "Asking"]


def test_helper_called_twice_or_public_is_not_counted() -> None:
    source = "def _a(): ...\ndef _b(): ...\ndef c(): ...\ndef __d__(): ...\n_a()\n_b(); _b()\nc()"
    assert list(helpers_used_once(ast.parse(source))) == ["_a"]


def test_commands_named_ignores_other_words() -> None:
    assert commands_named("see `turntree log`; turntree has no such thing") == ["turntree log"]


def trees() -> list[ast.Module]:
    return list(modules().values())


def pronouns(text: str) -> list[str]:
    return PRONOUN.findall(text)


def classes() -> Iterator[tuple[Path, str]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node.name


def is_participle(name: str) -> bool:
    word = name.lstrip("_")
    return len(word) > 3 and word not in NOUNS and PARTICIPLE.fullmatch(name) is not None


def is_stub(function: ast.AST) -> bool:
    match function:
        case ast.FunctionDef(body=[*_, last]) | ast.AsyncFunctionDef(body=[*_, last]):
            return isinstance(last, ast.Expr) and is_ellipsis(last.value)
        case _:
            return False


def is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def helpers_used_once(tree: ast.Module) -> Iterator[str]:
    """Yield each private function or method whose name its module uses exactly once."""
    uses = Counter[str]()
    helpers: list[str] = []
    # Half a million nodes pass through here, and ``match`` is slower.
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
        elif isinstance(node, FUNCTION) and is_private(node.name):
            helpers.append(node.name)
    yield from (name for name in helpers if uses[name] == 1)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def commands_named(text: str) -> list[str]:
    """Return the commands of the command line that a text names."""
    return command_pattern().findall(text)


@cache
def command_pattern() -> re.Pattern[str]:
    names = [*root.list_commands(click.Context(root)), *aliases.COMMANDS]
    return re.compile(rf"\bturntree (?:{'|'.join(map(re.escape, names))})\b")
