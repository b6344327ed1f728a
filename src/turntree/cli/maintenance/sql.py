"""``sql``: query the ledger's views without connecting by hand."""

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import date, time
from functools import partial
from itertools import chain, count
from typing import Any, Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.text import clean, clean_block, cut, table
from turntree.core.errors import InvalidOperation
from turntree.db.console import READER, QueryResult, ask, list_views
from turntree.db.embedded.logins import CONSOLE, as_login

ROWS_DEFAULT: Final = 1000
TIMEOUT_DEFAULT_S: Final = 60
CELL_MAX: Final = 60
EXAMPLE: Final = "SELECT model, count(*) FROM turns GROUP BY 1 ORDER BY 2 DESC"


@verb()
@click.argument("statement", metavar="[STATEMENT]", required=False)
@click.option("--rows", "-n", type=click.IntRange(1), default=ROWS_DEFAULT, show_default=True,
              help="Maximum number of rows to show.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.1), default=TIMEOUT_DEFAULT_S,
              show_default=True, help="Time limit in seconds.")  # fmt: skip
@click.option("--whole", is_flag=True, help="Long values in full.")
def sql(terminal: Terminal, statement: str | None, rows: int, timeout: float, whole: bool) -> None:
    """Query the ledger in SQL, read-only.

    STATEMENT is a query, or - to read it from stdin. It runs as a read-only login: the embedded
    server has one; for a PostgreSQL of your own, console_url names it. The views of the schema
    ledger need no prefix: turns, threads, sessions, messages and others. Without a query, they are
    listed. You see the current workspace, and of its private sessions those you have access to.
    """
    if statement is None:
        views = with_ledger(terminal, lambda opened: list_views(opened.database), waits=False)
        _list_views(terminal, views)
        return
    asked = sys.stdin.read() if statement == "-" else statement
    if not asked.strip():
        raise click.UsageError(f'there is no statement; try: turntree sql "{EXAMPLE}"')
    answer = with_ledger(terminal, partial(_ask, statement=asked, rows=rows, timeout_s=timeout))
    if terminal.as_json:
        names = _tell_apart(answer.columns)
        terminal.documents(dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows)
    elif answer.columns:
        whole = whole or len(answer.columns) == 1
        terminal.page(_draw(answer, terminal, None if whole else CELL_MAX))
    if answer.is_cut:
        terminal.note(f"there are more than {rows:,} rows; --rows shows more of them")
    elif not answer.rows and not terminal.as_json:
        terminal.note("no rows")


async def _ask(opened: CliContext, *, statement: str, rows: int, timeout_s: float) -> QueryResult:
    console = _find_console(opened)
    return await ask(opened.database, console, statement, limit=rows, timeout_s=timeout_s)


def _find_console(opened: CliContext) -> str:
    """Return the connection string of the read-only login."""
    if opened.settings.database_url is None:
        return as_login(opened.database.conninfo, CONSOLE)
    if opened.settings.console_url is None:
        raise InvalidOperation(
            "questions are asked by a login that can only read, and console_url names none."
            " Create one in your PostgreSQL, then name it:\n"
            f"  CREATE ROLE {CONSOLE} LOGIN PASSWORD '…';\n"
            f"  GRANT {READER} TO {CONSOLE};\n"
            f"  turntree config set console_url postgresql://{CONSOLE}:…@HOST/DATABASE"
        )
    return opened.settings.console_url


def _list_views(terminal: Terminal, views: list[tuple[str, list[str]]]) -> None:
    if terminal.as_json:
        terminal.documents({"view": view, "columns": columns} for view, columns in views)
        return
    terminal.page(_draw_views(views, terminal))
    terminal.note(f'next: turntree sql "{EXAMPLE}"')


def _draw_views(views: list[tuple[str, list[str]]], terminal: Terminal) -> Iterator[str]:
    indent = max(len(view) for view, _ in views) + 2
    for view, columns in views:
        lines = textwrap.wrap(", ".join(columns), terminal.width - indent)
        yield terminal.paint(view, "label") + " " * (indent - len(view)) + lines[0]
        yield from (" " * indent + line for line in lines[1:])


def _tell_apart(columns: Sequence[str]) -> list[str]:
    """Return unique column names: a second ``id`` becomes ``id_2``."""
    names: list[str] = []
    for column in columns:
        others = (f"{column}_{number}" for number in count(2))
        names.append(next(name for name in chain([column], others) if name not in names))
    return names


def _draw(answer: QueryResult, terminal: Terminal, cell_max: int | None) -> Iterator[str]:
    shown = [[_cell(value, cell_max, terminal) for value in row] for row in answer.rows]
    heads = [clean(name) for name in answer.columns]
    first, *others = table([heads, *shown])
    yield terminal.paint(first, "head")
    yield from others


def _cell(value: object, cell_max: int | None, terminal: Terminal) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    told = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    # Spaces stay: the output of EXPLAIN is indented by them.
    text = " ".join(clean_block(told))
    return text if cell_max is None else cut(text, cell_max, ellipsis=terminal.spell("…"))


def _plain(value: object) -> Any:
    """Return a value as a JSON type."""
    return json.loads(json.dumps(value, ensure_ascii=False, default=_spell))


def _spell(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, date | time) else str(value)
