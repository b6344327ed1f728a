"""Likenesses on the command line: what is printed, what a program reads, how it ends."""

from collections.abc import Generator

import pytest

from tests.cli.conftest import Call
from tests.search.embedders.test_openai_compatible import DIMS, Endpoint, serving


@pytest.fixture
def embedding(planted: Call, monkeypatch: pytest.MonkeyPatch) -> Generator[Call, None, None]:
    """The command line with an embedder that answers over HTTP."""
    endpoint = Endpoint()
    with serving(endpoint):
        monkeypatch.setenv("TURNTREE_EMBEDDER_URL", endpoint.url)
        monkeypatch.setenv("TURNTREE_EMBEDDER_MODEL", "toy")
        monkeypatch.setenv("TURNTREE_EMBEDDER_DIMS", str(DIMS))
        yield planted


def test_everything_is_embedded_once_and_found_by_what_it_means(embedding: Call) -> None:
    assert embedding("index", "status").err.startswith("nothing is embedded yet.")
    first = embedding("index", "embed", "--json").document
    assert first["embedded"] > 5
    assert embedding("index", "embed", "--json").document["embedded"] == 0
    found = embedding("search", "--like", "--text", "login drops the query string", "--limit", "3")
    assert (found.code, len(found.lines)) == (0, 3)
    assert "Why does login drop the query string?" in found.lines[0]
    documents = embedding("search", "--like", "HEAD", "--json").documents
    assert documents[0].keys() == {"id", "kind", "name", "digest", "likeness"}
    assert documents[0]["kind"] == "turn"
    told = embedding("index", "embed", "--stats", "--json").document
    assert told == embedding("index", "status", "--json").document
    assert told == {
        "embedder": f"toy/{DIMS}", "dims": DIMS, "vectors": first["embedded"],
        "kinds": {"turn": first["embedded"]}, "described": 0, "turns_missing": 0,
    }  # fmt: skip
    assert "turns" in embedding("index", "status").out


def test_one_turn_is_embedded_in_words_of_ones_own(embedding: Call) -> None:
    one = embedding("index", "embed", "HEAD", "--text", "zebras and giraffes", "--json").document
    assert (one["kind"], one["changed"]) == ("turn", True)
    again = embedding("index", "embed", "HEAD", "--text", "zebras and giraffes")
    assert "(as before)" in again.out
    assert "next: turntree search --like" in again.err
    (found,) = embedding("search", "--like", "--text", "giraffes", "--json").documents
    assert found["id"] == one["id"]


def test_kinds_and_tags_narrow_it_down(embedding: Call) -> None:
    embedding("index", "embed")
    embedding("tag", "HEAD", "chosen")
    assert len(embedding("search", "--like", "--text", "login", "--tag", "chosen").lines) == 1
    nothing = embedding("search", "--like", "--text", "login", "--kind", "agent")
    assert (nothing.code, nothing.out) == (1, "")
    assert "next: turntree index embed" in nothing.err


def test_information_is_found_by_type_by_field_and_by_meaning(embedding: Call) -> None:
    for name, type, content in (
        ("office", "fact", '{"city": "Bern", "tags": ["swiss", "capital"]}'),
        ("branch", "fact", '{"city": "Lyon", "tags": ["french"]}'),
        ("deploy", "workflow", '{"city": "Bern", "steps": ["giraffes first"]}'),
    ):
        made = embedding("information", "create", name, "--type", type, "--content", content)
        assert made.code == 0, made.err

    def found(*where: str) -> list[str]:
        options = [word for one in where for word in ("--where", one)]
        answer = embedding("information", "list", *options, "--json")
        return [one["name"] for one in answer.documents]

    assert found("type=fact") == ["branch", "office"]
    assert found("content/city=Bern") == ["deploy", "office"]
    assert found("type=fact", "content/city=Bern") == ["office"]
    assert found("content/tags=french") == ["branch"]
    assert found("content/steps/none=1") == []
    assert "information list" in embedding("information", "list", "--where", "type=none").err
    embedding("index", "embed")
    like = ("search", "--like", "--text", "giraffes", "--kind", "information", "--json")
    assert embedding(*like).documents[0]["name"] == "deploy"


def test_what_is_compared_has_to_be_said(bare: Call) -> None:
    assert bare("search", "--like").code == 2
    assert bare("search", "--like", "HEAD", "--text", "x").code == 2
    assert bare("index", "embed", "--text", "x").code == 2


def test_an_embedder_that_does_not_answer_ends_with_five(
    planted: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_EMBEDDER_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("TURNTREE_EMBEDDER_MODEL", "toy")
    monkeypatch.setenv("TURNTREE_EMBEDDER_DIMS", "8")
    answer = planted("search", "--like", "--text", "login")
    assert answer.code == 5
    assert "the embedder toy at 127.0.0.1:1 does not answer" in answer.err
