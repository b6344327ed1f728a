-- The queue of DBOS, without DBOS.

-- name: can_enqueue
SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'dbos'
  AND p.proname = 'turntree_enqueue' AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'));

-- name: enqueue_call
SELECT dbos.turntree_enqueue(%(workspace)b::uuid, %(session)b::uuid, %(number)b::int, %(delay_s)b::float8);

-- name: take_turn
-- Several workers may start at the same time on a new database. PostgreSQL refuses the second of two that grant
-- something or replace a function at the same moment.
SELECT pg_advisory_xact_lock(hashtextextended('turntree.queue', 0));

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
-- The only way to enqueue without write access to the queue. The queue, the workflow and the encoding of its arguments
-- are fixed here, so that only ids come from the caller. The workspace is the partition of the queue.
CREATE OR REPLACE FUNCTION dbos.turntree_enqueue(p_workspace uuid, p_session uuid, p_number int, p_delay_s float8)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbos.enqueue_workflow('turntree.wake', 'turntree.wake',
    ARRAY[to_json(p_workspace::text), to_json(p_session::text), to_json(p_number)],
    workflow_id => 'turntree.wake:' || p_workspace || ':' || p_session || ':' || p_number, app_version => 'wake-2',
    application_name => 'turntree', queue_partition_key => p_workspace::text,
    delay_until_epoch_ms => CASE WHEN p_delay_s > 0 THEN ((extract(epoch FROM clock_timestamp()) + p_delay_s) * 1000)::bigint END);
END $$;
REVOKE ALL ON FUNCTION dbos.turntree_enqueue(uuid, uuid, int, float8) FROM PUBLIC;
GRANT USAGE ON SCHEMA dbos TO turntree_app;
GRANT EXECUTE ON FUNCTION dbos.turntree_enqueue(uuid, uuid, int, float8) TO turntree_app;
