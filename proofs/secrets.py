"""The claim: a secret of a listed format is not stored, and almost nothing else is removed.

Sixty made-up secrets of thirty formats are planted in a transcript of Claude Code (prompts, what
tools were given, what they answered), in a turn that a program records and in a message that is
sent. Then every table of the database is read, packed records and objects too, and every format of
export is written: no secret may be in any of them, and in every place something must say that one
was removed.

A sample history without secrets is imported to count what is removed by mistake, once with and
once without the search for secrets, to compare what the two cost.
"""

import json
import os
import random
import resource
import string
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

import turntree
from proofs.corpus import Corpus
from proofs.figures import Proof, run, temporary_server
from turntree.boot.open import Settings
from turntree.core.canonical import digest_from_raw
from turntree.core.ids import instant
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, prepare_database
from turntree.system.clock import SystemClock
from turntree.transcripts.store import ImportStore

HEX = string.digits + "abcdef"
UPPER = string.ascii_uppercase + string.digits
LETTERS = string.ascii_letters + string.digits
FORMATS: Mapping[str, tuple[str, str, int, str]] = {
    "Anthropic": ("sk-ant-api03-", LETTERS, 48, ""),
    "OpenAI": ("sk-proj-", LETTERS, 48, ""),
    "AWS access key": ("AKIA", UPPER, 16, ""),
    "AWS secret key": ("aws_secret_access_key = ", LETTERS + "/+", 40, ""),
    "Azure storage": ("AccountKey=", LETTERS, 86, "=="),
    "Basic credentials": ("Authorization: Basic ", LETTERS, 24, ""),
    "Bearer token": ("Authorization: Bearer ", LETTERS, 32, ""),
    "DigitalOcean": ("dop_v1_", HEX, 64, ""),
    "Docker Hub": ("dckr_pat_", LETTERS, 27, ""),
    "GitHub": ("ghp_", LETTERS, 36, ""),
    "GitHub, fine-grained": ("github_pat_11ABCDEFG0123456789012_", LETTERS, 59, ""),
    "GitLab": ("glpat-", LETTERS, 20, ""),
    "Google": ("AIza", LETTERS, 35, ""),
    "Grafana": ("glsa_", LETTERS, 32, "_ab12cd34"),
    "Groq": ("gsk_", LETTERS, 52, ""),
    "Hugging Face": ("hf_", string.ascii_letters, 34, ""),
    "JSON Web Token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.", LETTERS, 43, ""),
    "Linear": ("lin_api_", LETTERS, 40, ""),
    "New Relic": ("NRAK-", UPPER, 27, ""),
    "npm": ("npm_", LETTERS, 36, ""),
    "password in a URL": ("postgres://admin:", LETTERS, 16, "@db.example.org/shop"),
    "password in a variable": ("DB_PASSWORD=", LETTERS, 16, ""),
    "private key": ("-----BEGIN PRIVATE KEY-----\n", LETTERS, 64, "\n-----END PRIVATE KEY-----"),
    "PyPI": ("pypi-AgEIcHlwaS5vcmcCJ", LETTERS, 120, ""),
    "Replicate": ("r8_", LETTERS, 37, ""),
    "SendGrid": ("SG.aB3dEf6hIj9lMn2pQr5tUv.", LETTERS, 43, ""),
    "Shopify": ("shpat_", HEX, 32, ""),
    "Slack": ("xoxb-123456789012-", LETTERS, 24, ""),
    "Stripe": ("sk_live_", LETTERS, 24, ""),
    "Vault": ("hvs.", LETTERS, 24, ""),
}
"""For each format what is before the secret part, its characters, its length, what follows."""
SECRETS = 60
EXPORTS = ("jsonl", "md", "html", "openai", "anthropic")
MARK = "[redacted"
SESSION = str(UUID(int=1 << 96))
MODEL = "claude-sonnet-4-5"
USAGE = {"input_tokens": 5, "output_tokens": 7}
BEGAN_MS = 1_750_000_000_000
COLUMNS = """
SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns
  JOIN information_schema.tables USING (table_schema, table_name)
  WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')
    AND data_type IN ('text', 'bytea', 'jsonb', 'json', 'ARRAY', 'character varying', 'tsvector')
"""
BLOCKS = b"SELECT digest FROM turntree.raw_blocks"
COMMAND = "from turntree.cli.main import main; main()"
MISTAKES_PER_1000 = 1.0
COST_MAX = 1.10


async def prove(proof: Proof) -> None:
    """Take every figure."""
    draw = random.Random(proof.seed)
    planted = list(make_secrets(draw))
    with temporary_server() as (conninfo, folder):
        if proof.begins("planted"):
            await hide(proof, conninfo, folder / "planted", planted)
        if proof.begins("history"):
            await spare(proof, conninfo, folder / "history")


def make_secrets(draw: random.Random, count: int = SECRETS) -> Iterator[tuple[str, str]]:
    """Yield secrets: the text to plant, and the part that must not be stored."""
    for place in range(count):
        before, characters, length, after = [*FORMATS.values()][place % len(FORMATS)]
        # A letter and a digit, where a format has both: a rule may ask for them.
        secret = "".join(draw.choices(characters, k=length - 2)) + characters[0] + characters[-1]
        yield before + secret + after, secret


async def hide(
    proof: Proof, conninfo: str, folder: Path, planted: Sequence[tuple[str, str]]
) -> None:
    """Plant secrets wherever text comes in, then look for them wherever text is kept."""
    texts, secrets = [text for text, _ in planted], [secret for _, secret in planted]
    here = Place(folder, conninfo, "planted")
    write_transcript(here.person, texts)
    here.run("import")
    async with turntree.open(here.settings) as tree:
        uses = [ToolUse(f"call_{n}", "shell", {"cmd": "env"}) for n in range(len(texts))]
        results = [
            ToolResult(use.call_id, "ok", f"it printed {text} and ended")
            for use, text in zip(uses, texts, strict=True)
        ]
        await tree.turns.record(
            "recorded",
            [user("\n".join(texts))],
            [assistant("Let me look.", *uses), tool(*results), assistant("Done.")],
        )
        await tree.runs.post("sent", "\n".join(["Please use these.", *texts]))
    proof.note("secrets planted, in each of four places", len(planted), "secrets")
    proof.note("formats", len(FORMATS), "formats")
    kept = [*await read_tables(conninfo), *await read_records(conninfo)]
    proof.at_least("values read from the database", len(kept), "values", len(planted))
    for name in sorted({name for name, data in kept for one in secrets if one.encode() in data}):
        print(f"a secret is stored in {name}", file=sys.stderr)
    stored = sum(any(one.encode() in data for _, data in kept) for one in secrets)
    proof.at_most("secrets stored", stored, "secrets", 0)
    labels = [str(one["label"]) for one in here.documents("session", "list", "--json")]
    written = [here.run("export", "--all")]
    written += [
        here.run("export", label, "--format", form)
        for label in labels
        if label != "sent"
        for form in EXPORTS
    ]
    proof.at_least("exports written", len(written), "exports", 1 + 2 * len(EXPORTS))
    shown = sum(any(one in text for text in written) for one in secrets)
    proof.at_most("secrets in exports", shown, "secrets", 0)
    # Otherwise an export that has lost the messages would look safe.
    silent = sum(MARK not in text for text in written)
    proof.at_most("exports that do not say that something was removed", silent, "exports", 0)


async def read_tables(conninfo: str) -> list[tuple[str, bytes]]:
    """Return every value of every table that holds text or bytes, with the name of its column."""
    kept: list[tuple[str, bytes]] = []
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        columns = await connection.execute(COLUMNS)
        for schema, table, column, kind in await columns.fetchall():
            name = sql.Identifier(column)
            wanted = (
                name if kind == "bytea" else sql.SQL("convert_to({}::text, 'UTF8')").format(name)
            )
            rows = await connection.execute(
                sql.SQL("SELECT {} FROM {} WHERE {} IS NOT NULL").format(
                    wanted, sql.Identifier(schema, table), name
                )
            )
            kept += [(f"{table}.{column}", bytes(data)) for (data,) in await rows.fetchall()]
    return kept


async def read_records(conninfo: str) -> list[tuple[str, bytes]]:
    """Return every record of a transcript that is stored, unpacked."""
    workspace = await prepare_database(conninfo, "planted", SystemClock().new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        rows = await database.fetch(BLOCKS)
        blocks = [digest_from_raw(bytes(digest)) for (digest,) in rows]
        records = await ImportStore(database).read_records(blocks)
    return [("a record of a transcript", record.data) for record in records]


async def spare(proof: Proof, conninfo: str, folder: Path) -> None:
    """Count what is removed from a history without secrets, and what looking for them costs."""
    sessions, turns, rounds = (40, 10, 2) if proof.quick else (200, 25, 4)
    Corpus(proof.seed).write(folder / "person", sessions, turns)
    cost = {"on": 0.0, "off": 0.0}
    # The first one also pays for files and pages that are not in memory yet.
    Place(folder, conninfo, "warm-up").run("import")
    for number in range(rounds):
        for search in cost if number % 2 else reversed(cost):
            here = Place(folder, conninfo, f"history-{search}-{number}")
            before = cpu_s(folder)
            here.run("import", *([] if search == "on" else ["--no-redact"]))
            cost[search] += cpu_s(folder) - before
    marks = {
        search: Place(folder, conninfo, f"history-{search}-0").run("export", "--all").count(MARK)
        for search in cost
    }
    proof.note("sample history", sessions * turns, "turns")
    mistakes = (marks["on"] - marks["off"]) * 1000 / (sessions * turns)
    proof.at_most("removed by mistake", mistakes, "per 1,000 turns", MISTAKES_PER_1000)
    ratio = cost["on"] / cost["off"]
    proof.at_most("CPU of an import, with the search to without", ratio, "x", COST_MAX, of="time")


def cpu_s(folder: Path) -> float:
    """Return the CPU time of all commands so far, and of the server's processes for them."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    pid_file = next(folder.parent.glob("home/**/postmaster.pid"))
    server = pid_file.read_text().split()[0]
    # After the name in parentheses, which may contain blanks: cutime and cstime, of ended children.
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    ended = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return spent.ru_utime + spent.ru_stime + ended


class Place:
    """A person's home and a workspace, in which commands are run."""

    def __init__(self, folder: Path, conninfo: str, workspace: str) -> None:
        """Make the folders."""
        self.person, self.work = folder / "person", folder / "work"
        for one in (self.person, self.work):
            one.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(folder / "home", conninfo, workspace=workspace, user="ana")

    def run(self, *words: str) -> str:
        """Run a command as a person would, and return what it printed."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.person),
            "TURNTREE_HOME": str(self.settings.home),
            "TURNTREE_DATABASE_URL": str(self.settings.database_url),
            "TURNTREE_WORKSPACE": self.settings.workspace,
            "TURNTREE_USER": self.settings.user,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words], cwd=self.work, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def documents(self, *words: str) -> list[dict[str, Any]]:
        """Run a command that prints a JSON document per line, and return them."""
        return [json.loads(line) for line in self.run(*words).splitlines()]


def write_transcript(home: Path, texts: Sequence[str]) -> None:
    """Write a session of Claude Code with every text in a prompt, a tool's input and its result."""
    folder = home / ".claude" / "projects" / "-srv-shop"
    folder.mkdir(parents=True)
    lines: list[bytes] = []
    for place, (role, content) in enumerate(_messages(texts)):
        id, parent = UUID(int=(1 << 96) + place + 1), UUID(int=(1 << 96) + place)
        reply = {"id": f"msg_{place}", "type": "message", "model": MODEL, "usage": USAGE}
        record = {
            "type": role, "parentUuid": str(parent) if place else None, "isSidechain": False,
            "userType": "external", "cwd": "/srv/shop", "sessionId": SESSION, "version": "2.1.325",
            "gitBranch": "main", "uuid": str(id), "timestamp": instant(BEGAN_MS + place * 1_000),
            "message": {"role": role, "content": content, **(reply if role == "assistant" else {})},
        }  # fmt: skip
        lines.append(json.dumps(record).encode() + b"\n")
    (folder / f"{SESSION}.jsonl").write_bytes(b"".join(lines))


def _messages(texts: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for place, text in enumerate(texts):
        id = f"toolu_{place}"
        yield "user", f"Use this:\n{text}\nand nothing else."
        yield (
            "assistant",
            [
                {
                    "type": "tool_use",
                    "id": id,
                    "name": "Bash",
                    "input": {"command": f"echo '{text}'"},
                }
            ],
        )
        yield "user", [{"type": "tool_result", "tool_use_id": id, "content": f"{text}\n"}]
        yield "assistant", [{"type": "text", "text": "Done."}]


if __name__ == "__main__":
    run(prove, __doc__ or "")
