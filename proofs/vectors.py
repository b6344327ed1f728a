"""Vectors that lie as those of texts do: topics within topics, near and far by degrees.

Uniform noise would be no test of an index: everything in it is as far from everything else. Here a
vector is a subject, a topic of it, a point about that, and something of its own.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

DIMS = 384
SUBJECTS = 50
TOPICS = 2_000
POINT_SIZE = 8
"""How many vectors are about one point, on average."""
SHARES = (0.35, 0.50, 0.55, 0.55)
"""How much of a vector is its subject, its topic, its point, and its own."""
Matrix = Any


@dataclass(slots=True)
class Cloud:
    """Draws vectors, the same ones for a seed."""

    seed: int
    count: int
    """How many will be drawn in all: it decides how many points they are about."""
    _dice: Any = field(init=False)
    _spread: Matrix = field(init=False)
    _subjects: Matrix = field(init=False)
    _topics: Matrix = field(init=False)
    _points: Matrix = field(init=False)

    def __post_init__(self) -> None:
        """Draw what the vectors share."""
        self._dice = np.random.default_rng(self.seed)
        # The numbers of a real model are not alike in size: some carry more of what differs.
        self._spread = (np.arange(1, DIMS + 1) ** -0.3).astype(np.float32)
        self._dice.shuffle(self._spread)
        self._subjects, self._topics = self._draw(SUBJECTS), self._draw(TOPICS)
        self._points = self._draw(max(TOPICS, self.count // POINT_SIZE))

    def draw(self, count: int) -> Matrix:
        """Return so many more vectors of length one, rounded as the database keeps them."""
        points = self._dice.integers(len(self._points), size=count)
        topics = points % TOPICS
        mixed = SHARES[0] * self._subjects[topics % SUBJECTS]
        mixed += SHARES[1] * self._topics[topics]
        mixed += SHARES[2] * self._points[points]
        mixed += SHARES[3] * self._draw(count)
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        return mixed.astype(np.float16).astype(np.float32)

    def _draw(self, count: int) -> Matrix:
        drawn = self._dice.standard_normal((count, DIMS), dtype=np.float32) * self._spread
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
