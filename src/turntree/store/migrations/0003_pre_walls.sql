-- The walls: facts refuse change, and no row of another workspace can be seen or written.

CREATE FUNCTION turntree.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'facts are permanent: % refuses %', TG_TABLE_NAME, lower(TG_OP)
    USING ERRCODE = 'TT003', HINT = 'Append a new fact instead; a session can be moved.';
END $$;

-- COPY is refused under row-level security, so the importer bypasses it and this trigger
-- checks what the policy would have checked.
CREATE FUNCTION turntree.refuse_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a row of workspace % while working in %', NEW.workspace_id,
    coalesce(nullif(current_setting('turntree.workspace', true), ''), 'none')
    USING ERRCODE = '42501';
END $$;

DO $$
DECLARE
  v_table text;
  v_facts constant text[] := ARRAY['segments', 'turns', 'turn_bodies', 'tool_calls', 'model_calls',
    'compactions', 'objects', 'session_history', 'spawns', 'events', 'inbox'];
  v_moving constant text[] := ARRAY['sessions', 'session_names', 'session_reach', 'tags', 'runs',
    'run_payloads'];
BEGIN
  FOREACH v_table IN ARRAY v_facts LOOP
    EXECUTE format('CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.%I FOR EACH ROW %s
      EXECUTE FUNCTION turntree.refuse_change()', v_table,
      CASE WHEN v_table = 'turn_bodies' THEN $w$WHEN (current_user <> 'turntree_eraser')$w$ ELSE '' END);
    EXECUTE format('CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.refuse_change()', v_table);
    EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON turntree.%I
      EXECUTE FUNCTION turntree.refuse_change()', v_table);
    EXECUTE format('GRANT SELECT, INSERT ON turntree.%I TO turntree_app', v_table);
  END LOOP;
  FOREACH v_table IN ARRAY v_moving LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON turntree.%I TO turntree_app', v_table);
  END LOOP;
  FOREACH v_table IN ARRAY v_facts || v_moving LOOP
    EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', v_table);
    EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', v_table);
    EXECUTE format($p$CREATE POLICY workspace ON turntree.%I
      USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid)$p$, v_table);
    EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_reader', v_table);
    EXECUTE format('GRANT SELECT, INSERT ON turntree.%I TO turntree_importer', v_table);
    EXECUTE format($t$CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.%I FOR EACH ROW
      WHEN (current_user = 'turntree_importer' AND NEW.workspace_id IS DISTINCT FROM
        nullif(current_setting('turntree.workspace', true), '')::uuid)
      EXECUTE FUNCTION turntree.refuse_workspace()$t$, v_table);
  END LOOP;
END $$;

-- What may go: names pass from one session to another, tags are taken off, payloads move.
GRANT DELETE ON turntree.session_names, turntree.tags, turntree.run_payloads TO turntree_app;
GRANT UPDATE ON turntree.sessions, turntree.session_reach TO turntree_importer;
GRANT SELECT ON turntree.turn_bodies, turntree.events TO turntree_eraser;
GRANT INSERT ON turntree.events TO turntree_eraser;
GRANT UPDATE (body) ON turntree.turn_bodies TO turntree_eraser;
GRANT SELECT ON turntree.shard, turntree.workspaces TO turntree_app, turntree_reader, turntree_importer;
GRANT INSERT ON turntree.workspaces TO turntree_app;
