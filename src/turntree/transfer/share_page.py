"""A shared thread as one file: a page that any browser shows, with the archive inside.

The page loads nothing and runs nothing. The archive is a data block, which a browser ignores and
an import reads. Knows the page and the block, not the ledger.
"""

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Final, cast

from turntree.core.errors import InvalidOperation
from turntree.core.ids import TurnId
from turntree.core.message import ErasedMessage
from turntree.core.redaction import Redactor, without_secrets
from turntree.core.thread import ThreadTurn
from turntree.resources.file_diff import FileDiff
from turntree.transcripts.exporters.html import PageAdditions, to_html
from turntree.transfer.share import RedactionReport, ThreadArchive

MARK: Final = '<meta name="turntree" content="share/1">\n'
"""In the head of every shared page."""
HEAD_BYTES: Final = 4096
"""The mark is within these."""
BLOCK: Final = '<script type="application/vnd.turntree.archive">'
BLOCK_END: Final = "</script>"
LINE_BYTES: Final = 3 * 1024
"""Bytes in one line of base64, which turns three of them into four characters."""
UNPACKED_BYTES_MAX: Final = 4 << 30
MEMORY_BYTES_MAX: Final = 16 << 20
DIFF_LINES_MAX: Final = 2000
"""Lines of one file's difference on the page; the archive has all of them."""
_ELEMENTS: Final[Mapping[str, str]] = {"+": "ins", "-": "del", " ": "span"}


def to_page(
    thread: Sequence[ThreadTurn],
    archive: ThreadArchive,
    askers: Mapping[TurnId, str],
    redactor: Redactor,
    import_command: str,
) -> str:
    """Return a shared thread as a page, which names the command that imports it.

    A message with a secret is not in the archive; the page shows it without the secret.
    """
    shown = [_without_secrets(placed, redactor) for placed in thread]
    changes = {turn: _changes(diffs) for turn, diffs in archive.changes.items() if diffs}
    told = f"<p>Continue this thread on your machine: <code>{escape(import_command)}</code></p>\n"
    end = f"<footer>\n{told}{_report(archive.report)}</footer>\n{_block(archive.data)}"
    return to_html(shown, archive.objects, askers, PageAdditions(MARK, changes, end))


def is_shared_page(path: Path) -> bool:
    """Return whether a file is the page of a shared thread."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(HEAD_BYTES)


@contextmanager
def open_shared_page(path: Path) -> Generator[IO[bytes]]:
    """Open the archive inside the page of a shared thread.

    Raises:
        InvalidOperation: The page was cut off or changed.
    """
    with SpooledTemporaryFile(MEMORY_BYTES_MAX) as unpacked:
        archive = cast("IO[bytes]", unpacked)
        with path.open("rb") as page:
            _unpack(page, archive)
        archive.seek(0)
        yield archive


def _unpack(page: IO[bytes], archive: IO[bytes]) -> None:
    # The page may be much larger than memory, so it is never read as a whole. Editors and mail
    # programs may have changed the line ends.
    lines = (line.strip() for line in page)
    if BLOCK.encode() not in lines:
        raise InvalidOperation("the page was cut off: the shared thread is not in it")
    inflater, unpacked = zlib.decompressobj(), 0
    for line in lines:
        if line == BLOCK_END.encode():
            break
        try:
            packed = b64decode(line, validate=True)
            # A few bytes can unpack to gigabytes, so each step has a limit.
            while packed:
                data = inflater.decompress(packed, MEMORY_BYTES_MAX)
                unpacked += len(data)
                if unpacked > UNPACKED_BYTES_MAX:
                    raise InvalidOperation("the shared thread is larger than any that was written")
                archive.write(data)
                packed = inflater.unconsumed_tail
        except (binascii.Error, zlib.error) as error:
            raise InvalidOperation("the page was changed: it cannot be unpacked") from error
    if not inflater.eof:
        raise InvalidOperation("the page was cut off: the shared thread is not complete")


def _block(data: bytes) -> str:
    # Base64 contains no `<`, so nothing in it can end the element. Each line can be decoded alone.
    packed = zlib.compress(data, 9)
    lines = [
        b64encode(packed[place : place + LINE_BYTES]).decode()
        for place in range(0, len(packed), LINE_BYTES)
    ]
    return "\n".join((BLOCK, *lines, BLOCK_END, ""))


def _without_secrets(placed: ThreadTurn, redactor: Redactor) -> ThreadTurn:
    messages = tuple(
        message if isinstance(message, ErasedMessage) else without_secrets(message, redactor)[0]
        for message in placed.turn.messages
    )
    return replace(placed, turn=replace(placed.turn, messages=messages))


def _changes(diffs: Sequence[FileDiff]) -> str:
    files = "\n".join(map(_file, diffs))
    return f'<article class="files"><h2>files changed</h2>\n{files}\n</article>\n'


def _file(diff: FileDiff) -> str:
    sums = (
        ""
        if diff.added is None
        else f' <span class="ok">+{diff.added}</span> <span class="bad">-{diff.removed}</span>'
    )
    name = _path(diff.path)
    if diff.renamed_from is not None:
        name = f"{_path(diff.renamed_from)} → {name}"
    said = f"<code>{name}</code> {escape(diff.kind)}{sums}"
    if diff.shape != "text" or not diff.hunks:
        return f'<p class="file">{said}</p>'
    lines = list(_lines(diff))
    shown = "".join(lines[:DIFF_LINES_MAX])
    if len(lines) > DIFF_LINES_MAX:
        shown += f"<i>… {len(lines) - DIFF_LINES_MAX:,} more lines</i>\n"
    return f'<details class="call"><summary>{said}</summary><pre>{shown}</pre></details>'


def _lines(diff: FileDiff) -> Iterator[str]:
    for hunk in diff.hunks:
        ranges = f"-{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count}"
        yield f"<i>@@ {ranges} @@</i>\n"
        for sign, line in hunk.lines:
            text = escape(line.rstrip(b"\r\n").decode("utf-8", "replace"))
            element = _ELEMENTS[sign]
            yield f"<{element}>{sign}{text}</{element}>\n"


def _path(path: str) -> str:
    return escape(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _report(report: RedactionReport) -> str:
    """Return what the page says about what was removed."""
    told = [] if report.secrets else ["No secrets were found in it."]
    told += [
        f"Message {one.message + 1} of turn <code>{one.turn.removeprefix('sha256:')[:8]}</code> "
        f"held a secret: the page shows it without, and the archive has only its digest."
        for one in report.messages
    ]
    told += [
        f"<code>{_path(path)}</code>: {_counted(count, 'secret')} taken out."
        for path, count in report.files
    ]
    told += [
        f"<code>{_path(path)}</code>: left out; it is too large to check, or binary with a secret."
        for path in report.files_left_out
    ]
    told += [
        f"Turn <code>{escape(turn)}</code>: its events held a secret and were left out."
        for turn in report.turns_without_events
    ]
    if report.states_missing:
        told.append(f"{_counted(report.states_missing, 'file state')} not stored on that machine.")
    return "".join(f"<p>{line}</p>\n" for line in told)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
