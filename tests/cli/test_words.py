"""The words of the glossary are those of the commands, the views and the events."""

import re
from pathlib import Path

import click

from tests.cli.conftest import Call
from tests.cli.talker import furnish
from turntree.cli.root import root

GLOSSARY = Path(__file__).parents[2] / "docs/glossary.md"
DEFINED = re.compile(r"\*\*([^*]+)\.\*\*")
OF_THE_TERMINAL = {"completion"}
"""Commands that are about the shell and not about the ledger."""


def defined() -> set[str]:
    found = DEFINED.findall(GLOSSARY.read_text(encoding="utf-8"))
    return {word.strip().lower() for entry in found for word in entry.split(",")}


def test_a_noun_that_a_command_manages_is_in_the_glossary() -> None:
    context = click.Context(root)
    groups = {
        name
        for name in root.list_commands(context)
        if isinstance(root.get_command(context, name), click.Group)
    }
    assert groups - OF_THE_TERMINAL - defined() == set()


def test_what_a_turn_leaves_is_called_what_the_glossary_calls_it(turntree: Call) -> None:
    furnish(turntree)
    assert turntree("send", "main", "hello").code == 0
    views = turntree(
        "sql", "--json",
        "SELECT viewname AS name FROM pg_views WHERE schemaname = 'ledger' ORDER BY 1",
    ).documents  # fmt: skip
    names = {one["name"].removesuffix("s").replace("_", " ") for one in views}
    assert {"turn", "thread", "session", "message", "tool call", "compaction"} <= names
    # The first word of the others is the thing that they are about: session_history, message_files.
    assert {name for name in names if not {name, name.split()[0]} & defined()} == set()
    kinds = turntree(
        "sql", "--json", "SELECT DISTINCT split_part(kind, '.', 1) AS noun FROM turntree.events"
    ).documents  # fmt: skip
    nouns = {one["noun"].replace("_", " ") for one in kinds}
    assert {"run", "session", "model call", "provider"} <= nouns
    assert nouns - defined() == set()


def test_the_words_mean_what_the_glossary_says(turntree: Call) -> None:
    furnish(turntree)
    for text in ("one", "two"):
        turntree("send", "main", text)
    turntree("send", "main~1", "other")

    def count(query: str) -> int:
        (row,) = turntree("sql", "--json", f"SELECT count(*) AS n FROM {query}").documents  # noqa: S608
        found: int = row["n"]
        return found

    assert count("turns") == count("threads") == 3, "a thread is a turn with its ancestors"
    assert count("turns WHERE NOT has_children") == 2, "a leaf is a turn without children"
    heads = {one["head"] for one in turntree("session", "list", "--json").documents}
    assert len(heads) == 2, "a session is a label that points at a turn"
    assert count("threads WHERE depth = 1") == 1, "a root has depth 1"
