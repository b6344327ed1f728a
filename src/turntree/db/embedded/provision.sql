-- Provisioning of an embedded server. Runs as its superuser, once for each home directory.

-- name: tell_login
-- DDL takes no parameters, so they are passed through settings. The server never learns the password, only its SCRAM
-- verifier.
SELECT set_config('turntree.login', %(login)s, false), set_config('turntree.verifier', %(verifier)s, false);

-- name: make_login
DO $$
DECLARE
  v_login constant text := current_setting('turntree.login');
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_login) THEN
    EXECUTE format('CREATE ROLE %I', v_login);
  END IF;
  EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', v_login, current_setting('turntree.verifier'));
END $$;

-- name: make_roles
-- The roles that migrations expect, and their members. The owner may create databases and roles, as tests and later
-- migrations do, but is not a member of any role that reads files or runs programs. The console reads; the engine
-- owns the queue.
DO $$
DECLARE
  v_role text;
BEGIN
  FOREACH v_role IN ARRAY ARRAY['turntree_app', 'turntree_reader', 'turntree_importer', 'turntree_eraser',
      'turntree_searcher'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', v_role);
    END IF;
    EXECUTE format('GRANT %I TO turntree', v_role);
  END LOOP;
  ALTER ROLE turntree_importer BYPASSRLS;
  ALTER ROLE turntree NOSUPERUSER NOBYPASSRLS NOREPLICATION CREATEDB CREATEROLE;
  ALTER ROLE turntree_console NOSUPERUSER NOBYPASSRLS NOREPLICATION NOCREATEDB NOCREATEROLE INHERIT;
  ALTER ROLE turntree_engine NOSUPERUSER NOBYPASSRLS NOREPLICATION NOCREATEDB NOCREATEROLE;
  GRANT turntree_reader TO turntree_console;
  -- Its name is also the name of a schema, which would precede public for unqualified names.
  ALTER ROLE turntree SET search_path = public;
END $$;

-- name: make_vectors
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
    CREATE EXTENSION IF NOT EXISTS vector;
  END IF;
END $$;

-- name: make_database
CREATE DATABASE turntree OWNER turntree;

-- name: list_databases
SELECT datname::text FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1;

-- name: holds_ledger
SELECT to_regnamespace('turntree') IS NOT NULL OR to_regclass('public.turntree_migrations') IS NOT NULL;

-- name: hand_over
-- Gives what the superuser created to the owner, except for the SECURITY DEFINER functions of the searcher. The queue
-- belongs to the engine, and exists before another login could create a schema of that name; the owner may read it.
DO $$
DECLARE
  v_old record;
BEGIN
  EXECUTE format('ALTER DATABASE %I OWNER TO turntree', current_database());
  FOR v_old IN
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
        c.oid::regclass::text AS name, n.nspname AS schema
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE (n.nspname IN ('turntree', 'ledger', 'dbos') OR n.nspname = 'public' AND c.relname = 'turntree_migrations')
        AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
        -- A sequence of a column changes its owner with its table, and only with it.
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S'
          AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))
    UNION ALL SELECT 'SCHEMA', quote_ident(n.nspname), n.nspname FROM pg_namespace n WHERE n.nspname IN ('turntree', 'ledger', 'dbos')
    UNION ALL SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE' WHEN 'a' THEN 'AGGREGATE' ELSE 'FUNCTION' END, p.oid::regprocedure::text,
        n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
      WHERE n.nspname IN ('turntree', 'ledger', 'dbos') AND r.rolname <> 'turntree_searcher'
    UNION ALL SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, t.oid::regtype::text, n.nspname
      FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
      WHERE n.nspname IN ('turntree', 'ledger', 'dbos') AND t.typelem = 0
        AND (t.typtype IN ('d', 'e') OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
  LOOP
    EXECUTE format('ALTER %s %s OWNER TO %I', v_old.kind, v_old.name,
      CASE v_old.schema WHEN 'dbos' THEN 'turntree_engine' ELSE 'turntree' END);
  END LOOP;
  CREATE SCHEMA IF NOT EXISTS dbos AUTHORIZATION turntree_engine;
  GRANT USAGE ON SCHEMA dbos TO turntree;
  GRANT SELECT ON ALL TABLES IN SCHEMA dbos TO turntree;
  ALTER DEFAULT PRIVILEGES FOR ROLE turntree_engine IN SCHEMA dbos GRANT SELECT ON TABLES TO turntree;
END $$;
