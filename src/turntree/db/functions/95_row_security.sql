-- The restrictive policies. There is one on each table that holds anything of a session, a turn or a program, for
-- processes (turntree_app) and for SQL queries (turntree_reader). Queries see rows that belong to no turn by
-- themselves only if nothing is hidden from their viewer. For processes there is no policy on the tables that the
-- visibility functions read (programs, program_grants, runs, segments, session_reach): if a private session's program
-- were hidden from those functions, the session would look like one without a program, and be visible. Nor is there
-- one on tables with ids of other tools (transcripts, turn_sources). The eraser's permission was checked before.
-- (SELECT …) makes a statement evaluate a function once instead of for each row.
--
-- A policy whose text has changed is created again: its comment holds the digest of its text. The tables are locked
-- first, all or none: a writer that holds one table and wants another would deadlock with an upgrade that locks them
-- in the other order. No file comes after this one: it would replace views while these tables are locked, and a
-- reader of a view locks the view before its tables.
DO $$
DECLARE
  v_before constant text := current_setting('lock_timeout');
  v_tables text;
  p record;
BEGIN
  CREATE TEMP TABLE wanted ON COMMIT DROP AS
    SELECT 'visible' AS policy, x.relation, 'turntree_app, turntree_reader, turntree_searcher' AS roles,
        format('(SELECT turntree.can_see_all_%s()) OR %s', x.every, x.seen) AS condition
      FROM (VALUES
        ('sessions', 'sessions', 'NOT turntree.is_program_hidden(workspace_id, id, turntree.viewer())'),
        ('session_names', 'sessions', 'NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer())'),
        ('session_history', 'sessions', 'NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer())'),
        ('spawns', 'sessions', 'NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer())
          AND NOT turntree.is_program_hidden(workspace_id, parent_session_id, turntree.viewer())'),
        ('turns', 'sessions', 'NOT turntree.is_turn_hidden(workspace_id, id, segment_id, depth, turntree.viewer())'),
        ('message_files', 'sessions', 'turntree.reader_can_see_turn(workspace_id, turn_id)'),
        ('turn_snapshots', 'sessions', 'turntree.reader_can_see_turn(workspace_id, turn_id)'),
        ('resource_attachments', 'sessions', 'NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer())'),
        ('tags', 'programs', 'turntree.reader_can_see(workspace_id, node_id)'),
        ('events', 'programs', 'turntree.reader_can_see(workspace_id, stream_id)')) x (relation, every, seen)
    UNION ALL
    -- For processes only: searches and queries are filtered by the tables themselves or by another policy.
    SELECT 'visible_to_app', x.relation, 'turntree_app',
        format('(SELECT turntree.can_see_all_%s()) OR turntree.reader_can_see%s(workspace_id, %I)', x.every,
          CASE x.stream WHEN 'turn_id' THEN '_turn' END, x.stream)
      FROM (VALUES
        ('turn_bodies', 'sessions', 'turn_id'), ('tool_calls', 'sessions', 'turn_id'), ('model_calls', 'sessions', 'turn_id'),
        ('compactions', 'sessions', 'turn_id'), ('handoffs', 'sessions', 'turn_id'),
        ('search_documents', 'sessions', 'turn_id'), ('embeddings', 'programs', 'node_id'),
        ('event_links', 'programs', 'stream_id'), ('program_versions', 'programs', 'program_id'),
        ('program_refs', 'programs', 'program_id'), ('run_payloads', 'sessions', 'run_id'),
        ('queued_messages', 'sessions', 'session_id'), ('session_queues', 'sessions', 'session_id'), ('idempotency_keys', 'sessions', 'session_id'),
        ('session_plans', 'sessions', 'session_id'), ('object_holders', 'sessions', 'turn_id'),
        ('posts', 'programs', 'conversation_id'), ('post_decisions', 'programs', 'conversation_id')) x (relation, every, stream)
    UNION ALL
    SELECT 'visible_to_app', 'objects', 'turntree_app',
      '(SELECT turntree.can_see_all_programs()) OR turntree.reader_can_see_object(workspace_id, digest)'
    UNION ALL
    -- These hold titles of sessions and verbatim records. An import itself acts as the system: it compares with what
    -- all principals have imported. The importer sees the rows, and so do viewers who can see all sessions made from
    -- them.
    SELECT 'visible_to_app', 'import_cursors', 'turntree_app', '(SELECT turntree.can_see_all_programs()) OR by = (SELECT turntree.viewer())
      OR heads <> ''{}'' AND NOT EXISTS (SELECT FROM jsonb_object_keys(heads) h (id) WHERE NOT EXISTS (SELECT FROM turntree.sessions s
        WHERE s.workspace_id = import_cursors.workspace_id AND s.origin = import_cursors.origin AND s.origin_session_id = h.id
          AND s.imported_by IN (import_cursors.by, ''system:import'')))'
    UNION ALL
    SELECT 'visible_to_app', 'raw_blocks', 'turntree_app', '(SELECT turntree.can_see_all_programs())
      OR cardinality(turn_ids) > 0 AND NOT EXISTS (SELECT FROM unnest(turn_ids || handoff_turn_id) t (id)
        WHERE t.id IS NOT NULL AND NOT turntree.reader_can_see(raw_blocks.workspace_id, t.id))
      OR EXISTS (SELECT FROM turntree.import_cursors i WHERE i.workspace_id = raw_blocks.workspace_id
        AND i.by = (SELECT turntree.viewer()) AND raw_blocks.digest = ANY (i.block_digests))'
    UNION ALL
    SELECT 'visible_to_app', 'object_writers', 'turntree_app', '(SELECT turntree.can_see_all_programs()) OR by = (SELECT turntree.viewer())'
    UNION ALL
    -- Who was invited is for admins, and a key for its holder too; people who query with SQL can read neither.
    SELECT 'visible_to_app', 'invitations', 'turntree_app', '(SELECT turntree.is_admin())'
    UNION ALL
    SELECT 'visible_to_app', 'passwords', 'turntree_app', '(SELECT turntree.viewer()) LIKE ''system:%'''
    UNION ALL
    SELECT 'visible_to_app', 'api_keys', 'turntree_app', '(SELECT turntree.is_admin()) OR holder = (SELECT turntree.viewer())'
    UNION ALL
    SELECT 'visible_to_app', 'login_sessions', 'turntree_app', '(SELECT turntree.is_admin()) OR holder = (SELECT turntree.viewer())'
    UNION ALL
    SELECT 'visible_to_app', 'identities', 'turntree_app', '(SELECT turntree.is_admin()) OR principal = (SELECT turntree.viewer())'
    UNION ALL
    SELECT 'visible_to_app', x, 'turntree_app', '(SELECT turntree.viewer()) LIKE ''system:%'' OR person = (SELECT turntree.viewer())'
      FROM unnest(ARRAY['notices', 'notice_deliveries', 'delivered_notices']) x
    UNION ALL
    -- Those who may read the session, and those who are asked. What another coding agent asks is in no session of ours.
    SELECT 'visible_to_app', 'approvals', 'turntree_app', '(SELECT turntree.viewer()) LIKE ''system:%'' OR (SELECT turntree.viewer()) = requested_by
      OR (SELECT turntree.viewer()) = ANY (answerers || escalated_to) OR kind <> ''foreign_call'' AND ((SELECT turntree.can_see_all_sessions())
        OR NOT turntree.is_program_hidden(workspace_id, session_id, turntree.viewer()))'
    UNION ALL
    -- Their events, outside of a run's stream, say why they were asked and refused.
    SELECT 'approvals_visible', 'events', 'turntree_app', 'kind NOT IN (''approval.requested'', ''approval.decided'')
      OR turntree.can_see_approval_event(workspace_id, stream_id)'
    UNION ALL
    -- A secret is read by what signs with it; the rest by its owner, and by an admin, who can stop it.
    SELECT 'visible_to_app', 'webhook_secrets', 'turntree_app', '(SELECT turntree.viewer()) LIKE ''system:%'''
    UNION ALL
    SELECT 'visible_to_app', x, 'turntree_app', '(SELECT turntree.is_admin()) OR owner = (SELECT turntree.viewer())'
      FROM unnest(ARRAY['webhooks', 'triggers', 'trigger_firings']) x
    UNION ALL
    SELECT 'visible_to_app', 'login_states', 'turntree_app', '(SELECT turntree.viewer()) LIKE ''system:%'''
    UNION ALL
    SELECT 'visible_to_reader', 'segments', 'turntree_reader', '(SELECT turntree.reader_can_see_all())
      OR turntree.reader_can_see_segment(workspace_id, id, fork_depth)'
    UNION ALL
    SELECT 'visible_to_reader', x.relation, 'turntree_reader', '(SELECT turntree.reader_can_see_all())'
        || coalesce(' OR ' || (SELECT string_agg(format('turntree.reader_can_see%s(workspace_id, %I)',
            CASE WHEN c = 'turn_id' OR x.relation = 'turns' THEN '_turn' END, c), ' AND ')
          FROM unnest(string_to_array(x.streams, ' ')) c), '')
      FROM (VALUES
        ('sessions', 'id'), ('session_names', 'session_id'), ('session_history', 'session_id'), ('session_reach', 'session_id'),
        ('spawns', 'session_id parent_session_id'), ('resource_attachments', 'session_id'), ('queued_messages', 'session_id'),
        ('session_queues', 'session_id'), ('runs', 'id'), ('run_payloads', 'run_id'), ('turns', 'id'), ('turn_bodies', 'turn_id'),
        ('tool_calls', 'turn_id'), ('model_calls', 'turn_id'), ('compactions', 'turn_id'), ('message_files', 'turn_id'),
        ('turn_snapshots', 'turn_id'), ('turn_sources', 'turn_id'), ('handoffs', 'turn_id'), ('search_documents', 'turn_id'),
        ('embeddings', 'node_id'), ('events', 'stream_id'), ('event_links', 'stream_id'), ('tags', 'node_id'),
        ('programs', 'id'), ('program_versions', 'program_id'), ('program_refs', 'program_id'), ('program_grants', 'program_id'),
        ('session_plans', 'session_id'), ('idempotency_keys', 'session_id'), ('object_holders', 'turn_id'), ('object_writers', NULL),
        ('conversations', 'id'), ('participants', 'conversation_id'), ('posts', 'conversation_id'),
        ('post_decisions', 'conversation_id'), ('bound_sessions', 'session_id'),
        ('objects', NULL), ('raw_blocks', NULL), ('import_cursors', NULL),
        ('transcripts', NULL), ('plans', NULL), ('resources', NULL), ('snapshots', NULL), ('handles', NULL),
        ('resource_leases', NULL)) x (relation, streams)
    UNION ALL
    -- A login that can only read stays in the workspace it was bound to, whatever it sets later.
    SELECT 'bound', c.relname, 'turntree_reader',
        format('(SELECT turntree.speaks_for_itself()) OR %I = (SELECT turntree.current_workspace())', a.attname)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
        AND a.attname = CASE c.relname WHEN 'workspaces' THEN 'id' ELSE 'workspace_id' END
      WHERE c.relnamespace = 'turntree'::regnamespace AND c.relkind IN ('r', 'p') AND c.relrowsecurity;
  DELETE FROM wanted w WHERE to_regclass('turntree.' || w.relation) IS NULL OR EXISTS (SELECT FROM pg_policy o
    WHERE o.polrelid = to_regclass('turntree.' || w.relation) AND o.polname = w.policy
      AND obj_description(o.oid, 'pg_policy') = md5(w.roles || w.condition));
  SELECT string_agg(DISTINCT format('turntree.%I', w.relation), ', ') INTO v_tables FROM wanted w;
  WHILE v_tables IS NOT NULL LOOP
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_tables);
      EXIT;
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      PERFORM pg_sleep(0.1);
    END;
  END LOOP;
  PERFORM set_config('lock_timeout', v_before, true);
  FOR p IN SELECT * FROM wanted LOOP
    EXECUTE format('DROP POLICY IF EXISTS %I ON turntree.%I', p.policy, p.relation);
    EXECUTE format('CREATE POLICY %I ON turntree.%I AS RESTRICTIVE FOR SELECT TO %s USING (%s)',
      p.policy, p.relation, p.roles, p.condition);
    EXECUTE format('COMMENT ON POLICY %I ON turntree.%I IS %L', p.policy, p.relation, md5(p.roles || p.condition));
  END LOOP;
  DROP TABLE wanted;
END $$;
