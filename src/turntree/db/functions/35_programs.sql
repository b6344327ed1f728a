-- Programs: each change is checked, applied and recorded in one transaction. The kind's lifecycle decides whether a
-- change of state is legal before these functions are called. They only check that the state is still the one it
-- decided on.

-- Whether a principal has access to a program. The system and the owner have all access. To a conversation and to its
-- sessions, those who take part have it (34_participants.sql).
CREATE OR REPLACE FUNCTION turntree.has_program_access(
  p_ws uuid, p_program uuid, p_owner text, p_visibility text, p_by text, p_right text)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_by LIKE 'system:%' OR p_visibility = 'public' AND (p_right <> 'configure' OR p_by = p_owner) THEN
    RETURN true;
  END IF;
  RETURN coalesce(CASE p_visibility WHEN 'private' THEN turntree.has_shared_access(p_ws, p_program, p_by, p_right) END,
    p_by = p_owner OR turntree.has_grant(p_ws, p_program, p_by, p_right));
END $$;

-- Returns the details of a program as a principal may see them: an agent that works on a private task of another
-- principal does not reveal which.
CREATE OR REPLACE FUNCTION turntree.visible_details(p_ws uuid, p_details jsonb, p_by text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_details ? 'current_task' AND EXISTS (SELECT FROM turntree.programs t
      WHERE t.workspace_id = p_ws AND t.name = p_details ->> 'current_task'
        AND NOT turntree.has_program_access(p_ws, t.id, t.owner, t.visibility, p_by, 'read'))
    THEN p_details || '{"current_task": "(private)", "current_session": "(private)"}' ELSE p_details END::text
$$;

-- Returns the members of a config that name a program which a principal may not see. They are not shown to it.
CREATE OR REPLACE FUNCTION turntree.hidden_members(p_ws uuid, p_program uuid, p_version int, p_by text) RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT r.path FROM turntree.program_refs r
    JOIN turntree.programs t ON t.workspace_id = r.workspace_id AND t.id = r.target_id
    WHERE r.workspace_id = p_ws AND r.program_id = p_program AND r.version = p_version
      AND NOT turntree.has_program_access(p_ws, t.id, t.owner, t.visibility, p_by, 'read') ORDER BY r.path)
$$;

-- Returns the name to show for a program: the label, if it is a session's.
CREATE OR REPLACE FUNCTION turntree.display_name(p_ws uuid, p_program uuid, p_name text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT n.name FROM turntree.session_names n
    WHERE n.workspace_id = p_ws AND n.session_id = p_program AND n.reason IS NULL), p_name)
$$;

-- Reserves the next position in a program's stream. A session's row numbers its own.
CREATE OR REPLACE FUNCTION turntree.next_program_seq(p_ws uuid, p_program uuid, p_kind text)
RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  v_seq int;
BEGIN
  IF p_kind = 'session' THEN
    UPDATE turntree.sessions SET event_seq = event_seq + 1
      WHERE workspace_id = p_ws AND id = p_program RETURNING event_seq - 1 INTO v_seq;
  ELSE
    UPDATE turntree.programs SET event_seq = event_seq + 1
      WHERE workspace_id = p_ws AND id = p_program RETURNING event_seq - 1 INTO v_seq;
  END IF;
  IF v_seq IS NULL THEN
    RAISE EXCEPTION 'there is no % %', p_kind, p_program USING ERRCODE = 'TT002';
  END IF;
  RETURN v_seq;
END $$;

-- Stores a config under its digest, as a version, with the programs it refers to.
CREATE OR REPLACE FUNCTION turntree.add_program_version(
  p_ws uuid, p_program uuid, p_version int, p_digest bytea, p_config bytea, p_members text[], p_targets text[],
  p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.objects (workspace_id, digest, bytes) VALUES (p_ws, p_digest, p_config) ON CONFLICT DO NOTHING;
  INSERT INTO turntree.program_versions (workspace_id, program_id, version, digest, created_at, by)
    VALUES (p_ws, p_program, p_version, p_digest, p_at::timestamptz, p_by);
  INSERT INTO turntree.program_refs (workspace_id, program_id, version, path, target_id)
    SELECT p_ws, p_program, p_version, r.member, r.target::uuid FROM unnest(p_members, p_targets) r (member, target);
END $$;

-- Creates a program with its first version and its first event.
CREATE OR REPLACE FUNCTION turntree.create_program(
  p_ws uuid, p_program uuid, p_kind text, p_name text, p_owner text, p_state text, p_visibility text, p_details text,
  p_digest bytea, p_config bytea, p_members text[], p_targets text[], p_event text, p_data text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_begun_by text;
  v_label text;
BEGIN
  PERFORM turntree.require_member(p_ws, CASE p_kind WHEN 'session' THEN p_program END, 'create');
  -- A worker gives more permissions to a program that its own user owns, so the author cannot choose the owner
  -- freely.
  IF p_owner <> p_by AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION '% cannot create % for %: only the system sets another owner; create it as your own and grant access',
      p_by, p_name, p_owner USING ERRCODE = '42501', DETAIL = jsonb_build_object('hint', jsonb_build_object(
        'action', 'program.grant', 'program', p_name, 'grantee', regexp_replace(p_owner, '^human:', ''), 'access', 'configure'))::text;
  END IF;
  -- The first principal to configure a session owns it, so only the one who created it may. A session that the system
  -- created has no owner yet.
  IF p_kind = 'session' AND p_by NOT LIKE 'system:%' THEN
    SELECT h.by, n.name INTO v_begun_by, v_label FROM turntree.session_history h
      JOIN turntree.session_names n ON n.workspace_id = p_ws AND n.session_id = p_program AND n.reason IS NULL
      WHERE h.workspace_id = p_ws AND h.session_id = p_program AND h.version = 1;
    IF v_begun_by <> p_by AND v_begun_by NOT LIKE 'system:%' THEN
      IF EXISTS (SELECT FROM turntree.sessions s WHERE s.workspace_id = p_ws AND s.id = p_program AND s.head_id IS NULL) THEN
        RAISE EXCEPTION '% created % and decides about it: configure a session of your own', v_begun_by, v_label
          USING ERRCODE = '42501', DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'session.create'))::text;
      END IF;
      RAISE EXCEPTION '% created % and decides about it: configure a fork of it', v_begun_by, v_label USING ERRCODE = '42501',
        DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'session.fork', 'revision', v_label))::text;
    END IF;
    PERFORM turntree.require_private_main(p_ws, v_label, p_visibility, p_by);
  END IF;
  INSERT INTO turntree.programs (workspace_id, id, kind, name, owner, state, visibility, details, created_at, updated_at)
    VALUES (p_ws, p_program, p_kind, p_name, p_owner, p_state, p_visibility, p_details::jsonb, p_at::timestamptz, p_at::timestamptz)
    ON CONFLICT (workspace_id, name) DO NOTHING;
  IF NOT FOUND THEN
    -- One that is hidden could not be shown.
    RAISE EXCEPTION 'the name % is taken', p_name USING ERRCODE = 'TT001', DETAIL = CASE WHEN EXISTS (SELECT FROM turntree.programs x
        WHERE x.workspace_id = p_ws AND x.name = p_name AND NOT turntree.is_program_hidden(p_ws, x.id, p_by))
      THEN jsonb_build_object('hint', jsonb_build_object('action', 'program.show', 'kind', 'program', 'program', p_name))::text
      ELSE '' END;
  END IF;
  PERFORM turntree.add_program_version(p_ws, p_program, 1, p_digest, p_config, p_members, p_targets, p_by, p_at);
  PERFORM turntree.insert_event(p_ws, p_program, turntree.next_program_seq(p_ws, p_program, p_kind), p_event, p_at, p_data);
  IF p_kind = 'agent' AND p_visibility = 'private' THEN
    PERFORM turntree.close_main_session(p_ws, p_name, p_owner, p_by, p_at);
  ELSIF p_kind = 'conversation' THEN
    PERFORM turntree.start_conversation(p_ws, p_program, p_owner, p_at);
  END IF;
END $$;

-- Records an event of a program and applies it: another state (p_from, p_to), another version (p_version, which must
-- be the next one), changed details, another visibility.
CREATE OR REPLACE FUNCTION turntree.change_program(
  p_ws uuid, p_program uuid, p_right text, p_event text, p_data text, p_by text, p_at text,
  p_from text, p_to text, p_sets text, p_visibility text,
  p_version int, p_digest bytea, p_config bytea, p_members text[], p_targets text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  p record;
  v_seq int;
BEGIN
  PERFORM turntree.require_member(p_ws, p_program, p_right);
  SELECT x.kind, x.name, x.owner, x.state, x.visibility, x.version, x.details INTO p FROM turntree.programs x
    WHERE x.workspace_id = p_ws AND x.id = p_program FOR NO KEY UPDATE;
  IF NOT FOUND OR NOT turntree.has_program_access(p_ws, p_program, p.owner, p.visibility, p_by, 'read') THEN
    RAISE EXCEPTION 'there is no program %', p_program USING ERRCODE = 'TT002';
  ELSIF NOT turntree.has_program_access(p_ws, p_program, p.owner, p.visibility, p_by, p_right) THEN
    RAISE EXCEPTION '% may not % %: it is %''s', p_by, p_right, turntree.display_name(p_ws, p_program, p.name), p.owner USING ERRCODE = '42501';
  ELSIF p.state <> coalesce(p_from, p.state) THEN
    RAISE EXCEPTION '% is %, no longer %', turntree.display_name(p_ws, p_program, p.name), p.state, p_from USING ERRCODE = 'TT001';
  ELSIF p_version <> p.version + 1 THEN
    RAISE EXCEPTION '% was configured meanwhile: it is at version %', turntree.display_name(p_ws, p_program, p.name), p.version USING ERRCODE = 'TT001';
  ELSIF p_visibility IS NOT NULL AND p_by <> p.owner AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION 'only % says who sees %', p.owner, turntree.display_name(p_ws, p_program, p.name) USING ERRCODE = '42501';
  ELSIF p_visibility = 'public' AND p.kind = 'session' THEN
    PERFORM turntree.require_private_main(p_ws, n.name, p_visibility, p_by) FROM turntree.session_names n
      WHERE n.workspace_id = p_ws AND n.session_id = p_program;
  ELSIF p_event IN ('human.approval_requested', 'human.approved', 'human.rejected') THEN
    PERFORM turntree.check_approval(p_ws, p_program, p.name, p.details, p_event,
      turntree.document(p_data), turntree.document(p_sets), p_by);
  ELSIF p_event = 'task.assigned' THEN
    PERFORM turntree.require_permission(p_ws, p_by, 'assign', p_program);
  ELSIF p_version IS NOT NULL THEN
    PERFORM turntree.require_permission(p_ws, p_by, 'configure', p_program);
  END IF;
  IF p_visibility IS NOT NULL THEN
    PERFORM turntree.refuse_bound(p_ws, p_program, turntree.display_name(p_ws, p_program, p.name), p_visibility = 'public');
  END IF;
  UPDATE turntree.programs SET state = coalesce(p_to, state), visibility = coalesce(p_visibility, visibility),
      version = coalesce(p_version, version), updated_at = p_at::timestamptz,
      details = CASE WHEN p_sets IS NULL THEN details ELSE (
        SELECT coalesce(jsonb_object_agg(d.key, d.value), '{}') FROM jsonb_each(details || p_sets::jsonb) d
          WHERE d.value <> 'null') END
    WHERE workspace_id = p_ws AND id = p_program;
  IF p_version IS NOT NULL THEN
    PERFORM turntree.add_program_version(p_ws, p_program, p_version, p_digest, p_config, p_members, p_targets, p_by, p_at);
  END IF;
  v_seq := turntree.next_program_seq(p_ws, p_program, p.kind);
  PERFORM turntree.insert_event(p_ws, p_program, v_seq, p_event, p_at, p_data);
  IF turntree.has_links(p_event, p_data) THEN
    PERFORM turntree.insert_links(p_ws, p_program, v_seq);
  END IF;
  IF p.kind = 'agent' AND p_visibility = 'private' THEN
    PERFORM turntree.close_main_session(p_ws, p.name, p.owner, p_by, p_at);
  ELSIF p_event IN ('human.approved', 'human.rejected') THEN
    PERFORM turntree.settle_notice(p_ws, 'human:' || p.name,
      format('request %s %s', p_program, turntree.document(p_data) ->> 'request'), p_at::timestamptz);
  ELSIF p_event = 'task.failed' THEN
    PERFORM turntree.notice_failed_task(p_ws, p_program, p.name, p.details, turntree.document(p_data), p_by, p_at);
  END IF;
END $$;

-- Grants access to a program or revokes it. Returns false if that is already so.
CREATE OR REPLACE FUNCTION turntree.set_program_grant(
  p_ws uuid, p_program uuid, p_grantee text, p_right text, p_on boolean, p_data text, p_by text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  p record;
BEGIN
  PERFORM turntree.require_member(p_ws, p_program, 'configure');
  SELECT x.kind, x.name, x.owner, x.visibility INTO p FROM turntree.programs x
    WHERE x.workspace_id = p_ws AND x.id = p_program FOR NO KEY UPDATE;
  IF NOT FOUND OR NOT turntree.has_program_access(p_ws, p_program, p.owner, p.visibility, p_by, 'read') THEN
    RAISE EXCEPTION 'there is no program %', p_program USING ERRCODE = 'TT002';
  ELSIF p_by <> p.owner AND p_by NOT LIKE 'system:%' THEN
    RAISE EXCEPTION 'only % lets others use %', p.owner, turntree.display_name(p_ws, p_program, p.name) USING ERRCODE = '42501';
  END IF;
  PERFORM turntree.refuse_bound(p_ws, p_program, turntree.display_name(p_ws, p_program, p.name), false);
  IF p_on THEN
    INSERT INTO turntree.program_grants (workspace_id, program_id, grantee, access)
      VALUES (p_ws, p_program, p_grantee, p_right) ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM turntree.program_grants
      WHERE workspace_id = p_ws AND program_id = p_program AND grantee = p_grantee AND access = p_right;
  END IF;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE turntree.programs SET updated_at = p_at::timestamptz WHERE workspace_id = p_ws AND id = p_program;
  PERFORM turntree.insert_event(p_ws, p_program, turntree.next_program_seq(p_ws, p_program, p.kind),
    CASE WHEN p_on THEN 'program.granted' ELSE 'program.revoked' END, p_at, p_data);
  RETURN true;
END $$;
