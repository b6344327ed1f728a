"""Commands for upkeep: verify, fsck, audit, index, sql, stats, token."""
