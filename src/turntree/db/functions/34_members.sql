-- Members: who belongs to a workspace, as what, and who may change that. What a role may do is a table in
-- auth/member.py; these functions are told which roles may do something. The one rule that is here is the guest's,
-- because it decides about single sessions.

-- Returns the stream of what concerns the workspace itself. Every workspace has one of the same id, which no other
-- stream gets: it is derived from the word in auth/member.py.
CREATE OR REPLACE FUNCTION turntree.workspace_stream() RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT '00000000-0000-7134-9162-f5640edbbb17'::uuid
$$;

-- Returns the person behind a viewer: 'agent:atlas for human:ana' acts for human:ana. The last part counts: the name of an
-- agent is chosen by the principal that delegates to it, and may itself end in ' for human:eve'.
CREATE OR REPLACE FUNCTION turntree.person_behind(p_by text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN p_by LIKE 'human:%' THEN p_by ELSE coalesce(substring(p_by FROM '^.* for (.*)$'), '') END
$$;

-- Returns the members that a workspace begins with: the people who worked in it so far, the first of them as its
-- admin. In a workspace in which no person worked yet, p_by is the first. Run it as the system, from whom no session
-- is hidden.
CREATE OR REPLACE FUNCTION turntree.founding_members(p_ws uuid, p_by text, p_at timestamptz)
RETURNS TABLE (principal text, role text, since timestamptz) LANGUAGE sql STABLE AS $$
  WITH seen (who, at) AS (
    SELECT h.by, h.changed_at FROM turntree.session_history h WHERE h.workspace_id = p_ws AND h.version = 1
    UNION ALL SELECT p.owner, p.created_at FROM turntree.programs p WHERE p.workspace_id = p_ws
  ), people AS (
    SELECT who, min(at) AS at FROM seen WHERE who LIKE 'human:_%' GROUP BY who
  ), founders AS (
    SELECT who, at FROM people
    UNION ALL SELECT p_by, p_at WHERE p_by LIKE 'human:_%' AND NOT EXISTS (SELECT FROM people)
  )
  SELECT e.who, CASE row_number() OVER (ORDER BY e.at, e.who) WHEN 1 THEN 'admin' ELSE 'member' END, e.at FROM founders e
    ORDER BY e.at, e.who
$$;

-- Waits until no other transaction changes who may do what. Every function that writes members, invitations, keys or
-- passwords begins with it: checked before, a role may be gone when it is used. It is the lock that record_event takes.
CREATE OR REPLACE FUNCTION turntree.lock_members() RETURNS void LANGUAGE sql AS $$
  SELECT pg_advisory_xact_lock(hashtextextended('turntree:stream:' || turntree.workspace_stream(), 0))
$$;

-- Records a change of a member: the event, and the row that follows from it. The caller holds the lock of the stream.
-- The first member is an admin: without one, only the system could let another person in.
CREATE OR REPLACE FUNCTION turntree.record_member(
  p_ws uuid, p_member text, p_before text, p_role text, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_before IS NULL AND p_role <> 'admin' AND NOT EXISTS (SELECT FROM turntree.members m
      WHERE m.workspace_id = p_ws AND m.role = 'admin') THEN
    RAISE EXCEPTION '% cannot be the first member as %: the first one is an admin', p_member, p_role USING ERRCODE = 'TT003',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'member.promote'))::text;
  END IF;
  INSERT INTO turntree.members AS m (workspace_id, principal, role, changed_at)
    VALUES (p_ws, p_member, p_role, p_at::timestamptz)
    ON CONFLICT (workspace_id, principal) DO UPDATE SET role = excluded.role, changed_at = excluded.changed_at;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(),
    CASE WHEN p_role IS NULL THEN 'member.removed' WHEN p_before IS NULL THEN 'member.added' ELSE 'member.role_changed' END, p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"member":' || turntree.canonical_text(p_member)
      || coalesce(',"role":' || turntree.canonical_text(p_role), '') || '}');
END $$;

-- Records the founding members, once. Run it as the system.
CREATE OR REPLACE FUNCTION turntree.ensure_members(p_ws uuid, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws) THEN
    RETURN;
  END IF;
  -- The same lock as record_event's: of two first calls, the second one finds the members of the first.
  PERFORM turntree.lock_members();
  IF NOT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws) THEN
    PERFORM turntree.record_member(p_ws, f.principal, NULL, f.role, 'system:turntree', p_at)
      FROM turntree.founding_members(p_ws, p_by, p_at::timestamptz) f;
  END IF;
END $$;

-- Raises unless a person has one of the roles. The system may do everything. The detail says what to record.
CREATE OR REPLACE FUNCTION turntree.require_role(p_ws uuid, p_by text, p_right text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_person constant text := turntree.person_behind(turntree.viewer());
  v_role text;
BEGIN
  IF turntree.viewer() LIKE 'system:%' THEN
    RETURN;
  END IF;
  SELECT m.role INTO v_role FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = v_person;
  IF v_role = ANY (p_roles) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION '%', CASE WHEN v_role IS NULL AND 'guest' = ANY (p_roles) THEN p_by || ' is not a member of this workspace'
      ELSE format('%s may not do this: that takes the role %s, which %s has', p_by, array_to_string(p_roles, ' or '),
        coalesce((SELECT string_agg(m.principal, ', ' ORDER BY m.changed_at, m.principal) FROM turntree.members m
          WHERE m.workspace_id = p_ws AND m.role = ANY (p_roles)), 'no person')) END
    USING ERRCODE = '42501', DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_by, 'right', p_right,
      'reason', coalesce('its role is ' || v_role, 'it is not a member'),
      'hint', jsonb_build_object('action', 'member.list'))::text;
END $$;

-- Gives a person a role, or takes it away (p_role null). Returns the role before. p_new: the person is added, and must
-- not be a member yet. A person may remove themselves; the viewer says who that is, and not the caller. A workspace keeps
-- at least one admin.
CREATE OR REPLACE FUNCTION turntree.set_member(
  p_ws uuid, p_member text, p_role text, p_new boolean, p_by text, p_at text, p_roles text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_before text;
BEGIN
  PERFORM turntree.lock_members();
  IF p_role IS NOT NULL OR p_member <> turntree.viewer() THEN
    PERFORM turntree.require_role(p_ws, p_by, 'member.manage', p_roles);
  END IF;
  SELECT m.role INTO v_before FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_member;
  IF p_new AND v_before IS NOT NULL THEN
    -- Not for an admin: the role that a new member gets by default would demote them.
    RAISE EXCEPTION '% is already a member, with the role %', p_member, v_before USING ERRCODE = 'TT001',
      DETAIL = jsonb_build_object('hint', CASE WHEN v_before NOT IN ('admin', p_role) THEN jsonb_build_object(
        'action', 'member.role', 'member', regexp_replace(p_member, '^human:', ''), 'role', p_role)
        ELSE jsonb_build_object('action', 'member.list') END)::text;
  ELSIF NOT p_new AND v_before IS NULL THEN
    RAISE EXCEPTION '% is not a member of this workspace', p_member USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'member.list'))::text;
  ELSIF v_before = p_role THEN
    RETURN v_before;
  ELSIF v_before = 'admin' AND NOT EXISTS (SELECT FROM turntree.members m
      WHERE m.workspace_id = p_ws AND m.role = 'admin' AND m.principal <> p_member) THEN
    RAISE EXCEPTION '% is the only admin: make another person one first', p_member USING ERRCODE = 'TT003',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'member.promote'))::text;
  END IF;
  IF v_before = 'admin' THEN
    -- With an open one, a person who was an admin could let themselves in again.
    PERFORM turntree.end_invitation(p_ws, i.id, p_by, p_at) FROM turntree.invitations i
      WHERE i.workspace_id = p_ws AND i.ended_at IS NULL AND turntree.person_behind(i.created_by) = p_member;
  END IF;
  IF p_role IS NULL THEN
    -- Otherwise they would open the workspace again when the person comes back, unnoticed.
    PERFORM turntree.end_api_key(p_ws, k.id, 'its holder was removed', p_by, p_at) FROM turntree.api_keys k
      WHERE k.workspace_id = p_ws AND k.revoked_at IS NULL AND k.holder = p_member;
    PERFORM turntree.end_login_sessions(p_ws, p_member, NULL, p_by, p_at);
    PERFORM turntree.end_identity(p_ws, x.id, p_by, p_at) FROM turntree.identities x
      WHERE x.workspace_id = p_ws AND x.principal = p_member;
  END IF;
  PERFORM turntree.record_member(p_ws, p_member, v_before, p_role, p_by, p_at);
  RETURN v_before;
END $$;

-- Raises if the viewer is a guest, or was removed, and changes something that was not granted to them by name, nor
-- said in a conversation they take part in. p_stream
-- is a session or another program; null is something new. A person without a row counts as a member: the login of the
-- database is the door there, and a server lets in members only.
CREATE OR REPLACE FUNCTION turntree.require_member(p_ws uuid, p_stream uuid, p_right text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_by constant text := turntree.viewer();
  v_role text;
BEGIN
  -- Nothing is looked up for the system itself: a fork is as hot as an append, and this was a seventh of it.
  IF v_by LIKE 'system:%' AND v_by NOT LIKE '% for %' THEN
    RETURN;
  END IF;
  SELECT coalesce(m.role::text, 'removed') INTO v_role FROM turntree.members m WHERE m.workspace_id = p_ws
    AND m.principal = turntree.person_behind(v_by)
    AND (m.role IS NULL OR m.role = 'guest');
  IF NOT FOUND THEN
    RETURN;
  ELSIF v_role = 'guest' AND p_right = 'invoke' AND turntree.takes_part(p_ws,
      coalesce(turntree.conversation_of(p_ws, p_stream), p_stream), v_by) THEN
    RETURN;
  ELSIF v_role = 'guest' AND p_stream IS NOT NULL AND EXISTS (
      SELECT FROM turntree.programs p WHERE p.workspace_id = p_ws AND p.id = p_stream AND (p.owner = v_by
        OR EXISTS (SELECT FROM turntree.program_grants g WHERE g.workspace_id = p_ws AND g.program_id = p_stream
          AND g.grantee = v_by AND CASE p_right WHEN 'invoke' THEN g.access <> 'read' ELSE g.access = 'configure' END))) THEN
    RETURN;
  END IF;
  RAISE EXCEPTION '%', CASE v_role WHEN 'guest' THEN v_by || ' is a guest, and may change only what was granted by name'
      ELSE v_by || ' was removed from this workspace' END
    USING ERRCODE = '42501', DETAIL = jsonb_build_object('session', coalesce((SELECT s.id FROM turntree.sessions s
        WHERE s.workspace_id = p_ws AND s.id = p_stream), turntree.workspace_stream()), 'by', v_by, 'right', p_right,
      'reason', CASE v_role WHEN 'guest' THEN 'a guest changes only what was granted' ELSE 'it was removed' END,
      'hint', jsonb_build_object('action', 'member.list'))::text;
END $$;

-- Raises if the viewer was removed, or the person behind it. For what a guest does too, in a session that was granted.
CREATE OR REPLACE FUNCTION turntree.refuse_removed(p_ws uuid, p_right text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF turntree.viewer() NOT LIKE 'system:%' AND EXISTS (SELECT FROM turntree.members m
      WHERE m.workspace_id = p_ws AND m.principal = turntree.person_behind(turntree.viewer()) AND m.role IS NULL) THEN
    PERFORM turntree.require_member(p_ws, NULL, p_right);
  END IF;
END $$;

-- Whether the viewer is an admin, or the system.
CREATE OR REPLACE FUNCTION turntree.is_admin() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT turntree.viewer() LIKE 'system:%' OR EXISTS (SELECT FROM turntree.members m
    WHERE m.workspace_id = turntree.current_workspace() AND m.principal = turntree.person_behind(turntree.viewer())
      AND m.role = 'admin')
$$;

-- Records an invitation, and that it was made. Its row names the viewer, and not whom the caller names: it ends when that
-- person is no longer an admin.
CREATE OR REPLACE FUNCTION turntree.create_invitation(
  p_ws uuid, p_id text, p_digest bytea, p_invitee text, p_role text, p_expires text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_by, 'member.manage', p_roles);
  INSERT INTO turntree.invitations (workspace_id, id, code_digest, invitee, role, created_by, created_at, expires_at)
    VALUES (p_ws, p_id, p_digest, p_invitee, p_role, turntree.viewer(), p_at::timestamptz, p_expires::timestamptz);
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'invitation.created', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"expires_at":' || turntree.canonical_text(p_expires) || ',"invitation":'
      || turntree.canonical_text(p_id) || ',"role":' || turntree.canonical_text(p_role) || '}');
END $$;

-- Makes a person a member by an invitation that is open. The caller holds the lock of the stream, and has checked who asks.
CREATE OR REPLACE FUNCTION turntree.take_invitation(p_ws uuid, p_id text, p_member text, p_role text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_before text;
BEGIN
  SELECT m.role INTO v_before FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_member;
  IF v_before IS NOT NULL THEN
    RAISE EXCEPTION '% is already a member, with the role %', p_member, v_before USING ERRCODE = 'TT001',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'member.list'))::text;
  END IF;
  UPDATE turntree.invitations SET accepted_by = p_member, ended_at = p_at::timestamptz
    WHERE workspace_id = p_ws AND id = p_id;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'invitation.accepted', p_at,
    '{"by":' || turntree.canonical_text(p_member) || ',"invitation":' || turntree.canonical_text(p_id) || '}');
  PERFORM turntree.record_member(p_ws, p_member, NULL, p_role, p_member, p_at);
END $$;

-- Makes a person a member by the code of an invitation. Run it as the system: the person is not a member yet. Of two who
-- send the same code at once, the second one is refused. What is wrong with an invitation is told only to a holder of its code.
CREATE OR REPLACE FUNCTION turntree.accept_invitation(p_ws uuid, p_id text, p_digest bytea, p_member text, p_at text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  i record;
BEGIN
  PERFORM turntree.lock_members();
  SELECT x.role, x.invitee, x.expires_at, x.accepted_by, x.revoked_by INTO i FROM turntree.invitations x
    WHERE x.workspace_id = p_ws AND x.id = p_id AND x.code_digest = p_digest FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no such invitation' USING ERRCODE = 'TT002';
  ELSIF i.accepted_by IS NOT NULL THEN
    RAISE EXCEPTION 'the invitation % was accepted already', p_id USING ERRCODE = 'TT003';
  ELSIF i.revoked_by IS NOT NULL THEN
    RAISE EXCEPTION 'the invitation % was revoked', p_id USING ERRCODE = 'TT003';
  ELSIF i.expires_at <= p_at::timestamptz THEN
    RAISE EXCEPTION 'the invitation % has expired', p_id USING ERRCODE = 'TT003';
  -- An address says where the code was sent; a name says who may use it.
  ELSIF i.invitee LIKE 'human:%' AND i.invitee <> p_member THEN
    RAISE EXCEPTION 'the invitation % is for %, and not for %', p_id, i.invitee, p_member USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_member, 'right', 'invitation.accept',
        'reason', 'it is for another person')::text;
  END IF;
  PERFORM turntree.take_invitation(p_ws, p_id, p_member, i.role, p_at);
  RETURN i.role;
END $$;

-- Ends an invitation that is open. The caller holds the lock of the stream, and may do so.
CREATE OR REPLACE FUNCTION turntree.end_invitation(p_ws uuid, p_id text, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.invitations SET revoked_by = p_by, ended_at = p_at::timestamptz WHERE workspace_id = p_ws AND id = p_id;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'invitation.revoked', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"invitation":' || turntree.canonical_text(p_id) || '}');
END $$;

-- Ends an invitation before it was accepted.
CREATE OR REPLACE FUNCTION turntree.revoke_invitation(p_ws uuid, p_id text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ended timestamptz;
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_by, 'member.manage', p_roles);
  SELECT x.ended_at INTO v_ended FROM turntree.invitations x WHERE x.workspace_id = p_ws AND x.id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no invitation %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'invitation.list'))::text;
  ELSIF v_ended IS NOT NULL THEN
    RAISE EXCEPTION 'the invitation % has ended already', p_id USING ERRCODE = 'TT003',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'invitation.list'))::text;
  END IF;
  PERFORM turntree.end_invitation(p_ws, p_id, p_by, p_at);
END $$;

-- Records an API key, and that it was made. Its holder is the viewer: a key acts for the person who makes it.
CREATE OR REPLACE FUNCTION turntree.create_api_key(
  p_ws uuid, p_id text, p_digest bytea, p_name text, p_holder text, p_agent text, p_scopes text, p_expires text, p_at text,
  p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_holder, 'key.create', p_roles);
  IF p_holder <> turntree.viewer() THEN
    RAISE EXCEPTION '% cannot make a key for %', turntree.viewer(), p_holder USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', turntree.viewer(), 'right', 'key.create',
        'reason', 'it would act for another person')::text;
  END IF;
  INSERT INTO turntree.api_keys (workspace_id, id, key_digest, name, holder, agent, scopes, created_at, expires_at)
    VALUES (p_ws, p_id, p_digest, p_name, p_holder, p_agent, p_scopes::jsonb, p_at::timestamptz, p_expires::timestamptz);
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'api_key.created', p_at,
    '{' || coalesce('"agent":' || turntree.canonical_text(p_agent) || ',', '') || '"by":' || turntree.canonical_text(p_holder)
      || ',"expires_at":' || turntree.canonical_text(p_expires) || ',"key":' || turntree.canonical_text(p_id)
      || ',"scopes":' || p_scopes || '}');
END $$;

-- Revokes an API key that is not revoked yet. The caller holds the lock of the stream, and may do so.
CREATE OR REPLACE FUNCTION turntree.end_api_key(p_ws uuid, p_id text, p_reason text, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.api_keys SET revoked_by = p_by, revoked_at = p_at::timestamptz, reason = p_reason
    WHERE workspace_id = p_ws AND id = p_id;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'api_key.revoked', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"key":' || turntree.canonical_text(p_id) || ',"reason":'
      || turntree.canonical_text(p_reason) || '}');
  PERFORM turntree.end_login_sessions(p_ws, k.holder, p_id, p_by, p_at) FROM turntree.api_keys k
    WHERE k.workspace_id = p_ws AND k.id = p_id;
END $$;

-- Revokes an API key. The policy of the table shows a person their own keys, and an admin all.
CREATE OR REPLACE FUNCTION turntree.revoke_api_key(p_ws uuid, p_id text, p_reason text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  k record;
BEGIN
  PERFORM turntree.lock_members();
  SELECT x.holder, x.revoked_by INTO k FROM turntree.api_keys x WHERE x.workspace_id = p_ws AND x.id = p_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no key %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'key.list'))::text;
  ELSIF k.revoked_by IS NOT NULL THEN
    RAISE EXCEPTION 'the key % was revoked already, by %', p_id, k.revoked_by USING ERRCODE = 'TT003';
  ELSIF k.holder <> p_by THEN
    PERFORM turntree.require_role(p_ws, p_by, 'key.manage', p_roles);
  END IF;
  PERFORM turntree.end_api_key(p_ws, p_id, p_reason, p_by, p_at);
END $$;

-- Sets the password of a person, or removes it (p_hash null), and records that. Run it as the system: no other viewer
-- sees a hash, so the caller has checked who asks. Returns false if there was none to remove.
-- A password is never older than the role of its holder, even if the clocks of two machines differ.
CREATE OR REPLACE FUNCTION turntree.set_password(p_ws uuid, p_member text, p_hash text, p_by text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  IF p_hash IS NULL THEN
    DELETE FROM turntree.passwords WHERE workspace_id = p_ws AND principal = p_member;
    IF NOT FOUND THEN
      RETURN false;
    END IF;
  ELSE
    INSERT INTO turntree.passwords (workspace_id, principal, hash, changed_at)
      VALUES (p_ws, p_member, p_hash, greatest(p_at::timestamptz, (SELECT m.changed_at FROM turntree.members m
        WHERE m.workspace_id = p_ws AND m.principal = p_member)))
      ON CONFLICT (workspace_id, principal) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at;
  END IF;
  PERFORM turntree.end_login_sessions(p_ws, p_member, NULL, p_by, p_at);
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(),
    CASE WHEN p_hash IS NULL THEN 'member.password_removed' ELSE 'member.password_set' END, p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"member":' || turntree.canonical_text(p_member) || '}');
  RETURN true;
END $$;

-- Records a login session, and that it began. The caller holds the lock of the stream, and has checked who logs in.
CREATE OR REPLACE FUNCTION turntree.record_login_session(
  p_ws uuid, p_id text, p_digest bytea, p_holder text, p_method text, p_scopes text, p_key text, p_identity text, p_expires text,
  p_at text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.login_sessions
      (workspace_id, id, code_digest, holder, method, scopes, key_id, identity_id, created_at, expires_at, last_used_at)
    VALUES (p_ws, p_id, p_digest, p_holder, p_method, p_scopes::jsonb, p_key, p_identity, p_at::timestamptz,
      p_expires::timestamptz, p_at::timestamptz);
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'login_session.created', p_at,
    '{"by":' || turntree.canonical_text(p_holder) || ',"expires_at":' || turntree.canonical_text(p_expires)
      || coalesce(',"identity":' || turntree.canonical_text(p_identity), '')
      || coalesce(',"key":' || turntree.canonical_text(p_key), '') || ',"login_session":' || turntree.canonical_text(p_id)
      || ',"method":' || turntree.canonical_text(p_method) || ',"scopes":' || p_scopes || '}');
END $$;

-- Begins a login session. Run it as the system: the person acts only once there is one. What they logged
-- in with was verified outside of this transaction: whatever was changed or revoked after p_verified opens nothing.
CREATE OR REPLACE FUNCTION turntree.create_login_session(
  p_ws uuid, p_id text, p_digest bytea, p_holder text, p_method text, p_scopes text, p_key text, p_expires text, p_at text,
  p_verified text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  IF NOT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_holder AND m.role IS NOT NULL)
    OR p_method = 'password' AND NOT EXISTS (SELECT FROM turntree.passwords p WHERE p.workspace_id = p_ws
      AND p.principal = p_holder AND p.changed_at <= p_verified::timestamptz)
    OR p_method = 'key' AND NOT EXISTS (SELECT FROM turntree.api_keys k WHERE k.workspace_id = p_ws AND k.id = p_key
      AND k.holder = p_holder AND k.revoked_at IS NULL) THEN
    RAISE EXCEPTION '% can no longer log in with this', p_holder USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', p_holder, 'right', 'login.create',
        'reason', 'it was changed or revoked meanwhile')::text;
  END IF;
  PERFORM turntree.record_login_session(p_ws, p_id, p_digest, p_holder, p_method, p_scopes, p_key, NULL, p_expires, p_at);
END $$;

-- Ends a login session that is open. The caller holds the lock of the stream, and may do so.
CREATE OR REPLACE FUNCTION turntree.end_login_session(p_ws uuid, p_id text, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.login_sessions SET ended_by = p_by, ended_at = p_at::timestamptz WHERE workspace_id = p_ws AND id = p_id;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'login_session.ended', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"login_session":' || turntree.canonical_text(p_id) || '}');
END $$;

-- Ends the open login sessions of a person: all, or those that were begun with one API key.
CREATE OR REPLACE FUNCTION turntree.end_login_sessions(p_ws uuid, p_holder text, p_key text, p_by text, p_at text)
RETURNS void LANGUAGE sql AS $$
  SELECT turntree.end_login_session(p_ws, s.id, p_by, p_at) FROM turntree.login_sessions s
    WHERE s.workspace_id = p_ws AND s.holder = p_holder AND s.ended_at IS NULL AND (p_key IS NULL OR s.key_id = p_key)
    ORDER BY s.id
$$;

-- Ends a login session. The policy of the table shows a person their own, and an admin all.
CREATE OR REPLACE FUNCTION turntree.revoke_login_session(p_ws uuid, p_id text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_holder text;
BEGIN
  PERFORM turntree.lock_members();
  SELECT s.holder INTO v_holder FROM turntree.login_sessions s
    WHERE s.workspace_id = p_ws AND s.id = p_id AND s.ended_at IS NULL FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no login session %', p_id USING ERRCODE = 'TT002';
  ELSIF v_holder <> p_by THEN
    PERFORM turntree.require_role(p_ws, p_by, 'key.manage', p_roles);
  END IF;
  PERFORM turntree.end_login_session(p_ws, p_id, p_by, p_at);
END $$;

-- Links an account at an identity provider to a member. The caller holds the lock of the stream, and has checked who asks.
-- Which account it is, no event says: every member reads those.
CREATE OR REPLACE FUNCTION turntree.record_identity(
  p_ws uuid, p_id text, p_issuer text, p_subject text, p_member text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.identities (workspace_id, id, issuer, subject, principal, linked_at)
    VALUES (p_ws, p_id, p_issuer, p_subject, p_member, p_at::timestamptz);
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'identity.linked', p_at,
    '{"by":' || turntree.canonical_text(p_member) || ',"identity":' || turntree.canonical_text(p_id) || ',"issuer":'
      || turntree.canonical_text(p_issuer) || ',"member":' || turntree.canonical_text(p_member) || '}');
END $$;

-- Notes that the state of a login at an identity provider came back. Returns false if it did before. Run it as the system.
CREATE OR REPLACE FUNCTION turntree.use_login_state(p_ws uuid, p_digest bytea, p_expires text, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM turntree.login_states s WHERE s.workspace_id = p_ws AND s.expires_at <= p_at::timestamptz;
  INSERT INTO turntree.login_states (workspace_id, state_digest, expires_at) VALUES (p_ws, p_digest, p_expires::timestamptz)
    ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

-- Begins a login session of the member to whom an account at an identity provider is linked. An account that is not linked
-- takes the open invitation p_invitation as the member p_member, if the provider says that it is theirs. Run it as the
-- system: the person acts only once there is a session. Returns who that is.
CREATE OR REPLACE FUNCTION turntree.log_in_with_identity(
  p_ws uuid, p_issuer text, p_subject text, p_invitation text, p_member text, p_identity text, p_id text, p_digest bytea,
  p_scopes text, p_expires text, p_at text)
RETURNS TABLE (holder text, identity text) LANGUAGE plpgsql AS $$
DECLARE
  v_role text;
BEGIN
  PERFORM turntree.lock_members();
  -- A removed member has no identities: the join only makes sure of it.
  SELECT x.principal, x.id INTO holder, identity FROM turntree.identities x
    JOIN turntree.members m ON m.workspace_id = x.workspace_id AND m.principal = x.principal AND m.role IS NOT NULL
    WHERE x.workspace_id = p_ws AND x.issuer = p_issuer AND x.subject = p_subject;
  IF NOT FOUND THEN
    SELECT x.role INTO v_role FROM turntree.invitations x WHERE x.workspace_id = p_ws AND x.id = p_invitation
      AND x.ended_at IS NULL AND x.expires_at > p_at::timestamptz FOR NO KEY UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'this account is not linked to a member, and no invitation is open for it' USING ERRCODE = '42501',
        DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', 'system:turntree', 'right', 'identity.use',
          'reason', 'no member is linked to the account, and no invitation is open for it')::text;
    END IF;
    PERFORM turntree.take_invitation(p_ws, p_invitation, p_member, v_role, p_at);
    PERFORM turntree.record_identity(p_ws, p_identity, p_issuer, p_subject, p_member, p_at);
    holder := p_member;
    identity := p_identity;
  END IF;
  PERFORM turntree.record_login_session(p_ws, p_id, p_digest, holder, 'identity', p_scopes, NULL, identity, p_expires, p_at);
  RETURN NEXT;
END $$;

-- Links an account at an identity provider to the holder of a login session, which has to be open still. Run it as the
-- system: the session was verified before. Returns the identity, which may have been linked to this member already.
CREATE OR REPLACE FUNCTION turntree.link_identity(
  p_ws uuid, p_identity text, p_issuer text, p_subject text, p_login text, p_member text, p_at text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  x record;
BEGIN
  PERFORM turntree.lock_members();
  IF NOT EXISTS (SELECT FROM turntree.login_sessions s JOIN turntree.members m ON m.workspace_id = s.workspace_id
      AND m.principal = s.holder AND m.role IS NOT NULL WHERE s.workspace_id = p_ws AND s.id = p_login AND s.holder = p_member
      AND s.ended_at IS NULL AND s.expires_at > p_at::timestamptz) THEN
    RAISE EXCEPTION 'this login session has ended' USING ERRCODE = '42501', DETAIL = jsonb_build_object('session',
      turntree.workspace_stream(), 'by', p_member, 'right', 'identity.link', 'reason', 'the login session has ended')::text;
  END IF;
  SELECT i.id, i.principal INTO x FROM turntree.identities i
    WHERE i.workspace_id = p_ws AND i.issuer = p_issuer AND i.subject = p_subject;
  IF NOT FOUND THEN
    PERFORM turntree.record_identity(p_ws, p_identity, p_issuer, p_subject, p_member, p_at);
    RETURN p_identity;
  ELSIF x.principal <> p_member THEN
    RAISE EXCEPTION 'this account is linked to another member' USING ERRCODE = '42501', DETAIL = jsonb_build_object('session',
      turntree.workspace_stream(), 'by', p_member, 'right', 'identity.link', 'reason', 'it is linked to another member')::text;
  END IF;
  RETURN x.id;
END $$;

-- Unlinks an account, and ends the login sessions that were begun with it. The caller holds the lock of the stream, and may.
CREATE OR REPLACE FUNCTION turntree.end_identity(p_ws uuid, p_id text, p_by text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM turntree.identities WHERE workspace_id = p_ws AND id = p_id;
  PERFORM turntree.record_event(p_ws, turntree.workspace_stream(), 'identity.unlinked', p_at,
    '{"by":' || turntree.canonical_text(p_by) || ',"identity":' || turntree.canonical_text(p_id) || '}');
  PERFORM turntree.end_login_session(p_ws, s.id, p_by, p_at) FROM turntree.login_sessions s
    WHERE s.workspace_id = p_ws AND s.identity_id = p_id AND s.ended_at IS NULL;
END $$;

-- Unlinks an account. The policy of the table shows a person their own, and an admin all.
CREATE OR REPLACE FUNCTION turntree.unlink_identity(p_ws uuid, p_id text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_holder text;
BEGIN
  PERFORM turntree.lock_members();
  SELECT x.principal INTO v_holder FROM turntree.identities x WHERE x.workspace_id = p_ws AND x.id = p_id;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no linked account %', p_id USING ERRCODE = 'TT002';
  ELSIF v_holder <> p_by THEN
    PERFORM turntree.require_role(p_ws, p_by, 'key.manage', p_roles);
  END IF;
  PERFORM turntree.end_identity(p_ws, p_id, p_by, p_at);
END $$;
