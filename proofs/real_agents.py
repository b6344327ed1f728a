"""The claim: what real agents did is what their histories say.

Real Claude Code, Codex, opencode and Gemini CLI run here, each in a home of its own, against a
scripted model on loopback: prompts, parallel tools, a resume, forks, a subagent, a compaction.
So it is known, to the tool call and to the token, what their histories have to hold. Then each
history is imported, and the tree has to equal what was done.

``--only run`` runs the agents and no more; ``--only import-codex`` takes one. ``--keep FOLDER``
leaves the homes there. Claude Code and Codex have to run; the other two are skipped, with a reason,
where they cannot be installed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from proofs.agents.deeds import Deeds
from proofs.agents.imported import bring, compare
from proofs.agents.programs import PROGRAMS, NotInstalled, Program, say
from proofs.agents.run import run_agent
from proofs.agents.stage import AgentFailed
from proofs.figures import Proof, temporary_server


async def prove(proof: Proof, folder: Path) -> None:
    """Run every agent that was asked for, one after another, and show what each did."""
    for program in PROGRAMS:
        wanted = proof.wants(f"run-{program.name}") or proof.wants(f"import-{program.name}")
        if wanted and (program.required or not proof.quick):
            deeds = await asyncio.to_thread(run, proof, program, folder / program.name)
            if deeds is not None:
                show(proof, deeds)
                if proof.only is None or "run" not in proof.only:
                    with temporary_server() as (server, _):
                        compare(proof, deeds, await bring(server, deeds))


def run(proof: Proof, program: Program, folder: Path) -> Deeds | None:
    """Return what an agent did, or None: it fell short of its bar, or was skipped."""
    try:
        return run_agent(program, folder)
    except NotInstalled as error:
        say(f"{program.name} is not installed: {error}")
        if not program.required:
            proof.note(f"{program.name} skipped", 1, "agents")
            return None
    except AgentFailed as error:
        say(f"{program.name} failed: {error}")
    proof.at_least(f"{program.name} turns", 0, "turns", 1)
    return None


def show(proof: Proof, deeds: Deeds) -> None:
    """Show what an agent did, in figures."""
    name = deeds.agent
    proof.at_least(f"{name} turns", len(deeds.steps), "turns", 1)
    proof.note(f"{name} prompts", deeds.count("prompt"), "turns")
    proof.note(f"{name} forks", deeds.forks, "forks")
    proof.note(f"{name} subagents", deeds.count("subagent"), "turns")
    proof.note(f"{name} compactions", deeds.count("compaction"), "turns")
    proof.note(f"{name} tool calls", len(deeds.tool_calls), "calls")
    proof.note(f"{name} model calls", len(deeds.model_calls), "calls")
    proof.note(f"{name} tokens", deeds.usage.total, "tokens")
    proof.note(f"{name} refused connections", len(deeds.refused), "connections")
    proof.at_most(f"{name} left running", deeds.left_running, "processes", 0)
    proof.note(f"{name} time", deeds.seconds, "s")


def main() -> None:
    """Read the command line, run, and end with the verdict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the agents that have to run")
    parser.add_argument("--only", help="the parts whose name contains this word")
    parser.add_argument("--keep", type=Path, help="leave the agents' homes in this folder")
    asked = parser.parse_args()
    proof = Proof(asked.quick, seed=0, only=asked.only)
    with tempfile.TemporaryDirectory(prefix="turntree-agents-") as folder:
        asyncio.run(prove(proof, asked.keep or Path(folder)))
    sys.exit(proof.conclude())


if __name__ == "__main__":
    main()
