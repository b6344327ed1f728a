"""Every command, view and table, asked by a stranger about what is private: not a word is told."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import click
import pytest

from tests.cli.conftest import Call
from tests.cli.test_conventions import list_commands
from turntree.auth.webhook_signature import sign
from turntree.boot.open import Settings, open_tree
from turntree.cli.root import root
from turntree.core.event import Event
from turntree.core.ids import RunId, unix_ms
from turntree.core.message import assistant, user
from turntree.core.run import RunEvent
from turntree.core.usage import ModelCall, Usage

WORDS = ("canary", "falcon")
"""Said in the private session, or in the name of what belongs to it."""
LABEL = "plans-canary"
TASK = "task-canary"
TALK = "talk-canary"
CALLS_MIN = 134
KEPT = (
    ("session", "list", "--all", "--json"), ("task", "show", TASK, "--json"),
    ("trigger", "list", "--json"), ("webhook", "list", "--json"),
)  # fmt: skip
"""What a stranger has not changed."""
STATES = {
    "provider": "published",
    "model": "published",
    "agent": "idle",
    "task": "completed",
    "information": "active",
    "human": "away",
    "code": "published",
    "connector": "published",
}
"""The kinds of program, each with a state that one can be moved to."""

Calls = dict[str, tuple[tuple[str, ...], ...]]

ASKED: Calls = {
    "send": (
        ("LABEL", "hello"),
        ("--dry-run", "--to", "", "the", "merger", "--explain"),
        ("--dry-run", "--to", "LABEL", "hello"),
    ),
    "tail": ((), ("LABEL",), ("RUN",), ("WAITING",)),
    "cancel": (("LABEL",), ("RUN",), ("WAITING",)),
    "conversation list": (("--archived",),),
    "conversation create": (("talk",), ("TALK",)),
    "conversation show": (("TALK",),),
    "conversation post": (("TALK", "hello", "--no-worker", "--no-wait"),),
    "conversation log": (("TALK",),),
    "conversation add": (("TALK", "bob"),),
    "conversation remove": (("TALK", "ana"),),
    "conversation leave": (("TALK",),),
    "conversation fork": (("TALK",),),
    "conversation erase": (("TALK", "1", "--yes"),),
    "conversation set-state": (("TALK", "archived"),),
    "conversation set-triage": (("TALK", "on"), ("TALK", "off")),
    "compact": (("LABEL",),),
    "rerun": (("TURN",),),
    "erase": (("TURN",), ("TURN:msg/0", "--yes"), ("LABEL:msg/0", "--yes"), ("RUN:msg/0",)),
    "log": (
        (), ("--all", "--graph"), ("LABEL",), ("SESSION",), ("TURN",), ("LABEL", "--messages"),
    ),
    "show": (
        ("LABEL",), ("TURN",), ("RUN",), ("TURN:tool/0",),
        ("TURN", "--context"), ("RUN", "--context"),
    ),
    "search": (
        ("CANARY",), ("falcon", "--no-semantic"), ("merger",),
        ("--like", "TURN"), ("--like", "--text", "the merger and its code name"),
    ),
    "blame": (("canary.py",),),
    "files": (("TURN",), ("LABEL",)),
    "diff": (("main", "TURN"), ("TURN", "main", "--files"), ("main", "TURN", "--stat")),
    "why": (("TURN",),),
    "reflog": (("LABEL",), ("SESSION",)),
    "sql": ((),),
    "stats": ((), ("--by", "session"), ("--by", "model"), ("--session", "LABEL")),
    "fork": (("LABEL", "mine"), ("TURN", "mine")),
    "revert": ((), ("TURN",), ("LABEL",)),
    "pick": (("TURN",), ("LABEL",)),
    "redo": ((),),
    "worktree": (("--list",), ("LABEL",)),
    "switch": (("LABEL",),),
    "rewind": (("TURN",), ("LABEL", "TURN")),
    "undo": (("LABEL",),),
    "snapshot": (("--session", "LABEL", "."),),
    "tag add": (("TURN", "mine"), ("LABEL", "mine")),
    "tag list": ((), ("TURN",)),
    "tag remove": (("TURN", "canary-tag"),),
    "archive": (("TURN",), ("LABEL",)),
    "unarchive": (("TURN",), ("LABEL",)),
    "session alias": (("LABEL", "mine"),),
    "session archive": (("LABEL",),),
    "session attach": (("LABEL",), ("@(LABEL)",)),
    "session configure": (("LABEL", "--situation", "fast"),),
    "session create": (("LABEL",),),
    "session detach": (("LABEL",),),
    "session list": ((), ("--all",)),
    "session merge": (("main", "LABEL"), ("LABEL", "main")),
    "session promote": (("LABEL", "mine"),),
    "session rename": (("LABEL", "mine"),),
    "session reset": (("main", "TURN"), ("LABEL", "main")),
    "session unarchive": (("LABEL",),),
    "session show": (("LABEL",), ("SESSION",)),
    "program configure": (("LABEL", "--set", "situation=fast"), ("TASK", "--set", "goal=mine")),
    "program create": (("task", "TASK"),),
    "program show": (("LABEL",), ("SESSION",), ("TASK",)),
    "program grant": (("LABEL", "bob", "read"), ("TASK", "bob", "read")),
    "program invite": (("TASK", "bob"), ("LABEL", "bob")),
    "program invoke": (("TASK", "hello"), ("LABEL", "hello")),
    "program kinds": ((),),
    "program list": ((),),
    "program set-state": (("TASK", "completed"),),
    "program refs": (("TASK",), ("LABEL",)),
    "program versions": (("TASK",), ("LABEL",)),
    "program visibility": (("TASK", "public"), ("LABEL", "public")),
    **{f"{kind} {verb}": words for kind in STATES for verb, words in {
        "list": ((),),
        "show": (("TASK",),),
        "configure": (("TASK", "--set", "title=mine"),),
        "set-state": (("TASK", STATES[kind]),),
        "invoke": (("TASK", "hello"),),
    }.items()},
    "model resolve": ((), ("TASK",)),
    "connector accept": (("TASK",),),
    "connector tools": (("TASK",),),
    "approve": (("--yes",), ("RUN", "--yes")),
    "reject": ((), ("RUN",)),
    "edit": (("RUN", "{}"),),
    "answer": (("RUN", "yes"),),
    "policy activate": (("7",),),
    "policy explain": (("TURN",), ("LABEL",)),
    "policy history": ((),),
    "policy test": ((),),
    "agent assign": (("nobody", "TASK"),),
    "agent delete": (("TASK",),),
    "agent status": (("TASK",),),
    "task start": (("TASK",),),
    "task report": (("TASK",),),
    "task complete": (("TASK",),),
    "task fail": (("TASK",),),
    "information validate": (("TASK",),),
    "human notify": (("TASK", "hello"),),
    "human read": (("TASK",),),
    "human ask": (("TASK", "hello"),),
    "human approve": (("TASK", "1"),),
    "human reject": (("TASK", "1"),),
    "tag find": ((),),
    "verify": (("TURN",), ("LABEL",)),
    "replay": (("TURN",), ("RUN",)),
    "fsck": ((),),
    "audit": ((), ("--session", "LABEL")),
    "token list": (("--all",),),
    "invitation list": (("--all",),),
    "invitation create": (("carl",),),
    "invitation revoke": (("nothing",),),
    "invitation accept": (("nothing",),),
    "member password": (("--remove",),),
    "key list": (("--all",),),
    "key create": (("ci",),),
    "key revoke": (("nothing",),),
    "inbox": ((), ("--all",)),
    "inbox read": ((),),
    "trigger create": (("builds", "LABEL"), ("builds", "TURN"), ("builds", "TASK")),
    "trigger delete": (("TRIGGER",),),
    "trigger firings": (("TRIGGER",),),
    "trigger list": ((),),
    "trigger pause": (("TRIGGER",),),
    "trigger resume": (("TRIGGER",),),
    "trigger rotate": (("TRIGGER",),),
    "trigger show": (("TRIGGER",),),
    "webhook create": (("https://example.net/hook",), ("https://example.net/hook", "--event", "*")),
    "webhook delete": (("WEBHOOK",),),
    "webhook deliveries": (("WEBHOOK",),),
    "webhook list": ((),),
    "webhook pause": (("WEBHOOK",),),
    "webhook resend": (("nothing",),),
    "webhook resume": (("WEBHOOK",),),
    "webhook rotate": (("WEBHOOK",),),
    "webhook show": (("WEBHOOK",),),
    "member list": ((),),
    "member add": (("carl",),),
    "member remove": (("ana",),),
    "member role": (("ana", "guest"),),
    "doctor": ((),),
    "plan list": ((),),
    "hook status": ((),),
    "handoff": (
        ("LABEL", "--to", "codex"), ("TURN", "--to", "codex"), ("LABEL", "--open"),
    ),
    "export": (("--all",), ("LABEL",), ("TURN",)),
    "share": (("LABEL", "-o", "-"), ("TURN", "-o", "-")),
    "pr": ((), ("main..HEAD", "--json")),
    "push": (("LABEL", "--to", "team"),),
    "pull": (("team", "LABEL"), ("team",)),
    "status": ((),),
    "index build": ((),),
    "gc": (("--dry-run",),),
    "index embed": (("TURN",),),
    "index status": ((),),
}  # fmt: skip
ELSEWHERE = {
    "backup create", "backup restore", "backup verify",
    "chat", "worker", "session identify", "plan resume", "token issue", "token revoke",
    "import", "demo", "init", "on", "off", "ps", "down", "ui", "serve", "completion", "config",
    "config add", "config get", "config list", "config set", "config unset", "hook sync",
    "hook install", "hook run", "hook uninstall", "mcp", "mcp install", "mcp uninstall",
    "uninstall", "remote", "remote add", "remote list", "remote remove", "key store", "key forget",
    *(f"{kind} create" for kind in STATES), "policy propose", "policy try",
}  # fmt: skip
"""What asks nothing of the ledger, or never ends."""


@pytest.fixture
def private(turntree: Call, conninfo: str) -> dict[str, str]:
    """What leads to a private session of ana's with a turn, an open run and a waiting message."""
    found: dict[str, str] = {"LABEL": LABEL, "TASK": TASK, "TALK": TALK}

    async def act() -> None:
        settings = Settings(Path(), conninfo, workspace="tests", user="ana")
        async with open_tree(settings) as tree:
            await tree.turns.record("main", [user("hello everybody")], [assistant("hi")])
            asked = [user("the CANARY merger has the code name Falcon")]
            said = [assistant("CANARY noted " + "and CANARY again " * 2000)]
            calls = [ModelCall("canary-model", Usage(1, 2))]
            await tree.turns.record(LABEL, asked, said, calls=calls)
            made = await tree.turns.record(LABEL, [user("CANARY")], [assistant("yes, Falcon")])
            await tree.turns.tag(LABEL, "canary-tag")
            await tree.programs.create("session", LABEL, {}, visibility="private")
            about = {"title": "the CANARY merger"}
            await tree.programs.create("task", TASK, about, visibility="private")
            session = await tree.sessions.get(LABEL)
            run, at = RunId(tree.sessions.world.new_id()), tree.sessions.world.now()
            begun = RunEvent.of(Event(run, 0, "run.started", at, {}), user("CANARY under way"))
            await tree.ledger.start(run, session.id, begun)
            waiting = await tree.runs.post(LABEL, "the CANARY waits")
            await tree.programs.create("agent", "bot", {})
            await tree.conversations.create(TALK, title="CANARY merges")
            await tree.conversations.post(TALK, "@[Bot](agent:bot) Falcon is a CANARY")
            await tree.conversations.set_triage(TALK, on=True)
            await tree.conversations.post(TALK, "Bot, is Falcon a CANARY?")
            webhook, _ = await tree.webhooks.create("https://example.net/canary", events=["*"])
            trigger, secret = await tree.triggers.create("CANARY", LABEL, prompt="Falcon")
            headers = sign([secret], "canary-1", unix_ms(tree.triggers.world.now()) // 1000, b"{}")
            incoming = await tree.triggers.accept(trigger.id, headers, b"{}")
            await tree.act_as(incoming.acting).triggers.fire(incoming)
            await tree.search.fill()
            found.update(SESSION=session.id, TURN=made.turn.id, RUN=run, WAITING=waiting.run)
            found.update(TRIGGER=trigger.id, WEBHOOK=webhook.id)

    anyio.run(act)
    return found


def test_every_command_is_asked_or_has_nothing_to_tell() -> None:
    names = {
        path.removeprefix("turntree ")
        for path, command in list_commands(root, "turntree")
        if not isinstance(command, click.Group) or command.invoke_without_command
    }
    groups = {"config"}
    assert names - ASKED.keys() - ELSEWHERE == set()
    assert (ASKED.keys() | ELSEWHERE) - names - groups == set()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_no_command_tells_a_stranger_a_word(
    turntree: Call, private: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turntree("remote", "add", "team", str(tmp_path / "team"), "--json").code == 0
    before = [turntree(*words).out for words in KEPT]
    assert all(word in turntree("export", LABEL).out.lower() for word in WORDS)
    monkeypatch.setenv("TURNTREE_USER", "bob")
    leaks, unasked = dict[str, set[str]](), list[str]()
    for words in list_calls(private):
        answer = turntree(*words)
        told = find_traces(answer.out + answer.err, words, private)
        if told:
            leaks[" ".join(words)] = told
        if answer.code == 2:  # The command never came as far as to look.
            unasked.append(f"{' '.join(words)}: {answer.err}")
    assert leaks == {}
    assert not unasked, "\n".join(unasked)
    assert len(list(list_calls(private))) >= CALLS_MIN
    monkeypatch.setenv("TURNTREE_USER", "ana")
    assert before == [turntree(*words).out for words in KEPT]


@pytest.mark.usefixtures("private")
def test_the_index_does_not_count_hidden_turns(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = turntree("index", "build", "--rebuild", "--no-semantic", "--json").document
    assert counted["words"] == 3
    monkeypatch.setenv("TURNTREE_USER", "bob")
    told = turntree("index", "build", "--rebuild", "--no-semantic", "--json").document
    assert (told["words"], told["meanings"]) == (None, None)


@pytest.mark.slow
def test_no_view_and_no_table_shows_a_stranger_a_word(
    turntree: Call, private: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "bob")
    tables = turntree(
        "--json", "sql", "SELECT tablename FROM pg_tables WHERE schemaname = 'turntree'"
    )
    names = [f"ledger.{one['view']}" for one in turntree("--json", "sql").documents]
    names += [f"turntree.{one['tablename']}" for one in tables.documents]
    assert len(names) > 40
    leaks = dict[str, set[str]]()
    for name in names:
        answer = turntree("--json", "sql", "--limit", "10000", f"TABLE {name}")
        if told := find_traces(answer.out + answer.err, (), private):
            leaks[name] = told
    assert leaks == {}


def list_calls(private: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield every command that is asked; lists for people and as JSON."""
    for name, calls in ASKED.items():
        for call in calls:
            words = [*name.split(), *(_filled(word, private) for word in call)]
            yield tuple(words)
            # What is addressed to nothing private lists what there is.
            if not set(call) & private.keys():
                yield (*words, "--json")


def _filled(word: str, private: dict[str, str]) -> str:
    name, colon, rest = word.partition(":")
    return private.get(name, name) + colon + rest


def find_traces(text: str, typed: tuple[str, ...], private: dict[str, str]) -> set[str]:
    """Return what a text tells that the stranger did not type."""
    told = text.lower()
    pieces = {piece for word in typed for piece in word.lower().split(":")}
    for piece in sorted(pieces, key=len, reverse=True):
        told = told.replace(piece, "")
    ids = (
        private[name].lower()
        for name in ("SESSION", "TURN", "RUN", "WAITING", "TRIGGER", "WEBHOOK")
    )
    return {trace for trace in (*WORDS, *ids) if trace in told}
