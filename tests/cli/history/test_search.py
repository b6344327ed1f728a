"""Finding it on the command line: what is printed, what a program reads, how it ends."""

import pytest

from tests.cli.conftest import Call
from turntree.cli.history.search import typed


def test_a_search_shows_sessions_turns_reasons_and_what_to_do_next(reader: Call) -> None:
    answer = reader("search", "login query string")
    assert answer.code == 0
    assert answer.lines[0] == "demo/fix-login"
    assert "Why does login drop the query string?" in answer.lines[1]
    assert "login (asked" in answer.out
    assert "also in demo/middleware, demo/opus" in answer.out
    short = answer.lines[1].split()[0]
    assert f"next: turntree show {short}" in answer.err
    assert f"turntree fork {short} LABEL" in answer.err
    assert reader("show", short).code == 0


def test_matched_words_are_marked_where_colours_are_wanted(reader: Call) -> None:
    assert "\x1b[4mmiddleware" in reader("search", "middleware", "--color", "always").out
    assert "\x1b[" not in reader("search", "middleware").out


def test_a_program_reads_one_document_a_turn(reader: Call) -> None:
    documents = reader("search", "redirect", "--limit", "3", "--json").documents
    assert len(documents) == 3
    assert documents[0].keys() == {
        "id", "digest", "short", "depth", "title", "by", "model", "outcome", "started_at",
        "sessions", "heads", "matched", "means_the_same", "snippet",
    }  # fmt: skip
    snippet = documents[0]["snippet"]
    start, end = snippet["marks"][0]
    assert snippet["text"][start:end].startswith("redirect")


def test_nothing_found_ends_with_one_and_a_wrong_query_with_two(reader: Call) -> None:
    nothing = reader("search", "zebra")
    assert (nothing.code, nothing.out) == (1, "")
    assert "next:" in nothing.err
    wrong = reader("search", "who:ana")
    assert wrong.code == 2
    assert "in:, by:, model:, tool:, file:, origin:, before:, after:, failed:" in wrong.err


def test_operators_may_be_arguments_of_their_own(reader: Call) -> None:
    documents = reader("search", "by:ana", "in:demo/middleware", "cookie", "--json").documents
    assert [document["title"] for document in documents] == ["Does it need the cookie?"]


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        (("keep the signature",), "keep the signature"),
        (("login", "keep the signature"), 'login "keep the signature"'),
        (("login", "after:3 days ago"), 'login after:"3 days ago"'),
        (("after:3 days ago",), 'after:"3 days ago"'),
        (('"keep it" -flaky',), '"keep it" -flaky'),
    ],
)
def test_quotation_marks_that_the_shell_took_are_put_back(
    arguments: tuple[str, ...], query: str
) -> None:
    assert typed(arguments) == query


def test_the_index_can_be_made_anew(planted: Call) -> None:
    first = planted("index", "build", "--no-semantic", "--json").document
    assert (first["words"], first["meanings"]) == (16, None)
    assert planted("index", "build", "--no-semantic", "--json").document["words"] == 0
    again = planted("index", "build", "--rebuild", "--no-semantic")
    assert "indexed words of 16 turns" in again.out
    assert "next: turntree search" in again.err


def test_blame_knows_the_files_of_the_sample_data(reader: Call) -> None:
    told = reader("blame", "src/resolver.py", "--json").documents
    assert {one["use"] for one in told} == {"read", "written"}


def test_blame_lists_nothing_politely(reader: Call) -> None:
    answer = reader("blame", "src/none.py")
    assert (answer.code, answer.out) == (1, "")
    assert "next: turntree search src/none.py" in answer.err


def test_ascii_is_kept_to(reader: Call) -> None:
    assert reader("search", "redirect", "--ascii").out.isascii()


def test_only_several_words_can_be_fewer(reader: Call) -> None:
    assert "fewer words" not in reader("search", "zzyzx").err
    assert "fewer words find more" in reader("search", "zzyzx", "qqxyz").err
