"""The files of the hook judge: what it decided and asked, and what people answered.

The judge writes them without a database; a process that has one reads them here. ``hook_judge``
lists the folders.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from turntree.core.errors import InvalidOperation
from turntree.policy.local import FOLDER, read_private, write_private

DECISIONS: Final = "decisions"
REQUESTS: Final = "requests"
DECIDED: Final = "decided"
USED: Final = "used"


@dataclass(frozen=True, slots=True)
class JudgeFiles:
    """The files of one home."""

    home: Path

    @property
    def folder(self) -> Path:
        """The folder that holds them."""
        return self.home / FOLDER

    def has_news(self) -> bool:
        """Whether there is anything to tell the ledger, or to ask it."""
        found = (self.folder / name for name in (DECISIONS, REQUESTS, USED))
        return any(next(folder.glob("*.json"), None) is not None for folder in found)

    def list_decisions(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the decisions that the ledger does not have yet, oldest first."""
        return self._list(DECISIONS)

    def list_requests(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the requests, oldest first."""
        return self._list(REQUESTS)

    def find_request(self, id: str) -> dict[str, Any] | None:
        """Return the request that the ledger has under an id."""
        for _, request in self.list_requests():
            if id in (request["id"], request.get("ledger_id")):
                return request
        return None

    def find_decided(self, id: str) -> dict[str, Any] | None:
        """Return what a person decided about a request, as long as its call was not made."""
        return _read(self.folder / DECIDED / f"{id}.json")

    def find_used(self, id: str) -> dict[str, Any] | None:
        """Return the decision that let its call through."""
        return _read(self.folder / USED / f"{id}.json")

    def note_request(self, request: Mapping[str, Any]) -> None:
        """Write a request."""
        write_private(self.folder / REQUESTS / f"{request['id']}.json", json.dumps(request))

    def note_decided(self, id: str, decided: Mapping[str, Any]) -> None:
        """Write what a person decided about a request, unless its call was made already."""
        if self.find_used(id) is None:
            write_private(self.folder / DECIDED / f"{id}.json", json.dumps(decided))

    def forget(self, id: str) -> None:
        """Remove all about a request."""
        for name in (DECIDED, USED, REQUESTS):
            (self.folder / name / f"{id}.json").unlink(missing_ok=True)

    def use(self, id: str) -> bool:
        """Take a decision, which works once."""
        (self.folder / USED).mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{id}.json"
        # Of two calls that come at once, the file system lets one have it.
        try:
            (self.folder / DECIDED / name).rename(self.folder / USED / name)
        except FileNotFoundError:
            return False
        return True

    def _list(self, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path in sorted((self.folder / name).glob("*.json")):
            document = _read(path)
            if document is not None:
                yield path, document


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = read_private(path)
        document = None if text is None else json.loads(text)
    except (InvalidOperation, ValueError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
