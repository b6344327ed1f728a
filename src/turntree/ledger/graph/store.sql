-- The ledger as a graph, through its public functions. See functions/75_edges.sql.

-- name: edges_from
SELECT kind, from_kind, from_id, to_kind, to_id, attributes, recorded_at, valid_from, valid_to
  FROM ledger.edges_from(%(node)b) ORDER BY kind, to_id, attributes ->> 'how';

-- name: edges_to
SELECT kind, from_kind, from_id, to_kind, to_id, attributes, recorded_at, valid_from, valid_to
  FROM ledger.edges_to(%(node)b) ORDER BY kind, from_id;

-- name: edge_history
SELECT seq, id, kind, at, correlation_id, data FROM ledger.history(%(run)b);

-- name: edge_lineage
SELECT step, from_kind, from_id, to_kind, to_id, how FROM ledger.lineage(%(node)b, %(depth_max)b::int);

-- name: edge_calls
SELECT call_id, tool, status, message_id, call_event, result_event, correlation_id, spawned_session_id::text
  FROM ledger.calls(%(run)b);

-- name: edge_resources
SELECT kind, holder_kind, holder_id, resource, attributes, valid_from, valid_to, recorded_at
  FROM ledger.resources_at(%(at)b::bigint, %(holder)b::text);

-- name: edge_policies
SELECT what, policy, agent_id, event, valid_from, valid_to, recorded_at, notes FROM ledger.policies(%(agent)b::text);

-- name: edge_ancestry
SELECT step, kind, session_id::text, parent_session_id::text, turn_id::text, call_id, mode, at, by
  FROM ledger.ancestry(%(session)b, %(depth_max)b::int);

-- name: edge_event
SELECT e.kind, turntree.document(e.body) #>> '{data,by}' FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = %(stream)b AND e.seq = %(seq)b;

-- name: edge_recording
SELECT session_id::text, session_label, version, by, at FROM ledger.recorded_in(%(turn)b);
