-- Resources: each write records its event in the same transaction. The events' data arrive as canonical text.

-- Returns a document that may be corrupt, or null if it cannot be parsed.
CREATE OR REPLACE FUNCTION turntree.readable_document(p_line text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN turntree.document(p_line);
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- Returns the resource of a kind at a location on a host. Creates it if it is new.
CREATE OR REPLACE FUNCTION turntree.ensure_resource(
  p_ws uuid, p_id uuid, p_kind text, p_host text, p_place text, p_name text, p_capabilities text[], p_imperative boolean,
  p_agent text, p_run text, p_session uuid, p_part_of uuid, p_metadata jsonb, p_at text, p_data text)
RETURNS uuid LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  INSERT INTO turntree.resources (workspace_id, id, kind, host, location, name, capabilities, imperative, agent_id, run_id,
      session_id, part_of, metadata, created_at)
    VALUES (p_ws, p_id, p_kind, p_host, p_place, p_name, p_capabilities, p_imperative, p_agent, p_run, p_session, p_part_of,
      p_metadata, p_at::timestamptz)
    ON CONFLICT (workspace_id, kind, host, md5(location)) DO NOTHING;
  IF FOUND THEN
    PERFORM turntree.record_event(p_ws, p_id, 'resource.created', p_at, p_data);
    RETURN p_id;
  END IF;
  RETURN (SELECT id FROM turntree.resources WHERE workspace_id = p_ws AND kind = p_kind AND host = p_host
    AND md5(location) = md5(p_place));
END $$;

-- Returns what a resource is since it was last recreated. A location keeps its id; if something else used to be
-- there, the event of the newest creation says what it is now. Links find that event: few lead from one resource.
CREATE OR REPLACE FUNCTION turntree.recreated_as(p_ws uuid, p_resource uuid)
RETURNS TABLE (at timestamptz, made jsonb) LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT (d.said ->> 'at')::timestamptz, d.said #> '{data,made}'
    FROM turntree.event_links l
    JOIN turntree.events e ON e.workspace_id = l.workspace_id AND e.stream_id = l.stream_id AND e.seq = l.seq,
      LATERAL (SELECT turntree.readable_document(e.body) AS said) d
    WHERE l.workspace_id = p_ws AND l.from_id = p_resource::text AND l.stream_id = p_resource AND l.kind = 'DERIVED_FROM'
      -- A location that was only restored from its own snapshot is still what it was created as.
      AND d.said #> '{data,made}' IS NOT NULL
    ORDER BY l.seq DESC LIMIT 1
$$;

-- Returns resources as they are now.
CREATE OR REPLACE FUNCTION turntree.current_resources(p_ws uuid, p_ids uuid[])
RETURNS TABLE (id uuid, kind text, host text, location text, name text, capabilities text[], imperative boolean,
  created_at timestamptz, agent_id text, run_id text, session_id uuid, part_of uuid, metadata jsonb)
LANGUAGE sql STABLE ROWS 10 AS $$
  SELECT r.id, r.kind, r.host, r.location, coalesce(m.made ->> 'name', r.name), r.capabilities, r.imperative,
      coalesce(m.at, r.created_at),
      CASE WHEN m.made IS NULL THEN r.agent_id ELSE m.made #>> '{scope,agent_id}' END,
      CASE WHEN m.made IS NULL THEN r.run_id ELSE m.made #>> '{scope,run_id}' END,
      CASE WHEN m.made IS NULL THEN r.session_id ELSE (m.made #>> '{scope,session_id}')::uuid END,
      CASE WHEN m.made IS NULL THEN r.part_of ELSE (m.made ->> 'part_of')::uuid END,
      CASE WHEN m.made IS NULL THEN r.metadata ELSE coalesce(m.made -> 'metadata', '{}') END
    FROM turntree.resources r
    LEFT JOIN LATERAL turntree.recreated_as(p_ws, r.id) m ON m.made IS NOT NULL
    WHERE r.workspace_id = p_ws AND r.id = ANY (p_ids)
$$;

-- Attaches a resource to a session; false if it is already attached.
CREATE OR REPLACE FUNCTION turntree.attach_resource(
  p_ws uuid, p_resource uuid, p_session uuid, p_mode text, p_at text, p_data text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  -- Shared lock: a transaction that detaches the resource from all sessions takes it exclusively, to see them all.
  PERFORM pg_advisory_xact_lock_shared(hashtextextended('turntree:resource:' || p_resource, 0));
  -- Lock the session's row first, so that concurrent attaching and detaching is serialized.
  PERFORM FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_session FOR NO KEY UPDATE;
  IF EXISTS (SELECT FROM turntree.resource_attachments WHERE workspace_id = p_ws AND session_id = p_session
      AND resource_id = p_resource) THEN
    RETURN false;
  END IF;
  INSERT INTO turntree.resource_attachments (workspace_id, session_id, resource_id, mode)
    VALUES (p_ws, p_session, p_resource, p_mode);
  PERFORM turntree.record_session_event(p_ws, p_session, 'resource.attached', p_at, p_data);
  RETURN true;
END $$;

-- Detaches a resource from a session; false if it is not attached.
CREATE OR REPLACE FUNCTION turntree.detach_resource(p_ws uuid, p_resource uuid, p_session uuid, p_at text, p_data text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.require_session_access(p_ws, p_session, 'invoke');
  PERFORM FROM turntree.sessions WHERE workspace_id = p_ws AND id = p_session FOR NO KEY UPDATE;
  DELETE FROM turntree.resource_attachments
    WHERE workspace_id = p_ws AND session_id = p_session AND resource_id = p_resource;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM turntree.record_session_event(p_ws, p_session, 'resource.detached', p_at, p_data);
  RETURN true;
END $$;

-- Records a snapshot and returns its id.
CREATE OR REPLACE FUNCTION turntree.insert_snapshot(
  p_ws uuid, p_id uuid, p_resource uuid, p_method text, p_external_kind text, p_external_id text, p_size bigint,
  p_restorable boolean, p_consistency text, p_at text, p_data text)
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  v_capabilities text[];
BEGIN
  PERFORM turntree.refuse_removed(p_ws, 'create');
  SELECT capabilities INTO v_capabilities FROM turntree.resources WHERE workspace_id = p_ws AND id = p_resource;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no resource %', p_resource USING ERRCODE = 'TT002';
  ELSIF NOT 'snapshot' = ANY (v_capabilities) THEN
    RAISE EXCEPTION 'no state of % can be kept', p_resource USING ERRCODE = 'TT003';
  END IF;
  INSERT INTO turntree.snapshots (workspace_id, id, resource_id, method, external_kind, external_id, size_bytes, restorable,
      consistency, taken_at)
    VALUES (p_ws, p_id, p_resource, p_method, p_external_kind, p_external_id, p_size, p_restorable, p_consistency,
      p_at::timestamptz)
    ON CONFLICT (workspace_id, resource_id, external_kind, external_id) DO NOTHING;
  IF FOUND THEN
    PERFORM turntree.record_event(p_ws, p_resource, 'snapshot.created', p_at, p_data);
    RETURN p_id;
  END IF;
  RETURN (SELECT id FROM turntree.snapshots WHERE workspace_id = p_ws AND resource_id = p_resource
    AND external_kind = p_external_kind AND external_id = p_external_id);
END $$;

-- Records a resource's snapshots before and after a turn; false if they are already recorded.
CREATE OR REPLACE FUNCTION turntree.insert_turn_snapshot(
  p_ws uuid, p_turn uuid, p_resource uuid, p_before uuid, p_after uuid, p_mode text, p_began text, p_ended text,
  p_at text, p_data text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(ARRAY[p_before, p_after]) s (id) WHERE s.id IS NOT NULL AND NOT EXISTS (
      SELECT FROM turntree.snapshots x WHERE x.workspace_id = p_ws AND x.id = s.id AND x.resource_id = p_resource)) THEN
    RAISE EXCEPTION 'there is no such snapshot of %', p_resource USING ERRCODE = 'TT002';
  END IF;
  INSERT INTO turntree.turn_snapshots (workspace_id, turn_id, resource_id, before_snapshot_id, after_snapshot_id, mode, started_at, ended_at)
    VALUES (p_ws, p_turn, p_resource, p_before, p_after, p_mode, p_began::timestamptz, p_ended::timestamptz)
    ON CONFLICT (workspace_id, turn_id, resource_id) DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM turntree.record_event(p_ws, p_turn, 'turn.snapshotted', p_at, p_data);
  RETURN true;
END $$;

-- Records whether a resource is alive. Writes an event only if that changed.
CREATE OR REPLACE FUNCTION turntree.record_liveness(p_ws uuid, p_resource uuid, p_status text, p_at text, p_data text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_was text;
BEGIN
  SELECT status INTO v_was FROM turntree.resource_liveness WHERE workspace_id = p_ws AND resource_id = p_resource;
  INSERT INTO turntree.resource_liveness AS l (workspace_id, resource_id, status, probed_at)
    VALUES (p_ws, p_resource, p_status, p_at::timestamptz)
    ON CONFLICT (workspace_id, resource_id) DO UPDATE SET status = excluded.status, probed_at = excluded.probed_at
    WHERE l.probed_at <= excluded.probed_at;
  IF FOUND AND v_was IS DISTINCT FROM p_status THEN
    PERFORM turntree.record_event(p_ws, p_resource, 'resource.probed', p_at, p_data);
  END IF;
END $$;

-- Starts a plan, with its first event. Repeated with the same event it changes nothing.
CREATE OR REPLACE FUNCTION turntree.start_plan(p_ws uuid, p_plan uuid, p_kind text, p_at text, p_id bytea, p_body text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO turntree.plans (workspace_id, id, kind, started_at) VALUES (p_ws, p_plan, p_kind, p_at::timestamptz)
    ON CONFLICT DO NOTHING;
  PERFORM turntree.append_event(p_ws, p_plan, 0, p_id, 'plan.started', p_body, NULL, NULL);
END $$;

-- Appends an event of a plan at its position. A finished plan accepts none, so a late writer fails here.
CREATE OR REPLACE FUNCTION turntree.append_plan_event(
  p_ws uuid, p_plan uuid, p_seq int, p_id bytea, p_kind text, p_body text, p_outcome text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_plan record;
  v_id bytea;
BEGIN
  SELECT outcome INTO v_plan FROM turntree.plans WHERE workspace_id = p_ws AND id = p_plan FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no plan %', p_plan USING ERRCODE = 'TT002';
  END IF;
  SELECT id INTO v_id FROM turntree.events WHERE workspace_id = p_ws AND stream_id = p_plan AND seq = p_seq;
  IF v_plan.outcome IS NOT NULL AND v_id IS DISTINCT FROM p_id THEN
    RAISE EXCEPTION 'the plan % has ended', p_plan USING ERRCODE = 'TT001';
  END IF;
  IF NOT turntree.append_event(p_ws, p_plan, p_seq, p_id, p_kind, p_body, NULL, NULL) THEN
    RETURN false;
  END IF;
  UPDATE turntree.plans SET outcome = p_outcome WHERE workspace_id = p_ws AND id = p_plan AND p_outcome IS NOT NULL;
  RETURN true;
END $$;

-- Returns the events of a workspace about resources and plans. Reads nothing if there are no resources.
CREATE OR REPLACE FUNCTION turntree.resource_events(p_ws uuid, p_kinds text[])
RETURNS TABLE (stream_id uuid, seq int, kind text, size int, data jsonb) LANGUAGE sql STABLE AS $$
  SELECT e.stream_id, e.seq, e.kind, octet_length(e.body), turntree.readable_document(e.body) -> 'data'
    FROM turntree.events e
    WHERE e.workspace_id = p_ws AND e.kind = ANY (p_kinds)
      AND (SELECT EXISTS (SELECT FROM turntree.resources r WHERE r.workspace_id = p_ws))
$$;
