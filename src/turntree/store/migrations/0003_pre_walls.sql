-- The walls: facts refuse change, and no row of another workspace can be seen or written.

CREATE FUNCTION turntree.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'facts are permanent: % refuses %', TG_TABLE_NAME, lower(TG_OP)
    USING ERRCODE = 'TT003', HINT = 'Append a new fact instead; a session can be moved.';
END $$;

-- The one change a body may undergo: the eraser replaces lines by stubs that hold their digests.
CREATE FUNCTION turntree.check_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_old text[] := string_to_array(OLD.body, E'\n');
  v_new text[] := string_to_array(NEW.body, E'\n');
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: turn_bodies refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF (NEW.workspace_id, NEW.turn_id, NEW.header) IS DISTINCT FROM (OLD.workspace_id, OLD.turn_id, OLD.header)
      OR cardinality(v_old) <> cardinality(v_new) THEN
    RAISE EXCEPTION 'an erasure replaces messages and nothing else' USING ERRCODE = 'TT003';
  END IF;
  FOR i IN 1 .. cardinality(v_old) LOOP
    IF v_new[i] <> v_old[i] AND v_new[i] <>
        '{"erased":"sha256:' || encode(sha256(convert_to(v_old[i], 'UTF8')), 'hex') || '"}' THEN
      RAISE EXCEPTION 'message % was not replaced by its stub', i - 1 USING ERRCODE = 'TT003';
    END IF;
  END LOOP;
  RETURN NEW;
END $$;

-- An object goes only with the message that held it.
CREATE FUNCTION turntree.check_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: objects refuses delete' USING ERRCODE = 'TT003';
  END IF;
  RETURN OLD;
END $$;

-- COPY is refused under row-level security, so the importer bypasses it and this trigger
-- checks what the policy would have checked. The question who is asking stands in here and not in
-- the trigger's WHEN: a WHEN is parsed anew by every statement, which cost a tenth of an append.
CREATE FUNCTION turntree.check_importer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  v_workspace uuid;
BEGIN
  IF current_user <> 'turntree_importer' THEN
    RETURN NEW;
  END IF;
  v_workspace := nullif(current_setting('turntree.workspace', true), '')::uuid;
  IF NEW.workspace_id IS DISTINCT FROM v_workspace THEN
    RAISE EXCEPTION 'a row of workspace % while working in %', NEW.workspace_id, coalesce(v_workspace::text, 'none')
      USING ERRCODE = '42501';
  END IF;
  RETURN NEW;
END $$;

DO $$
DECLARE
  v_table text;
  v_facts constant text[] := ARRAY['segments', 'turns', 'turn_bodies', 'tool_calls', 'model_calls',
    'compactions', 'objects', 'session_history', 'spawns', 'events', 'inbox'];
  v_imported constant text[] := ARRAY['segments', 'turns', 'turn_bodies', 'tool_calls', 'model_calls',
    'compactions', 'objects', 'events'];
  v_moving constant text[] := ARRAY['sessions', 'session_names', 'session_reach', 'tags', 'runs',
    'run_payloads'];
BEGIN
  FOREACH v_table IN ARRAY v_facts LOOP
    EXECUTE format('CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.%I()', v_table,
      CASE WHEN v_table = 'turn_bodies' THEN 'check_erasure' ELSE 'refuse_change' END);
    EXECUTE format('CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.%I()', v_table,
      CASE WHEN v_table = 'objects' THEN 'check_removal' ELSE 'refuse_change' END);
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
    EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_importer', v_table);
  END LOOP;
  -- An import moves no session, so the importer may write only what it copies.
  FOREACH v_table IN ARRAY v_imported LOOP
    EXECUTE format('GRANT INSERT ON turntree.%I TO turntree_importer', v_table);
    EXECUTE format('CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.check_importer()', v_table);
  END LOOP;
END $$;

-- What may go: names pass from one session to another, tags are taken off, payloads move.
GRANT DELETE ON turntree.session_names, turntree.tags, turntree.run_payloads TO turntree_app;
GRANT SELECT ON turntree.turn_bodies, turntree.events TO turntree_eraser;
GRANT INSERT ON turntree.events TO turntree_eraser;
GRANT UPDATE (body) ON turntree.turn_bodies TO turntree_eraser;
GRANT SELECT, DELETE ON turntree.objects TO turntree_eraser;
GRANT SELECT ON turntree.shard, turntree.workspaces TO turntree_app, turntree_reader, turntree_importer;
GRANT INSERT ON turntree.workspaces TO turntree_app;
