-- What brings a database up to date. Runs as the owner, before any role is taken.

-- name: migration_lock
SELECT pg_advisory_xact_lock(%(lock)s);

-- name: migrations_exist
SELECT to_regclass('public.turntree_migrations') IS NOT NULL;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS public.turntree_migrations (
  name text PRIMARY KEY,
  applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: list_migrations
SELECT name FROM public.turntree_migrations ORDER BY applied_at, name;

-- name: log_migration
INSERT INTO public.turntree_migrations (name) VALUES (%(name)s);

-- name: delete_function_versions
-- The functions in force are those of one release; schema.py says which may take another's place.
DELETE FROM public.turntree_migrations WHERE name LIKE 'functions %';

-- name: list_misowned_functions
-- Functions that lend the rights of somebody else than the searcher: a database that was restored
-- without its owners gives them to whoever restored it.
SELECT p.proname::text FROM pg_proc p
  WHERE p.pronamespace = to_regnamespace('turntree') AND p.prosecdef
    AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.proowner AND r.rolname = 'turntree_searcher')
  ORDER BY 1;

-- name: begin_epoch
-- Transaction numbers start again in another cluster: positions of the old life come before.
UPDATE turntree.shard SET epoch = epoch + 1, system_identifier = c.system_identifier
  FROM pg_control_system() c WHERE shard.system_identifier <> c.system_identifier
  RETURNING epoch;

-- name: set_epoch
-- DDL takes no parameters, so the number travels through a setting.
DO $$ BEGIN
  EXECUTE format('ALTER TABLE turntree.events ALTER epoch SET DEFAULT %s', (SELECT epoch FROM turntree.shard));
END $$;

-- name: find_workspace
SELECT id FROM turntree.workspaces WHERE name = %(name)s;

-- name: create_workspace
INSERT INTO turntree.workspaces (id, name) VALUES (%(id)s, %(name)s) ON CONFLICT (name) DO NOTHING;

-- name: set_role
-- Says which process answers, so that a pooler is noticed: what is told here would be told to it.
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
-- What the server, the role or the address says counts again.
RESET synchronous_commit;

-- name: server_version
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_backend_pid();

-- name: find_database
SELECT 1 FROM pg_database WHERE datname = %(name)s;
