"""``turntree conversation``: people and agents together, typed."""

import pytest

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner
from tests.cli.talker import furnish

NOTED = {"when": "noted", "replies": [{"text": "Noted, **Friday** it is."}]}


@pytest.fixture
def talk(turntree: Call) -> Call:
    furnish(turntree, [NOTED])
    turntree("agent", "create", "bot", "--model", "echo")
    return turntree


def test_an_agent_answers_and_its_turn_is_named(talk: Call) -> None:
    made = talk("conversation", "create", "launch", "--title", "Launch", "--with", "bot")
    assert made.out == "launch begins: private, 2 participants\n"
    assert talk("conversation", "post", "launch", "We ship on Friday.").out == "post 1 is posted\n"
    answer = talk("conversation", "post", "launch", "is that noted?", "--to", "bot")
    author, words = answer.lines
    assert author.startswith("bot  3   ")
    assert words == "   Noted, **Friday** it is."
    turn = author.rpartition(" ")[2]
    assert talk("show", turn).code == 0
    log = talk("conversation", "log", "launch").lines
    assert [line for line in log if line.startswith("   ")] == [
        "   We ship on Friday.", "   @bot is that noted?", words,
    ]  # fmt: skip
    assert "launch:bot" in talk("conversation", "show", "launch").out
    (row,) = talk("conversation", "list").lines
    assert row.split() == ["launch", "Launch", "3", "posts", "2", "participants", "private", "now"]
    titles = [turn["title"] for turn in talk("log", "launch:bot", "--json").documents]
    assert titles == ["@bot is that noted?"]
    why = talk("why", "launch:bot")
    assert "it answers post 2 of launch" in why.out
    assert "is that noted?" in why.out
    answers = talk("why", "launch:bot", "--json").document["answers"]
    assert answers == {"conversation": "launch", "post": 2}


def test_a_mention_is_shown_with_the_present_name(talk: Call) -> None:
    talk("conversation", "create", "launch")
    talk("conversation", "post", "launch", "hello", "--to", "bot", "--no-wait")
    talk("agent", "configure", "bot", "--display-name", "Dr. Bot")
    assert talk("conversation", "log", "launch").lines[1] == "   @Dr. Bot hello"


def test_who_is_not_there_is_named_as_it_was_typed(talk: Call) -> None:
    talk("conversation", "create", "launch")
    gone = talk("conversation", "remove", "launch", "bot")
    assert "error: bot does not take part in launch" in gone.err
    assert "next: turntree conversation show launch" in gone.err
    unknown = talk("conversation", "post", "launch", "well?", "--to", "nobody-here")
    assert "nobody-here is neither a member nor an agent that you may use" in unknown.err
    assert "next: turntree program list --kind agent" in unknown.err


def test_everything_is_told_as_json(talk: Call) -> None:
    made = talk("conversation", "create", "launch", "--public", "--json").document
    assert (made["name"], made["visibility"]) == ("launch", "public")
    posted = talk("conversation", "post", "launch", "noted?", "--to", "bot", "--json").document
    assert [one["author"] for one in posted["posts"]] == ["agent:bot"]
    waiting = talk("conversation", "post", "launch", "noted?", "--to", "bot", "--no-wait", "--json")
    assert [one["agent"] for one in waiting.document["answers"]] == ["bot"]
    shown = talk("conversation", "show", "launch", "--json").document
    assert [one["principal"] for one in shown["participants"]][1:] == ["agent:bot"]
    assert shown["participants"][1]["is_thinking"] is True
    posts = talk("conversation", "log", "launch", "--json").documents
    assert [one["seq"] for one in posts] == [1, 2, 3]


def test_an_empty_list_says_how_to_begin(talk: Call) -> None:
    assert talk("conversation", "list").lines == [
        "no conversations yet", "next: turntree conversation create NAME",
    ]  # fmt: skip


def test_participants_come_and_go(talk: Call, hints: HintRunner) -> None:
    talk("conversation", "create", "launch")
    added = talk("conversation", "add", "launch", "bot")
    assert added.out == "bot takes part in launch\n"
    assert talk("conversation", "add", "launch", "bot").out == "bot takes part in launch already\n"
    removed = talk("conversation", "remove", "launch", "bot")
    assert removed.out == "bot no longer takes part in launch\n"
    hints.follow_in_shell(removed, "turntree conversation add launch bot")
    refused = talk("conversation", "leave", "launch")
    assert (refused.code, "stays in it" in refused.err) == (1, True)


def test_a_fork_and_an_erased_post(talk: Call) -> None:
    talk("conversation", "create", "launch", "--with", "bot")
    talk("conversation", "post", "launch", "noted one", "--to", "bot")
    forked = talk("conversation", "fork", "launch", "--at", "1")
    assert forked.out == "launch-2 is a fork of launch at post 1\n"
    assert len(talk("conversation", "log", "launch-2", "--json").documents) == 1
    assert talk("conversation", "erase", "launch", "1", "-y").out == "post 1 of launch is erased\n"
    assert "(erased)" in talk("conversation", "log", "launch-2").out
    assert talk("fsck").code == 0


def test_a_conversation_that_is_archived_takes_no_posts(talk: Call, hints: HintRunner) -> None:
    talk("conversation", "create", "launch")
    talk("conversation", "set-state", "launch", "archived")
    refused = talk("conversation", "post", "launch", "hello")
    assert refused.err.startswith("error: the conversation launch is archived")
    hints.follow_in_shell(refused, "turntree conversation set-state launch active")
    assert talk("conversation", "post", "launch", "hello").code == 0


def test_a_conversation_is_posted_to_and_not_invoked(talk: Call) -> None:
    talk("conversation", "create", "launch")
    refused = talk("program", "invoke", "launch", "--message", "hello")
    assert "is not invoked: post to it" in refused.err
    assert "turntree conversation post launch MESSAGE" in refused.err


def test_who_answers_is_decided_and_explained(talk: Call, hints: HintRunner) -> None:
    talk("agent", "configure", "bot", "--description", "Notes when releases ship, and their risks.")
    made = talk("conversation", "create", "launch", "--with", "bot", "--triage", "--json").document
    assert made["triage"] is True
    answer = talk("conversation", "post", "launch", "please note which risks the release has")
    assert answer.lines[0].startswith("bot  2   ")
    why = talk("why", "launch#1").lines
    assert why[0] == "launch#1  please note which risks the release has"
    assert why[2].startswith("   it has no mention, and bot was asked: it asks for something")
    assert why[-1] == "   bot answered in post 2"
    told = talk("why", "launch#1", "--json").document
    assert told["post"]["decision"]["agents"] == ["bot"]
    assert [one["agent"] for one in told["scores"]] == ["bot"]
    turn = told["post"]["decision"]["turn"]
    assert "it answers post 1 of launch" in talk("why", turn).out
    thanks = talk("conversation", "post", "launch", "thanks!")
    assert thanks.out == (
        "post 3 is posted; no agent is asked: it is a greeting, thanks or a short answer\n"
    )
    quiet = talk("conversation", "post", "launch", "I am at the dentist and back at noon.")
    assert quiet.lines == [
        "post 4 is posted; no agent was asked", "why: turntree why 'launch#4'",
    ]  # fmt: skip
    log = talk("conversation", "log", "launch").out
    assert "(bot was asked: it asks for something" in log
    assert "(no agent was asked: it is a greeting" in log
    answered = talk("why", "launch#2").out
    assert "it is the answer of the turn" in answered
    missing = talk("why", "launch#99")
    assert "there is no post 99 in launch" in missing.err
    hints.follow_in_shell(missing, "turntree conversation show launch")


def test_triage_is_turned_on_and_off(talk: Call, hints: HintRunner) -> None:
    talk("conversation", "create", "launch", "--with", "bot")
    assert talk("conversation", "post", "launch", "hello?").out == "post 1 is posted\n"
    assert "the conversation has no triage" in talk("why", "launch#1").out
    on = talk("conversation", "set-triage", "launch", "on")
    assert on.out == "triage of launch is on   (it was off)\n"
    waiting = talk("conversation", "post", "launch", "who ships the release?", "--no-wait")
    assert waiting.out == "post 2 is posted; who answers is being decided\n"
    assert "who answers is being decided" in talk("why", "launch#2").out
    assert "private, triage" in talk("conversation", "list").out
    stays = talk("conversation", "remove", "launch", "triage")
    assert "is a system agent and stays" in stays.err
    hints.follow_in_shell(stays, "turntree conversation set-triage launch off")
    hints.follow_in_shell(on, "turntree conversation set-triage launch off")
    assert talk("conversation", "show", "launch", "--json").document["triage"] is False
