-- Whether a backend waits for a lock that another one holds.
SELECT cardinality(pg_blocking_pids(%(pid)s)) > 0
