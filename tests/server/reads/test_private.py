"""No read route shows a private session to a viewer without access."""

from pathlib import Path

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say, work
from turntree.api import Tree

pytestmark = pytest.mark.anyio

TURN_READS = (
    (), ("files",), ("files", "diff"), ("files", "content"), ("blame",), ("context",),
    ("permissions",), ("causes",), ("raw",), ("text", "0", "0"),
    ("share",),
)  # fmt: skip
WITH_PATH = {("files", "diff"), ("files", "content"), ("blame",)}


@pytest.fixture
async def turns(tree: Tree, tmp_path: Path) -> dict[str, str]:
    """The ids of a public turn and of a private fork of it."""
    folder = tmp_path / "project"
    folder.mkdir()
    await say(tree, "public", "everything zebra is fine")
    public = await work(tree, "public", folder, {"a.py": "open\n"})
    await tree.sessions.fork(public, "secret", visibility="private")
    secret = await work(tree, "secret", folder, {"a.py": "unspeakable\n"})
    await tree.turns.tag(secret, "unspeakable-tag")
    return {"public": public, "secret": secret}


@pytest.mark.parametrize("name", ["secret", "label"])
@pytest.mark.parametrize("words", TURN_READS)
async def test_reads_of_hidden_turns_find_nothing(
    reader: Reader, stranger: Reader, turns: dict[str, str], words: tuple[str, ...], name: str
) -> None:
    revision = "secret" if name == "label" else turns["secret"]
    path = "a.py" if words in WITH_PATH else None
    assert (await reader.send("turns", revision, *words, path=path)).status_code == 200
    response = await stranger.send("turns", revision, *words, path=path)
    assert response.status_code == 404
    assert "unspeakable" not in response.text


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (("threads", "public"), {}),
        (("turns", "public"), {}),
        (("turns", "public", "files"), {}),
        (("turns", "public", "blame"), {"path": "a.py"}),
        (("turns", "public", "causes"), {}),
        (("sessions",), {"archived": "true"}),
        (("search",), {"q": "zebra"}),
        (("search",), {"q": "in:secret a.py"}),
        (("search",), {"q": "unspeakable"}),
        (("search",), {"q": "secert"}),
        (("costs",), {}),
    ],
)
async def test_reads_beside_hidden_sessions_do_not_name_them(
    stranger: Reader, turns: dict[str, str], words: tuple[str, ...], query: dict[str, str]
) -> None:
    response = await stranger.send(*words, **query)
    assert response.status_code == 200, response.text
    text = response.text.replace("in:secret", "")
    for hidden in (turns["secret"], '"secret"', "unspeakable"):
        assert hidden not in text
    for word in ("threads", "compare"):
        hidden_one = "secret" if word == "threads" else "public...secret"
        assert (await stranger.send(word, hidden_one)).status_code == 404


@pytest.mark.usefixtures("turns")
async def test_a_session_that_becomes_private_is_no_longer_listed(
    tree: Tree, stranger: Reader
) -> None:
    await tree.programs.create("session", "diary", {})
    await say(tree, "diary", "dear diary")
    await say(tree, "public", "the newest event that a stranger sees")
    assert "dear diary" in (await stranger.send("sessions")).text
    await tree.programs.set_visibility("diary", "private")
    assert "diary" not in (await stranger.send("sessions")).text
