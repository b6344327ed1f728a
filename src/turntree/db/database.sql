-- Connections, roles, viewers, workspaces and advisory locks.

-- name: lock_key
SELECT pg_try_advisory_lock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));

-- name: unlock_key
SELECT pg_advisory_unlock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));

-- name: find_slots
-- The slots that this database holds; null if it was never opened with a shard map.
SELECT slots FROM turntree.shard;

-- name: record_slots
-- Two processes may open a new database at the same time with different maps: the first one decides.
UPDATE turntree.shard SET slots = %(slots)s WHERE slots IS NULL;

-- name: replace_slots
UPDATE turntree.shard SET slots = %(slots)s;

-- name: find_workspace
SELECT id FROM turntree.workspaces WHERE name = %(name)s;

-- name: create_workspace
INSERT INTO turntree.workspaces (id, name) VALUES (%(id)s, %(name)s) ON CONFLICT (name) DO NOTHING;

-- name: set_role
-- Returns the backend's pid, so that a transaction pooler is detected: behind one these settings would apply to
-- another client.
SELECT pg_backend_pid(), set_config('role', %(role)s, false), set_config('turntree.workspace', %(workspace)s, false),
  set_config('turntree.viewer', %(sight)s, false);

-- name: set_scope
-- For one transaction of the owner.
SELECT set_config('turntree.workspace', %(workspace)s, true), set_config('turntree.viewer', %(sight)s, true);

-- name: disable_seqscan
-- A plan made while a table is small reads all of it, and a connection keeps its plans while the
-- table grows: until statistics are next gathered every append would cost more than the last.
SELECT set_config('enable_seqscan', 'off', false);

-- name: async_commit_on
SELECT set_config('synchronous_commit', 'off', false);

-- name: async_commit_off
-- Restores the setting of the server, the role or the connection string.
RESET synchronous_commit;

-- name: server_version
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_backend_pid();

-- name: find_database
SELECT 1 FROM pg_database WHERE datname = %(name)s;

-- name: record_denial
SELECT turntree.record_permission(%(workspace)b, %(session)b::text::uuid, 'permission.denied', %(by)b::text, %(right)b::text,
  %(reason)b::text);

-- name: list_workspaces
SELECT id::text, name FROM turntree.workspaces ORDER BY id;

-- name: delete_demo
-- Deletes the workspace of the sample data, as the owner of the tables. Events of no other workspace can be deleted: the
-- triggers that refuse it are switched off for this transaction only, and no role that a process acts as may do that.
-- Tables refer to each other, so those that are still referred to are tried again.
DO $$
DECLARE
  v_workspace constant uuid := current_setting('turntree.workspace')::uuid;
  v_left text[] := ARRAY(SELECT format('%I.%I', 'turntree', c.relname) FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped
    WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname);
  v_all constant text[] := v_left;
  v_again text[];
  v_table text;
BEGIN
  IF (SELECT w.name FROM turntree.workspaces w WHERE w.id = v_workspace) IS DISTINCT FROM 'turntree-demo' THEN
    RAISE EXCEPTION 'facts are permanent: only the sample data can be deleted' USING ERRCODE = 'TT003';
  END IF;
  PERFORM set_config('lock_timeout', '5s', true);
  EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', array_to_string(v_all, ', '));
  FOREACH v_table IN ARRAY v_all LOOP
    EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', v_table);
  END LOOP;
  WHILE cardinality(v_left) > 0 LOOP
    v_again := '{}';
    FOREACH v_table IN ARRAY v_left LOOP
      BEGIN
        EXECUTE format('DELETE FROM %s WHERE workspace_id = $1', v_table) USING v_workspace;
      EXCEPTION WHEN foreign_key_violation THEN
        v_again := v_again || v_table;
      END;
    END LOOP;
    IF v_again = v_left THEN
      RAISE EXCEPTION 'these tables refer to each other in a circle: %', v_left;
    END IF;
    v_left := v_again;
  END LOOP;
  FOREACH v_table IN ARRAY v_all LOOP
    EXECUTE format('ALTER TABLE %s ENABLE TRIGGER USER', v_table);
  END LOOP;
  DELETE FROM turntree.workspaces WHERE id = v_workspace;
END $$;

-- name: set_local_role
-- For one transaction, on a borrowed connection.
SELECT set_config('role', %(role)s, true), set_config('turntree.workspace', %(workspace)s, true),
  set_config('turntree.viewer', %(sight)s, true), set_config('enable_seqscan', 'off', true);

-- name: reset_role
SELECT set_config('role', 'none', true);
