-- Links: relations between two things that an event states, read from its body and stored next to it.

-- Returns the node id of an event: its stream and its position. A reference without a position is looked up in the
-- stream of the event that contains it; there is no index on digests, because each append would pay for it.
CREATE OR REPLACE FUNCTION turntree.event_node(p_ws uuid, p_stream uuid, p_ref jsonb) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce((p_ref ->> 'stream') || '/event/' || (p_ref ->> 'seq'),
    (SELECT e.stream_id || '/event/' || e.seq FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = p_stream
        AND 'sha256:' || encode(e.id, 'hex') = turntree.ref_id(p_ref) LIMIT 1),
    turntree.ref_id(p_ref))
$$;

-- Third parties write events too: a member that should be a list but is not counts as an empty one.
CREATE OR REPLACE FUNCTION turntree.array_or_empty(p_list jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE jsonb_typeof(p_list) WHEN 'array' THEN p_list ELSE '[]' END
$$;

-- Returns the kind of node that an id in a model's input names.
CREATE OR REPLACE FUNCTION turntree.input_kind(p_id text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_id LIKE '%/generation/%' THEN 'Generation' WHEN p_id LIKE '%/call/%' THEN 'ToolCall'
    WHEN p_id ~ '^[0-9a-f-]{36}/[0-9]+$' THEN 'Message' ELSE 'Resource' END
$$;

-- Returns all relations that one event states. An id is cut where an index could not hold it. Two kinds are not
-- edges: DETACHED ends the edges of an attachment, HANDLE leads from a live handle to its resource.
CREATE OR REPLACE FUNCTION turntree.links_in_event(p_ws uuid, p_stream uuid, p_seq int, p_kind text, p_body text)
RETURNS TABLE (kind text, from_kind text, from_id text, to_kind text, to_id text, holder text, valid_from timestamptz,
  valid_to timestamptz) LANGUAGE sql STABLE ROWS 4 AS $$
  WITH e AS (
    SELECT p_stream || '/event/' || p_seq AS id, d -> 'data' AS x, d -> 'parents' AS parents,
        turntree.ref_id(d -> 'data' -> 'resource_ref') AS resource,
        turntree.ref_id(d -> 'data' -> 'snapshot_ref') AS snapshot,
        turntree.ref_id(d -> 'data' -> 'policy_ref') AS policy,
        turntree.ref_id(d -> 'data' -> 'container_ref') AS container,
        CASE WHEN d #>> '{data,run_id}' IS NOT NULL THEN 'Run' WHEN d #>> '{data,agent_id}' IS NOT NULL THEN 'Agent'
          WHEN d #>> '{data,session_id}' = p_stream::text THEN 'Branch' ELSE 'Run' END AS holder_kind,
        coalesce(d #>> '{data,run_id}', d #>> '{data,agent_id}', p_stream::text) AS holder,
        CASE WHEN p_kind LIKE 'policy%' THEN d #>> '{data,agent_id}' WHEN p_kind LIKE 'resource%'
          THEN coalesce(d #>> '{data,run_id}', d #>> '{data,agent_id}', p_stream::text) END AS ender,
        coalesce(d ->> 'valid_from', d ->> 'at')::timestamptz AS since, (d ->> 'valid_to')::timestamptz AS until
      FROM turntree.document(p_body) AS d
  ), links (kind, from_kind, from_id, to_kind, to_id) AS (
    SELECT 'MCP_RESOURCE_UPDATED', 'Event', id, 'Resource', x ->> 'uri' FROM e WHERE p_kind = 'mcp.resource_updated'
    UNION ALL SELECT 'INTERRUPTS', 'Event', e.id, 'Event', turntree.event_node(p_ws, p_stream, a.ref)
      FROM e, jsonb_array_elements(turntree.array_or_empty(x -> 'affects') || turntree.array_or_empty(x -> 'stops')) AS a (ref)
      WHERE p_kind = 'run.interrupted'
    -- An import that reads a turn anew names two turns: the first event of each stands for it.
    UNION ALL SELECT 'SUBSTITUTES', 'Event',
      coalesce(turntree.event_node(p_ws, p_stream, x -> 'replacement'), (x ->> 'replacement_turn') || '/event/0'), 'Event',
      coalesce(turntree.event_node(p_ws, p_stream, x -> 'original'), (x ->> 'original_turn') || '/event/0')
      FROM e WHERE p_kind = 'event.substituted'
    UNION ALL SELECT 'EVENT_CONSUMES', 'Event', id, 'Resource', resource FROM e
      WHERE p_kind IN ('snapshot.created', 'resource.attached')
    UNION ALL SELECT 'EVENT_PRODUCES', 'Event', id, 'Snapshot', snapshot FROM e
      WHERE p_kind = 'snapshot.created' AND x ->> 'outcome' IS DISTINCT FROM 'error'
    UNION ALL SELECT 'SNAPSHOT_OF', 'Snapshot', snapshot, 'Resource', resource FROM e
      WHERE p_kind = 'snapshot.created' AND x ->> 'outcome' IS DISTINCT FROM 'error'
    UNION ALL SELECT 'RESTORES_TO', 'Snapshot', snapshot, 'Resource', turntree.ref_id(x -> 'new_resource_ref') FROM e
      WHERE p_kind = 'snapshot.restore_attempted' AND x ->> 'outcome' = 'ok'
    UNION ALL SELECT 'DERIVED_FROM', 'Resource', turntree.ref_id(x -> 'new_resource_ref'), 'Snapshot', snapshot FROM e
      WHERE p_kind = 'snapshot.restore_attempted' AND x ->> 'outcome' = 'ok'
    UNION ALL SELECT 'ATTACHED_TO', 'Resource', resource, holder_kind, holder FROM e WHERE p_kind = 'resource.attached'
    UNION ALL SELECT 'MOUNTS_RESOURCE', CASE WHEN container IS NULL THEN 'Run' ELSE 'Container' END,
      coalesce(container, x ->> 'run_id', p_stream::text), 'Resource', resource
      FROM e WHERE p_kind = 'resource.attached' AND x ? 'mount'
    UNION ALL SELECT 'OWNS_RESOURCE', CASE WHEN x -> 'scope' ? 'agent_id' THEN 'Agent' WHEN x -> 'scope' ? 'run_id' THEN 'Run'
        ELSE 'Branch' END,
      coalesce(x #>> '{scope,agent_id}', x #>> '{scope,run_id}', x #>> '{scope,session_id}'), 'Resource', resource
      FROM e WHERE p_kind = 'resource.attached'
    UNION ALL SELECT 'HAS_SUBRESOURCE', 'Resource', turntree.ref_id(x -> 'part_of'), 'Resource', resource
      FROM e WHERE p_kind = 'resource.attached'
    UNION ALL SELECT 'HANDLE', 'Handle', x #>> '{handle,id}', 'Resource', resource FROM e WHERE p_kind = 'resource.attached'
    UNION ALL SELECT 'DETACHED', 'Resource', resource, holder_kind, holder FROM e WHERE p_kind = 'resource.detached'
    UNION ALL SELECT 'FORKED_FROM', 'Branch', x ->> 'to_branch', CASE WHEN x ? 'at_event' THEN 'Event' ELSE 'Agent' END,
      coalesce(turntree.event_node(p_ws, p_stream, x -> 'at_event'), x ->> 'agent_id') FROM e WHERE p_kind = 'session.forked'
    UNION ALL SELECT 'ACTIVATES_POLICY', 'Event', id, 'Policy', policy FROM e WHERE p_kind = 'policy.activated'
    UNION ALL SELECT 'PROPOSES_POLICY', 'Event', id, 'Policy', policy FROM e WHERE p_kind = 'policy.proposed'
    UNION ALL SELECT 'EVENT_CONSUMES', 'Event', e.id, turntree.input_kind(turntree.ref_id(i.ref)), turntree.ref_id(i.ref)
      FROM e, jsonb_array_elements(turntree.array_or_empty(x -> 'input_refs')) AS i (ref)
      WHERE p_kind = 'model_call.started' AND NOT (jsonb_typeof(i.ref) = 'object' AND i.ref ? 'event_id')
    UNION ALL SELECT 'DERIVED_FROM', 'Run', p_stream::text, 'Event', turntree.event_node(p_ws, p_stream, x -> 'source_event')
      FROM e WHERE p_kind = 'run.started'
    UNION ALL SELECT 'DERIVED_FROM', 'Event', e.id, 'Event', turntree.event_node(p_ws, p_stream, c.ref)
      FROM e, jsonb_array_elements(turntree.array_or_empty(e.parents)) AS c (ref)
  )
  SELECT l.kind, l.from_kind, left(l.from_id, 600), l.to_kind, left(l.to_id, 600), left(e.ender, 600), e.since, e.until
    FROM links l, e WHERE l.from_id IS NOT NULL AND l.to_id IS NOT NULL
$$;

-- Whether an event can state relations at all. Most cannot, and need not be parsed.
CREATE OR REPLACE FUNCTION turntree.has_links(p_kind text, p_body text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT p_kind IN ('mcp.resource_updated', 'run.interrupted', 'event.substituted', 'snapshot.created', 'resource.attached',
      'resource.detached', 'snapshot.restore_attempted', 'session.forked', 'policy.activated', 'policy.proposed', 'run.started')
    OR p_kind = 'model_call.started' AND position('"input_refs":[' IN p_body) > 0 OR position('"parents":[' IN p_body) > 0
$$;

-- The same for an event that may be corrupt: one that cannot be parsed has no links.
CREATE OR REPLACE FUNCTION turntree.readable_links(p_ws uuid, p_stream uuid, p_seq int, p_kind text, p_body text)
RETURNS TABLE (kind text, from_kind text, from_id text, to_kind text, to_id text, holder text, valid_from timestamptz,
  valid_to timestamptz) LANGUAGE plpgsql STABLE ROWS 4 AS $$
BEGIN
  RETURN QUERY SELECT * FROM turntree.links_in_event(p_ws, p_stream, p_seq, p_kind, p_body);
EXCEPTION WHEN data_exception THEN
  RETURN;
END $$;

-- Returns the turns, objects or events that a turn's header names as retried or as sources, by their digests. These
-- links are at position -1, before all events, and their holder says how.
CREATE OR REPLACE FUNCTION turntree.header_links(p_ws uuid, p_turn uuid)
RETURNS TABLE (how text, to_kind text, to_id text, at timestamptz) LANGUAGE sql STABLE ROWS 2 AS $$
  SELECT s.how, s.to_kind, s.to_id, (h.j ->> 'sealed_at')::timestamptz
    FROM (SELECT turntree.document(b.header) AS j FROM turntree.turn_bodies b WHERE b.workspace_id = p_ws AND b.turn_id = p_turn
      AND (position('"derived_from":[' IN b.header) > 0 OR position('"retry_of":"' IN b.header) > 0) OFFSET 0) h,
    LATERAL (
      SELECT 'retries' AS how, 'Run' AS to_kind, h.j ->> 'retry_of' AS to_id
      UNION ALL SELECT 'derives', CASE WHEN t.id IS NOT NULL THEN 'Run' WHEN o.digest IS NOT NULL THEN 'Resource' ELSE 'Event' END,
          coalesce(t.id::text, turntree.event_node(p_ws, p_turn, to_jsonb(d.digest)))
        FROM jsonb_array_elements_text(turntree.array_or_empty(h.j -> 'derived_from')) AS d (digest)
        LEFT JOIN turntree.turns t ON t.workspace_id = p_ws AND t.digest = decode(substr(d.digest, 8), 'hex')
        LEFT JOIN turntree.objects o ON o.workspace_id = p_ws AND o.digest = decode(substr(d.digest, 8), 'hex')
    ) s WHERE s.to_id IS NOT NULL
$$;

-- Inserts the links of a stream's events from a position on. Existing links stay.
CREATE OR REPLACE FUNCTION turntree.insert_links(p_ws uuid, p_stream uuid, p_first int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO turntree.event_links (workspace_id, stream_id, seq, sequence, kind, from_kind, from_id, to_kind, to_id,
      holder, valid_from, valid_to)
    SELECT p_ws, p_stream, e.seq, l.o - 1, l.kind, l.from_kind, l.from_id, l.to_kind, l.to_id, l.holder, l.valid_from, l.valid_to
      FROM turntree.events e, LATERAL turntree.links_in_event(p_ws, p_stream, e.seq, e.kind, e.body) WITH ORDINALITY
        AS l (kind, from_kind, from_id, to_kind, to_id, holder, valid_from, valid_to, o)
      WHERE e.workspace_id = p_ws AND e.stream_id = p_stream AND e.seq >= p_first AND turntree.has_links(e.kind, e.body)
    UNION ALL SELECT p_ws, p_stream, -1, l.o - 1, 'DERIVED_FROM', 'Run', p_stream::text, l.to_kind, l.to_id, l.how, l.at, NULL
      FROM turntree.header_links(p_ws, p_stream) WITH ORDINALITY AS l (how, to_kind, to_id, at, o)
    ON CONFLICT DO NOTHING
$$;
