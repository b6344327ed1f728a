-- The walls: facts refuse change, and no row of another workspace can be seen or written.

CREATE FUNCTION turntree.forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE FUNCTION turntree.check_object_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: objects refuses delete' USING ERRCODE = 'TT003';
  END IF;
  RETURN OLD;
END $$;

-- COPY is refused under row-level security, so the importer bypasses it and this trigger
-- checks what the policy would have checked. The question who is asking stands in here and not in
-- the trigger's WHEN: a WHEN is parsed anew by every statement, which cost a tenth of an append.
CREATE FUNCTION turntree.check_import_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Walls around a table: everybody sees and writes one workspace only, and may read it there.
CREATE FUNCTION turntree.enable_row_security(p_table text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE turntree.%I ENABLE ROW LEVEL SECURITY', p_table);
  EXECUTE format('ALTER TABLE turntree.%I FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format($p$CREATE POLICY workspace ON turntree.%I
    USING (workspace_id = nullif(current_setting('turntree.workspace', true), '')::uuid)$p$, p_table);
  EXECUTE format('GRANT SELECT ON turntree.%I TO turntree_app, turntree_reader, turntree_importer', p_table);
END $$;

-- The same around facts, which refuse change besides. p_imported: an import copies into it.
CREATE FUNCTION turntree.make_append_only(
  p_table text, p_imported boolean, p_update text DEFAULT 'forbid_change', p_delete text DEFAULT 'forbid_change')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.enable_row_security(p_table);
  EXECUTE format('CREATE TRIGGER refuse_update BEFORE UPDATE ON turntree.%I FOR EACH ROW
    EXECUTE FUNCTION turntree.%I()', p_table, p_update);
  EXECUTE format('CREATE TRIGGER refuse_delete BEFORE DELETE ON turntree.%I FOR EACH ROW
    EXECUTE FUNCTION turntree.%I()', p_table, p_delete);
  EXECUTE format('CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON turntree.%I
    EXECUTE FUNCTION turntree.forbid_change()', p_table);
  EXECUTE format('GRANT INSERT ON turntree.%I TO turntree_app', p_table);
  IF p_imported THEN
    EXECUTE format('GRANT INSERT ON turntree.%I TO turntree_importer', p_table);
    EXECUTE format('CREATE TRIGGER importer_workspace BEFORE INSERT ON turntree.%I FOR EACH ROW
      EXECUTE FUNCTION turntree.check_import_workspace()', p_table);
  END IF;
END $$;

-- An import moves no session, so the importer may write only what it copies.
SELECT turntree.make_append_only(t, true) FROM unnest(ARRAY['segments', 'turns', 'tool_calls', 'model_calls', 'compactions',
  'events']) t;
SELECT turntree.make_append_only('turn_bodies', true, p_update => 'check_erasure');
SELECT turntree.make_append_only('objects', true, p_delete => 'check_object_deletion');
SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['session_history', 'spawns', 'inbox']) t;
SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['sessions', 'session_names', 'session_reach', 'tags', 'runs',
  'run_payloads']) t;
GRANT INSERT, UPDATE ON turntree.sessions, turntree.session_names, turntree.session_reach, turntree.tags, turntree.runs,
  turntree.run_payloads TO turntree_app;

-- What may go: names pass from one session to another, tags are taken off, payloads move.
GRANT DELETE ON turntree.session_names, turntree.tags, turntree.run_payloads TO turntree_app;
GRANT SELECT ON turntree.turn_bodies, turntree.events TO turntree_eraser;
GRANT INSERT ON turntree.events TO turntree_eraser;
GRANT UPDATE (body) ON turntree.turn_bodies TO turntree_eraser;
GRANT SELECT, DELETE ON turntree.objects TO turntree_eraser;
GRANT SELECT ON turntree.shard, turntree.workspaces TO turntree_app, turntree_reader, turntree_importer;
GRANT INSERT ON turntree.workspaces TO turntree_app;
