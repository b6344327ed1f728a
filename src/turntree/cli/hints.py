"""Turns the hint of an error into a command.

Packages below the command line know no commands: their errors name an action and what to apply it
to. This is the list of all actions.
"""

from collections.abc import Mapping
from typing import Final

from turntree.cli.settings import KEYS, find_setting
from turntree.core.errors import Hint
from turntree.system.shell_words import quoted

COMMANDS: Final[Mapping[str, str]] = {
    "agent.answer_here": "turntree fork {revision} LABEL --agent AGENT     "
    "its owner: turntree program grant {program} {grantee} {access}",
    "agent.assign": "turntree agent assign AGENT {task}",
    "approval.list": "turntree inbox",
    "backup.create": "turntree backup create     in a new file of the data directory",
    "backup.replace": "turntree backup restore {file} --replace",
    "branch.describe": "turntree pr BASE..HEAD",
    "config.allow_host": "turntree config add secret_hosts {host}",
    "config.allow_webhook": "turntree config add webhook_hosts {host}",
    "config.list": "turntree config list",
    "config.unset": "turntree config unset {key}",
    "connector.choose_sandbox": "turntree connector configure {connector} --sandbox PROFILE     "
    "a profile of yours, with the folders that it needs",
    "connector.run_unsandboxed": "turntree config add unsandboxed_connectors {connector}",
    "connector.tools": "turntree connector tools {connector}",
    "conversation.list": "turntree conversation list",
    "conversation.post": "turntree conversation post {conversation} MESSAGE",
    "conversation.set_triage": "turntree conversation set-triage {conversation} {on}",
    "conversation.show": "turntree conversation show {conversation}",
    "credential.export": "export {credential}=VALUE",
    "demo": "turntree demo",
    "file.blame": "turntree blame PATH",
    "hook.install": "turntree on",
    "human.create_approver": "turntree human create NAME --permission approve",
    "human.permit": "turntree human configure {human} {permission}",
    "index.embed": "turntree index embed",
    "index.status": "turntree index status",
    "invitation.list": "turntree invitation list --all",
    "key.list": "turntree key list --all",
    "member.list": "turntree member list",
    "member.promote": "turntree member add NAME --role admin",
    "member.role": "turntree member role {member} {role}",
    "model.choose": "turntree session configure SESSION --model {model}",
    "model.choose_default": "turntree session configure SESSION --model {model}     "
    "turntree tag add {address} default",
    "model.create": "turntree model create NAME --backend MODEL --provider PROVIDER",
    "model.set_provider": "turntree model configure {model} --provider PROVIDER     "
    "turntree provider create PROVIDER --type TYPE",
    "model.share_provider": "turntree model configure {model} --provider PROVIDER     "
    "its owner: turntree program invite {provider} NAME",
    "policy.history": "turntree policy history",
    "policy.show_active": "turntree show resource://approval-policy/policy.py     "
    "the policy in force, as an example",
    "program.explain_options": "turntree {kind} create --help",
    "program.grant": "its owner: turntree program grant {program} {grantee} {access}",
    "program.kinds": "turntree program kinds",
    "program.list": "turntree program list",
    "program.list_kind": "turntree program list --kind {kind}",
    "program.publish": "turntree program visibility {program} public",
    "program.set_state": "turntree {kind} set-state {program} {state}",
    "program.show": "turntree {kind} show {program}",
    "provider.create": "turntree provider create NAME --type TYPE --base-url URL",
    "provider.set_type": "turntree provider configure NAME --type TYPE",
    "run.tail": "turntree tail {run}",
    "session.create": "turntree session create LABEL",
    "session.fork": "turntree fork {revision} LABEL",
    "session.list": "turntree session list",
    "session.rename": "turntree session rename {session} NAME",
    "session.switch_to": "turntree switch {session}",
    "turn.unarchive": "turntree unarchive {turn}",
    "session.unarchive": "turntree session unarchive {session}",
    "session.switch": "turntree switch SESSION",
    "sql.extend_timeout": "turntree sql --timeout SECONDS QUERY",
    "sql.list_views": "turntree sql",
    "task.create": "turntree task create TITLE",
    "task.replace": "turntree task show {task}     turntree task create TITLE",
    "task.start": "turntree task start {task}",
    "token.list": "turntree token list",
    "turn.rerun": "turntree rerun {revision}",
    "trigger.list": "turntree trigger list",
    "webhook.list": "turntree webhook list",
    "worker.start": "turntree worker",
    "worker.lend_folder": "turntree worker --folder PATH",
    "worktree.create": "turntree worktree {revision}",
}
"""A template for each action; words in capitals are for the reader to replace.

Several commands stand beside each other with five spaces between them.
"""
_COMMAND: Final = "command"
OF_OTHERS: Final = "its owner: "
"""Before a command that another user has to type: the reader would be refused."""


def command_hint(command: str) -> Hint:
    """Return a hint to run a command, for errors that the command line itself raises."""
    return Hint(_COMMAND, {"command": command})


def command_for(hint: Hint) -> str | None:
    """Return the command for a hint, or None if this version does not know its action.

    An event may hold a hint of a newer version.
    """
    if hint.action == _COMMAND:
        return str(hint.arguments["command"])
    key = hint.arguments.get("key")
    # The settings file has no say in what the shell exports.
    if hint.action == "config.unset" and isinstance(key, str) and key in KEYS:
        setting = find_setting(key)
        if setting.source == "environment":
            return f"unset {setting.place}"
    template = COMMANDS.get(hint.action)
    # A list becomes an option that is repeated.
    words = {
        name: quoted(value)
        if isinstance(value, str)
        else " ".join(f"--{name} {quoted(one)}" for one in value)
        for name, value in hint.arguments.items()
    }
    try:
        return None if template is None else template.format_map(words)
    except KeyError:
        return None


def hint_line(command: str) -> str:
    """Return the line that shows a command, which another user may have to type."""
    return command if command.startswith(OF_OTHERS) else f"next: {command}"
