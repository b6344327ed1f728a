"""The claim: a story typed on the command line leaves a complete record of who did what.

    python -m proofs.acting [--quick]

Two people and three agents, one of them private, work with a scripted model; a worker in another
process answers. Everything is typed: no library call, no event written by hand. At the end one
person logs in at a server and out again, as a browser does, and another system sends a message
to a trigger. Then every column of the ledger's
views, every kind of event and every kind of edge is counted. A name without a row must be on the
list of names that only a later version produces (``docs/reference/conformance.md``). Every turn
must name the agent that acted and the person on whose behalf.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import chdir, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, get_args

import psycopg
from anyio.to_thread import run_sync
from click.testing import CliRunner
from psycopg import sql

from proofs.figures import Proof, run, temporary_server
from proofs.http_world import serving_apart
from proofs.identity_provider import CLIENT_SECRET, LoginBrowser, strict_provider
from proofs.transcripts import claude_code, codex, opencode
from turntree.auth.webhook_signature import make_secret, sign
from turntree.boot.open import Settings
from turntree.cli.root import root
from turntree.core.event import KINDS
from turntree.ledger.graph.edge import EdgeKind
from turntree.models.compacting import QUERY

COMMAND: Final = "from turntree.cli.main import main; main()"
PATIENCE_S: Final = 60.0
PAGE: Final = Path(__file__).parents[1] / "docs/reference/conformance.md"
TOOLS: Final = '''"""Tools of the story."""

from pathlib import Path


def write_note(name: str, text: str) -> str:
    """Write a file."""
    Path(name).write_text(text)
    return f"wrote {name}"


def remove_note(name: str) -> str:
    """Remove a file."""
    Path(name).unlink()
    return f"removed {name}"
'''


POLICY: Final = '''"""Allow notes, and nothing else that acts."""

TESTS = [{"request": {"tool": "write_note"}, "decision": "allow"}]


def decide(request):
    return "allow" if request["tool"] == "write_note" else "deny"
'''


def _calls(tool: str, **args: str) -> dict[str, Any]:
    return {"reasoning": "A tool is needed.", "tools": [{"tool": tool, "args": args}]}


RULES: Final = [
    {"when": "note", "replies": [_calls("write_note", name="note.txt", text="milk\n"),
                                 {"text": "```python list.py\nprint(1)\n```"}]},
    {"when": "more", "replies": [_calls("write_note", name="note.txt", text="eggs\n"),
                                 {"text": "Noted."}]},
    {"when": "in force", "replies": [_calls("write_note", name="rule.txt", text="kept\n"),
                                     {"text": "It is written."}]},
    {"when": "remove", "replies": [_calls("remove_note", name="note.txt"), {"text": "I may not."}]},
    {"when": "delegate", "replies": [_calls("scribe", message="hello from vault"),
                                     {"text": "It is done."}]},
    {"when": "stumble", "replies": [{"failures": [{"kind": "denied"}] * 9}]},
    {"when": "shelf moves", "replies": [{"tools": [{"tool": "shelf.change", "args": {}}]},
                                        {"text": "It has moved."}]},
    {"when": "shelf asks", "replies": [{"tools": [{"tool": "shelf.ask", "args": {"topic": "tea"}}]},
                                       {"text": "It is confirmed."}]},
    {"when": "wait", "replies": [{"delay_s": 600}]},
]  # fmt: skip
ACTED: Final = {
    "hello": "atlas for ana",
    "take a note": "atlas for ana",
    "more of it": "atlas for ana",
    "hello from bob": "atlas for bob",
    "please remove it": "scribe for ana",
    "a secret": "vault for ana",
    "hello again": "scribe for ana",
    "a secret of bob": "vault for bob",
    "please wait": "atlas for ana",
    "two things": "atlas for ana",
    "delegate it": "vault for ana",
    "hello from vault": "scribe for vault",
    QUERY: "atlas for ana",
    "a lengthy question": "scribe for ana",
    "hello by post": "assistant for ana",
    "the shelf moves": "keeper for ana",
    "the shelf asks": "keeper for ana",
    "a rule is in force": "scribe for ana",
}
"""Who answers which message, for whom."""
STORY: Final = """
ana: provider create script --type scripted --set 'rules={rules}' --set prompt_chars_max=6000
ana: model create echo --backend scripted-1 --provider script
ana: provider set-state script published
ana: model configure echo --temperature 0
ana: agent create scribe --prompt "You are scribe." --model echo --deny tool:remove_note
ana: agent create atlas --soul "You keep notes." --prompt "You are atlas." --model echo
ana: agent create vault --private --prompt "You keep secrets." --model echo --tool scribe
ana: human create bob --channel terminal --permission approve
ana: session create desk --owner atlas
ana: session create pad --owner scribe
ana: session create safe --owner vault
ana: session configure safe --model echo
ana: program visibility safe private
ana: switch desk
ana: send desk "hello" --no-worker
ana: snapshot
ana: send desk "take a note" --no-worker
ana: send desk "more of it" --no-worker
bob: send desk "hello from bob" --no-worker
ana: send pad "please remove it" --no-worker
ana: send safe "a secret" --no-worker
ana: send safe "delegate it" --no-worker
bob! send safe "tell me" --no-worker
ana! send desk "stumble" --no-worker
ana: session configure pad --situation coding
ana: fork desk~1 side --agent scribe --yes
ana: send side "hello again" --no-worker
ana: fork desk copy --files copied
ana! fork desk lost --files note.txt/deep
ana: rewind desk~1 --files --yes
ana: undo desk
ana: tag add desk good
ana: tag remove desk good
ana: session alias desk bench
ana: session rename pad paper
ana: session archive side
ana: session unarchive side
ana: task create "Say it" --assignee scribe
ana: task start task-say-it
ana: task complete task-say-it
ana: information create qubits --type fact --content '{"qubits": 5}'
ana: information set-state qubits validated
ana: human notify bob "It is done."
ana: program visibility atlas private
ana: program invite atlas bob
ana: agent set-state atlas paused
ana! send desk "still there?" --no-worker
ana: agent set-state atlas idle
ana: program invite safe bob
ana: program invite vault bob
bob: send safe "a secret of bob" --no-worker
ana: program grant safe bob invoke --revoke
ana: program set-state safe completed
ana! send safe "still there?" --no-worker
ana: token issue desk --agent atlas
ana: agent configure scribe --description "Writes things down."
ana: provider configure script --set base_url=http://127.0.0.1:9
ana: provider configure script --set base_url=
ana: human configure bob --channel terminal
ana: human set-state bob busy
bob: human read bob
ana: human ask bob "May we publish?"
ana: information set-state qubits active
ana: task create "Never" --assignee scribe
ana: task configure task-never --set priority=P1
ana: task fail task-never
ana: session create spare --model echo
ana: session merge desk spare
ana: model set-state echo published
ana: model invoke echo --message "Hello"
ana: code create double --language python --source "print(input())"
ana: code configure double --description "Says it again."
ana: code set-state double published
ana: code invoke double --input '{"n": 4}'
ana: human ask bob "May we print?" => request
bob: human approve bob {request}
ana: human ask bob "May we burn it?" => request
bob: human reject bob {request}
ana: human configure bob --description "Reads proofs."
ana: information configure qubits --set 'content={"qubits": 7}'
ana: token issue pad --agent scribe => nonce
ana: token revoke {nonce}
ana: send desk "please wait" --no-worker --no-wait
ana: send desk "two things" --no-worker --no-wait
ana: send desk "at once" --no-worker --no-wait --join
ana: cancel desk
ana: tail desk
ana: compact desk --no-worker
ana: undo desk
ana: session create long --owner scribe
ana: send long "{essay}" --no-worker
ana: send long "a lengthy question" --no-worker
ana: session identify post ana entity:ana
ana: send channel:post:ana "hello by post" --no-worker
ana: worktree desk garden
ana: worktree --remove garden
ana: agent configure scribe --set harness/checkpoint_every=1
ana: task create "Look" --assignee scribe --criterion '{"kind": "file_exists", "path": "note.txt"}'
ana: agent assign scribe task-look --no-worker
ana: task create "Stop" --assignee scribe
ana: task start task-stop
ana: task set-state task-stop blocked
ana: send desk "forget this" --no-worker
ana: erase desk:msg/0 --yes
ana: handoff desk --to codex
ana: import {claude}
ana: import {codex}
ana: import {opencode}
ana: member add carl --role guest
ana: member role carl member
bob! member remove carl
ana: member remove carl
ana: invitation create dan => code
eve! invitation accept <= {code}
dan: invitation accept <= {code}
dan! invitation accept <= {code}
ana: invitation create eve => id
ana: invitation revoke {id}
dan: key create robot => id
bob! key revoke {id}
ana: key revoke {id}
dan! member password <= correct horse battery
ana: member password <= correct horse battery
ana: member password --remove
ana: key create browser => key
ana: conversation create plans --title Plans
ana: conversation add plans atlas
ana: conversation post plans "we ship on friday"
ana: conversation post plans "hello in public" --to atlas --no-worker
ana: conversation fork plans --at 1
ana: conversation erase plans 1 --yes
ana: program configure plans --set title=Plan
ana: conversation remove plans atlas
ana: conversation set-state plans archived
ana: conversation create ops --title Ops
ana: conversation add ops scribe
ana: conversation set-triage ops on
ana: conversation post ops "who can look into the failed export?" --no-worker
ana: conversation post ops "I have answered the customer myself, all is well again." --no-worker
ana: webhook create https://example.net/notices => id
ana: webhook rotate {id}
ana: webhook pause {id}
ana: webhook resume {id}
ana: webhook delete {id}
ana: trigger create tests paper => id
ana: trigger delete {id}
ana: trigger create builds paper => id
ana: trigger rotate {id} --own-secret <= {secret}
ana: trigger pause {id}
ana: trigger resume {id}
ana: connector create shelf --command "{tools}" --watch memo://text --set 'effects/*=[]'
ana: connector configure shelf --set env/TOOL_SERVER_LOG=shelf.txt
ana: connector accept shelf
ana: connector set-state shelf published
ana: agent create keeper --prompt "You keep a shelf." --model echo --connector shelf
ana: session create shop --owner keeper
ana: send shop "the shelf moves" --no-worker
ana: send shop "the shelf asks" --no-worker --no-wait
ana~ answer '{"name": "Ana"}'
ana: tail shop
ana: connector configure shelf --set env/TOOL_SERVER_TEXT="Notes what you say."
ana: connector tools shelf
ana: policy test {policy}
ana: policy propose {policy} --note "Notes only." => number
bob! policy activate {number}
ana: policy activate {number}
ana: session create ruled --owner scribe
ana: send ruled "a rule is in force" --no-worker
ana: policy explain ruled
ana: policy activate 0
ana: fsck
"""
"""Who types which line; an exclamation mark says that it has to be refused, a tilde that it is
typed again until it is not. ``=>`` names what of
the output is kept, and ``<=`` says what is typed when the command asks."""


async def prove(proof: Proof) -> None:
    """Tell the story, then count what it left."""
    with (
        temporary_server() as (server, _),
        tempfile.TemporaryDirectory(prefix="turntree-acting-") as folder,
    ):
        place = Path(folder)
        os.environ.update(
            TURNTREE_DATABASE_URL=server,
            TURNTREE_HOME=str(place / "home"),
            TURNTREE_WORKSPACE="acting",
            TURNTREE_CONFIG=str(place / "config.toml"),
            CODEX_HOME=str(place / "codex"),
            TURNTREE_UNSANDBOXED_CONNECTORS="shelf",
            PYTHONPATH=f"{place}:{os.environ.get('PYTHONPATH', '')}",
        )
        known = await run_sync(_tell, proof, place)
        settings = Settings(place / "home", server, workspace="acting", user="ana")
        await _use_server(proof, settings, known)
        await run_sync(_count, proof, server)


def _tell(proof: Proof, folder: Path) -> Mapping[str, str]:
    """Have every line typed, and return what of the output was kept."""
    # The embedded server's account may be another than ours, and must pass through.
    folder.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    (folder / "acting_tools.py").write_text(TOOLS)
    (folder / "policy.py").write_text(POLICY)
    known = {
        "rules": json.dumps(RULES),
        "secret": make_secret("another system"),
        "tools": f"{sys.executable} -m turntree.testing.tool_server",
        "policy": str(folder / "policy.py"),
        "essay": "One word after the other. " * 160,
        "claude": str(_write_sessions(folder / "claude")),
        "codex": str(codex.write_sample(folder / "codex-sessions")),
        "opencode": str(opencode.write_sample(folder / "opencode")),
    }
    lines = [line for line in STORY.strip().splitlines() if line]
    right, began = 0, time.monotonic()
    with _working(work):
        for line in lines:
            user, is_refused, words = line[:3], line[3] == "!", line[4:].strip()
            os.environ["TURNTREE_USER"] = user
            words, _, kept = words.partition(" => ")
            words, _, answer = words.partition(" <= ")
            typed = [_fill(word, known) for word in shlex.split(words)]
            print(f"{time.monotonic() - began:5.1f} {line[:60]}", file=sys.stderr, flush=True)
            typed += ["--json"] if kept else []
            until = time.monotonic() + (PATIENCE_S if line[3] == "~" else 0)
            while True:
                with chdir(work):
                    ended = CliRunner().invoke(
                        root, typed, prog_name="turntree", input=f"{_fill(answer, known)}\n"
                    )
                if ended.exit_code == 0 or time.monotonic() >= until:
                    break
                time.sleep(0.2)
            if kept:
                known[kept] = str(json.loads(ended.stdout)[kept])
            is_right = (ended.exit_code != 0) == is_refused
            right += is_right
            if not is_right:
                print(
                    f"{line}: {ended.exit_code} {ended.stderr or ended.exception}", file=sys.stderr
                )
    proof.at_least("lines that ended as they should", right, f"of {len(lines)}", len(lines))
    return known


async def _use_server(proof: Proof, settings: Settings, known: Mapping[str, str]) -> None:
    """Log in at a server with a key, as its page does, link an account, unlink it, and log out.

    Then a message of another system comes in by the trigger that was made last.
    """
    async with (
        strict_provider() as provider,
        serving_apart(
            settings, "--no-worker", "--identity-providers", provider.write_config(settings.home),
            SECRET=CLIENT_SECRET,
        ) as served,
        LoginBrowser(served.url, "acting") as browser,
    ):  # fmt: skip
        provider.redirect_uris = {f"{served.url}/w/acting/login"}
        answers = [
            await browser.post("/login-sessions", {"key": known["key"]}),
            await browser.log_in(aim="link"),
            linked := await browser.get("/identities"),
        ]
        (account,) = linked.json()["identities"]
        answers += [
            await browser.post(f"/identities/{account['id']}/unlink", {}),
            await browser.post("/logout", {}),
            await browser.get("/login-sessions"),
        ]
        body = b'{"type": "build.failed"}'
        fired = await browser.http.post(
            f"{served.url}/w/acting/api/v1/hooks/{known['id']}",
            content=body,
            headers={
                "content-type": "application/json",
                **sign([known["secret"]], "msg_1", int(time.time()), body),
            },
        )
    statuses = [answer.status_code for answer in answers]
    wanted = [*[HTTPStatus.OK] * 3, *[HTTPStatus.NO_CONTENT] * 2, HTTPStatus.UNAUTHORIZED]
    proof.at_least(f"logins that began and ended {statuses}", int(statuses == wanted), "logins", 1)
    is_taken = fired.status_code == HTTPStatus.OK
    proof.at_least(f"messages that came in [{fired.status_code}]", int(is_taken), "messages", 1)


def _write_sessions(folder: Path) -> Path:
    """Write sessions of another tool: a subagent, a compaction, lines of a file and a lint."""
    claude_code.write_sample(folder)
    tape = claude_code.Tape("cccccccc-0000-4000-8000-000000000003")
    tape.exchange("one")
    tape.exchange("two")
    kept = {"preservedSegment": {"headUuid": "two!", "anchorUuid": "sum", "tailUuid": "two!"}}
    tape.add("system", "cut", subtype="compact_boundary", after=None, logicalParentUuid="two!",
             compactMetadata={"trigger": "auto", "preTokens": 900, "postTokens": 90,
                              "durationMs": 12, **kept})  # fmt: skip
    tape.prompt("sum", "They counted.\n\nPlease go on.", isCompactSummary=True,
                isVisibleInTranscriptOnly=True)  # fmt: skip
    tape.prompt("p", "What is wrong here?")
    lines = {"type": "selected_lines_in_ide", "filename": "/src/a.py", "lineStart": 2, "lineEnd": 4,
             "content": "x"}  # fmt: skip
    tape.add("attachment", "x", attachment=lines)
    span = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 9}}
    unused = {"message": "unused", "severity": "Warning", "source": "ruff", "range": span}
    files = [{"uri": "file:///src/a.py", "diagnostics": [unused]}]
    tape.add("attachment", "y", attachment={"type": "diagnostics", "files": files, "isNew": True})
    tape.answer("q", "msg_q", "A name is not used.")
    claude_code.save(folder, tape)
    return folder


def _fill(word: str, known: Mapping[str, str]) -> str:
    """Return a word of the story with the values of earlier lines."""
    for name, told in known.items():
        word = word.replace(f"{{{name}}}", told)
    return word


@contextmanager
def _working(folder: Path) -> Generator[None, None, None]:
    """Run a worker in another process while the block lasts."""
    words = ["worker", "--tools", "acting_tools:write_note", "--tools", "acting_tools:remove_note"]
    worker = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        cwd=folder,
        env={**os.environ, "TURNTREE_USER": "ana"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(30)


def _count(proof: Proof, server: str) -> None:
    later = list_later(PAGE.read_text(encoding="utf-8"))
    with psycopg.connect(server, autocommit=True) as connection:
        counted = {**_count_columns(connection), **_count_kinds(connection)}
        turns = connection.execute(
            "SELECT m.content, turntree.turn_header(t.workspace_id, t.id) -> 'by'"
            " FROM turntree.turns t JOIN ledger.messages m ON m.turn_id = t.id AND m.sequence = 0"
        ).fetchall()
    for name in sorted(counted):
        print(json.dumps({"name": name, "rows": counted[name], "later": name in later}))
    missing = sorted(name for name, rows in counted.items() if not rows and name not in later)
    print(f"without a row, and not on the list: {', '.join(missing) or 'none'}", file=sys.stderr)
    proof.note(
        "names with rows", sum(bool(rows) for rows in counted.values()), f"of {len(counted)}"
    )
    proof.note("names on the later list", len(later & counted.keys()), "names")
    proof.at_most("names without a row that are not on the later list", len(missing), "names", 0)
    made = sorted(name for name in later if counted.get(name))
    print(f"on the list, but with rows: {', '.join(made) or 'none'}", file=sys.stderr)
    proof.at_most("names on the later list that have rows", len(made), "names", 0)
    proof.at_least("turns of the story", len(turns), "turns", len(ACTED))
    said_here = {str(said) for said, _ in turns}
    lost = sorted(said for said in ACTED if said not in said_here)
    print(f"without a turn: {', '.join(lost) or 'none'}", file=sys.stderr)
    proof.at_most("messages of the story without a turn", len(lost), "messages", 0)
    wrong = 0
    for said, by in turns:
        told = f"{by['id']} for {by.get('on_behalf_of', {}).get('id')}"
        if ACTED.get(str(said), told) != told:
            print(f"{said!r} was answered by {told}, not {ACTED[str(said)]}", file=sys.stderr)
            wrong += 1
    proof.at_most("turns that name another agent or person", wrong, "turns", 0)


def list_later(page: str) -> frozenset[str]:
    """Return the names that the page lists as produced by a later version only."""
    _, _, section = page.partition("## Names without a producer yet")
    return frozenset(re.findall(r"`([\w.]+)`", section))


def _count_columns(connection: psycopg.Connection[Any]) -> Mapping[str, int]:
    columns: dict[str, list[str]] = {}
    for view, column in connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'ledger' AND table_name NOT IN ('edges', 'nodes')"
        " ORDER BY table_name, ordinal_position"
    ):
        columns.setdefault(view, []).append(column)
    counted: dict[str, int] = {}
    for view, names in columns.items():
        numbers = sql.SQL(", ").join(sql.SQL("count({})").format(sql.Identifier(n)) for n in names)
        query = sql.SQL("SELECT {} FROM ledger.{}").format(numbers, sql.Identifier(view))
        row = connection.execute(query).fetchone() or ()
        counted |= {f"{view}.{name}": int(n) for name, n in zip(names, row, strict=True)}
    return counted


def _count_kinds(connection: psycopg.Connection[Any]) -> Mapping[str, int]:
    events = dict(
        connection.execute("SELECT kind, count(*) FROM turntree.events GROUP BY 1").fetchall()
    )
    edges = dict(
        connection.execute("SELECT kind, count(*) FROM ledger.edges GROUP BY 1").fetchall()
    )
    return {
        **{kind: int(events.get(kind, 0)) for kind in KINDS},
        **{kind: int(edges.get(kind, 0)) for kind in get_args(EdgeKind)},
    }


if __name__ == "__main__":
    run(prove, __doc__ or "")
