"""The installed kinds of programs, found by entry points."""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from turntree.programs.program_kind import ProgramKind

PROGRAMS: Final = "turntree.programs"
"""Entry-point group of kinds of programs."""


class InstalledKinds(Mapping[str, ProgramKind]):
    """All installed kinds of programs, each imported on first use."""

    def __init__(self) -> None:
        """Look nothing up yet."""
        self._points: dict[str, EntryPoint] | None = None
        self._loaded: dict[str, ProgramKind] = {}

    def __getitem__(self, name: str) -> ProgramKind:
        if name not in self._loaded:
            self._loaded[name] = self._find()[name].load()()
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._find()))

    def __len__(self) -> int:
        return len(self._find())

    def __contains__(self, name: object) -> bool:
        return name in self._find()

    def _find(self) -> dict[str, EntryPoint]:
        if self._points is None:
            self._points = {point.name: point for point in entry_points(group=PROGRAMS)}
        return self._points
