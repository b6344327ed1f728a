"""The labelled posts by which triage will be judged: as many as it takes, and no agent favoured."""

import tomllib
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "proofs/triage_data"
POSTS_MIN = 300
OF_EACH_MIN = 15


def test_labelled_posts_are_enough_and_even() -> None:
    agents = set(tomllib.loads((FOLDER / "agents.toml").read_text(encoding="utf-8")))
    lines = (FOLDER / "posts.txt").read_text(encoding="utf-8").splitlines()[1:]
    posts = [line.partition(" | ")[::2] for line in lines]
    assert len({text for _, text in posts}) == len(posts) >= POSTS_MIN
    wanted = Counter(name for names, _ in posts for name in names.split("+"))
    assert wanted.keys() - {"-"} == agents
    assert min(wanted.values()) >= OF_EACH_MIN
    assert 0.3 <= wanted["-"] / len(posts) <= 0.4
    for half in (posts[::2], posts[1::2]):
        count = Counter(name for names, _ in half for name in names.split("+"))
        assert all(abs(2 * count[name] - wanted[name]) <= 4 for name in wanted), "halves alike"
