-- Which workspace a connection works in, and for which viewer. A login that can act as the application sets both
-- itself. One that can only read cannot be trusted with them, because its query may change any setting while it runs:
-- the application binds the transaction first, and the binding wins over the settings.

-- Identifies the current transaction while the server runs. pg_locks shows it to every role, even inside a SECURITY
-- DEFINER function, where pg_stat_activity would hide it.
CREATE OR REPLACE FUNCTION turntree.console_transaction() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT pg_postmaster_start_time() || ' ' || l.virtualtransaction FROM pg_catalog.pg_locks l
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' LIMIT 1
$$;

CREATE OR REPLACE FUNCTION turntree.console_workspace() RETURNS uuid LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$
  SELECT b.workspace FROM turntree.console_bindings b
    WHERE b.pid = pg_backend_pid() AND b.transaction = turntree.console_transaction()
$$;

CREATE OR REPLACE FUNCTION turntree.console_viewer() RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$
  SELECT b.viewer FROM turntree.console_bindings b
    WHERE b.pid = pg_backend_pid() AND b.transaction = turntree.console_transaction()
$$;

-- Binds a transaction of the console to a workspace and a viewer, and deletes the rows of transactions that have
-- ended.
CREATE OR REPLACE FUNCTION turntree.bind_console(p_pid int, p_transaction text, p_workspace uuid, p_viewer text)
RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, turntree, pg_temp AS $$
  DELETE FROM turntree.console_bindings b WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid = b.pid
    AND b.transaction = pg_postmaster_start_time() || ' ' || l.virtualtransaction);
  INSERT INTO turntree.console_bindings (pid, transaction, workspace, viewer)
    VALUES (p_pid, p_transaction, p_workspace, p_viewer)
    ON CONFLICT (pid) DO UPDATE SET transaction = excluded.transaction, workspace = excluded.workspace, viewer = excluded.viewer;
$$;

-- Whether a login can act as the application. Such a login could set anything anyway.
CREATE OR REPLACE FUNCTION turntree.speaks_for_itself() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT pg_has_role(session_user, 'turntree_app', 'MEMBER')
$$;

CREATE OR REPLACE FUNCTION turntree.current_workspace() RETURNS uuid LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN pg_has_role(session_user, 'turntree_app', 'MEMBER')
    THEN nullif(current_setting('turntree.workspace', true), '')::uuid
    ELSE coalesce(turntree.console_workspace(), nullif(current_setting('turntree.workspace', true), '')::uuid) END
$$;

CREATE OR REPLACE FUNCTION turntree.viewer() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN pg_has_role(session_user, 'turntree_app', 'MEMBER')
    THEN coalesce(current_setting('turntree.viewer', true), '')
    ELSE coalesce(turntree.console_viewer(), current_setting('turntree.viewer', true), '') END
$$;
