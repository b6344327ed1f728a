"""Commands for files: files, worktree, snapshot, plan, gc."""
