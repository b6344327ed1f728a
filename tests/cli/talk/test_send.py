"""``send``, ``tail``, ``cancel`` and the invocations that have something answered."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner, list_hints
from tests.cli.talker import SUM, TOOLS, chat, furnish
from turntree.cli.output.text import cells
from turntree.cli.root import root

BROKEN = {"when": "broken", "replies": [{"failures": [{"kind": "denied"}] * 9}]}


@pytest.fixture
def talk(turntree: Call) -> Call:
    furnish(turntree, [SUM, BROKEN])
    return turntree


def test_a_message_is_answered(talk: Call) -> None:
    answer = talk("send", "main", "hello there")
    assert (answer.code, answer.out) == (0, "hello there\n")
    assert talk("send", "main", "again").out == "again\n"
    assert [turn["title"] for turn in talk("log", "--json").documents] == ["again", "hello there"]


def test_the_current_session_is_sent_to_by_its_other_name(talk: Call) -> None:
    assert talk("send", "HEAD", "hello").out == "hello\n"
    assert [turn["title"] for turn in talk("log", "main", "--json").documents] == ["hello"]


def test_an_answer_may_be_watched(talk: Call) -> None:
    lines = talk("send", "main", "the sum", "--stream", "--tools", TOOLS).lines
    assert lines[:2] == ["They want a sum.", "Let me add."]
    assert lines[2].startswith("  → add a=20 b=22 … ok")
    assert lines[3] == "It is 42."
    assert "tokens" in lines[4]


def test_an_answer_is_one_document_or_one_a_step(talk: Call) -> None:
    told = talk("send", "main", "the sum", "--json", "--tools", TOOLS).document
    assert told["text"] == "It is 42."
    assert told["outcome"] == "completed"
    steps = talk("send", "main", "the sum", "--json", "--stream", "--tools", TOOLS).documents
    kinds = [one["event"] for one in steps if one["event"] != "words"]
    assert kinds == ["begun", "said", "tool_begun", "tool_ended", "said", "ended"]


def test_a_secret_key_is_taken_out_before_it_is_stored(talk: Call) -> None:
    key = "ghp_" + "a1B2" * 9
    answer = talk("send", "main", f"use {key} please")
    assert "1 secret key redacted" in answer.err
    assert key not in answer.out
    assert "use [redacted:" in answer.out
    told = chat([f"and {key} again"])
    assert key not in told.out
    assert "and [redacted:" in told.out
    assert "1 secret key redacted" in told.err


def test_what_was_injected_into_a_turn_is_recorded(talk: Call) -> None:
    Path("cart.py").write_text("total = 7\n")
    Path("long.txt").write_text("a line of many\n" * 2_000)
    talk("agent", "create", "atlas", "--soul", "You are calm.", "--model", "echo")
    files = ("--attach", "cart.py", "--attach", "long.txt")
    assert "total = 7" in talk("send", "@(atlas)", "explain these", *files).out
    (turn,) = talk("log", "atlas:main", "--json").documents
    assert turn["title"] == "explain these"
    rows = talk(
        "sql", "--json", "SELECT role, context_json FROM messages ORDER BY sequence"
    ).documents
    named = [{"kind": "attached", "path": "cart.py"}, {"kind": "attached", "path": "long.txt"}]
    assert rows == [
        {"role": "user", "context_json": {"files": named}},
        {"role": "assistant", "context_json": None},
    ]
    kept = talk("sql", "--json", "SELECT kind, file_path FROM message_files").documents
    assert [(row["kind"], row["file_path"]) for row in kept] == [
        ("attached", "cart.py"), ("attached", "long.txt"),
    ]  # fmt: skip
    (call,) = talk("show", "atlas:main", "--context", "--json").document["calls"]
    assert call["prompt"]["system"] == ["You are atlas.\n\nYou are calm."]
    Path("picture").write_bytes(b"\xff\xfe\x00")
    refused = talk("send", "main", "look", "--attach", "picture")
    assert (refused.code, "picture cannot be attached" in refused.err) == (1, True)


def prompts_of(talk: Call, session: str) -> list[str]:
    """Return the instructions of a session's last turn."""
    (call,) = talk("show", session, "--context", "--json").document["calls"]
    return list(call["prompt"]["system"])


def test_a_session_has_a_prompt_that_forks_inherit_and_a_message_replaces(talk: Call) -> None:
    assert talk("session", "create", "desk", "--prompt", "Answer in French.").code == 0
    talk("send", "desk", "hello")
    assert prompts_of(talk, "desk") == ["Answer in French."]
    talk("fork", "desk", "branch")
    talk("send", "branch", "hello")
    assert prompts_of(talk, "branch") == ["Answer in French."]
    talk("send", "branch", "once", "--prompt", "Answer in Latin.")
    assert prompts_of(talk, "branch") == ["Answer in Latin."]
    talk("fork", "branch", "twig")
    talk("send", "twig", "hello")
    assert prompts_of(talk, "twig") == ["Answer in French."]
    talk("session", "configure", "branch", "--prompt", "Answer in German.")
    talk("send", "branch", "hello")
    assert prompts_of(talk, "branch") == ["Answer in German."]
    talk("session", "configure", "twig", "--prompt", "")
    talk("send", "twig", "hello")
    assert prompts_of(talk, "twig") == []
    assert talk("replay", "branch").code == 0


def test_a_fork_inherits_the_persona_and_a_message_names_another(talk: Call) -> None:
    for name in ("atlas", "bee"):
        talk("agent", "create", name, "--soul", f"I am {name}.", "--model", "echo")
    talk("session", "create", "desk", "--owner", "atlas", "--prompt", "Be brief.")
    talk("send", "desk", "hello")
    assert prompts_of(talk, "desk") == ["You are atlas.\n\nI am atlas.", "Be brief."]
    talk("fork", "desk", "branch")
    talk("send", "branch", "hello")
    assert prompts_of(talk, "branch") == prompts_of(talk, "desk")
    talk("send", "branch", "hello", "--agent", "bee")
    assert prompts_of(talk, "branch") == ["You are bee.\n\nI am bee.", "Be brief."]


def test_words_come_from_stdin_too(talk: Call) -> None:
    ended = CliRunner().invoke(root, ["send", "main", "-"], input="from a pipe\n")
    assert ended.stdout == "from a pipe\n\n"


def test_the_same_key_is_not_sent_twice(talk: Call) -> None:
    first = talk("send", "main", "once", "--idempotency-key", "k", "--json").document
    again = talk("send", "main", "once", "--idempotency-key", "k", "--json").document
    assert first == again
    assert len(talk("log", "--json").documents) == 1
    refused = talk("send", "main", "another", "--idempotency-key", "k")
    assert refused.code == 1
    assert "the key k was used for another message to main" in refused.err
    assert f"next: turntree tail {first['turn']}" in refused.err
    talk("session", "create", "other")
    assert "to main" in talk("send", "other", "once", "--idempotency-key", "k").err
    begun = talk("send", "review", "once", "--idempotency-key", "k")
    assert begun.code == 1
    assert "review begins; undo with: turntree session archive review" in begun.err


def test_a_unique_part_of_a_label_is_that_session(talk: Call) -> None:
    talk("session", "create", "web/checkout")
    sent = talk("send", "checkout", "hello")
    assert "checkout is web/checkout here; --new begins a session" in sent.err
    assert len(talk("log", "web/checkout", "--json").documents) == 1
    assert "checkout begins" in talk("send", "checkout", "hello", "--new").err
    assert len(talk("log", "web/checkout", "--json").documents) == 1
    talk("session", "create", "mobile/basket")
    talk("session", "create", "web/basket")
    assert "basket begins" in talk("send", "basket", "hello").err


def test_a_new_key_without_a_model_leaves_nothing(turntree: Call) -> None:
    turntree("session", "create", "main")
    assert turntree("send", "main", "hello", "--idempotency-key", "k").code == 1
    assert turntree("log", "main", "--json").documents == []


def test_another_model_may_answer_this_time(talk: Call) -> None:
    rules = json.dumps([{"when": "", "replies": [{"text": "The other one."}]}])
    talk("provider", "create", "other", "--type", "scripted", "--set", f"rules={rules}")
    talk("model", "create", "second", "--backend", "scripted-1", "--provider", "other")
    assert talk("send", "main", "hi", "--model", "second").out == "The other one.\n"
    assert talk("send", "main", "hi", "--model", "echo").out == "hi\n"


def test_messages_that_wait_may_be_folded_into_one_turn(talk: Call) -> None:
    first = talk("send", "main", "one", "--no-wait", "--json").document
    second = talk("send", "main", "two", "--no-wait", "--join", "--json").document
    assert first["run"] == second["run"]
    chat([])
    (turn,) = talk("log", "--json").documents
    assert turn["id"] == first["run"]


def test_what_was_taken_in_can_be_followed_by_its_address(talk: Call) -> None:
    posted = talk("send", "main", "later", "--no-wait", "--json").document
    assert talk("status", "--json").document["runs"] == []
    chat([])
    lines = talk("tail", posted["run"]).lines
    assert lines[:2] == ["user> later", "later"]


@pytest.mark.parametrize("columns", ["60", "80", None])
def test_a_tail_fits_the_terminal_or_80_columns(
    talk: Call, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    label = "a-session-with-a-label-of-its-own"
    talk("send", label, "broken: " + "reason after reason " * 20)
    talk("send", label, "long 日本語 words " * 30 + "x" * 200)
    talk("send", label, "the sum", "--tools", TOOLS)
    for what in (label, f"{label}~1", f"{label}~0"):
        shown = talk("tail", what)
        assert len(shown.lines) > 1
        lines = [*shown.lines, *shown.err.splitlines()]
        assert max(map(cells, lines)) <= int(columns or 80), what


def test_hint_of_a_failed_answer_asks_again(talk: Call, hints: HintRunner) -> None:
    talk("send", "main", "it is broken")
    (turn,) = talk("log", "--json").documents
    shown = talk("tail", turn["digest"])
    (line,) = (one.text for one in list_hints(shown.out, shown.err))
    assert talk("program", "configure", "script", "--set", "rules=[]").code == 0
    hints.follow_in_shell(shown, line)
    outcomes = {one["outcome"] for one in talk("log", "--all", "--json").documents}
    assert outcomes == {"failed", "completed"}


def test_the_tail_of_a_session(talk: Call) -> None:
    for words in ("one", "two", "three"):
        talk("send", "main", words)
    assert talk("tail", "main", "-n", "2").lines == ["main> two", "two", "main> three", "three"]
    assert [one["text"] for one in talk("tail", "main", "--json").documents] == [
        "one", "two", "three",
    ]  # fmt: skip
    assert talk("tail", "-f", "--for", "0.1").code == 0
    assert talk("tail", "HEAD~1").lines[:2] == ["user> two", "two"]
    long = "many words " * 1000
    assert talk("send", "main", long).code == 0
    assert talk("tail", "HEAD~0").out.count("words") >= 1000, "a part stored apart is shown"
    assert talk("tail", "nothing").code == 1


def test_nothing_is_canceled_where_nothing_is_answered(talk: Call) -> None:
    answer = talk("cancel", "main")
    assert (answer.code, answer.out) == (0, "nothing is being answered in main\n")


def test_what_was_sent_is_taken_back_and_nothing_else(talk: Call) -> None:
    first = talk("send", "main", "one", "--no-wait", "--json").document
    second = talk("send", "main", "two", "--no-wait", "--json").document
    assert second["undo"] == f"turntree cancel {second['run']}"
    told = talk(*second["undo"].split()[1:])
    assert "is canceled: it was still queued" in told.out
    assert f"turntree cancel {first['run']}" in talk("cancel", "main").err
    chat([])
    assert [turn["title"] for turn in talk("log", "main", "--json").documents] == ["one"]
    turns = {turn["id"]: turn["outcome"] for turn in talk("log", "--all", "--json").documents}
    assert turns == {first["run"]: "completed", second["run"]: "canceled"}
    assert "is over, or was never sent" in talk("cancel", second["run"]).out


def test_a_message_that_joined_another_is_not_taken_back_alone(talk: Call) -> None:
    talk("send", "main", "one", "--no-wait")
    assert talk("send", "main", "two", "--no-wait", "--join", "--json").document["undo"] is None


@pytest.mark.slow
def test_to_send_without_waiting_loads_no_engine(talk: Call) -> None:
    # The first message has DBOS build its tables.
    talk("send", "main", "one", "--no-wait")
    program = (
        "import atexit, sys; from turntree.cli.root import root;"
        " atexit.register(lambda: print({'dbos', 'sqlalchemy'} & set(sys.modules)));"
        " root(['send', 'main', 'two', '--no-wait'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # noqa: PLW1510
    assert ended.stdout.splitlines()[-1] == "set()", ended.stderr
    chat([])
    assert [turn["title"] for turn in talk("log", "--json").documents] == ["two", "one"]


def test_what_waits_is_told_with_the_place_and_who_would_answer(talk: Call) -> None:
    for label in ("other", "gone"):
        talk("session", "create", label)
        talk("send", label, "hello", "--no-wait")
    talk("send", "main", "one", "--no-wait")
    second = talk("send", "main", "two", "--no-wait", "--json").document
    talk("send", "main", "three", "--no-wait")
    talk("session", "archive", "gone")
    talk("cancel", second["run"])
    told = talk("status").out
    assert "waiting    1 message in other, sent now" in told
    assert "waiting    2 messages in main, sent now" in told
    assert "gone" not in told
    assert "none serves; start one with: turntree worker" in told
    waiting = talk("status", "--json").document["waiting"]
    assert [(pile["label"], pile["messages"]) for pile in waiting] == [("other", 1), ("main", 2)]


def test_a_tail_where_nobody_serves_says_so(talk: Call) -> None:
    posted = talk("send", "main", "later", "--no-wait", "--json").document
    for what in ("main", posted["run"]):
        told = talk("tail", "-f", what, "--for", "0.2")
        assert (told.code, told.out) == (0, "")
        assert told.err.count("no worker serves") == 1
        assert "`turntree worker`" in told.err
    # Without following it ends by itself.
    assert "follow with: turntree tail -f main" in talk("tail", "main").err
    assert f"follow it with: turntree tail -f {posted['run']}" in talk("tail", posted["run"]).err


def test_a_turn_that_failed_ends_with_one_and_says_why(talk: Call) -> None:
    answer = talk("send", "main", "broken")
    assert (answer.code, answer.out) == (1, "")
    assert "provider_denied" in answer.err
    assert talk("session", "show", "main", "--json").document["head"] is None
    (turn,) = talk("log", "--all", "--json").documents
    assert turn["outcome"] == "failed"


def test_what_failed_unwatched_is_seen_where_people_look(talk: Call) -> None:
    run = talk("send", "main", "broken", "--no-wait", "--json").document["run"]
    chat([])
    for words in (("log",), ("log", "main"), ("log", "--all")):
        told = talk(*words)
        assert told.code == 0
        assert "(failed) broken" in told.lines[0]
        assert told.lines[1].strip().startswith("provider_denied: ")
        name = told.lines[0].split()[0]
        assert f"turntree tail {name}" in told.err
        assert f"turntree rerun {name}" in told.err
        (turn,) = talk(*words, "--json").documents
        assert (turn["id"], turn["outcome"]) == (run, "failed")
        assert turn["reason"].startswith("provider_denied: ")
    told = talk("tail", "main")
    assert told.lines[0] == "main> broken"
    assert told.lines[1].startswith("(failed: provider_denied: ")
    assert "turntree rerun" in told.err
    (ended,) = talk("tail", "main", "--json").documents
    assert (ended["turn"], ended["outcome"]) == (run, "failed")
    assert ended["reason"].startswith("provider_denied: ")
    assert chat([]).lines[:3] == ["main, with no turns yet", *told.lines]
    told = talk("status")
    assert "failed     a message to main, now: provider_denied: " in told.out
    assert f"turntree tail {run} reads it" in told.out
    (failed,) = talk("status", "--json").document["failed"]
    assert (failed["run"], failed["label"]) == (run, "main")


def test_a_session_that_went_on_keeps_what_failed_in_its_log_alone(talk: Call) -> None:
    talk("send", "main", "one")
    talk("send", "main", "broken", "--no-wait")
    talk("send", "main", "two", "--no-wait")
    chat([])
    turns = talk("log", "main", "--json").documents
    assert [(turn["title"], turn["outcome"]) for turn in turns] == [
        ("two", "completed"), ("broken", "failed"), ("one", "completed"),
    ]  # fmt: skip
    assert [turn["title"] for turn in talk("log", "-n", "1", "--json").documents] == ["two"]
    assert [one["text"] for one in talk("tail", "-n", "2", "--json").documents] == ["", "two"]
    assert talk("status", "--json").document["failed"] == []


def test_what_failed_in_a_private_session_is_told_to_its_readers_only(
    talk: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk("send", "main", "broken")
    talk("program", "create", "session", "main", "--private")
    assert len(talk("status", "--json").document["failed"]) == 1
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert talk("status", "--json").document["failed"] == []
    assert "broken" not in talk("log", "main").out


def test_send_to_a_model_that_does_not_exist_is_refused_and_leaves_nothing(talk: Call) -> None:
    for more in ([], ["--no-wait"]):
        refused = talk("send", "fresh", "hello", "--model", "nobody", *more)
        assert refused.code == 3
        assert "there is no program 'nobody'" in refused.err
    assert talk("log", "--all", "--json").documents == []
    assert [one["label"] for one in talk("session", "list", "--json").documents] == ["main"]


def test_send_without_a_chosen_model_is_refused_and_leaves_nothing(talk: Call) -> None:
    talk("model", "create", "second", "--backend", "scripted-1", "--provider", "script")
    refused = talk("send", "main", "hello")
    assert "no model is chosen" in refused.err
    assert "next: turntree session configure SESSION --model " in refused.err
    assert talk("log", "--all", "--json").documents == []


def test_send_with_a_key_of_an_answered_message_needs_no_model(talk: Call) -> None:
    assert talk("send", "main", "hello", "--idempotency-key", "k").out == "hello\n"
    talk("model", "create", "second", "--backend", "scripted-1", "--provider", "script")
    assert talk("send", "main", "hello", "--idempotency-key", "k").out == "hello\n"


def test_what_failed_is_asked_again_as_it_is_told_to(talk: Call) -> None:
    assert "provider_denied" in talk("send", "main", "broken").err
    (failed,) = talk("status", "--json").document["failed"]
    talk("provider", "configure", "script", "--set", "rules=[]")
    again = talk("rerun", failed["run"], "--json")
    assert (again.code, again.document["outcome"]) == (0, "completed")
    assert talk("status", "--json").document["failed"] == []


def test_whoever_follows_a_session_hears_of_what_fails(talk: Call) -> None:
    talk("send", "main", "one")
    command = ["tail", "-f", "main", "-n", "1", "--for", "60"]
    with subprocess.Popen(
        [sys.executable, "-m", "turntree.cli.main", *command], stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        # It has begun to look when it has told what there was.
        assert [following.stdout.readline() for _ in range(2)] == ["main> one\n", "one\n"]
        talk("send", "main", "broken")
        lines = [following.stdout.readline() for _ in range(2)]
        following.kill()
    assert lines[0].endswith("> broken\n")
    assert lines[1].startswith("(failed: provider_denied: ")


def test_a_session_that_is_not_there_begins_and_that_is_said(talk: Call) -> None:
    answer = talk("send", "review", "hello")
    assert (answer.code, answer.out) == (0, "hello\n")
    assert "review begins; undo with: turntree session archive review" in answer.err
    assert "begins" not in talk("send", "review", "again").err
    misspelt = talk("send", "mian", "hello", "--no-wait")
    assert "mian begins (there is main too); undo with: turntree session archive" in misspelt.err


def test_what_looks_like_a_turn_is_no_name_for_a_session_to_begin(talk: Call) -> None:
    missing = talk("send", "0123abcd", "hello")
    assert missing.code == 3
    assert "looks like a turn" in missing.err
    assert talk("send", "01a0c450-0000-7000-8000-000000000000", "hello").code == 3
    labels = [one["label"] for one in talk("session", "list", "--json").documents]
    assert labels == ["main"]


def test_what_cannot_be_sent_is_refused(talk: Call) -> None:
    assert talk("send", "main", " ").code == 2
    assert talk("send", "main", "hi", "--tools", "no_such_module:add").code == 3
    assert talk("send", "main", "hi", "--tools", "json").code == 1


def test_a_model_is_asked_alone(talk: Call) -> None:
    assert talk("model", "invoke", "echo", "hello model").out == "hello model\n"
    assert talk("model", "invoke", "echo", "hello model", "--stream").out == "hello model\n"
    told = talk("model", "invoke", "echo", "-m", "hello", "--json").document["reply"]
    assert told["text"] == "hello"
    assert told["call"]["usage"] == {"input": 1, "output": 1}
    # Each invocation left a turn, in a session that no list shows.
    assert [one["label"] for one in talk("session", "list", "--json").documents] == ["main"]
    assert told["session"].startswith("echo:call-")
    shown = talk("show", told["turn"], "--json").document
    assert (shown["by"]["id"], shown["by"]["on_behalf_of"]["id"]) == ("assistant", "ana")
    (spent,) = talk("stats", "--json").documents
    assert (spent["calls"], spent["input"]) == (3, 5)


def test_invoke_of_an_overloaded_model_is_retried(talk: Call) -> None:
    busy = [{"kind": "overloaded", "retry_after_s": 0}]
    script = json.dumps([{"text": "At last.", "failures": busy}])
    talk("provider", "create", "busy", "--type", "scripted", "--set", f"script={script}")
    talk("model", "create", "patient", "--backend", "scripted-1", "--provider", "busy")
    assert talk("model", "invoke", "patient", "hello").out == "At last.\n"


def test_an_agent_and_a_session_are_invoked_by_words(talk: Call) -> None:
    talk("agent", "create", "helper", "--model", "echo", "--prompt", "You help.")
    assert talk("agent", "invoke", "helper", "hello").out == "hello\n"
    talk("session", "configure", "main", "--model", "echo")
    assert talk("program", "invoke", "main", "hello").out == "hello\n"
    assert len(talk("log", "main", "--json").documents) == 1


def test_a_provider_says_which_models_it_has(talk: Call) -> None:
    assert talk("provider", "invoke", "script", "--json").document == {"models": ["scripted-1"]}


def test_an_agent_works_on_a_task(talk: Call) -> None:
    rules = [
        {"when": "not done", "replies": [
            {"text": "I forgot.", "tools": [{"tool": "write", "args": {"path": "a.md"}}]},
            {"text": "Now it is there."},
        ]},
        {"when": "", "replies": [{"text": "Done!"}]},
    ]  # fmt: skip
    Path("writing.py").write_text(
        "from pathlib import Path\ndef write(path: str) -> str:\n"
        '    """Write a file."""\n    Path(path).write_text("words")\n    return "ok"\n'
    )
    talk("provider", "create", "w", "--type", "scripted", "--set", f"rules={json.dumps(rules)}")
    talk("model", "create", "writing", "--backend", "scripted-1", "--provider", "w")
    talk("agent", "create", "writer", "--model", "writing", "--reflect-on-failure")
    criterion = '{"kind": "file_exists", "path": "a.md"}'
    talk("task", "create", "Write a.md", "--name", "paper", "--criterion", criterion)
    told = talk("agent", "assign", "writer", "paper", "--tools", "writing:write")
    assert told.code == 0, told.err
    assert told.out == "@(paper) is completed after 2 turns in writer:paper, 1 of 1 criteria met\n"
    standing = talk("agent", "status", "writer", "--json").document
    assert (standing["state"], standing["turn_count"]) == ("idle", 3)
    talk("task", "create", "Write b.md", "--name", "other", "--criterion",
         '{"kind": "file_exists", "path": "b.md"}')  # fmt: skip
    failed = talk("agent", "assign", "writer", "other", "--tools", "writing:write")
    assert failed.code == 1
    assert "file_exists: b.md is not there" in failed.err


def test_an_agent_whom_no_model_answers_is_given_the_task_all_the_same(turntree: Call) -> None:
    turntree("agent", "create", "idler")
    turntree("task", "create", "Do it", "--name", "it")
    told = turntree("agent", "assign", "idler", "it")
    assert told.code == 0
    assert "it has not started yet: there is no model that could answer" in told.err


def test_a_task_that_is_only_begun_is_for_the_workers(turntree: Call) -> None:
    furnish(turntree)
    turntree("agent", "create", "clerk", "--model", "echo")
    turntree("task", "create", "Do it", "--name", "it")
    told = turntree("agent", "assign", "clerk", "it", "--no-wait")
    assert told.code == 0
    assert "any worker sees it through; start one with: turntree worker" in told.err
    assert turntree("task", "show", "it", "--json").document["state"] == "active"


@pytest.mark.parametrize("end", ["complete", "fail"])
def test_assigning_a_task_that_has_ended_shows_what_to_do_instead(turntree: Call, end: str) -> None:
    turntree("agent", "create", "clerk")
    turntree("task", "create", "Do it", "--name", "it")
    turntree("task", "start", "it")
    turntree("task", end, "it")
    refused = turntree("agent", "assign", "clerk", "it")
    assert refused.code == 1
    state = {"complete": "completed", "fail": "failed"}[end]
    assert refused.err.splitlines() == [
        f"error: @(it) is {state}; only a pending or blocked task can be assigned",
        "next: turntree task show it     turntree task create TITLE",
    ]


def test_a_task_at_work_is_assigned_to_another_after_the_command_that_the_error_shows(
    turntree: Call,
) -> None:
    furnish(turntree)
    for agent in ("clerk", "other"):
        turntree("agent", "create", agent, "--model", "echo")
    turntree("task", "create", "Do it", "--name", "it")
    turntree("agent", "assign", "clerk", "it", "--no-wait")
    refused = turntree("agent", "assign", "other", "it", "--no-wait")
    assert refused.code == 1
    error, shown = refused.err.splitlines()
    assert error == "error: @(it) is active; only a pending or blocked task can be assigned"
    block = shown.removeprefix("next: turntree ").split()
    for words in (block, ["program", "set-state", "it", "active"], block):
        assert turntree(*words).code == 0
    assert turntree("agent", "assign", "other", "it", "--no-wait").code == 0
    task = turntree("task", "show", "it", "--json").document
    assert (task["details"]["assignee"], task["state"]) == ("other", "active")
