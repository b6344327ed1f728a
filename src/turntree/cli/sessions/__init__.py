"""Commands for sessions: fork, switch, rewind, undo, session, tag, route."""
