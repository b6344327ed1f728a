-- Writing turns, events and objects.

-- name: record_event
SELECT turntree.record_event(%(workspace)b, %(stream)b, %(kind)b, %(at)b, %(data)b);

-- name: append_turn
SELECT turn_id::text, depth, version, repeated FROM turntree.append_turn(
  %(workspace)b, %(turn)b, %(parent)b, %(parent_digest)b, %(digest)b,
  %(started_at)b, %(sealed_at)b, %(kind)b, %(outcome)b, %(agent_role)b, %(actor)b, %(model)b,
  %(provider)b, %(header)b, %(body)b,
  %(calls)b::text[], %(models)b::text[], %(tokens)b::int[], %(files)b::text[], %(compaction)b,
  %(event_ids)b::bytea[], %(event_kinds)b::text[], %(event_bodies)b::text[],
  %(epoch)b, %(session)b, %(by)b, %(at)b, %(key)b);

-- name: lock_session
SELECT head::text, digest FROM turntree.lock_session(%(workspace)b, %(session)b);

-- name: append_event
SELECT turntree.append_event(%(workspace)b, %(stream)b, %(seq)b, %(id)b, %(kind)b, %(body)b, %(payload)b, %(epoch)b);

-- name: start_run
SELECT turntree.start_run(%(workspace)b, %(run)b, %(session)b, %(at)b, %(id)b, %(body)b, %(payload)b);

-- name: claim_run
SELECT turntree.claim_run(%(workspace)b, %(run)b);

-- name: list_run_events
SELECT e.body, p.payload FROM turntree.events e
  LEFT JOIN turntree.run_payloads p ON p.workspace_id = e.workspace_id AND p.run_id = e.stream_id AND p.seq = e.seq
  WHERE e.workspace_id = %(workspace)b AND e.stream_id = %(stream)b AND e.seq >= %(after)b ORDER BY e.seq LIMIT %(limit)b;

-- name: set_tag
SELECT turntree.set_tag(%(workspace)b, %(node)b, %(tag)b, %(on)b, %(by)b, %(at)b);

-- name: list_tags
-- Only of turns: a program carries its own tags.
SELECT node_id::text, tag FROM turntree.tags g
  WHERE workspace_id = %(workspace)b AND (%(turn)b::uuid IS NULL OR node_id = %(turn)b::uuid)
    AND (%(tag)b::text IS NULL OR tag = %(tag)b::text)
    AND EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = g.workspace_id AND t.id = g.node_id)
    AND (%(after_tag)b::text IS NULL OR (tag, node_id) > (%(after_tag)b::text, %(after_turn)b::uuid))
  ORDER BY tag, node_id LIMIT %(limit)b::bigint;

-- name: put_object
SELECT turntree.put_object(%(workspace)b, %(digest)b, %(bytes)b);

-- name: find_object
SELECT bytes FROM turntree.objects WHERE workspace_id = %(workspace)b AND digest = %(digest)b;

-- name: list_objects
SELECT digest, bytes FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND digest = ANY (%(digests)b::bytea[]);

-- name: list_objects_up_to
-- Objects by their digests; of a larger one only the beginning is read from disk.
SELECT digest, substring(bytes FOR %(bytes)b::int), octet_length(bytes) FROM turntree.objects
  WHERE workspace_id = %(workspace)b AND digest = ANY (%(digests)b::bytea[]);

-- name: require_turn_access
SELECT turntree.require_turn_access(%(workspace)b, %(turn)b, %(right)b::text);

-- name: erase_message
SELECT turntree.erase_message(%(workspace)b, %(turn)b, %(sequence)b, %(reason)b, %(by)b, %(at)b);
