"""A talk on a terminal that is killed in the middle of an answer, and goes on in the next one.

Types what a person would type into `turntree chat`, on a real terminal kept by tmux, before a model
that answers from a script: words have to stand on the screen before the answer is over, a tool is
shown where it was called, forks, rewinds, undos and another model do what they say, Ctrl-C ends an
answer. Then the terminal is killed while an answer comes, and another one is opened in the same
folder: it has to show the talk and bring the answer to its end, or show it if a worker has given it
meanwhile (not with `--quick`). What stood on the screen is printed
to stderr; what stands in the ledger is read afterwards and held against it.
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from proofs.figures import Proof, run
from proofs.first_run import Screen

WORD_S = 0.08
LONG_WORDS = 40
LONGER_WORDS = 150
KILLS = 3
POLL_S = 0.05
LIMIT_QUICK_S = 60
TOOLS = '''"""Tools of the proof."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
ELSEWHERE = "a long answer, given elsewhere"
ESCAPE = "\x1b[31mred\x1b]0;owned\x07 \x1b[2Jend"


async def prove(proof: Proof) -> None:
    """Do it; nothing here waits for anything but other programs."""
    chat(proof)


def chat(proof: Proof) -> None:
    """Furnish a home, talk, kill, talk on, and read what is left."""
    if shutil.which("tmux") is None:
        print("tmux is missing: install it (apt-get install tmux) and run again", file=sys.stderr)
        proof.at_least("tmux is installed", 0, "", 1)
        return
    place = Path(tempfile.mkdtemp(prefix="turntree-chat-"))
    # The embedded server's account may be another than ours, and must pass through.
    place.chmod(0o755)
    talk = Talk(place)
    try:
        talk.open()
        furnish(talk, LONG_WORDS if proof.quick else LONGER_WORDS)
        began = time.monotonic()
        converse(talk, proof)
        for number in range(1 if proof.quick else KILLS):
            survive(talk, proof, number)
        if not proof.quick:
            meet_again(talk, proof)
        read_ledger(talk, proof, 1 if proof.quick else KILLS)
        spent = time.monotonic() - began
        if proof.quick:
            proof.at_most("the whole talk", spent, "s", LIMIT_QUICK_S, of="time")
        else:
            proof.note("the whole talk", spent, "s")
        proof.at_most("lines that did not show what they should", len(talk.wrong), "", 0)
    finally:
        talk.close()
        shutil.rmtree(place, ignore_errors=True)


class Talk(Screen):
    """A person who talks."""

    def say(self, line: str, *, shows: list[str], prompt: str) -> str:
        """Type a line, wait for the prompt, and return what stands below the line."""
        self.begin(line)
        return self.finish(line, shows=shows, prompt=prompt)

    def begin(self, line: str) -> None:
        """Type a line, and see it behind its prompt."""
        before = _typed(self.terminal.wait(lambda _: True, line), line)
        self.terminal.type(line)
        self.terminal.wait(lambda text: _typed(text, line) > before, line)

    def finish(self, line: str, *, shows: list[str], prompt: str) -> str:
        """Wait for the prompt, and return what stands below a line that was typed."""
        text = self.terminal.wait(lambda text: text.rstrip().endswith(f"\n{prompt}>"), line)
        # What a line says may be said again in the answer: the line stands behind a prompt.
        shown = text[max(text.rfind(f"> {line}"), text.rfind(f"$ {line}")) :].rstrip()
        print(shown, file=sys.stderr)
        self.check(line, shown, shows)
        return shown

    def tell(self, *words: str) -> str:
        """Run a command beside the terminal and return what it printed."""
        told = subprocess.run(
            [self.place / "bin" / "turntree", *words], env=self.environment, check=True,
            cwd=self.place / "work", capture_output=True, text=True,
        )  # fmt: skip
        return told.stdout


def _typed(text: str, line: str) -> int:
    return text.count(f"> {line}") + text.count(f"$ {line}")


def furnish(talk: Talk, long_words: int) -> None:
    """Make two models that answer from scripts, and a tool."""
    (talk.place / "work" / "shop_tools.py").write_text(TOOLS)
    long = " ".join(f"word{n}" for n in range(long_words))
    rules: list[dict[str, Any]] = [
        {"when": "long", "replies": [{"text": f"{long} finished."}]},
        {
            "when": "sum",
            "replies": [
                {
                    "reasoning": "They want a sum.",
                    "text": "Let me add.",
                    "tools": [{"tool": "add", "args": {"a": 20, "b": 22}}],
                },
                {"text": "It is 42."},
            ],
        },
        {"when": "escape", "replies": [{"text": ESCAPE}]},
    ]
    create = ("provider", "create")
    talk.tell(*create, "script", "--type", "scripted", "--set", f"rules={json.dumps(rules)}",
              "--set", f"word_delay_s={WORD_S}")  # fmt: skip
    other = [{"when": "", "replies": [{"text": "The other one speaks."}]}]
    talk.tell(*create, "other", "--type", "scripted", "--set", f"rules={json.dumps(other)}")
    talk.tell("model", "create", "first", "--backend", "scripted-1", "--provider", "script")
    talk.tell("model", "create", "second", "--backend", "scripted-1", "--provider", "other")


def converse(talk: Talk, proof: Proof) -> None:
    """Talk, with every command that a chat has."""
    talk.begin("turntree chat main --model first --tools shop_tools:add")
    talk.finish("turntree chat", shows=["nothing was said yet"], prompt="main")
    talk.begin("a long one")
    early = talk.terminal.wait(lambda text: "word5 " in text, "the first words")
    proof.at_least("words on the screen before the answer is over",
                   int("word5" in early and "finished" not in early), "", 1)  # fmt: skip
    talk.finish("a long one", shows=["finished.", "tokens", "scripted-1"], prompt="main")
    shown = talk.say(
        "the sum please",
        shows=["They want a sum.", "Let me add.", "→ add a=20 b=22", "ok", "It is 42."],
        prompt="main",
    )
    order = [shown.find(words) for words in ("Let me add.", "→ add", "It is 42.")]
    proof.at_least("a tool stands where it was called", int(order == sorted(order)), "", 1)
    raw = talk.say("an escape", shows=["red", "end"], prompt="main")
    proof.at_most("signs of an answer that a terminal obeyed", raw.count("owned"), "", 0)
    talk.say("/fork side", shows=["side begins at", "nothing was copied"], prompt="side")
    talk.say("hello side", shows=["hello side", "tokens"], prompt="side")
    talk.say("/log", shows=["hello side", "the sum please", "a long one"], prompt="side")
    talk.say("/switch main", shows=["this is main now"], prompt="main")
    talk.say("/rewind 2", shows=["main moved", "nothing was deleted"], prompt="main")
    talk.say("/undo", shows=["main moved"], prompt="main")
    talk.say("/model second", shows=["@(second)", "answers via @(other)"], prompt="main")
    talk.say("who are you", shows=["The other one speaks."], prompt="main")
    talk.say("/model first", shows=["@(first)"], prompt="main")
    talk.say("/nonsense", shows=["there is no /nonsense"], prompt="main")
    talk.begin("a long answer that is canceled")
    talk.terminal.wait(lambda text: text.count("word3 ") > 1, "words to cancel")
    talk.terminal.press("C-c")
    talk.finish("a long answer that is canceled", shows=["canceling", "(canceled)"], prompt="main")


def survive(talk: Talk, proof: Proof, number: int) -> None:
    """Kill the terminal in the middle of an answer and go on in another."""
    line = f"a long answer, killed {number}"
    talk.begin(line)
    talk.terminal.wait(lambda text: "word4 " in text[text.rindex(line) :], "words before the kill")
    talk.terminal.kill()
    killed = time.monotonic()
    talk.open()
    talk.begin("turntree chat --tools shop_tools:add")
    talk.finish("turntree chat", shows=[line, "finished.", "tokens"], prompt="main")
    proof.note("from the kill to the whole answer", time.monotonic() - killed, "s")
    talk.say("are you there", shows=["are you there"], prompt="main")


def meet_again(talk: Talk, proof: Proof) -> None:
    """Kill the terminal while a worker elsewhere answers; the answer is there when one is back."""
    talk.begin("/quit")
    talk.terminal.wait(lambda text: text.count("go on with: turntree chat main") == 1, "the end")
    command = [str(talk.place / "bin" / "turntree"), "worker", "--json"]
    with subprocess.Popen(
        command, env=talk.environment, cwd=talk.place / "work", stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None, "it is a pipe"
        worker.stdout.readline()
        talk.begin("turntree chat")
        talk.finish("turntree chat", shows=["main, at "], prompt="main")
        talk.begin(ELSEWHERE)
        while not json.loads(talk.tell("status", "--json"))["runs"]:
            time.sleep(POLL_S)
        talk.terminal.kill()
        while json.loads(talk.tell("status", "--json"))["runs"]:
            time.sleep(POLL_S)
        talk.open()
        talk.begin("turntree chat")
        talk.finish("turntree chat", shows=[ELSEWHERE, "finished."], prompt="main")
        worker.terminate()
        proof.at_most("how the worker ended", worker.wait(), "", 0)


def read_ledger(talk: Talk, proof: Proof, kills: int) -> None:
    """Hold what is stored against what was said."""
    talk.begin("/quit")
    talk.terminal.wait(lambda text: "go on with: turntree chat main" in text, "the end")
    turns = [json.loads(line) for line in talk.tell("log", "main", "--json").splitlines()]
    said = [turn["title"] for turn in reversed(turns)]
    rounds = [
        title
        for number in range(kills)
        for title in (f"a long answer, killed {number}", "are you there")
    ]
    elsewhere = [] if proof.quick else [ELSEWHERE]
    wanted = ["a long one", "the sum please", "an escape", "who are you", *rounds, *elsewhere]
    if said != wanted:
        print(f"in the ledger: {said}\nbut said:      {wanted}", file=sys.stderr)
    proof.at_least("turns of the session in the order they were said", int(said == wanted), "", 1)
    side = [json.loads(line) for line in talk.tell("log", "side", "--json").splitlines()]
    shared = {turn["digest"] for turn in turns} & {turn["digest"] for turn in side}
    proof.at_least("turns that the fork shares", len(shared), "turns", 3)
    everything = [json.loads(line) for line in talk.tell("log", "--all", "--json").splitlines()]
    canceled = [turn for turn in everything if turn["outcome"] == "canceled"]
    proof.at_least("the canceled answer is a turn of its own", len(canceled), "turns", 1)
    proof.at_most("turns besides", abs(len(everything) - len(wanted) - 2), "turns", 0)
    verified = json.loads(talk.tell("verify", "main", "--json"))
    proof.at_least("turns verified", verified["verified"], "turns", len(wanted))
    proof.at_most("faults in the store", _faults(talk), "faults", 0)
    open_runs = json.loads(talk.tell("status", "--json"))["runs"]
    proof.at_most("runs left open", len(open_runs), "runs", 0)


def _faults(talk: Talk) -> int:
    command = shlex.split("turntree fsck --json")
    told = subprocess.run(
        command, env=talk.environment, cwd=talk.place / "work", check=False,
        capture_output=True, text=True, executable=talk.place / "bin" / "turntree",
    )  # fmt: skip
    print(told.stdout, file=sys.stderr)
    return told.returncode


if __name__ == "__main__":
    run(prove, __doc__ or "")
