"""Sessions as a person recognizes them: title, tool, folder, files and age. Newest first."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turntree.boot.open import imports_on
from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.cli.output.changes import shown_path
from turntree.cli.output.session import session_row_document
from turntree.cli.output.text import age, cells, clean, counted, cut, pad, title
from turntree.core.ids import ProgramId, Timestamp
from turntree.core.session import Session
from turntree.core.value import value
from turntree.ledger.revisions import PREFIX_CHARS_MIN
from turntree.transcripts.display import tool_title

NAME_WIDTH_MAX: Final = 28
FOLDER_WIDTH_MAX: Final = 22
TITLE_WIDTH_MIN: Final = 16


@value
class SessionRow:
    """A session, and what a person recognizes it by."""

    session: Session
    name: str
    """Its label or, if that is long, a part of it that names the session too."""
    title: str
    folders: tuple[str, ...]
    """Where it worked: as its tool says, else as it was recorded."""
    files: int
    """Number of files that its tools wrote."""
    is_private: bool = False

    @property
    def tool(self) -> str:
        """The tool that it came from, or nothing."""
        return "" if self.session.origin is None else self.session.origin.tool

    def worked_in(self, folder: Path) -> bool:
        """Whether it worked in a folder, in one below it, or in a project that contains it."""
        return any(
            folder == place or folder in place.parents or place in folder.parents
            for place in map(Path, self.folders)
        )

    def document(self, current: Session | None) -> dict[str, Any]:
        """Return the row as it is listed in JSON."""
        return {
            **session_row_document(self.session, current=current),
            "visibility": "private" if self.is_private else "public",
            "title": self.title,
            "folder": self.folders[0] if self.folders else None,
            "files": self.files,
        }


async def describe_sessions(opened: CliContext, sessions: Sequence[Session]) -> list[SessionRow]:
    """Return sessions, newest first, without what has to be read for each of them."""
    resources = opened.tree.resources
    attached = await resources.attachments.list_places("directory", resources.host)
    imported = await imports_on(opened.database).describe_sessions()
    private = set(await opened.tree.programs.list_private("session"))
    labels = [session.label for session in sessions]
    rows: list[SessionRow] = []
    for session in sessions:
        told = None if session.origin is None else imported.get(session.origin)
        folder, named = told or (None, None)
        folders = [*([] if folder is None else [folder]), *attached.get(session.id, [])]
        rows.append(
            SessionRow(
                session,
                short_name(session.label, labels),
                clean(named or ""),
                tuple(dict.fromkeys(folders)),
                0,
                ProgramId(session.id) in private,
            )
        )
    return sorted(rows, key=lambda row: row.session.worked_at, reverse=True)


async def fill_rows(opened: CliContext, rows: Sequence[SessionRow]) -> list[SessionRow]:
    """Return rows with their titles and the number of files."""
    heads = [row.session.head for row in rows if row.session.head is not None]
    files = await opened.tree.sessions.ledger.count_written_files(heads)
    filled: list[SessionRow] = []
    for row in rows:
        head, named = row.session.head, row.title
        if not named and head is not None:
            named = title((await opened.tree.turns.get(head)).turn)
        count = 0 if head is None else files.get(head, 0)
        filled.append(replace(row, title=named, files=count))
    return filled


def draw_rows(
    rows: Sequence[SessionRow],
    current: Session | None,
    now: Timestamp,
    terminal: Terminal,
    *,
    with_folders: bool,
) -> list[str]:
    """Return one line per session that fits the terminal; the title takes what is left."""
    columns = [
        [
            "*" if current is not None and row.session.id == current.id else " ",
            row.name,
            tool_title(row.tool),
            counted(row.session.depth, "turn"),
            counted(row.files, "file") if row.files else "",
            age(row.session.worked_at, now),
            shorten_folder(row.folders, terminal) if with_folders else "",
        ]
        for row in rows
    ]
    widths = [
        max((cells(cell) for cell in column), default=0) for column in zip(*columns, strict=True)
    ]
    taken = sum(width + 2 for width in widths if width)
    left = max(TITLE_WIDTH_MIN, terminal.width - taken)
    ellipsis = terminal.spell("…")
    return [
        "  ".join(
            [
                *(pad(cell, width) for cell, width in zip(line, widths, strict=True) if width),
                cut(" ".join([row.title, *remarks(row)]).strip(), left, ellipsis=ellipsis),
            ]
        ).rstrip()
        for line, row in zip(columns, rows, strict=True)
    ]


def short_name(label: str, labels: Sequence[str]) -> str:
    """Return a label in full or, if it is long, only its end, as long as that names it."""
    last = label.rpartition("/")[2]
    if cells(label) <= NAME_WIDTH_MAX or len(last) < PREFIX_CHARS_MIN:
        return clean(label)
    is_shared = any(
        one != label and (one.endswith(last) or f"/{last}" in f"/{one}") for one in labels
    )
    return clean(label if is_shared else last)


def remarks(row: SessionRow) -> list[str]:
    """Return what is unusual about a session."""
    session = row.session
    words: list[str] = [] if session.status == "active" else [session.status]
    words += ["private"] if row.is_private else []
    words += [] if session.spawn is None else ["subagent"]
    words += [f"alias {clean(alias)}" for alias in session.aliases]
    return [f"({', '.join(words)})"] if words else []


def shorten_folder(folders: Sequence[str], terminal: Terminal) -> str:
    """Return the first folder as a person writes it, cut at its beginning."""
    if not folders:
        return ""
    home, path = str(Path.home()), shown_path(folders[0])
    if path == home or path.startswith(f"{home}/"):
        path = f"~{path.removeprefix(home)}"
    if cells(path) <= FOLDER_WIDTH_MAX:
        return path
    ellipsis = terminal.spell("…")
    return f"{ellipsis}{path[-(FOLDER_WIDTH_MAX - cells(ellipsis)) :]}"
