"""Which ledgers pin states of a store: a note for each, beside the objects.

Several may share a home, and none can tell what another one pins. Knows notes. Must never ask a
ledger.
"""

import hashlib
from pathlib import Path


def note_ledger(home: Path, ledger: str) -> None:
    """Note that a ledger pins states that are kept in a home."""
    note = _note_of(home, ledger)
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{ledger}\n", encoding="utf-8")


def list_other_ledgers(home: Path, ledger: str) -> dict[Path, str]:
    """Return the other ledgers that pin states of a home, by the file that says so."""
    own = _note_of(home, ledger)
    notes = sorted(own.parent.glob("*.ledger"))
    return {note: note.read_text(encoding="utf-8").strip() for note in notes if note != own}


def _note_of(home: Path, ledger: str) -> Path:
    name = hashlib.sha256(ledger.encode()).hexdigest()[:16]
    return home / "shadow" / "ledgers" / f"{name}.ledger"
