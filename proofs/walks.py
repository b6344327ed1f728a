"""The claim: what the founding documents walk through can be typed, to the last line.

    python -m proofs.walks [--quick]

Four walks. *Routing*: messages to turns, sessions, agents, senders and wherever they fit, and a
tree with two tips. *People*: a public and a private agent, and who may use and change them.
*Records*: what a run leaves that another process works on, and the questions about it. *Programs*:
every command of the program types in their document's own spelling. Each line must end with 0, or
with a refusal where one is due. A server on this machine plays the gateway that the last walk
names: every request must come to that host by HTTPS, with the gateway's token, at the path of the
model's vendor and with that vendor's key alone. ``--quick`` types all lines in one process,
otherwise each has its own.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from anyio.to_thread import run_sync

from proofs.figures import Proof, run, temporary_server
from proofs.gateway import HOST, VENDORS, PlayedGateway, judge, playing
from proofs.registry_cli import COMMAND, Ended, Typist
from turntree.cli.aliases import rewrite

PROGRAMS = """
provider create cf-gateway --type cloudflare-ai-gateway
provider list
model create claude-fast --backend claude-sonnet-4-5 --provider cf-gateway
model configure claude-fast --temperature 0 --situation coding
model invoke claude-fast --message "Hello"
model invoke claude-fast --message "Hello" --stream
session create --model claude-fast
session send <session-id> "Hello"
+ model create gemini-flash --backend gemini-2.5-flash --provider cf-gateway
session send <session-id> "What does gemini think?" --model gemini-flash
session history <session-id>
agent create researcher --prompt "You are..." --model claude-fast
+ task create "Survey the field"
agent assign researcher <task-id>
agent status researcher
task create "Research quantum computing" --assignee researcher
task list --status in_progress
tag add <node-id> tag1 tag2
tag remove <node-id> tag1
tag list <node-id>
+ tag add researcher trusted
nodes --tag trusted
+ embed researcher
embed <node-id>
embed <node-id> --text "custom"
similar <node-id> --limit 5
similar --text "query" --limit 5
embed-stats
program list --type model
program get claude-fast
program invoke <any-program-id>
"""
"""The commands as they stand in the document. A line with ``+`` creates what the next one names."""
ROUTING = """
+ model create gpt --backend gpt-5 --provider cf-gateway
+ tag add claude-fast default
session create main --model claude-fast
send main "the irrigation pump leaks at its valve"
send main "and at its second valve"
send main "and at its third valve"
fork main~1 side
send side "try another pump"
send side "and another valve"
log --graph --all
send main~2 "start again after the first message"
agent create atlas --prompt "You are Atlas." --model claude-fast
send atlas:main "who are you?"
send '@(atlas)' "and now?"
send '@(atlas)' "with another model" --model gpt
send '@(atlas)' "and without tools" --deny tool:*
send '@(atlas)' "the clock struck" --source trigger
send channel:telegram:42 "hello from a telephone"
send --dry-run --explain "the third valve of the irrigation pump"
send "the third valve of the irrigation pump once more"
session list
show main~1
log main..side
switch side
undo side
"""
PEOPLE = """
agent create AgentA --prompt "You are A." --model claude-fast --description "Helps everyone."
agent create AgentB --prompt "You are B." --model claude-fast --private
agent show AgentA
send '@(AgentB)' "only I can ask you"
as bob: agent show AgentA
as bob: ! agent show AgentB
as bob: ! send '@(AgentB)' "can I?"
as bob: ! agent configure AgentA --prompt "You are mine."
as bob: ! program visibility AgentA private
program invite AgentB bob
as bob: agent show AgentB
agent configure AgentA --prompt "You are A, and brief."
program visibility AgentA private
as bob: ! agent show AgentA
program visibility AgentA public
human create bob --channel terminal
human notify bob "@[bob](user:bob), look at this."
as bob: status
"""
RECORDS = """
+ session create record --model claude-fast
send record "say something to record" --no-worker
send record "and something more" --no-worker
show record --context
show record --json
log record --messages
fork record recorded
audit
stats
export record --format jsonl
fsck
"""
WALKS = {
    "program types": PROGRAMS,
    "routing": ROUTING,
    "people and agents": PEOPLE,
    "records": RECORDS,
}
REFUSAL = re.compile(r"there is no |may not ")


async def prove(proof: Proof) -> None:
    """Take every walk, then look at what the gateway was sent."""
    with (
        temporary_server() as (server, _),
        tempfile.TemporaryDirectory(prefix="turntree-walks-") as folder,
        playing(Path(folder)) as gateway,
    ):
        os.environ.update(
            TURNTREE_DATABASE_URL=server,
            TURNTREE_WORKSPACE="walks",
            TURNTREE_USER="ana",
            TURNTREE_CONFIG=str(Path(folder) / "config.toml"),
        )
        typist = Typist(Path(folder), alone=not proof.quick)
        for name, text in WALKS.items():
            if name == "records":
                with working(Path(folder)):
                    await run_sync(walk, proof, typist, name, text)
            else:
                await run_sync(walk, proof, typist, name, text)
        inspect(proof, gateway)
        await run_sync(check_record, proof, typist)


@contextmanager
def working(folder: Path) -> Generator[None]:
    """Have a worker of ana's answer, in a process of its own."""
    os.environ["TURNTREE_USER"] = "ana"
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "worker"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:
        try:
            yield
        finally:
            worker.terminate()


def walk(proof: Proof, typist: Typist, name: str, text: str) -> None:
    """Type the lines of one walk."""
    lines = text.strip().splitlines()
    names = {"node": "claude-fast", "any-program": "cf-gateway"}
    right = typed = 0
    for line in lines:
        ended, is_right = type_line(typist, fill(line, names))
        if not line.startswith("+ "):
            typed += 1
            right += is_right
        if not is_right:
            print(f"turntree {line}: {ended.code} {ended.out}{ended.err}", file=sys.stderr)
        if line.startswith("session create --model"):
            names["session"] = ended.out.split()[0]
        if line.startswith("+ task create"):
            names["task"] = "task-survey-the-field"
    proof.at_least(f"lines typed of the walk through {name}", right, f"of {typed}", typed)


def fill(line: str, names: dict[str, str]) -> str:
    """Return a line with the ids that it leaves open."""
    return re.sub(r"<([\w-]+)-id>", lambda match: names[match[1]], line)


def type_line(typist: Typist, line: str) -> tuple[Ended, bool]:
    """Type one line, perhaps as another person, and say whether it ended as it should."""
    person = re.match(r"as (\w+): ", line)
    typed = (line[person.end() :] if person else line).removeprefix("+ ")
    words, _ = rewrite(shlex.split(typed.removeprefix("! ")))
    os.environ["TURNTREE_USER"] = person[1] if person else "ana"
    ended = typist.type(shlex.join(words))
    if not typed.startswith("! "):
        return ended, ended.code == 0
    return ended, ended.code != 0 and REFUSAL.search(ended.err) is not None


def inspect(proof: Proof, gateway: PlayedGateway) -> None:
    """Compare what the gateway was sent with what it needs."""
    wrong = [error for path, headers in gateway.heads if (error := judge(path, headers))]
    wrong += [f"a request to {host}" for host in gateway.tunnels if host != f"{HOST}:443"]
    for error in wrong[:5]:
        print(error, file=sys.stderr)
    proof.at_least("requests that the gateway was sent", len(gateway.heads), "requests", 20)
    proof.at_most("requests with a wrong host, token, path or key", len(wrong), "requests", 0)
    asked = {start for start, _ in VENDORS for path, _ in gateway.heads if path.startswith(start)}
    proof.at_least("vendors that it served", len(asked), "vendors", len(VENDORS))


def check_record(proof: Proof, typist: Typist) -> None:
    """Compare the turns with what was typed."""
    log = [json.loads(line) for line in typist.type("log --all --json -n 500").out.splitlines()]
    vendors = {one.get("provider") for one in log}
    proof.at_least("vendors that turns name", len(vendors & {"anthropic", "openai", "google"}),
                   "vendors", 3)  # fmt: skip


if __name__ == "__main__":
    run(prove, __doc__ or "")
