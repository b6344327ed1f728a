"""Record which ledgers refer to snapshots of a store: one file each, next to the objects.

Several ledgers may share a data directory, and none can tell what another one refers to. Never asks
a ledger.
"""

import hashlib
from pathlib import Path


def note_ledger(home: Path, ledger: str) -> None:
    """Record that a ledger refers to snapshots in a data directory."""
    note = _note_of(home, ledger)
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{ledger}\n", encoding="utf-8")


def list_other_ledgers(home: Path, ledger: str) -> dict[Path, str]:
    """Return the other ledgers that use a data directory, by the file that records each."""
    own = _note_of(home, ledger)
    notes = sorted(own.parent.glob("*.ledger"))
    return {note: note.read_text(encoding="utf-8").strip() for note in notes if note != own}


def _note_of(home: Path, ledger: str) -> Path:
    name = hashlib.sha256(ledger.encode()).hexdigest()[:16]
    return home / "shadow" / "ledgers" / f"{name}.ledger"
