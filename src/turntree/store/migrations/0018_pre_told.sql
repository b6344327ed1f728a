-- Who was told nothing sees nothing. Until now a connection that named a workspace and no principal saw what is open in
-- there; a connection that forgot to say who looks is one that nobody may look through.

-- The walls around a table, as 0003_pre_walls.sql had them, and the principal besides. It stands inside of what the
-- workspace is compared to, which an index evaluates once: a condition of its own would be another step of every plan.
CREATE OR REPLACE FUNCTION turntree.enable_row_security(p_table text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', p_table);
  EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format($p$CREATE POLICY workspace ON turntree.%I
    USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
      THEN nullif(current_setting('turntree.workspace', true), '')::uuid END)$p$, p_table);
  EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_app, turntree_reader, turntree_importer', p_table);
END $$;

-- Every table that has walls already. All are locked or none, as in 0014_pre_imported.sql.
DO $$
DECLARE
  v_before constant text := current_setting('lock_timeout');
  v_tables text;
  v_table text;
BEGIN
  SELECT string_agg(format('turntree.%I', p.tablename), ', ' ORDER BY p.tablename) INTO v_tables
    FROM pg_policies p WHERE p.schemaname = 'turntree' AND p.policyname = 'workspace';
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('LOCK TABLE %s, turntree.workspaces IN ACCESS EXCLUSIVE MODE', v_tables);
      EXIT;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      PERFORM pg_sleep(0.1);
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
  FOR v_table IN SELECT p.tablename FROM pg_policies p WHERE p.schemaname = 'turntree' AND p.policyname = 'workspace' LOOP
    EXECUTE format($p$ALTER POLICY workspace ON turntree.%I
      USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
        THEN nullif(current_setting('turntree.workspace', true), '')::uuid END)$p$, v_table);
  END LOOP;
END $$;

-- The table of meanings may be made long after this file has run: it gets the same wall then.
ALTER FUNCTION turntree.create_embeddings_table() RENAME TO widen_meanings;
CREATE FUNCTION turntree.create_embeddings_table() RETURNS boolean LANGUAGE plpgsql AS $f$
BEGIN
  IF NOT turntree.widen_meanings() THEN
    RETURN false;
  END IF;
  ALTER POLICY workspace ON turntree.search_embeddings
    USING (workspace_id = CASE WHEN current_setting('turntree.viewer', true) <> ''
      THEN nullif(current_setting('turntree.workspace', true), '')::uuid END);
  RETURN true;
END $f$;

-- Which other workspaces there are is told to the system alone. Whoever owns the schema makes them.
ALTER TABLE turntree.workspaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY told ON turntree.workspaces FOR SELECT TO turntree_app, turntree_reader, turntree_importer
  USING (current_setting('turntree.viewer', true) LIKE 'system:%' OR id = CASE WHEN current_setting('turntree.viewer', true) <> ''
    THEN nullif(current_setting('turntree.workspace', true), '')::uuid END);
REVOKE INSERT ON turntree.workspaces FROM turntree_app;
