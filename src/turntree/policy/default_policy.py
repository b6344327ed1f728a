"""Allow work in the session's folder, and ask before anything leaves it.

Functions of the worker's own process are the operator's code and run. Tools of the ledger stay in
it, those of the workbench in their sandbox. Programs of the ledger run too: code among them sees
neither disk nor network, and the calls that an agent makes are judged as its own.

A call is asked about if it touches a path outside of the folder (the tools of the workbench refuse
that by themselves, and no person could allow it), if its shell line cannot be
understood, if its tool does not say what it may do, or if it sends something out after the run has
read both what is private and what others wrote.
"""

# Without annotations: the module typing takes longer to import than a decision takes.
# mypy: disable-error-code="no-untyped-def"
# pyright: basic

READS = ("reads_private", "untrusted_output")


def decide(request):
    """Return the decision about one call."""
    effects = request["effects"]
    known = effects + request["context_effects"]
    if request["server"] == "worker":
        return {"decision": "allow", "reason": "a function of the worker's own process"}
    if request["server"] == "ledger":
        return {"decision": "allow", "reason": "it stays in the ledger"}
    if request["outside"] and request["server"] != "workbench":
        path = request["outside"][0]
        return {"decision": "ask", "reason": "it leaves the folder: " + path}
    if request["commands"] is None and request["server"] != "workbench":
        return {"decision": "ask", "reason": "the shell line cannot be understood"}
    if not request["effects_declared"] and request["server"] != "program":
        return {"decision": "ask", "reason": "its tool does not say what it may do"}
    sends = request["effects_declared"] and "external_write" in effects
    if sends and all(effect in known for effect in READS):
        reason = "it can send out what is private, after reading what others wrote"
        return {"decision": "ask", "reason": reason}
    return {"decision": "allow", "reason": "it stays in the folder"}


TESTS = [
    {
        "name": "a function of the worker runs",
        "request": {"tool": "get_weather", "server": "worker"},
        "decision": "allow",
    },
    {
        "name": "an edit in the folder runs",
        "request": {
            "tool": "fs.write",
            "server": "workbench",
            "effects": ["destructive"],
            "folder": "/srv/project",
            "paths": ["/srv/project/a.py"],
            "outside": [],
        },
        "decision": "allow",
    },
    {
        "name": "a tool of the ledger runs",
        "request": {"tool": "ledger.recall", "server": "ledger", "effects": ["reads_private"]},
        "decision": "allow",
    },
    {
        "name": "a path outside of the folder asks",
        "request": {
            "tool": "Write",
            "server": "claude-code",
            "origin": "claude-code",
            "effects": ["destructive"],
            "folder": "/srv/project",
            "paths": ["/etc/hosts"],
            "outside": ["/etc/hosts"],
        },
        "decision": "ask",
    },
    {
        "name": "a command in the sandbox without network runs",
        "request": {
            "tool": "shell.exec",
            "server": "workbench",
            "effects": ["reads_private", "untrusted_output", "exec", "destructive"],
        },
        "decision": "allow",
    },
    {
        "name": "a command in the sandbox with network asks",
        "request": {
            "tool": "shell.exec",
            "server": "workbench",
            "effects": [
                "reads_private",
                "untrusted_output",
                "external_write",
                "exec",
                "destructive",
            ],
        },
        "decision": "ask",
    },
    {
        "name": "sending out after reading what is private and what others wrote asks",
        "request": {
            "tool": "post",
            "server": "mcp:chat",
            "effects": ["external_write"],
            "context_effects": ["reads_private", "untrusted_output"],
        },
        "decision": "ask",
    },
    {
        "name": "sending out alone runs",
        "request": {"tool": "post", "server": "mcp:chat", "effects": ["external_write"]},
        "decision": "allow",
    },
    {
        "name": "a tool that declares nothing asks",
        "request": {"tool": "query", "server": "mcp:db"},
        "decision": "ask",
    },
    {
        "name": "a program of the ledger runs",
        "request": {"tool": "add", "server": "program"},
        "decision": "allow",
    },
    {
        "name": "a shell line that cannot be understood asks",
        "request": {
            "tool": "Bash",
            "server": "claude-code",
            "effects": ["exec"],
            "commands": None,
        },
        "decision": "ask",
    },
]
