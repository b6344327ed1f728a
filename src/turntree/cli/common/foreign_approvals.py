"""Requests of other coding agents: tell the judge what a person decided, and resume who waits."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.context import load_settings
from turntree.cli.hook_process.daemon import ensure_daemon
from turntree.cli.judge_settle import publish_decision
from turntree.hooks.judge_files import JudgeFiles
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.hooks.spool import Spool
from turntree.policy.approval import Approval
from turntree.system.clock import SystemClock

RESUMED: Final = "claude"
"""The program that goes on with a deferred call."""


def settle_decided(terminal: Terminal, found: Approval, *, resumes: bool = True) -> None:
    """Tell the judge of this machine what was decided, and resume the agent that waits for it.

    Nothing happens where the request was made on another machine: its judge asks the ledger when
    its hooks are read the next time.
    """
    if found.kind != "foreign_call":
        return
    files = JudgeFiles(load_settings().home)
    request = files.find_request(found.id)
    if request is None:
        terminal.note(f"{found.origin} asked on another machine; next, there: turntree hook sync")
        return
    publish_decision(files, request, found, SystemClock().now())
    if not request.get("is_deferred"):
        if found.state in ("approved", "edited"):
            terminal.note(f"{found.origin} may now repeat the call; it goes through once")
        return
    words = resume_words(request)
    if not resumes or terminal.as_json or shutil.which(RESUMED) is None:
        terminal.note(f"next: cd {shlex.quote(request['cwd'])} && {shlex.join(words)}")
        return
    ensure_daemon(Spool(files.home / SPOOL))
    terminal.note(f"resuming Claude Code in {request['cwd']}: {shlex.join(words)}")
    subprocess.run(words, cwd=request["cwd"], check=False)


def note_deferred(terminal: Terminal) -> None:
    """Print how the agents go on whose deferred calls a person has decided, here or elsewhere."""
    files = JudgeFiles(load_settings().home)
    for _, request in files.list_requests():
        if request.get("is_deferred") and files.find_decided(request["id"]) is not None:
            words = shlex.join(resume_words(request))
            terminal.note(f"next: cd {shlex.quote(request['cwd'])} && {words}")


def resume_words(request: dict[str, Any]) -> Sequence[str]:
    """Return the command that goes on with the session of a deferred call."""
    return (RESUMED, "-p", "--resume", str(request["session"]))
