"""``hook``: record coding agents while they work.

Installs hooks into the agents' own settings, shows their status, and imports what they reported. A
hook itself runs ``cli.hook_process.entry``, which must not wait for this module.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal

import click

from turntree.boot.open import load_importers, require_server_owner
from turntree.cli.command import Terminal, verb
from turntree.cli.common.foreign_approvals import note_deferred
from turntree.cli.common.hook_sync import POLL_S, has_news, read_spool
from turntree.cli.context import load_settings
from turntree.cli.hints import command_hint
from turntree.cli.hook_process import entry as hook_entry
from turntree.cli.hook_process.daemon import find_place
from turntree.cli.output.text import age, clean, counted, table
from turntree.cli.settings import places_here
from turntree.core.errors import DatabaseUnavailable, InvalidOperation, NotFound
from turntree.core.value import value
from turntree.db.embedded.account import ServerError
from turntree.hooks.coding_agents import TOOLS, Scope, Tool
from turntree.hooks.events import HOOK_KINDS
from turntree.hooks.install import Installer, InstallState, SettingsChange
from turntree.hooks.launcher import launcher_path
from turntree.hooks.reconcile import ReconcileResult
from turntree.hooks.silence import SilentHook, find_silence
from turntree.hooks.spool import FOLDER, Spool
from turntree.system.clock import SystemClock
from turntree.system.processes import require_file_locks

TOOL: Final = click.Choice(list(TOOLS))


@click.group()
def hook() -> None:
    """Record coding agents while they work.

    At the end of each turn its transcript is imported and its workspace snapshotted.
    """


def _scope(function: Any) -> Any:
    user = click.option("--user", "scope", flag_value="user", default="user",
                        help="All your projects; this is the default.")  # fmt: skip
    project = click.option("--project", "scope", flag_value="project", help="This project only.")
    return user(project(function))


@verb()
@click.argument("tool", metavar="[TOOL]", required=False, type=TOOL)
@_scope
@click.option(
    "--trust", is_flag=True, help="Approval of these hooks in Codex, without a review there."
)
@click.option(
    "--judge", is_flag=True, help="Decision of the policy in force before each tool call."
)
def install(terminal: Terminal, tool: str | None, scope: Scope, trust: bool, judge: bool) -> None:
    """Install hooks into a tool: claude-code, codex, gemini, opencode, cursor or copilot.

    Without a TOOL, installs them into all of these that are found on this machine. Our commands are
    added to the tool's settings, after your own; the old file is backed up. Installing again
    changes nothing. Codex runs only hooks that you have reviewed: do that in Codex, with /hooks, or
    give --trust here.

    With --judge, the policy in force (turntree policy) decides about each tool call of Claude Code
    and Codex before it is made. Installing hooks again without it leaves the judge where it is.
    """
    chosen = list_found() if tool is None else [TOOLS[tool]]
    if judge and tool is None:
        chosen = [one for one in chosen if one.judged]
    was_there = {one.name for one in chosen if make_installer().state(one, scope).installed}
    if not chosen:
        raise NotFound(
            f"no coding agent found; looked for {', '.join(TOOLS)}",
            hint=command_hint("turntree hook install TOOL"),
        )
    results = install_hooks(chosen, scope, trust=trust, judge=judge or None)
    if tool is not None and (error := results[0].error) is not None:
        raise error
    changed = any(result.changed for result in results)
    named = "" if tool is None else f" {tool}"
    # Hooks that were there before the judge came stay when it goes.
    only = " --judge" if judge and was_there else ""
    undo = f"turntree hook uninstall{named}{only}{_option(scope)}" if changed else None
    if terminal.as_json:
        terminal.documents({**result.document(), "undo": undo} for result in results)
    else:
        tell_installed(terminal, results)
        hints = [*([f"undo with: {undo}"] if undo else []), "next: turntree hook status"]
        terminal.note("     ".join(hints))
    if any(result.error is not None for result in results):
        raise click.exceptions.Exit(1)


@value
class ToolInstall:
    """What an installation did for one tool."""

    tool: Tool
    state: InstallState
    changes: Sequence[SettingsChange] = ()
    error: InvalidOperation | None = None

    @property
    def changed(self) -> list[SettingsChange]:
        """The files that were changed."""
        return [change for change in self.changes if change.changed]

    def document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        changed = [str(change.path) for change in self.changed]
        error = None if self.error is None else str(self.error)
        return {**_state_document(self.state), "changed": changed, "error": error}


def list_found() -> list[Tool]:
    """Return the tools of this machine whose hooks can be installed."""
    places = places_here()
    return [tool for tool in TOOLS.values() if tool.is_found(places)]


def list_recording() -> list[str]:
    """Return the names of the tools with hooks, for this user or in this project."""
    return list(dict.fromkeys(state.tool for state in _list_states() if state.installed))


def install_hooks(
    tools: Iterable[Tool], scope: Scope, *, trust: bool = False, judge: bool | None = None
) -> list[ToolInstall]:
    """Install the hooks of some tools; one that fails does not keep the others from theirs.

    Raises:
        InvalidOperation: The user named cannot use the embedded server. Nothing was installed.
    """
    require_file_locks()
    require_user()
    installer, results = make_installer(), list[ToolInstall]()
    for tool in tools:
        try:
            changes = installer.install(tool, scope, trust=trust, judge=judge)
        except InvalidOperation as error:
            results.append(ToolInstall(tool, installer.state(tool, scope), error=error))
        else:
            results.append(ToolInstall(tool, installer.state(tool, scope), changes))
    return results


def require_user() -> None:
    """Refuse to set agents up for a user whose ledger cannot be opened.

    Raises:
        InvalidOperation: The environment names another user than the embedded server's.
    """
    settings = load_settings()
    if not settings.database_url:
        require_server_owner(settings)


def tell_installed(terminal: Terminal, results: Sequence[ToolInstall]) -> None:
    """Print where hooks were installed, and what the user has to do."""
    for result in results:
        if result.error is not None:
            terminal.note(f"error: {result.error}")
            continue
        changed = "" if result.changed else " (nothing to change)"
        path = result.changes[0].path
        terminal.say(f"{result.tool.title} tells Turntree what it does: {path}{changed}")
        if result.state.judges:
            terminal.say(f"{result.tool.title} asks the policy in force before each tool call")
        for change in result.changed:
            if change.backup is not None:
                terminal.note(f"a copy of what was there: {change.backup}")
        if result.state.untrusted:
            count = result.state.untrusted
            terminal.note(
                f"review {counted(count, 'hook')} in Codex with /hooks, or trust them here"
            )
            terminal.note("next: turntree hook install codex --trust")


def remove_hooks(terminal: Terminal, files: Mapping[Path, Tool]) -> None:
    """Remove hooks from some files; if all succeed, hooks that an agent remembers end too.

    Raises:
        InvalidOperation: Some could not be removed. The launcher stays.
    """
    installer, failed = make_installer(), list[InvalidOperation]()
    for path, tool in files.items():
        try:
            installer.uninstall_from(tool, path)
        except InvalidOperation as error:
            terminal.note(f"error: {error}")
            failed.append(error)
    if failed:
        raise InvalidOperation("not all hooks could be removed; nothing else was changed")
    # Without the launcher no hook starts another daemon, not even one that a tool still remembers.
    launcher_path(installer.home).unlink(missing_ok=True)


@verb()
@click.argument("tool", metavar="[TOOL]", required=False, type=TOOL)
@_scope
@click.option(
    "--judge", is_flag=True, help="Removal of the judge alone; the hooks that record stay."
)
def uninstall(terminal: Terminal, tool: str | None, scope: Scope, judge: bool) -> None:
    """Remove the hooks from a tool, or from all tools.

    If its settings have not been changed since, they become what they were, byte for byte. With
    --judge, the hooks stay and the tool asks its user again.
    """
    installer = make_installer()
    if tool is None:
        chosen = [one for one in TOOLS.values() if installer.state(one, scope).installed]
        if not chosen and not terminal.as_json:
            terminal.say("no hooks are installed")
    else:
        chosen = [TOOLS[tool]]
    if judge:
        for one in chosen:
            _uninstall_judge(terminal, installer, one, scope)
        return
    for one in chosen:
        _uninstall(terminal, installer, one, scope)


def _uninstall_judge(terminal: Terminal, installer: Installer, tool: Tool, scope: Scope) -> None:
    judged = installer.state(tool, scope).judges
    # Codex trusts our hooks again if it trusted those that judge.
    trusts = judged and tool.name == "codex" and not installer.state(tool, scope).untrusted
    changes = installer.install(tool, scope, trust=trusts, judge=False) if judged else []
    changed = [str(change.path) for change in changes if change.changed]
    told = f"{tool.title} does not ask the policy: its own settings decide about tool calls"
    document = {"tool": tool.name, "scope": scope, "changed": changed}
    undo = f"turntree hook install {tool.name} --judge{_option(scope)}"
    if trusts:
        undo += " --trust"
    terminal.tell(told if changed else f"{told} (nothing to change)", document,
                  undo=undo if changed else None)  # fmt: skip


def _uninstall(terminal: Terminal, installer: Installer, tool: Tool, scope: Scope) -> None:
    state = installer.state(tool, scope)
    changes = installer.uninstall(tool, scope)
    changed = [change for change in changes if change.changed]
    told = f"{tool.title} tells Turntree nothing any more"
    other: Scope = "user" if scope == "project" else "project"
    # A user who uninstalls wants no more recording; hooks of the other scope still record.
    stays = installer.state(tool, other).installed
    if stays:
        where = "in this project" if other == "project" else "wherever you use it"
        told = f"no hooks of ours are in {changes[-1].path}; those {where} stay"
    document = {"tool": tool.name, "scope": scope, "changed": [str(one.path) for one in changed]}
    judge = " --judge" if state.judges else ""
    # Codex runs only hooks that it trusts.
    trusts = tool.name == "codex" and state.installed and not state.untrusted
    trust = " --trust" if trusts else ""
    undo = f"turntree hook install {tool.name}{judge}{trust}{_option(scope)}"
    then = [f"next: turntree hook uninstall {tool.name} --{other}"] if stays else []
    terminal.tell(told if changed else f"{told} (nothing to change)", document,
                  undo=undo if changed else None, then=then)  # fmt: skip


@verb()
def status(terminal: Terminal) -> None:
    """Show which tools have hooks, how many hook events are pending, and the last failure.

    Starts nothing.
    """
    states, spool = _list_states(), _spool()
    waiting, last, error = spool.read(), spool.find_last(), spool.last_error()
    if terminal.as_json:
        terminal.document({
            "hooks": [_state_document(state) for state in states],
            "spool": str(spool.folder),
            "waiting": len(waiting),
            "last": last,
            "error": error,
            "silent": [hook.to_json() for hook in list_silent()],
        })  # fmt: skip
        return
    rows = [(state.tool, state.scope, _told(state), str(state.path)) for state in states
            if state.installed or state.problem or state.scope == "user"]  # fmt: skip
    terminal.say("\n".join(table(rows)))
    terminal.say("\n".join(table(_spool_rows(len(waiting), last, error))))
    for state in states:
        if state.problem is not None:
            terminal.note(clean(state.problem))
    silent = list_silent()
    note_silence(terminal, silent)
    lacking = next((state for state in states if state.lacks is not None), None)
    if lacking is not None:
        terminal.note(f"next: turntree hook install {lacking.tool}{_option(lacking.scope)}")
    elif waiting:
        terminal.note("next: turntree hook sync")
    elif not (silent or any(state.installed for state in states)):
        named = "" if list_found() else " claude-code"
        terminal.note(f"next: turntree hook install{named}")


@verb()
@click.option("--quietly", is_flag=True, help="No output; errors go to a log file.")
def sync(terminal: Terminal, quietly: bool) -> None:
    """Import pending hook events: read the transcripts and snapshot the workspaces.

    Hooks start this by themselves. What cannot be imported now, because the database is down or a
    turn is not over, stays pending.
    """
    spool = _spool()
    began = spool.now()
    if quietly and not spool.folder.is_dir():
        return  # All data was deleted after the hook had started this process.
    if quietly:
        terminal = Terminal(as_json=True)
    while True:
        with spool.reading() as is_mine:
            if not is_mine:
                if quietly:
                    return
                # A hook has started another sync; report what it leaves.
                time.sleep(POLL_S)
                continue
            try:
                settled = read_spool(terminal, spool)
            except (DatabaseUnavailable, ServerError) as error:
                spool.complain(f"sync: {error}")
                if quietly:
                    return
                waiting = len(spool.list_paths())
                terminal.note(f"{counted(waiting, 'sighting')} wait, and nothing is lost")
                raise
        # A sync that found our lock has ended; its events are picked up here.
        if not quietly or not has_news(spool, settled):
            break
    if not quietly:
        if not settled.complaints:
            spool.overcome(began)
        _tell_settled(terminal, spool, settled)


@verb(hidden=True)
@click.argument("tool", metavar="TOOL", type=TOOL)
@click.argument("kind", metavar="KIND", type=click.Choice(HOOK_KINDS))
def run(terminal: Terminal, tool: str, kind: str) -> None:
    """Record one hook event, with the tool's JSON on standard input.

    This is what a hook calls. KIND is session, begin, end, cut, close or wait.
    """
    del terminal
    home = str(load_settings().home)
    words = [sys.executable, "-I", hook_entry.__file__, "--home", home, tool, kind]
    os.execv(sys.executable, words)  # noqa: S606  (no shell is wanted)


def examine_hooks() -> tuple[Literal["ok", "warn"], str, str | None]:
    """Return whether the hooks are in order, a sentence about them, and what to do."""
    states, spool = _list_states(), _spool()
    for state in states:
        if state.problem is not None or state.lacks is not None:
            why = state.problem or f"{state.tool}: installed {state.lacks}"
            return "warn", clean(why), f"turntree hook install {state.tool}{_option(state.scope)}"
    error = spool.last_error()
    if error is not None:
        return "warn", clean(error), "turntree hook sync"
    for hook in list_silent():
        return "warn", explain_silence(hook), f"turntree hook install {hook.tool.name}"
    names = dict.fromkeys(state.tool for state in states if state.installed)
    if not names:
        return "ok", "no tool tells what it does", None
    return "ok", f"{', '.join(names)}; {counted(len(spool.list_paths()), 'sighting')} wait", None


def list_silent() -> list[SilentHook]:
    """Return the tools whose hooks are installed for the user, and report nothing."""
    installer, importers = make_installer(), load_importers()
    states = [installer.state(tool, "user") for tool in TOOLS.values()]
    # Hooks that wait for a review in Codex are silent too, and their own state says so.
    found = (
        find_silence(TOOLS[state.tool], importers[state.tool], places_here(), installer.home,
                     time.time())
        for state in states
        if state.is_complete and not state.untrusted
    )  # fmt: skip
    return [hook for hook in found if hook is not None]


def explain_silence(hook: SilentHook) -> str:
    """Return a sentence about hooks that do not report."""
    now, title = SystemClock().now(), hook.tool.title
    wrote, since = (
        f"{age(at, now)} ago".replace("now ago", "just now")
        for at in (hook.wrote_at, hook.silent_since)
    )
    silence = "reported last" if hook.has_reported else "never reported; installed"
    return f"{title} wrote a transcript {wrote}, but its hooks {silence} {since}"


def note_silence(terminal: Terminal, hooks: Sequence[SilentHook]) -> None:
    """Print which hooks do not report, and what to do."""
    for hook in hooks:
        terminal.note(explain_silence(hook))
    if hooks:
        terminal.note("restart the agent; if that does not help, install the hooks again")
        terminal.note(f"next: turntree hook install {hooks[0].tool.name}")


def _list_states() -> list[InstallState]:
    installer = make_installer()
    scopes: tuple[Scope, ...] = ("user", "project")
    return [installer.state(tool, scope) for tool in TOOLS.values() for scope in scopes]


def _tell_settled(terminal: Terminal, spool: Spool, settled: ReconcileResult) -> None:
    left = len(spool.list_paths())
    if terminal.as_json:
        terminal.document({
            "read": len(settled.done), "pinned": settled.pinned, "waiting": left,
            "turns_added": settled.progress.turns_added, "complaints": settled.complaints,
        })  # fmt: skip
        return
    read, waiting = counted(len(settled.done), "sighting"), counted(left, "sighting")
    added = counted(settled.progress.turns_added, "turn")
    terminal.say(f"{read} read, {added} added, {settled.pinned} pinned; {waiting} wait")
    for text in settled.complaints:
        terminal.note(clean(text))
    note_deferred(terminal)


def make_installer() -> Installer:
    """Return the installer of this home, for the project of the current folder."""
    settings, places = load_settings(), places_here()
    found = find_place(str(Path.cwd()), str(settings.home))
    top = Path(found) if found is not None else Path.cwd()
    return Installer(
        settings.home.absolute(), places, top, Path(sys.executable), Path(hook_entry.__file__)
    )


def _spool() -> Spool:
    return Spool(load_settings().home / FOLDER)


def _option(scope: Scope) -> str:
    return " --project" if scope == "project" else ""


def _state_document(state: InstallState) -> dict[str, Any]:
    return {**asdict(state), "complete": state.is_complete, "path": str(state.path)}


def _told(state: InstallState) -> str:
    if state.problem is not None:
        return "left alone"
    if not state.installed:
        return "not installed"
    if state.untrusted:
        waiting = counted(state.untrusted, "hook")
        verb = "waits" if state.untrusted == 1 else "wait"
        return f"installed; {waiting} {verb} for your review in Codex (/hooks)"
    judged = ", judges each call" if state.judges else ""
    return f"installed{judged}" if state.lacks is None else f"installed {state.lacks}"


def _spool_rows(
    waiting: int, last: dict[str, Any] | None, error: str | None
) -> Iterator[tuple[str, str]]:
    yield "spool", f"{counted(waiting, 'sighting')} wait to be read" if waiting else "empty"
    if last is not None:
        yield "last", clean(f"{last['kind']} of {last['tool']} {last['session']} at {last['at']}")
    yield "error", clean(error) if error else "none"


for command in (install, uninstall, status, sync, run):
    hook.add_command(command)
