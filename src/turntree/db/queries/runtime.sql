-- Runs: queued messages, and the workers that process them.

-- name: set_local_role
-- For one transaction, on a borrowed connection.
SELECT set_config('role', %(role)s, true), set_config('turntree.workspace', %(workspace)s, true),
  set_config('turntree.viewer', %(sight)s, true), set_config('enable_seqscan', 'off', true);

-- name: reset_role
SELECT set_config('role', 'none', true);

-- name: post_message
SELECT run_id::text, seq, repeated, wake FROM turntree.post_message(
  %(workspace)b, %(session)b, %(payload)b, %(by)b, %(at)b, %(key)b, %(options)b);

-- name: next_work
SELECT what, run_id::text, epoch, canceled, head::text, head_digest, seq, payload, sender,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.next_work(%(workspace)b, %(session)b, %(worker)b);

-- name: start_queued_run
SELECT turntree.start_queued_run(%(workspace)b, %(run)b, %(session)b, %(seqs)b::int[], %(worker)b, %(at)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: append_run_events
SELECT turntree.append_run_events(%(workspace)b, %(run)b, %(epoch)b, %(first)b,
  %(ids)b::bytea[], %(kinds)b::text[], %(bodies)b::text[], %(payloads)b::text[]);

-- name: unpark_run
SELECT unparked, session::text, wake FROM turntree.unpark_run(%(workspace)b, %(run)b, %(at)b, %(data)b);

-- name: cancel_session_run
SELECT run_id::text, wake FROM turntree.cancel_session_run(%(workspace)b, %(session)b, %(by)b, %(at)b, %(discard)b);

-- name: cancel_run
SELECT canceled, session::text, wake FROM turntree.cancel_run(%(workspace)b, %(run)b, %(by)b, %(at)b, %(discard)b);

-- name: can_enqueue
SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dbos'
  AND p.proname = 'turntree_wake' AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'));

-- name: enqueue_call
SELECT dbos.turntree_wake(%(workspace)b::uuid, %(session)b::uuid, %(number)b::int, %(delay_s)b::float8);

-- name: let_engine_build
-- The engine creates the schema of its queue by itself, if that was not done when the server was set up.
DO $$ BEGIN
  IF to_regnamespace('dbos') IS NULL AND to_regrole('turntree_engine') IS NOT NULL
      AND (SELECT pg_has_role(d.datdba, 'USAGE') FROM pg_database d WHERE d.datname = current_database()) THEN
    EXECUTE format('GRANT CREATE ON DATABASE %I TO turntree_engine', current_database());
  END IF;
END $$;

-- name: knows_queue
-- Its parameters are named: another version of DBOS may have others.
SELECT to_regprocedure('dbos.enqueue_workflow(text, text, json[], json, text, text, text, text, bigint, bigint, text,'
  || ' integer, text, text, text, bigint, text)') IS NOT NULL;

-- name: make_door
-- The only way to enqueue without write access to the queue. The queue, the workflow and the encoding of its argument
-- are fixed here, so that only the id of a session comes from the caller.
CREATE OR REPLACE FUNCTION dbos.turntree_wake(p_workspace uuid, p_session uuid, p_number int, p_delay_s float8)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue constant text := 'turntree:' || p_workspace;
BEGIN
  PERFORM dbos.enqueue_workflow('turntree.wake', v_queue, ARRAY[to_json(p_session::text)],
    workflow_id => v_queue || ':' || p_session || ':' || p_number, app_version => 'wake-1', application_name => 'turntree',
    delay_until_epoch_ms => CASE WHEN p_delay_s > 0 THEN ((extract(epoch FROM clock_timestamp()) + p_delay_s) * 1000)::bigint END);
END $$;
REVOKE ALL ON FUNCTION dbos.turntree_wake(uuid, uuid, int, float8) FROM PUBLIC;
GRANT USAGE ON SCHEMA dbos TO turntree_app;
GRANT EXECUTE ON FUNCTION dbos.turntree_wake(uuid, uuid, int, float8) TO turntree_app;

-- name: count_crash
UPDATE turntree.runs SET crash_count = crash_count + 1
  WHERE workspace_id = %(workspace)b AND id = %(run)b AND epoch = %(epoch)b AND status <> 'finished' RETURNING crash_count;

-- name: note_retaken
UPDATE turntree.runs r SET retaken = coalesce(r.retaken, '{}') || (
    SELECT jsonb_object_agg(c, coalesce((r.retaken ->> c)::int, 0) + 1) FROM unnest(%(calls)b::text[]) c)
  WHERE workspace_id = %(workspace)b AND id = %(run)b AND epoch = %(epoch)b AND status <> 'finished' RETURNING retaken::text;

-- name: list_waiting
SELECT seq, run_id::text, payload, by,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND session_id = %(session)b AND payload IS NOT NULL
    AND canceled_at IS NULL
    AND NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer()) ORDER BY seq;

-- name: list_backlogs
SELECT i.session_id::text, n.name, count(*)::int,
    to_char(min(i.received_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  FROM turntree.queued_messages i
  JOIN turntree.sessions s ON s.workspace_id = i.workspace_id AND s.id = i.session_id AND s.status = 'active'
  JOIN turntree.session_names n ON n.workspace_id = i.workspace_id AND n.session_id = i.session_id AND n.reason IS NULL
  WHERE i.workspace_id = %(workspace)b AND i.payload IS NOT NULL AND i.canceled_at IS NULL
  GROUP BY i.session_id, n.name ORDER BY min(i.received_at), n.name;

-- name: find_waiting
SELECT seq, run_id::text, payload, by,
    to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), options
  FROM turntree.queued_messages
  WHERE workspace_id = %(workspace)b AND run_id = %(run)b AND payload IS NOT NULL
    AND NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer()) ORDER BY seq LIMIT 1;

-- name: lock_worker
SELECT pg_try_advisory_lock(turntree.worker_lock_key(%(workspace)b, %(worker)b));

-- name: unlock_worker
SELECT pg_advisory_unlock(turntree.worker_lock_key(%(workspace)b, %(worker)b));

-- name: register_worker
INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
  ON CONFLICT (workspace_id, name) DO UPDATE SET started_at = clock_timestamp(), heartbeat_at = clock_timestamp();

-- name: heartbeat_worker
-- A worker that was wrongly taken for dead is registered again with its next heartbeat.
WITH beat AS (
  INSERT INTO turntree.workers (workspace_id, name) VALUES (%(workspace)b, %(worker)b)
    ON CONFLICT (workspace_id, name) DO UPDATE SET heartbeat_at = clock_timestamp()
)
SELECT id::text FROM turntree.runs
  WHERE workspace_id = %(workspace)b AND worker = %(worker)b AND cancel_requested AND status <> 'finished';

-- name: delete_workers
DELETE FROM turntree.workers WHERE workspace_id = %(workspace)b AND name = ANY (%(workers)b::text[]);

-- name: list_expired_workers
SELECT * FROM turntree.expired_workers(%(workspace)b, make_interval(secs => %(silent_s)b));

-- name: list_workers
SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b AND turntree.is_worker_alive(workspace_id, name) ORDER BY name;

-- name: list_orphaned_queues
-- Awake sessions whose worker is dead, and sessions that have been awake so long that their wake-up may be lost:
-- those without a worker, and those of the calling workers. Sessions of other live workers are left alone, because
-- their wake-ups may be in memory there.
WITH dead AS MATERIALIZED (SELECT * FROM turntree.expired_workers(%(workspace)b, make_interval(secs => %(silent_s)b)) AS name),
living AS MATERIALIZED (
  SELECT name FROM turntree.workers WHERE workspace_id = %(workspace)b EXCEPT SELECT name FROM dead
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
  ORDER BY started_at, id;

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

-- name: list_failure_reasons
SELECT r.id::text, turntree.failure_reason(%(workspace)b, r.id) FROM unnest(%(runs)b::uuid[]) r (id);
