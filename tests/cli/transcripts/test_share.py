"""``share`` and ``import PAGE``, as two people with two ledgers type them."""

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from proofs.transcripts.claude_code import Tape, save
from tests.cli.conftest import Call, choose_database
from tests.cli.project import Project
from tests.databases import Databases
from turntree.transfer.share_page import BLOCK, BLOCK_END

Elsewhere = Callable[[], AbstractContextManager[None]]
KEY = "sk-ant-api03-" + "Ab1" * 20


@pytest.fixture
def elsewhere(
    databases: Databases, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Elsewhere:
    """Another person with an empty ledger and a home of their own."""

    @contextmanager
    def enter() -> Generator[None, None, None]:
        with databases.lend(template) as lent, monkeypatch.context() as patch:
            choose_database(lent, patch)
            patch.setenv("TURNTREE_HOME", str(tmp_path / "their home"))
            patch.setenv("TURNTREE_USER", "bob")
            yield

    return enter


@pytest.fixture
def transcripts(tmp_path: Path) -> Path:
    """A session of Claude Code whose first message holds a key."""
    tape = Tape()
    tape.exchange(f"my key is {KEY}", "noted")
    tape.exchange("second")
    save(tmp_path / ".claude", tape)
    return tmp_path / ".claude"


def test_a_shared_thread_arrives_with_its_files_and_without_its_secrets(
    turntree: Call, project: Project, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    project.write({".env": f"KEY={KEY}\nDEBUG=1\n", "cart.py": "total = 0\n"})
    first = project.turn("begin the cart", {"cart.py": "total = 1\n"})
    last = project.turn("finish the cart", {"cart.py": "total = 2\n", "logo": b"\0\1\2"})
    project.turn("a word of another session", session="secret-plan")
    page = tmp_path / "cart.html"
    told = turntree("share", "main", "-o", str(page))
    assert told.code == 0, told.err
    assert told.lines[0].startswith(f"{page} holds 2 turns")
    assert ".env: 1 secret taken out" in told.err
    text = page.read_text()
    archive = _unpacked(text)
    for hidden in (KEY, "secret-plan", "another session"):
        assert hidden not in text
        assert hidden.encode() not in archive
    assert "<ins>+total = 2</ins>" in text
    with elsewhere():
        assert "every digest matches" in turntree("import", str(page), "--dry-run").out
        added = turntree("import", str(page))
        assert added.code == 0, added.err
        assert added.lines[-1] == "the session is main"
        assert turntree("import", str(page), "--json").document["added"]["turn"] == 0
        arrived = [row["digest"] for row in turntree("log", "main", "--json").documents]
        assert arrived == [f"sha256:{last}", f"sha256:{first}"]
        assert turntree("verify", "main").code == 0
        folder = tmp_path / "theirs"
        assert turntree("worktree", "main", str(folder)).code == 0
        assert (folder / "cart.py").read_text() == "total = 2\n"
        assert (folder / "logo").read_bytes() == b"\0\1\2"
        assert re.fullmatch(r"KEY=\[redacted:\w+\]\nDEBUG=1\n", (folder / ".env").read_text())
        assert turntree("fsck").out.startswith("sound")


def test_a_message_with_a_secret_stays_here_and_the_rest_is_still_proven(
    turntree: Call, elsewhere: Elsewhere, tmp_path: Path, transcripts: Path
) -> None:
    turntree("import", "--no-redact", str(transcripts))
    (session,) = turntree("session", "list", "--json").documents
    page = tmp_path / "talk.html"
    told = turntree("share", session["label"], "-o", str(page), "--json").document
    assert len(told["removed"]["messages"]) == 1
    assert KEY not in page.read_text()
    assert KEY.encode() not in _unpacked(page.read_text())
    assert "[redacted:" in page.read_text()
    # Here the message is known, so importing the page takes nothing away.
    assert turntree("import", str(page)).code == 0
    assert KEY in turntree("show", f"{session['label']}~1", "--full", "--json").out
    with elsewhere():
        assert turntree("import", str(page), "--private").code == 0
        (arrived,) = turntree("session", "list", "--json").documents
        assert turntree("verify", arrived["label"]).code == 0
        assert turntree("program", "show", arrived["label"], "--json").document["visibility"] == (
            "private"
        )
        assert turntree("fsck").out.startswith("sound")


def test_a_page_that_was_cut_or_changed_is_refused(
    planted: Call, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    page = tmp_path / "fix.html"
    assert planted("share", "demo/fix-login", "-o", str(page)).code == 0
    whole = page.read_bytes()
    begin = whole.index(BLOCK.encode())
    with elsewhere():
        for end in range(begin - 1, len(whole) - 40, (len(whole) - begin) // 7):
            page.write_bytes(whole[:end])
            answer = planted("import", str(page))
            assert answer.code == 1
            assert "cut off" in answer.err or "cannot be unpacked" in answer.err
        page.write_text(_packed(whole.decode(), lambda data: data.replace(b"login", b"logon", 1)))
        assert "does not match its digest" in planted("import", str(page)).err
        row = b'{"kind":"turn_snapshot","row":{}}\n'
        page.write_text(_packed(whole.decode(), lambda data: _insert(data, row)))
        assert "a shared thread has no turn snapshot" in planted("import", str(page)).err
        assert planted("session", "list", "--json").documents == []


def test_share_never_replaces_a_file_unless_it_is_named(planted: Call) -> None:
    assert planted("share", "demo/fix-login").code == 0
    again = planted("share", "demo/fix-login")
    assert again.code == 1
    assert "demo-fix-login.html exists" in again.err


def _block(text: str) -> tuple[int, int]:
    begin = text.index(BLOCK) + len(BLOCK)
    return begin, text.index(BLOCK_END, begin)


def _unpacked(text: str) -> bytes:
    begin, end = _block(text)
    return zlib.decompress(b"".join(map(b64decode, text[begin:end].split())))


def _packed(text: str, change: Callable[[bytes], bytes]) -> str:
    begin, end = _block(text)
    packed = b64encode(zlib.compress(change(_unpacked(text)))).decode()
    return f"{text[:begin]}\n{packed}\n{text[end:]}"


def _insert(archive: bytes, row: bytes) -> bytes:
    *lines, last = archive.splitlines(keepends=True)
    return b"".join((*lines, row, last))
