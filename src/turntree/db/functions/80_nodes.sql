-- Nodes, the ends of edges, and six common queries over them.

-- Nodes whose id starts with a stream.
CREATE OR REPLACE VIEW turntree.stream_nodes WITH (security_invoker = true) AS
SELECT 'Run' AS kind, t.id::text AS id, jsonb_strip_nulls(jsonb_build_object('outcome', t.outcome::text, 'turn_type', t.kind::text,
      'model', t.model, 'depth', t.depth, 'digest', 'sha256:' || encode(t.digest, 'hex'))) AS attributes,
    turntree.unix_ms(t.started_at) AS created_at, t.id AS stream_id
  FROM turntree.turns t
UNION ALL
SELECT 'Run', r.id::text, jsonb_build_object('status', r.status, 'epoch', r.epoch), turntree.unix_ms(r.started_at), r.id
  FROM turntree.runs r WHERE r.status <> 'finished'
UNION ALL
SELECT 'Event', e.stream_id || '/event/' || e.seq,
    jsonb_build_object('event', ledger.document_kind(e.kind), 'seq', e.seq, 'digest', 'sha256:' || encode(e.id, 'hex')),
    turntree.recorded_at(turntree.document(e.body)), e.stream_id
  FROM turntree.events e
UNION ALL
SELECT 'Message', t.id || '/' || m.sequence,
    jsonb_strip_nulls(jsonb_build_object('role', coalesce(m.j ->> 'role', 'erased'), 'source', m.j ->> 'source')),
    turntree.unix_ms(t.started_at), t.id
  FROM turntree.turns t, LATERAL turntree.turn_messages(t.workspace_id, t.id) m
UNION ALL
SELECT 'Generation', t.id || '/generation/' || m.sequence,
    jsonb_strip_nulls(jsonb_build_object('message', t.id || '/' || m.sequence, 'model', t.model)), turntree.unix_ms(t.started_at), t.id
  FROM turntree.turns t, LATERAL turntree.turn_messages(t.workspace_id, t.id) m WHERE m.j ->> 'role' = 'assistant'
UNION ALL
SELECT x.kind, c.turn_id || x.part || c.call_id, jsonb_build_object('call_id', c.call_id, 'tool', c.tool, 'status', c.status::text),
    turntree.unix_ms(t.started_at), c.turn_id
  FROM turntree.tool_calls c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id,
    (VALUES ('ToolCall', '/call/'), ('ToolResult', '/result/')) AS x (kind, part)
UNION ALL
SELECT 'Summary', c.turn_id || '/summary', jsonb_strip_nulls(jsonb_build_object('turns_summarized', c.turns_summarized,
      'message', turntree.response_message_id(c.workspace_id, c.turn_id))), turntree.unix_ms(t.sealed_at), c.turn_id
  FROM turntree.compactions c JOIN turntree.turns t ON t.workspace_id = c.workspace_id AND t.id = c.turn_id
UNION ALL
SELECT 'Branch', s.id::text, jsonb_strip_nulls(jsonb_build_object('label', n.name, 'status', s.status::text, 'head', s.head_id)),
    turntree.unix_ms(s.created_at), s.id
  FROM turntree.sessions s
  JOIN turntree.session_names n ON n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NULL
UNION ALL
SELECT 'Subagent', w.session_id::text, jsonb_strip_nulls(jsonb_build_object('label', n.name, 'parent_agent_id', t.by,
      'mode', w.mode, 'task', w.task)), turntree.unix_ms(s.created_at), w.session_id
  FROM turntree.spawns w
  JOIN turntree.sessions s ON s.workspace_id = w.workspace_id AND s.id = w.session_id
  JOIN turntree.turns t ON t.workspace_id = w.workspace_id AND t.id = w.parent_turn_id
  JOIN turntree.session_names n ON n.workspace_id = w.workspace_id AND n.session_id = w.session_id AND n.reason IS NULL;

-- Returns the events that mention something outside the ledger.
CREATE OR REPLACE FUNCTION turntree.external_node_events(p_ws uuid, p_kind text, p_id text) RETURNS TABLE (d jsonb)
LANGUAGE sql STABLE ROWS 5 AS $$
  SELECT turntree.document(e.body) FROM (
      SELECT l.stream_id, l.seq FROM turntree.event_links l
        WHERE l.workspace_id = p_ws AND l.from_id = p_id AND l.from_kind = p_kind
      UNION SELECT l.stream_id, l.seq FROM turntree.event_links l
        WHERE l.workspace_id = p_ws AND l.to_id = p_id AND l.to_kind = p_kind
    ) l, LATERAL (SELECT x.body FROM turntree.events x
      WHERE x.workspace_id = p_ws AND x.stream_id = l.stream_id AND x.seq = l.seq OFFSET 0) e
$$;

-- Things outside the ledger, as described by the newest event that names them.
CREATE OR REPLACE VIEW turntree.external_nodes WITH (security_invoker = true) AS
SELECT n.kind, n.id, (SELECT CASE WHEN n.kind = 'Handle' THEN l.d #> '{data,handle}' ELSE (l.d -> 'data') - 'handle' END
      FROM turntree.external_node_events(n.workspace_id, n.kind, n.id) l 
      ORDER BY l.d ->> 'kind' = CASE n.kind WHEN 'Snapshot' THEN 'snapshot.created' ELSE 'resource.attached' END DESC,
        turntree.effective_from(l.d) DESC LIMIT 1)
      || CASE WHEN n.kind = 'Policy' THEN jsonb_build_object('kind', CASE WHEN EXISTS (SELECT FROM turntree.event_links p
        WHERE p.workspace_id = n.workspace_id AND p.to_id = n.id AND p.kind = 'ACTIVATES_POLICY') THEN 'active'
        ELSE 'proposal' END) ELSE '{}' END AS attributes,
    (SELECT min(turntree.recorded_at(l.d)) FROM turntree.external_node_events(n.workspace_id, n.kind, n.id) l) AS created_at
  FROM (SELECT workspace_id, from_kind AS kind, from_id AS id FROM turntree.event_links
      WHERE from_kind IN ('Resource', 'Snapshot', 'Policy', 'Handle')
    UNION SELECT workspace_id, to_kind, to_id FROM turntree.event_links WHERE to_kind IN ('Resource', 'Snapshot', 'Policy')) n;

-- Agents are the principals that acted. A skip scan over the index of actors reads one entry for each name.
CREATE OR REPLACE VIEW turntree.agent_nodes WITH (security_invoker = true) AS
WITH RECURSIVE a (name) AS (
  (SELECT t.by FROM turntree.turns t ORDER BY t.workspace_id, t.by LIMIT 1)
  UNION ALL
  SELECT (SELECT t.by FROM turntree.turns t WHERE t.by > a.name ORDER BY t.workspace_id, t.by LIMIT 1) FROM a WHERE a.name IS NOT NULL
)
SELECT 'Agent' AS kind, a.name AS id, jsonb_build_object('principal', split_part(a.name, ':', 1)) AS attributes, NULL::bigint AS created_at
  FROM a WHERE a.name IS NOT NULL;

-- All nodes.
CREATE OR REPLACE VIEW ledger.nodes WITH (security_invoker = true) AS
SELECT kind, id, attributes, created_at, stream_id FROM turntree.stream_nodes
UNION ALL SELECT kind, id, attributes, created_at, NULL::uuid FROM turntree.external_nodes
UNION ALL SELECT kind, id, attributes, created_at, NULL::uuid FROM turntree.agent_nodes;

-- Returns the nodes with an id: one, or two if a session is both a branch and a subagent.
CREATE OR REPLACE FUNCTION ledger.node(id text) RETURNS SETOF ledger.nodes LANGUAGE sql STABLE ROWS 2 AS $$
  SELECT n.kind, n.id, n.attributes, n.created_at, n.stream_id FROM turntree.stream_nodes n
    WHERE n.stream_id = turntree.node_stream($1) AND n.id = $1
  UNION ALL SELECT n.kind, n.id, n.attributes, n.created_at, NULL FROM turntree.external_nodes n WHERE n.id = $1
  UNION ALL SELECT n.kind, n.id, n.attributes, n.created_at, NULL FROM turntree.agent_nodes n WHERE n.id = $1
$$;

-- History: the events of a run, a turn or a session in order. An event of a run names the run and the agent that acts
-- in it; an event of a session or a program names neither.
DROP FUNCTION IF EXISTS ledger.history(uuid); -- its columns differ from earlier releases
CREATE FUNCTION ledger.history(run uuid)
RETURNS TABLE (seq int, id text, kind text, at bigint, digest text, correlation_id text, data jsonb, run_id uuid, agent text,
  event_group text)
LANGUAGE sql STABLE ROWS 20 AS $$
  SELECT e.seq, e.stream_id || '/event/' || e.seq, ledger.document_kind(e.kind), turntree.recorded_at(d.j), 'sha256:' || encode(e.id, 'hex'),
      d.j ->> 'correlation_id', d.j -> 'data', CASE WHEN s.source IS NOT NULL THEN run END,
      coalesce('agent:' || coalesce(s.source ->> 'agent', s.source #>> '{options,agent}'),
        (SELECT t.by FROM turntree.turns t WHERE t.workspace_id = e.workspace_id AND t.id = run)), ledger.event_group(e.kind)
    FROM (SELECT turntree.run_source(turntree.current_workspace(), run) AS source OFFSET 0) s, turntree.events e,
      LATERAL (SELECT turntree.document(e.body) AS j OFFSET 0) d
    WHERE e.workspace_id = turntree.current_workspace() AND e.stream_id = run ORDER BY e.seq
$$;

-- Lineage: what a node was derived from, and that in turn, up to depth_max steps.
CREATE OR REPLACE FUNCTION ledger.lineage(id text, depth_max int DEFAULT 10)
RETURNS TABLE (step int, from_kind text, from_id text, to_kind text, to_id text, how text)
LANGUAGE sql STABLE ROWS 20 AS $$
  WITH RECURSIVE l (step, from_kind, from_id, to_kind, to_id, how) AS (
    SELECT 0, NULL::text, NULL::text, NULL::text, $1, NULL::text
    UNION ALL
    SELECT l.step + 1, e.from_kind, e.from_id, e.to_kind, e.to_id, e.attributes ->> 'how' FROM l, LATERAL (
      SELECT x.from_kind, x.from_id, x.to_kind, x.to_id, x.attributes FROM ledger.edges_from(l.to_id) x
        WHERE x.kind = 'DERIVED_FROM' OFFSET 0) e
      WHERE l.step < depth_max
  ) CYCLE to_id SET is_cycle USING path
  SELECT l.step, l.from_kind, l.from_id, l.to_kind, l.to_id, l.how FROM l WHERE l.step > 0 AND NOT l.is_cycle ORDER BY l.step
$$;

-- Correlation: the tool calls of a run, each with the message that requested it, its result and the session it
-- spawned.
CREATE OR REPLACE FUNCTION ledger.calls(run uuid)
RETURNS TABLE (call_id text, tool text, status text, call text, result text, message_id text, call_event text, result_event text,
  correlation_id text, spawned_session_id uuid)
LANGUAGE sql STABLE ROWS 5 AS $$
  WITH e AS (
    SELECT e.stream_id || '/event/' || e.seq AS id, e.seq, e.kind, turntree.document(e.body) AS j FROM turntree.events e
      WHERE e.workspace_id = turntree.current_workspace() AND e.stream_id = run AND e.kind IN ('tool_call.started', 'tool_call.finished')
  ), c AS (
    SELECT x.call_id, x.tool, x.status::text, x.sequence FROM turntree.tool_calls x
      WHERE x.workspace_id = turntree.current_workspace() AND x.turn_id = run
    UNION ALL SELECT e.j #>> '{data,call_id}', e.j #>> '{data,tool}', NULL, e.seq FROM e
      WHERE e.kind = 'tool_call.started' AND NOT EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = turntree.current_workspace() AND t.id = run)
  )
  SELECT c.call_id, c.tool, coalesce(c.status, r.j #>> '{data,status}'), run || '/call/' || c.call_id,
      CASE WHEN c.status IS NOT NULL OR r.id IS NOT NULL THEN run || '/result/' || c.call_id END,
      turntree.tool_part(turntree.current_workspace(), run, c.call_id, 'tool_use') ->> 'message_id', a.id, r.id,
      coalesce(a.j ->> 'correlation_id', r.j ->> 'correlation_id'),
      (SELECT w.session_id FROM turntree.spawns w WHERE w.workspace_id = turntree.current_workspace() AND w.parent_turn_id = run
        AND w.call_id = c.call_id LIMIT 1)
    FROM c LEFT JOIN e a ON a.kind = 'tool_call.started' AND a.j #>> '{data,call_id}' = c.call_id
      LEFT JOIN e r ON r.kind = 'tool_call.finished' AND r.j #>> '{data,call_id}' = c.call_id
    ORDER BY c.sequence
$$;

-- Ownership and mounts: who owned, mounted or was attached to which resource at a point in time.
CREATE OR REPLACE FUNCTION ledger.resources_at(at bigint, holder text DEFAULT NULL)
RETURNS TABLE (kind text, holder_kind text, holder_id text, resource text, attributes jsonb, valid_from bigint, valid_to bigint,
  recorded_at bigint)
LANGUAGE sql STABLE ROWS 20 AS $$
  SELECT e.kind, CASE e.kind WHEN 'ATTACHED_TO' THEN e.to_kind ELSE e.from_kind END,
      CASE e.kind WHEN 'ATTACHED_TO' THEN e.to_id ELSE e.from_id END,
      CASE e.kind WHEN 'ATTACHED_TO' THEN e.from_id ELSE e.to_id END, e.attributes, e.valid_from, e.valid_to, e.recorded_at
    FROM (
      SELECT * FROM turntree.link_edges f WHERE f.kind IN ('OWNS_RESOURCE', 'MOUNTS_RESOURCE') AND f.from_id = $2
      UNION ALL SELECT * FROM turntree.link_edges f WHERE f.kind = 'ATTACHED_TO' AND f.to_id = $2
      UNION ALL SELECT * FROM turntree.link_edges f
        WHERE f.kind IN ('OWNS_RESOURCE', 'MOUNTS_RESOURCE', 'ATTACHED_TO') AND $2 IS NULL
    ) e
    WHERE e.valid_from <= $1 AND (e.valid_to IS NULL OR e.valid_to > $1)
    ORDER BY e.valid_from, e.kind
$$;

-- Policies: what was proposed and activated, and how long each was in force.
CREATE OR REPLACE FUNCTION ledger.policies(agent text DEFAULT NULL)
RETURNS TABLE (what text, policy text, agent_id text, event text, valid_from bigint, valid_to bigint, recorded_at bigint, notes text)
LANGUAGE sql STABLE ROWS 20 AS $$
  SELECT CASE e.kind WHEN 'PROPOSES_POLICY' THEN 'proposed' ELSE 'activated' END, e.to_id, e.attributes ->> 'agent_id', e.from_id,
      e.valid_from, e.valid_to, e.recorded_at, e.attributes ->> 'notes'
    FROM turntree.link_edges e
    WHERE e.kind IN ('PROPOSES_POLICY', 'ACTIVATES_POLICY') AND ($1 IS NULL OR e.attributes ->> 'agent_id' = $1)
    ORDER BY e.valid_from, e.recorded_at
$$;

-- Returns the session that a turn advanced when it was recorded, and the principal; no row if the turn was imported.
CREATE OR REPLACE FUNCTION ledger.recorded_in(turn uuid) RETURNS TABLE (session_id uuid, session_label text, version int, by text, at bigint)
LANGUAGE sql STABLE ROWS 1 AS $$
  SELECT h.session_id, n.name, h.version, h.by, turntree.unix_ms(h.changed_at)
    FROM turntree.turns t
    JOIN turntree.session_reach r ON r.workspace_id = t.workspace_id AND r.segment_id = t.segment_id AND r.max_depth >= t.depth
    CROSS JOIN LATERAL (SELECT * FROM turntree.session_history x WHERE x.workspace_id = t.workspace_id AND x.session_id = r.session_id
      AND x.after_id = t.id AND x.kind = 'advance' ORDER BY x.version LIMIT 1) h
    JOIN turntree.session_names n ON n.workspace_id = t.workspace_id AND n.session_id = h.session_id AND n.reason IS NULL
    WHERE t.workspace_id = turntree.current_workspace() AND t.id = turn ORDER BY h.changed_at LIMIT 1
$$;

-- Ancestry: the session that a session was forked from or spawned by, and that one's, up to depth_max steps.
CREATE OR REPLACE FUNCTION ledger.ancestry(session uuid, depth_max int DEFAULT 20)
RETURNS TABLE (step int, kind text, session_id uuid, parent_session_id uuid, turn_id uuid, call_id text, mode text, at bigint, by text)
LANGUAGE sql STABLE ROWS 5 AS $$
  WITH RECURSIVE a (step, kind, session_id, parent_session_id, turn_id, call_id, mode, at, by) AS (
    SELECT 0, NULL::text, NULL::uuid, $1, NULL::uuid, NULL::text, NULL::text, NULL::bigint, NULL::text
    UNION ALL
    SELECT a.step + 1, b.kind, a.parent_session_id, b.parent_session_id, b.turn_id, b.call_id, b.mode, b.at, b.by FROM a, LATERAL (
      SELECT CASE WHEN w.session_id IS NULL THEN 'FORKED_FROM' ELSE 'SPAWNED_FROM' END AS kind,
          CASE WHEN w.session_id IS NULL THEN (SELECT i.session_id FROM ledger.recorded_in(h.after_id) i)
            ELSE w.parent_session_id END AS parent_session_id,
          coalesce(w.parent_turn_id, h.after_id) AS turn_id, w.call_id, w.mode, turntree.unix_ms(h.changed_at) AS at, h.by
        FROM turntree.session_history h
        LEFT JOIN turntree.spawns w ON w.workspace_id = h.workspace_id AND w.session_id = h.session_id
        WHERE h.workspace_id = turntree.current_workspace() AND h.session_id = a.parent_session_id AND h.version = 1
          AND (h.kind = 'fork' OR w.session_id IS NOT NULL) OFFSET 0) b
      WHERE a.step < depth_max
  ) CYCLE parent_session_id SET is_cycle USING path
  SELECT a.step, a.kind, a.session_id, a.parent_session_id, a.turn_id, a.call_id, a.mode, a.at, a.by FROM a
    WHERE a.step > 0 AND NOT a.is_cycle ORDER BY a.step
$$;

GRANT SELECT ON turntree.stream_nodes, turntree.external_nodes, turntree.agent_nodes TO turntree_app, turntree_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger TO turntree_app, turntree_reader;
