"""Two different agents that work in one folder at the same time, and a person who does too.

Their turns overlap from the first call to the last. A baton decides whose call runs when, so the
oracle knows the order: mostly one at a time, once both at once. What happened while one call ran is
that agent's. What happened while both ran cannot be told apart: it has to be reported, and to stay.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import turntree
from proofs.agents.hooked import TOOLS, Hooked, hooked
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.stage import Stage
from proofs.figures import Proof
from proofs.revert_cases import find_turns, take_back, take_back_offline
from proofs.revert_script import DRIVEN, HANDS, Hands
from proofs.revert_story import (
    Case,
    Event,
    begin_repository,
    edit,
    grow,
    line,
    name,
    permit,
    put,
)
from proofs.rewind import on_path
from turntree.testing.scripted.dialect import Dialect, Document, OutgoingReply
from turntree.testing.scripted.server import (
    Call,
    Failure,
    Reply,
    Rule,
    ScriptedModel,
    ScriptRequest,
)

PAIRS: Final = (("claude", "codex"), ("codex", "opencode"))
SIDES: Final = ("ALPHA", "BETA")
ATTEMPTS_MAX: Final = 3
BATON_TIMEOUT_S: Final = 90
"""The other agent may have to start, and a hook of its to look at all files."""
BOTH: Final = ("alpha-both.txt", "beta-both.txt")
WHERE: Final = "SIGNALS"
"""Stands in commands for the folder in which the two tell each other how far they are."""


@dataclass(frozen=True, slots=True)
class Act:
    """One piece of what happens: whose it is, how it is done, and what comes of it."""

    by: tuple[str, ...]
    """One side, both of them, or none: then it is the person."""
    event: Event
    do: Callable[[Hands, str], tuple[Reply, ...]] | None = None


def _shell(command: str) -> Callable[[Hands, str], tuple[Reply, ...]]:
    return lambda hands, _: (Reply("", (hands.shell(command),)),)


def _edit(number: int, text: str) -> Callable[[Hands, str], tuple[Reply, ...]]:
    return lambda hands, _: hands.edit([(number, text)])


def _meet(hands: Hands, side: str) -> tuple[Reply, ...]:
    """Write while the other agent's call runs too, and end only after both have written."""
    mine = side.lower()
    (other,) = (one.lower() for one in SIDES if one != side)

    def wait(what: str) -> str:
        mark = f"touch {WHERE}/{mine}-{what}"
        return f"{mark}; until [ -e {WHERE}/{other}-{what} ]; do sleep 0.05; done"

    write_it = f"printf 'by {mine}\\n' > {mine}-both.txt"
    return _shell(f"{wait('here')}; {write_it}; {wait('wrote')}")(hands, side)


ALPHA, BETA = SIDES
ACTS: Final = (
    Act((ALPHA,), Event(ALPHA, {"line 3": [line(3, "three, by alpha")]}),
        _edit(3, "three, by alpha")),
    Act((BETA,), Event(BETA, {"line 19": [line(19, "nineteen, by beta")]}),
        _edit(19, "nineteen, by beta")),
    Act((ALPHA,), Event(ALPHA, {
        "line 7": [line(7, "seven, by alpha")], "other": [put("alpha.txt", b"alpha\n")]}),
        _shell("sed -i '7s/.*/seven, by alpha/' cart.py && printf 'alpha\\n' > alpha.txt")),
    Act((), Event("person", {"all": [line(11, "eleven, by hand"), grow("old.py", b"by hand\n")]})),
    Act((BETA,), Event(BETA, {"other": [name("old.py", "moved.py"), permit("run.sh", 0o755)]}),
        _shell("mv old.py moved.py && chmod 755 run.sh && printf 'rebuilt\\n' > build/out.o")),
    Act(SIDES, Event("both", {path: [put(path, f"by {path.partition('-')[0]}\n".encode())]
                              for path in BOTH}), _meet),
    Act((BETA,), Event(BETA, {"line 15": [line(15, "fifteen, by beta")]}),
        _shell("sed -i '15s/.*/fifteen, by beta/' cart.py")),
    Act((ALPHA,), Event(ALPHA, {"line 23": [line(23, "twenty-three, by alpha")]}),
        _shell("sed -i '23s/.*/twenty-three, by alpha/' cart.py")),
)  # fmt: skip
CASES: Final = (
    Case("the turn of one", ALPHA),
    Case("the turn of the other", BETA),
    Case("a file of one", ALPHA, ("--", "cart.py"), without=("line 3", "line 7", "line 23")),
    Case("a file of the other", BETA, ("--", "run.sh", "old.py", "moved.py"), without=("other",)),
)


@dataclass(slots=True)
class Baton:
    """Decides whose call runs when: an agent waits for its model until it is its turn."""

    acts: Sequence[Act]
    work: Path
    at: dict[str, int] = field(default_factory=dict[str, int])
    """The act at which each side is: it has ended those before."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    played: int = 0
    """Acts of the person up to here have been played."""

    def wait(self, side: str, act: int) -> None:
        """Return when everything before an act has happened.

        Raises:
            TimeoutError: It has not.
        """
        with self.changed:
            self.at[side] = max(act, self.at.get(side, 0))
            self._play()
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: self._is_next(act), BATON_TIMEOUT_S):
                raise TimeoutError(f"{side} waited for what comes before act {act}: {self.at}")

    def _is_next(self, act: int) -> bool:
        return len(self.at) == len(SIDES) and all(self._has_ended(one) for one in range(act))

    def _has_ended(self, act: int) -> bool:
        by = self.acts[act].by
        return all(self.at[side] > act for side in by) if by else self.played > act

    def _play(self) -> None:
        """Do what the person does, if it is their turn."""
        for number, act in enumerate(self.acts):
            if not act.by and self.played <= number and self._is_next(number):
                edit(self.work, act.event)
                self.played = number + 1


class PacedModel(ScriptedModel):
    """A scripted model that answers one side when the baton lets it."""

    def __init__(self, side: str, baton: Baton, rules: Sequence[Rule]) -> None:
        """Take the rules; replies of the side name the act that they belong to."""
        super().__init__(rules=rules)
        self.side, self.baton = side, baton

    def answer(
        self, dialect: Dialect, path: str, headers: Mapping[str, str], body: Document
    ) -> tuple[ScriptRequest, OutgoingReply | Failure]:
        """Choose the response to a request, and wait for its turn."""
        asked, told = super().answer(dialect, path, headers, body)
        if not isinstance(told, Failure) and told.reply.text.startswith(self.side):
            self.baton.wait(self.side, int(told.reply.text.split()[1]))
        return asked, told


def script(side: str, hands: Hands, acts: Sequence[Act], signals: Path) -> Rule:
    """Return how a side is answered: each reply names its act, and the last one the end."""
    replies: list[Reply] = []
    for number, act in enumerate(acts):
        if side in act.by and act.do is not None:
            for reply in act.do(hands, side):
                calls = tuple(_located(call, signals) for call in reply.calls)
                replies.append(Reply(f"{side} {number}", calls))
    return Rule((*replies, Reply(f"{side} {len(acts)}")), side, offers=hands.offers, name=side)


def _located(call: Call, signals: Path) -> Call:
    assert not isinstance(call.arguments, str), "only what is no JSON is given as a text"
    told = {
        key: text.replace(WHERE, str(signals)) if isinstance(text, str) else text
        for key, text in call.arguments.items()
    }
    return replace(call, arguments=told)


def prove_pair(proof: Proof, pair: tuple[str, str], folder: Path, server: str) -> None:
    """Have two agents work at once, and take back what one of them did."""
    label, programs = " and ".join(pair), {program.name: program for program in PROGRAMS}
    for agent in pair:
        try:
            programs[agent].ensure()
        except NotInstalled as error:
            skip(proof, programs[agent], error)
            return
    for attempt in range(1, ATTEMPTS_MAX + 1):
        with ExitStack() as stack:
            place = folder / f"{'-'.join(pair)}-{attempt}"
            told = set_stages(stack, pair, place, (server, f"{label} {attempt}"))
            work_together(told, dict(zip(SIDES, pair, strict=True)))
            turns = asyncio.run(find_turns(told[ALPHA]))
            if asyncio.run(were_on_time(told[ALPHA], turns)):
                proof.note(f"{label}, attempts", attempt, "attempts")
                history = [act.event for act in ACTS]
                take_back(proof, label, told[ALPHA], history, turns, CASES)
                take_back_offline(proof, label, told[ALPHA], history, turns, CASES)
                report_unclear(proof, label, told[ALPHA], turns)
                return
        # A hook makes its agent wait for a tenth of a second. What took longer on a busy machine
        # is not used, and everything is reported as unclear: true, but nothing to compare.
        say(f"{label}: the states around a call came too late, once more")
    proof.at_least(f"{label}, attempts with the states of all calls", 0, "attempts", 1)


def set_stages(
    stack: ExitStack, pair: tuple[str, str], place: Path, database: tuple[str, str]
) -> dict[str, Hooked]:
    """Return both agents in one home and one folder, as on a machine that has them both."""
    programs, told = {program.name: program for program in PROGRAMS}, dict[str, Hooked]()
    server, workspace = database
    signals = place / "signals"
    signals.mkdir(parents=True)
    baton = Baton(ACTS, place / "work")
    for side, agent in zip(SIDES, pair, strict=True):
        hands, editing, path = HANDS[agent], DRIVEN[agent], programs[agent].ensure()
        rules = hands.rules(script(side, hands, ACTS, signals))
        model = stack.enter_context(PacedModel(side, baton, rules))
        stage = Stage(path, place, model, editing.scene.settings(model.url))
        stage.set_up()
        paths = on_path(agent, path, place / f"bin-{agent}")
        told[side] = hooked(stage, server, workspace, paths)
        stack.callback(told[side].stage.end_all)
        editing.scene.prepare(told[side].stage)
        trust = ("--trust",) if agent == "codex" else ()
        told[side].call("hook", "install", TOOLS[agent], *trust)
    begin_repository(told[ALPHA].stage.work)
    for side, agent in zip(SIDES, pair, strict=True):
        # The first hook of all has to start the hook daemon.
        DRIVEN[agent].begin(told[side].stage, "Hello.")
    told[ALPHA].wait_until_read()
    return told


async def were_on_time(told: Hooked, turns: Mapping[str, str]) -> bool:
    """Return whether the ledger has the states around all calls of both turns."""
    async with turntree.open(told.settings) as tree:
        for side in SIDES:
            for one in await tree.resources.pins_of(turns[side]):
                pins = tree.resources.all_pins
                if not await pins.list_calls(one.resource.id, [one.pin.turn]):
                    return False
    return True


def work_together(told: Mapping[str, Hooked], agents: Mapping[str, str]) -> None:
    """Run both agents at once, to their ends."""

    async def both() -> None:
        await asyncio.gather(*(
            asyncio.to_thread(DRIVEN[agent].begin, told[side].stage, f"{side} now.")
            for side, agent in agents.items()
        ))  # fmt: skip

    asyncio.run(both())
    told[ALPHA].wait_until_read()


def report_unclear(proof: Proof, label: str, told: Hooked, turns: Mapping[str, str]) -> None:
    """Compare what is said to be unclear with what is: what both calls changed, and no more."""
    missed = wrong = 0
    for side in SIDES:
        shown = told.ask("revert", turns[side], "--dry-run")
        unclear = {path for place in shown["places"] for path in place["unclear"]}
        missed += len({*BOTH} - unclear)
        wrong += len(unclear - {*BOTH})
    proof.at_most(f"{label}, paths of both that were not reported", missed, "paths", 0)
    proof.at_most(f"{label}, other paths reported as unclear", wrong, "paths", 0)


def skip(proof: Proof, program: Program, error: NotInstalled) -> None:
    """Say that an agent is not here, which is a fault only of one that every run has to have."""
    say(f"{program.name} is not installed: {error}")
    if program.required:
        proof.at_least(f"{program.name}, turns", 0, "turns", 1)
    else:
        proof.note(f"{program.name} skipped", 1, "agents")
