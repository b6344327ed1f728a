"""Routing on the command line: where a message would go, and how that was found."""

from tests.cli.conftest import Call
from tests.cli.talker import furnish


def test_a_message_finds_its_thread_and_says_how(reader: Call) -> None:
    answer = reader("send", "--dry-run", "did the login lose its query string again?", "--explain")
    assert answer.code == 0
    assert answer.lines[0].startswith("demo/")
    assert "no target was named: the text decides" in answer.out
    assert "score" in answer.out
    assert "login" in answer.out
    brief = reader("send", "--dry-run", "did the login lose its query string again?")
    assert brief.lines == answer.lines[:1]
    assert "--explain" in brief.err


def test_a_program_reads_one_document(reader: Call) -> None:
    document = reader("send", "--dry-run", "login query", "--json", "-n", "2").document
    assert document.keys() == {
        "target", "head", "thread_key", "session", "label", "begins", "steps", "candidates",
    }  # fmt: skip
    assert document["target"] == {"kind": "content"}
    assert document["thread_key"] == f"turn:{document['head']}"
    assert len(document["candidates"]) == 2
    assert document["candidates"][0].keys() == {
        "turn", "digest", "title", "session", "label", "head", "score", "words", "likeness",
        "matched",
    }  # fmt: skip


def test_every_kind_of_target_resolves(reader: Call) -> None:
    for target, kind in {
        "demo/fix-login": "session", "HEAD": "session", "HEAD~1": "turn",
        "channel:telegram:42": "sender",
    }.items():  # fmt: skip
        assert (
            reader("send", "--dry-run", "--to", target, "--json").document["target"]["kind"] == kind
        )
    assert "(begins)" in reader("send", "--dry-run", "--to", "channel:telegram:42", "hello").out
    assert reader("send", "--dry-run", "--to", "HEAD~1").out.startswith("a fork after ")
    assert reader("send", "--dry-run", "--to", "@(nobody)").code == 3
    assert reader("send", "--dry-run", "--to", "nobody").code == 3
    assert reader("send", "--dry-run").code == 2
    assert reader("send", "--dry-run", "hello", "--as", "ghost:x").code == 2


def test_somebody_is_identified(planted: Call) -> None:
    first = planted("session", "identify", "telegram", "42", "ana")
    assert first.lines == ["entity:ana is also reached as channel:telegram:42"]
    assert (
        planted("send", "--dry-run", "--to", "channel:telegram:42", "--json").document["label"]
        == "entity:ana"
    )


def test_a_text_chooses_where_to_fork(turntree: Call) -> None:
    furnish(turntree)
    for said in (
        "the parser of dates fails in leap years",
        "order pizza for the whole team",
        "paint the garden fence green",
    ):
        assert turntree("send", "main", said).code == 0
    made = turntree("fork", "--for", "why does the dates parser fail?", "dates", "--json")
    assert made.code == 0, made.err
    assert "fits best: the parser of dates" in made.err
    assert [turn["title"] for turn in turntree("log", "dates", "--json").documents] == [
        "the parser of dates fails in leap years"
    ]
    assert turntree("fork", "--for", "xylophones", "other").code == 3
    assert turntree("fork", "HEAD", "other", "--for", "pizza").code == 2
    assert turntree("fork", "other").code == 2
