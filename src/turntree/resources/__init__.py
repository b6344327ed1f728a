"""Files and other resources: drivers, snapshots, plans, worktrees, diff, blame."""
