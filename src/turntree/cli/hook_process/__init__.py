"""The process that an agent's hook starts, and the daemon it reports to."""
