-- Workers: leases, heartbeats, and sessions that no worker serves.

-- name: lock_worker
-- A worker of all workspaces has its name in each of them.
SELECT CASE WHEN turntree.is_worker_alive(turntree.every_workspace(), %(worker)b) THEN false
  ELSE pg_try_advisory_lock(turntree.worker_lock_key(%(workspace)b, %(worker)b)) END;

-- name: unlock_worker
SELECT pg_advisory_unlock(turntree.worker_lock_key(%(workspace)b, %(worker)b));

-- name: register_worker
INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
  ON CONFLICT (workspace_id, name) DO UPDATE SET started_at = clock_timestamp(), heartbeat_at = clock_timestamp();

-- name: register_shared_worker
INSERT INTO turntree.shared_workers (name) VALUES (%(worker)b)
  ON CONFLICT (name) DO UPDATE SET started_at = clock_timestamp(), heartbeat_at = clock_timestamp();

-- name: heartbeat_shared_worker
-- Which of its runs were canceled is asked in the workspaces where it has any.
WITH beat AS (
  INSERT INTO turntree.shared_workers (name) VALUES (%(worker)b)
    ON CONFLICT (name) DO UPDATE SET heartbeat_at = clock_timestamp()
)
SELECT NULL::text WHERE false;

-- name: heartbeat_worker
-- A worker that was wrongly taken for dead is registered again with its next heartbeat.
WITH beat AS (
  INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
    ON CONFLICT (workspace_id, name) DO UPDATE SET heartbeat_at = clock_timestamp()
)
SELECT id::text FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND worker = %(worker)b AND cancel_requested AND status <> 'finished';

-- name: list_canceled_runs
SELECT id::text FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND worker = %(worker)b AND cancel_requested AND status <> 'finished';

-- name: delete_workers
WITH shared AS (DELETE FROM turntree.shared_workers WHERE name = ANY (%(workers)b::text[]))
DELETE FROM turntree.workers WHERE workspace_id = %(workspace)b AND name = ANY (%(workers)b::text[]);

-- name: list_expired_workers
SELECT * FROM turntree.expired_workers(%(workspace)b, make_interval(secs => %(silent_s)b));

-- name: list_workers
SELECT name FROM (
    SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b
    UNION SELECT name FROM turntree.shared_workers
  ) x WHERE turntree.is_worker_alive(%(workspace)b, name) ORDER BY name;

-- name: list_orphaned_queues
-- Awake sessions whose worker is dead, and sessions that have been awake so long that their wake-up may be lost:
-- those without a worker, and those of the calling workers. Sessions of other live workers are left alone, because
-- their wake-ups may be in memory there.
WITH dead AS MATERIALIZED (SELECT * FROM turntree.expired_workers(%(workspace)b, make_interval(secs => %(silent_s)b)) AS name),
living AS MATERIALIZED (
  (SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b UNION SELECT name FROM turntree.shared_workers)
    EXCEPT SELECT name FROM dead
)
SELECT session_id::text, wakeup_number, worker, is_orphan FROM (
    SELECT a.*, a.worker IS NOT NULL AND a.worker NOT IN (SELECT name FROM living) AS is_orphan
      FROM turntree.session_queues a WHERE a.workspace_id = %(workspace)b AND a.awake
  ) x
  WHERE is_orphan OR worker IS NULL AND awake_since < clock_timestamp() - make_interval(secs => %(idle_s)b)
    OR worker = ANY (%(mine)b::text[]) AND awake_since < clock_timestamp() - make_interval(secs => %(silent_s)b)
  ORDER BY awake_since LIMIT %(limit)b;

-- name: requeue_wakeup
-- Unless a worker has taken it since it was listed.
WITH held AS MATERIALIZED (
  SELECT workspace_id, session_id, wakeup_number FROM turntree.session_queues
    WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND awake AND wakeup_number = %(wakes)b
      AND worker IS NOT DISTINCT FROM %(worker)b::text
    FOR UPDATE
)
SELECT turntree.requeue_wakeup(workspace_id, session_id, wakeup_number) FROM held;

-- name: list_open_runs
SELECT id::text, session_id::text, status,
    to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), worker, cancel_requested, parked_reason,
    discard, canceled_by, crash_count
  FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND status <> 'finished' AND session_id IS NOT NULL
    AND NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer())
    AND (%(session)b::uuid IS NULL OR session_id = %(session)b::uuid)
    AND (%(after)b::uuid IS NULL OR (started_at, id) > (%(after_at)b::text::timestamptz, %(after)b::uuid))
  ORDER BY started_at, id LIMIT %(limit)b::bigint;

-- name: list_failed_runs
-- A failed turn moves no session, so no thread leads to it: the queue knows which runs belong to a session. Only the
-- newest messages are read, and OFFSET 0 keeps the turns from being read before them.
SELECT t.id::text, s.id::text, n.name,
    to_char(t.sealed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), turntree.failure_reason(t.workspace_id, t.id)
  FROM turntree.session_queues a
  JOIN turntree.sessions s ON s.workspace_id = a.workspace_id AND s.id = a.session_id
  JOIN turntree.session_names n ON n.workspace_id = a.workspace_id AND n.session_id = a.session_id AND n.reason IS NULL
  CROSS JOIN LATERAL (SELECT DISTINCT i.run_id FROM turntree.queued_messages i
    WHERE i.workspace_id = a.workspace_id AND i.session_id = a.session_id AND i.seq > a.posted_seq - %(last)b::int) i
  CROSS JOIN LATERAL (SELECT x.workspace_id, x.id, x.sealed_at FROM turntree.turns x
    WHERE x.workspace_id = a.workspace_id AND x.id = i.run_id AND x.outcome = 'failed' OFFSET 0) t
  WHERE a.workspace_id = %(workspace)b AND a.session_id = %(session)b ORDER BY t.sealed_at, t.id;

-- name: list_unanswered_runs
-- The same for each active session that has not moved since, among the newest runs: their ids are ordered by time. A
-- run that was retried is left out: the header of the retrying turn names it.
SELECT t.id::text, s.id::text, n.name,
    to_char(t.sealed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), turntree.failure_reason(t.workspace_id, t.id)
  FROM (SELECT x.workspace_id, x.id, x.session_id FROM turntree.runs x
    WHERE x.workspace_id = %(workspace)b ORDER BY x.id DESC LIMIT %(last)b) r
  CROSS JOIN LATERAL (SELECT x.workspace_id, x.id, x.sealed_at FROM turntree.turns x
    WHERE x.workspace_id = r.workspace_id AND x.id = r.id AND x.outcome = 'failed' OFFSET 0) t
  JOIN turntree.sessions s ON s.workspace_id = r.workspace_id AND s.id = r.session_id AND s.status = 'active'
    AND s.updated_at <= t.sealed_at
  JOIN turntree.session_names n ON n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NULL
  WHERE NOT EXISTS (SELECT FROM turntree.event_links l WHERE l.workspace_id = t.workspace_id AND l.to_id = t.id::text
    AND l.kind = 'DERIVED_FROM' AND l.holder = 'retries')
  ORDER BY t.sealed_at, t.id;

-- name: count_work
SELECT waiting, oldest_s, open, parked FROM turntree.count_work();

-- name: list_failure_reasons
SELECT r.id::text, turntree.failure_reason(%(workspace)b, r.id) FROM unnest(%(runs)b::uuid[]) r (id);
