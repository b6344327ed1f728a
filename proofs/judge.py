"""The claim: one policy decides about the tool calls of Claude Code and Codex, and nothing weaker.

Real Claude Code and real Codex run with the hooks that `turntree hook install --judge` wrote, while
the database is down: what the policy allows is done once, what it denies is not done and the model
reads why, and what it rewrites is done as rewritten. What needs a person is deferred by Claude
Code, which ends; where that is impossible the denial names the request. Then every process is
killed, the database comes back, the requests are approved on the command line, and each call is
done once. A policy file that was tampered with leaves the question to the tool, and where that asks
nobody, its hook refuses.

At a terminal, what needs a person is asked by Claude Code itself.

300 shell lines are read, and bash itself shows that it runs nothing that was not read. At the 95th
percentile a hook that asks the judge takes no longer than any hook may.
"""

import asyncio
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import turntree
from proofs.agents import claude, codex
from proofs.agents.app_server import AppServer
from proofs.agents.hooked import Hooked, hooked
from proofs.agents.programs import PROGRAMS, Program, say
from proofs.agents.stage import AgentFailed, Stage
from proofs.bash_runs import ENDLESS, find_unforeseen, make_place, run_line
from proofs.figures import DURABLE, Proof, run
from proofs.hook_latency import WAIT_MAX_MS, wait_for_calm
from proofs.terminal import Terminal
from turntree.db.embedded.server import EmbeddedServer
from turntree.hooks.hook_judge import HookJudge
from turntree.hooks.judge_files import JudgeFiles
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision
from turntree.policy.policy import Policy
from turntree.policy.shell import read_commands
from turntree.testing.scripted.server import Call, Reply, Rule, ScriptedModel

LINES: Final = Path(__file__).parents[1] / "tests" / "policy" / "shell_lines.json"
LINES_MIN: Final = 300
POLICY: Final = '''\
"""Decide by what a file is called: a policy for a proof."""


def decide(request):
    line = str(request["args"])
    if request["tool"] != "Bash":
        return "allow"
    if request["outside"]:
        return {"decision": "deny", "reason": "it leaves the folder"}
    if "deny-" in line:
        return {"decision": "deny", "reason": "the name says so"}
    if "ask-" in line:
        return {"decision": "ask", "reason": "the name says so"}
    if "rewrite-" in line:
        args = dict(request["args"])
        args["command"] = args["command"].replace("rewrite-", "rewritten-")
        return {"decision": "rewrite", "args": args}
    return "allow"


TESTS = [
    {"request": {"tool": "Bash", "args": {"command": "echo > deny-1"}}, "decision": "deny"},
    {"request": {"tool": "Bash", "args": {"command": "echo > ask-1"}}, "decision": "ask"},
    {"request": {"tool": "Bash", "args": {"command": "echo > x"}}, "decision": "allow"},
]
'''
VERDICTS: Final = ("allow", "deny", "rewrite")
DENIED: Final = "Turntree: denied: the name says so"
UNANSWERED: Final = "Turntree: the judge gave no answer in time"
NAMED: Final = "asks a person about it"
ONCE: Final = (False, True, False)
PARTS: Final = ("wait", "agents claude", "agents codex", "terminal", "deferred")
"""The parts that need hooks."""
ELSEWHERE: Final = "elsewhere"
NEARBY: Final = "nearby"
BATCH: Final = 3
"""Calls of each verdict that one prompt makes."""
ALL: Final = 30
QUESTION_MAX_S: Final = 30.0
AGENTS: Final = {"claude": "claude-code", "codex": "codex"}


async def prove(proof: Proof) -> None:
    """Read lines, judge calls, and approve what was deferred."""
    with tempfile.TemporaryDirectory(prefix="turntree-judge-") as place:
        folder = Path(place)
        folder.chmod(0o755)  # noqa: ASYNC240 - nothing else runs here
        if proof.begins("shell"):
            prove_shell(proof, folder)
        if proof.begins("faults"):
            prove_faults(proof, folder / "faults")
        if any(proof.wants(name) for name in PARTS):
            server = EmbeddedServer(folder / "server", DURABLE)
            try:
                await asyncio.to_thread(prove_hooks, proof, folder, server)
            finally:
                server.stop(mode="immediate")


def prove_shell(proof: Proof, folder: Path) -> None:
    """Read the table of lines, and have bash run them."""
    rows: list[dict[str, Any]] = json.loads(LINES.read_text(encoding="utf-8"))
    wrong, missed, ran = 0, 0, 0
    work = make_place(folder / "bash")
    for number, row in enumerate(rows):
        found = read_commands(row["line"], "/w", "/home/u")
        wrong += (None if found is None else [[*one.words] for one in found]) != (
            None if row["commands"] is None else [one["words"] for one in row["commands"]]
        )
        if found is None or ENDLESS.search(row["line"]) or (proof.quick and number % 4):
            continue
        here = read_commands(row["line"], str(work), str(folder / "bash" / "home"))
        made = run_line(row["line"], work)
        ran += len(made)
        missed += here is None or len(find_unforeseen(here, made))
    proof.at_least("lines read", len(rows), "lines", LINES_MIN)
    proof.at_most("lines read wrongly", wrong, "lines", 0)
    proof.at_least("commands that bash ran", ran, "commands", 80 if proof.quick else 300)
    proof.at_most("commands that bash ran unforeseen", missed, "commands", 0)


class _NeverUsesUp(JudgeFiles):
    """A planted fault: what was approved once stays approved."""

    __slots__ = ()

    def use(self, id: str) -> bool:  # noqa: ARG002
        return True


class _ForgetsArguments(JudgeFiles):
    """A planted fault: what was approved is good for any arguments."""

    __slots__ = ()

    def list_requests(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        for path, request in super().list_requests():
            yield path, {**request, "key": _AnyKey()}

    def find_decided(self, id: str) -> dict[str, Any] | None:
        decided = super().find_decided(id)
        return None if decided is None else {**decided, "args_digest": _AnyKey()}


class _AnyKey(str):
    """A text that equals every other one."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, str)


def prove_faults(proof: Proof, folder: Path) -> None:
    """Use one approval several times, and count the calls that go through."""
    right = _let_through(folder / "real") == ONCE
    proof.at_least("one approval lets the one call through once", right, "approvals", 1)
    planted = (_NeverUsesUp, _ForgetsArguments)
    found = sum(_let_through(folder / one.__name__, one) != ONCE for one in planted)
    proof.at_least("planted faults found", found, "faults", len(planted))


def _let_through(folder: Path, files: type[JudgeFiles] = JudgeFiles) -> tuple[bool, ...]:
    """Return which of three calls an approval lets through: another one, the same, and it again."""
    folder.mkdir(parents=True)

    def decide(policy: Policy, _: JudgedCall) -> PolicyDecision:
        return PolicyDecision("ask", "it has to be", policy.digest)

    judge = HookJudge(folder, decide)
    judge.files = files(folder)

    def ask(command: str) -> str:
        told = {"session_id": "s", "cwd": str(folder), "tool_name": "Bash",
                "tool_input": {"command": command}, "tool_use_id": "t"}  # fmt: skip
        found = judge.answer("judge", "claude-code", told, str(folder), "sdk-cli").document
        assert found is not None
        return str(found["hookSpecificOutput"]["permissionDecision"])

    assert ask("echo one") == "deny"
    ((_, request),) = JudgeFiles(folder).list_requests()
    JudgeFiles(folder).note_decided(request["id"], {
        "state": "approved", "by": "human:ana", "args_digest": request["args_digest"],
        "allowed_digest": request["args_digest"], "expires_ms": 1 << 50,
    })  # fmt: skip
    return tuple(ask(line) == "allow" for line in ("echo two", "echo one", "echo one"))


def prove_hooks(proof: Proof, folder: Path, server: EmbeddedServer) -> None:
    """Put a policy in force, take the database away, and have agents work."""
    each, waiting = (3, 2) if proof.quick else (30, 20)
    for program in PROGRAMS[:2]:
        if program.name == "codex" and not proof.wants("agents codex"):
            continue
        address = server.ensure_running()
        with ScriptedModel(rules=_rules(program.name)) as model:
            told = _told(program, folder / program.name, model, address)
            asyncio.run(_activate(told))
            told.call("hook", "install", AGENTS[program.name], "--judge",
                      *(("--trust",) if program.name == "codex" else ()))  # fmt: skip
            told.call("hook", "sync")
            told.stage.end_all()
            server.stop()
            try:
                if program.name == "claude" and proof.begins("wait"):
                    prove_wait(proof, told)
                if proof.begins(f"agents {program.name}"):
                    prove_agent(proof, told, program.name, each)
                if program.name == "claude" and proof.begins("terminal"):
                    prove_terminal(proof, told)
                if program.name == "claude" and proof.begins("deferred"):
                    prove_deferred(proof, told, server, waiting)
            finally:
                told.stage.end_all()


async def _activate(told: Hooked) -> None:
    async with turntree.open(told.settings) as tree:
        version = await tree.policies.propose(POLICY)
        await tree.policies.activate(version.number)


def _told(program: Program, folder: Path, model: ScriptedModel, address: str) -> Hooked:
    scene = {"claude": claude.SCENE, "codex": codex.SCENE}[program.name]
    folder.mkdir()
    folder.chmod(0o755)
    path = program.ensure()
    (folder / "bin").mkdir()
    (folder / "bin" / program.name).symlink_to(path)
    stage = Stage(path, folder, model, scene.settings(model.url))
    stage.set_up()
    found = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    # Without it, Claude Code refuses to root the mode in which it asks nothing.
    more = {"PATH": found, "IS_SANDBOX": "1"}
    told = hooked(stage, address, f"judge-{program.name}", more)
    scene.prepare(told.stage)
    return told


def _rules(name: str) -> list[Rule]:
    """Return what the model wants to do for each prompt, and what it says to everything else."""
    shell, offers = (claude.bash, "Bash") if name == "claude" else (codex.shell, None)
    scene = claude.SCENE if name == "claude" else codex.SCENE

    def write(word: str) -> Call:
        return shell(f"echo x >> {word}.txt")

    rules = [
        Rule(
            (*(Reply("Next.", (write(f"{verdict}-{number}"),))
               for number in range(start, start + BATCH) for verdict in VERDICTS),
             Reply("Done.")),
            prompt=f"BATCH {start} ", offers=offers, name=f"batch-{start}",
        )
        for start in range(0, ALL, BATCH)
    ]  # fmt: skip
    for number in range(ALL):
        pair = tuple(write(f"ask-{number}-{half}") for half in ("a", "b"))
        calls = pair if name == "claude" else pair[:1]
        rules.append(
            Rule((Reply("Both.", calls), Reply("Done.")),
                 prompt=f"PAIR {number} ", offers=offers, name=f"pair-{number}")
        )  # fmt: skip
        waits = (Reply("This.", (write(f"ask-wait-{number}"),)), Reply("Done."))
        rules.append(Rule(waits, prompt=f"WAIT {number} ", offers=offers, name=f"wait-{number}"))
    if name == "codex":
        # Codex reports the folder that its model chose, not the argument.
        far = Call("exec_command", {"cmd": "echo x >> far.txt", "workdir": f"../{ELSEWHERE}"})
        near = Call("exec_command", {"cmd": "echo x >> near.txt", "workdir": NEARBY})
        rules.append(Rule((Reply("Two.", (far, near)), Reply("Done.")), prompt="FOLDERS ",
                          name="folders"))  # fmt: skip
    for number in range(3):
        typed = (Reply("This.", (write(f"ask-typed-{number}"),)), Reply(f"Typed {number}."))
        rules.append(Rule(typed, prompt=f"TYPED {number} ", offers=offers, name=f"typed-{number}"))
    tampered = (Reply("This.", (write("allow-tampered"),)), Reply("Done."))
    rules.append(Rule(tampered, prompt="TAMPERED ", offers=offers, name="tampered"))
    return [*rules, *scene.rules[-2:]]


def prove_wait(proof: Proof, told: Hooked) -> None:
    """Call the hook as Claude Code does, and show how long it waits."""
    settings = json.loads((told.stage.home / ".claude/settings.json").read_text(encoding="utf-8"))
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    place = told.stage.folder / "small"
    place.mkdir()
    for number in range(20):
        (place / f"file-{number}.txt").write_text(f"{number}\n" * number, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", place], check=True)
    proof.note("a bare Python, median", wait_for_calm(20 if proof.quick else 90), "ms")
    began = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    said = {"session_id": "waits", "cwd": str(place)}
    # A turn begins before it calls tools, so the daemon runs by then.
    subprocess.run(
        ["sh", "-c", began], input=json.dumps(said).encode(), check=True,
        env=told.stage.environment(), cwd=place,
    )  # fmt: skip
    waits: list[float] = []
    answered = 0
    environment = {**told.stage.environment(), "CLAUDE_PROJECT_DIR": str(place)}
    for number in range(40 if proof.quick else 200):
        call = {"session_id": "waits", "cwd": str(place), "tool_name": "Bash",
                "tool_input": {"command": f"cat file-{number % 20}.txt | head -{number}"},
                "tool_use_id": f"toolu_{number}", "hook_event_name": "PreToolUse"}  # fmt: skip
        started = time.perf_counter()
        done = subprocess.run(
            ["sh", "-c", command], input=json.dumps(call).encode(), capture_output=True,
            env=environment, cwd=place, check=False,
        )  # fmt: skip
        waits.append((time.perf_counter() - started) * 1000)
        answered += b'"permissionDecision": "allow"' in done.stdout
        # An agent's calls come one after another, and it thinks in between.
        time.sleep(0.02)
    ordered = sorted(waits)
    # Without an answer in time, Claude Code asks its user.
    proof.at_least("hooks that were answered", answered, "hooks", 0.95 * len(waits), of="time")
    proof.note("wait for an answer, median", statistics.median(ordered), "ms")
    p95 = ordered[int(len(ordered) * 0.95)]
    proof.at_most("wait for an answer, 95th percentile", p95, "ms", WAIT_MAX_MS, of="time")
    proof.note("wait for an answer, longest", ordered[-1], "ms")


def prove_agent(proof: Proof, told: Hooked, name: str, each: int) -> None:
    """Have an agent make calls of every verdict, and look what was done."""
    for start in range(0, each, BATCH):
        _prompt(told, name, f"BATCH {start} please")
    work = told.stage.work
    count = range(-(-each // BATCH) * BATCH)
    once = sum(_said(work / f"allow-{number}.txt") == "x\n" for number in count)
    proof.at_least(f"{name}: allowed calls done once", once, "calls", len(count))
    done = sum((work / f"deny-{number}.txt").exists() for number in count)
    proof.at_most(f"{name}: denied calls done", done, "calls", 0)
    right = sum(
        _said(work / f"rewritten-{number}.txt") == "x\n"
        and not (work / f"rewrite-{number}.txt").exists()
        for number in count
    )
    proof.at_least(f"{name}: rewritten calls done as rewritten", right, "calls", len(count))
    read = max((_last_request(told).count(DENIED)), 0)
    proof.at_least(f"{name}: reasons that the model read", read, "reasons", BATCH)
    pairs = max(1, each // 3)
    for number in range(pairs):
        _prompt(told, name, f"PAIR {number} please")
    asked = 2 if name == "claude" else 1
    named = _last_request(told).count(NAMED)
    proof.at_least(f"{name}: denials that name the request", named, "denials", asked)
    requests = [one for _, one in JudgeFiles(told.home).list_requests()]
    proof.at_least(f"{name}: requests kept", len(requests), "requests", asked * pairs)
    strays = [path.name for path in work.glob("ask-*.txt")]
    proof.at_most(f"{name}: asked calls done", len(strays), "calls", 0)
    if name == "codex":
        _prove_folders(proof, told)
        proof.at_most("codex: questions to its user", _count_questions(told), "questions", 0)
    policy = told.home / "judge/policy.json"
    text = policy.read_bytes()
    policy.write_bytes(text.replace(b"deny-", b"DENY-"))
    # Codex asks its user nothing here, and Claude Code in the second mode: then no answer of the
    # judge must be a refusal of its hook.
    modes = ("default", "bypassPermissions") if name == "claude" else ("",)
    for mode in modes:
        _prompt(told, name, "TAMPERED please", *(("--permission-mode", mode) if mode else ()))
    policy.write_bytes(text)
    weaker = (work / "allow-tampered.txt").exists()
    proof.at_most(f"{name}: calls that a policy with another digest allowed", weaker, "calls", 0)
    refused = _last_request(told).count(UNANSWERED)
    proof.at_least(f"{name}: refusals where the tool asks nobody", refused, "refusals", 1)


def _prove_folders(proof: Proof, told: Hooked) -> None:
    """Have the model of Codex choose the folder of a call: one in the project, and one outside."""
    near, far = told.stage.work / NEARBY, told.stage.work.parent / ELSEWHERE
    near.mkdir()
    far.mkdir()
    _prompt(told, "codex", "FOLDERS please")
    done = _said(near / "near.txt") == "x\n"
    proof.at_least("codex: calls done in a folder of the project", done, "calls", 1)
    left = (far / "far.txt").exists()
    proof.at_most("codex: calls done in a folder outside", left, "calls", 0)


def _prompt(told: Hooked, name: str, text: str, *options: str) -> str:
    """Have an agent answer one prompt, and return its session."""
    if name == "codex":
        return codex.run(told.stage, text)
    printed = told.stage.run("-p", text, "--output-format", "json", *options)
    return str(json.loads(printed)["session_id"])


def _last_request(told: Hooked) -> str:
    """Return what the model was told last."""
    return json.dumps(told.stage.model.requests[-1])


def _count_questions(told: Hooked) -> int:
    """Return how often Codex asks its user about a call that the policy allows.

    Its own rules ask before each command here, and the judge answers in the user's place.
    """
    with AppServer(told.stage) as server:
        started = server.call("thread/start", {
            "approvalPolicy": "untrusted", "cwd": str(told.stage.work),
            "sandbox": "danger-full-access",
        })  # fmt: skip
        thread = str(started["thread"]["id"])
        text = [{"type": "text", "text": f"BATCH {ALL - BATCH} please"}]
        server.call("turn/start", {"threadId": thread, "input": text})
        try:
            server.wait_for("turn/completed", thread, QUESTION_MAX_S)
        except AgentFailed:
            return 1
    return 0


def prove_terminal(proof: Proof, told: Hooked) -> None:
    """Type into Claude Code: it asks its user, by its own question, and does what they answer."""
    claude.finish_onboarding(told.stage)
    work, policy = told.stage.work, told.home / "judge/policy.json"
    shown = _type(told, "TYPED 0 please", "Enter", "Typed 0.")
    proof.at_least("questions on the screen that name the reason", shown, "questions", 1)
    once = _said(work / "ask-typed-0.txt") == "x\n"
    proof.at_least("calls done once that the user allowed there", once, "calls", 1)
    _type(told, "TYPED 1 please", "Escape", "nterrupted")
    refused = (work / "ask-typed-1.txt").exists()
    proof.at_most("calls done that the user refused there", refused, "calls", 0)
    text = policy.read_bytes()
    policy.write_bytes(text.replace(b"deny-", b"DENY-"))
    options = ("--permission-mode", "bypassPermissions")
    shown = _type(told, "TYPED 2 please", "Escape", "nterrupted", *options, reason=UNANSWERED)
    policy.write_bytes(text)
    proof.at_least("questions without a judge, where it asks nothing", shown, "questions", 1)
    weaker = (work / "ask-typed-2.txt").exists()
    proof.at_most("calls done without a judge, where it asks nothing", weaker, "calls", 0)


def _type(
    told: Hooked, prompt: str, key: str, end: str, *options: str, reason: str = "the name says so"
) -> bool:
    """Type a prompt and press a key at its question; return whether that named the reason."""
    environment = {**told.stage.environment(), "TERM": "screen-256color", "LANG": "C.UTF-8"}
    # It believes to run in CI otherwise, and draws no screen.
    del environment["CI"]
    terminal = Terminal(told.stage.folder)
    terminal.open(told.stage.work, environment)
    try:
        terminal.type(shlex.join(("claude", *options)))
        # Before it has drawn its screen, the terminal itself shows what is pasted.
        terminal.wait(lambda text: "shift+tab" in text, "its prompt", QUESTION_MAX_S)
        terminal.paste_until_shown(prompt, QUESTION_MAX_S)
        terminal.press("Enter")
        screen = terminal.wait(lambda text: "Do you want" in text, "the question", QUESTION_MAX_S)
        terminal.press(key)
        terminal.wait(lambda text: end in text, "the end", QUESTION_MAX_S)
    finally:
        say(terminal.screen().rstrip())
        terminal.kill()
    return reason in " ".join(screen.split())


def prove_deferred(proof: Proof, told: Hooked, server: EmbeddedServer, count: int) -> None:
    """Defer calls without a database, kill everything, approve, and count what was done."""
    files, work = JudgeFiles(told.home), told.stage.work
    known = {one["id"] for _, one in files.list_requests()}
    sessions = [_prompt(told, "claude", f"WAIT {number} please") for number in range(count)]
    paths = [work / f"ask-wait-{number}.txt" for number in range(count)]
    proof.at_most("deferred calls done early", sum(map(Path.exists, paths)), "calls", 0)
    proof.note("processes killed", told.stage.end_all(patience_s=0), "processes")
    made = len([*files.list_decisions()])
    server.ensure_running()
    told.call("hook", "sync")
    new = [one for _, one in files.list_requests() if one["id"] not in known]
    proof.at_least("requests in the inbox", sum("ledger_id" in one for one in new), "requests",
                   count)  # fmt: skip
    for request in new:
        told.call("approve", request["ledger_id"], "--yes")
    once = sum(_said(path) == "x\n" for path in paths)
    proof.at_least("deferred calls done once after approval", once, "calls", count)
    told.stage.run("-p", "Go on.", "--resume", sessions[0], "--output-format", "json")
    told.call("approve", new[0]["ledger_id"], "--yes", codes=(1, 2, 3, 4, 5, 6))
    again = sum(_said(path) != "x\n" for path in paths)
    proof.at_most("deferred calls done again", again, "calls", 0)
    told.stage.end_all()
    told.call("hook", "sync")
    left = [one for _, one in files.list_decisions()]
    lost = sum(1 for one in left if one["session"] in sessions)
    proof.note("decisions made without a database", made, "decisions")
    proof.at_most("decisions that the ledger does not have", lost, "decisions", 0)
    used = sum(files.find_used(one["id"]) is not None for one in new)
    proof.at_most("approvals that the ledger takes for unused", used, "approvals", 0)


def _said(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    run(prove, __doc__ or "")
