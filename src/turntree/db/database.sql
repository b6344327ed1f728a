-- Connections, roles, viewers, workspaces and advisory locks.

-- name: lock_key
SELECT pg_try_advisory_lock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));

-- name: unlock_key
SELECT pg_advisory_unlock(hashtextextended('turntree:key:' || %(workspace)b::text || ':' || %(key)b::text, 0));

-- name: find_workspace
SELECT id FROM turntree.workspaces WHERE name = %(name)s;

-- name: create_workspace
INSERT INTO turntree.workspaces (id, name) VALUES (%(id)s, %(name)s) ON CONFLICT (name) DO NOTHING;

-- name: set_role
-- Returns the backend's pid, so that a transaction pooler is detected: behind one these settings would apply to
-- another client.
SELECT pg_backend_pid(), set_config('role', %(role)s, false), set_config('turntree.workspace', %(workspace)s, false),
  set_config('turntree.viewer', %(sight)s, false);

-- name: set_viewer
SELECT set_config('turntree.viewer', %(sight)s, false);

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

-- name: set_local_role
-- For one transaction, on a borrowed connection.
SELECT set_config('role', %(role)s, true), set_config('turntree.workspace', %(workspace)s, true),
  set_config('turntree.viewer', %(sight)s, true), set_config('enable_seqscan', 'off', true);

-- name: reset_role
SELECT set_config('role', 'none', true);
