-- The SQL console.

-- name: set_console_role
-- Limits the time of a query, and puts the views on the search path. Sets the workspace and the viewer too, because
-- all policies read them; changing them later shows nothing more.
SELECT set_config('turntree.workspace', %(workspace)s, false), set_config('turntree.viewer', %(viewer)s, false),
  set_config('statement_timeout', %(timeout)s, false), set_config('idle_in_transaction_session_timeout', '5min', false),
  set_config('search_path', 'ledger, turntree', false);

-- name: describe_login
-- A login's name, and what it could do besides reading: by itself, by a role it could act as, or by what it owns.
SELECT r.rolname::text, pg_has_role(r.oid, to_regrole('turntree_reader'), 'USAGE'),
    array_remove(ARRAY[CASE WHEN r.rolsuper THEN 'a superuser' END, CASE WHEN r.rolbypassrls THEN 'above every policy' END,
      CASE WHEN r.rolcreaterole THEN 'a maker of roles' END, CASE WHEN r.rolcreatedb THEN 'a maker of databases' END,
      CASE WHEN r.rolreplication THEN 'a replica' END], NULL),
    ARRAY(SELECT m.rolname::text FROM pg_roles m WHERE NOT r.rolsuper AND m.oid <> r.oid AND m.rolname <> 'turntree_reader'
      AND pg_has_role(r.oid, m.oid, 'MEMBER') ORDER BY 1),
    EXISTS (SELECT FROM pg_shdepend d WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid AND d.deptype = 'o')
  FROM pg_roles r WHERE r.rolname = session_user;

-- name: name_transaction
SELECT pg_backend_pid(), turntree.console_transaction();

-- name: bind_console
SELECT turntree.bind_console(%(pid)b::int, %(transaction)b::text, %(workspace)b::uuid, %(viewer)b::text);

-- name: is_bound
SELECT coalesce(turntree.console_workspace() = %(workspace)b::uuid AND turntree.console_viewer() = %(viewer)b::text, false)
  AND NOT turntree.speaks_for_itself();

-- name: list_views
SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relnamespace = 'ledger'::regnamespace AND c.relkind = 'v' AND a.attnum > 0 AND NOT a.attisdropped
  GROUP BY c.relname ORDER BY c.relname;
