-- Migrations. Run as the owner, before any SET ROLE.

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
-- Only the functions of one release are installed; schema.py says which release may replace another.
DELETE FROM public.turntree_migrations WHERE name LIKE 'functions %';

-- name: list_misowned_functions
-- SECURITY DEFINER functions that do not belong to the searcher: a database that was restored without owners gives
-- them to the login that restored it.
SELECT p.proname::text FROM pg_proc p
  WHERE p.pronamespace = to_regnamespace('turntree') AND p.prosecdef
    AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.proowner AND r.rolname = 'turntree_searcher')
  ORDER BY 1;

-- name: begin_epoch
-- Transaction ids restart in another cluster: positions of the old epoch come first.
UPDATE turntree.shard SET epoch = epoch + 1, system_identifier = c.system_identifier
  FROM pg_control_system() c WHERE shard.system_identifier <> c.system_identifier
  RETURNING epoch;

-- name: set_epoch
-- DDL takes no parameters, so the number is passed through a setting.
DO $$ BEGIN
  EXECUTE format('ALTER TABLE turntree.events ALTER epoch SET DEFAULT %s', (SELECT epoch FROM turntree.shard));
END $$;
