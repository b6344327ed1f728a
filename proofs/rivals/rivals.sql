-- What the comparison asks PostgreSQL itself, and where a peer's own interface would take hours.

-- name: multiply_adk_events
-- Every event once more per copy, a little earlier, so that the real ones stay the last.
INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
SELECT gen_random_uuid()::text, e.app_name, e.user_id, e.session_id, e.invocation_id || '-' || n,
    e.timestamp - n * interval '10 minutes', e.event_data
  FROM events e, generate_series(1, %s) n;

-- name: backends
SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend';

-- name: size
-- Rows, their indexes and what they keep aside, of everything that is not PostgreSQL's own. The maps
-- of free space come and go with vacuum and are left out.
SELECT coalesce(sum(pg_relation_size(oid, 'main')), 0)::bigint FROM pg_class
  WHERE oid >= 16384 AND relkind IN ('r', 'i', 't');
