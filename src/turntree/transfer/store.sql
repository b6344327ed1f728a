-- Archives: the rows of a workspace as its viewer sees them, and how they are inserted again. Text is sorted by its
-- bytes: servers with other collations write the same file. Row-level security hides most of what a viewer may not
-- see; the conditions below are for the tables without such a policy. An archive of one thread has the ids of its turns
-- in `turns`, which is NULL for everything.

-- name: repeatable_read
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: archive_begin
-- What the viewer cannot see is not exported. Neither is what is not finished: two ledgers would go on with it.
SELECT turntree.can_see_all_programs(), set_config('TimeZone', 'UTC', true),
  (SELECT count(*) FROM turntree.runs r WHERE r.workspace_id = %(workspace)b AND r.status <> 'finished'
    AND turntree.reader_can_see(r.workspace_id, r.id))
  + (SELECT count(*) FROM turntree.queued_messages q WHERE q.workspace_id = %(workspace)b AND q.payload IS NOT NULL)
  + (SELECT count(*) FROM turntree.plans p WHERE p.workspace_id = %(workspace)b AND p.outcome IS NULL
    AND turntree.can_see_all_programs());

-- name: archive_size
SELECT (SELECT count(*) FROM turntree.turns WHERE workspace_id = %(workspace)b)
  + (SELECT count(*) FROM turntree.events WHERE workspace_id = %(workspace)b)
  + (SELECT count(*) FROM turntree.objects WHERE workspace_id = %(workspace)b);

-- name: archive_resources
-- The resources that visible sessions work on, for a viewer from whom something is hidden.
WITH RECURSIVE seen (id) AS (
  SELECT r.id FROM turntree.resources r WHERE r.workspace_id = %(workspace)b AND (
    EXISTS (SELECT FROM turntree.turn_snapshots p WHERE p.workspace_id = r.workspace_id AND p.resource_id = r.id)
    OR EXISTS (SELECT FROM turntree.resource_attachments a WHERE a.workspace_id = r.workspace_id AND a.resource_id = r.id))
  UNION SELECT r.part_of FROM seen s JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id = s.id
    WHERE r.part_of IS NOT NULL
)
SELECT id FROM seen;

-- name: thread_files
-- The states of files before and after each turn. A worktree counts as the folder that it was forked from.
WITH RECURSIVE origins (id, origin) AS (
  SELECT p.resource_id, p.resource_id FROM turntree.turn_snapshots p
    WHERE p.workspace_id = %(workspace)b AND p.turn_id = ANY (%(turns)b::uuid[])
  UNION SELECT o.id, (r.metadata ->> 'forked_from')::uuid FROM origins o
    JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id = o.origin WHERE r.metadata ? 'forked_from'
), first AS (
  SELECT DISTINCT ON (o.id) o.id, r.id AS origin, r.kind, r.name FROM origins o
    JOIN turntree.resources r ON r.workspace_id = %(workspace)b AND r.id = o.origin ORDER BY o.id, r.created_at, r.id
)
SELECT jsonb_build_object('turn', p.turn_id, 'resource', f.origin, 'of', f.kind, 'name', f.name, 'mode', p.mode,
    'began_at', p.started_at, 'ended_at', p.ended_at, 'before', b.external_id, 'after', a.external_id)::text
  FROM turntree.turn_snapshots p
  JOIN first f ON f.id = p.resource_id
  JOIN turntree.snapshots a ON a.workspace_id = p.workspace_id AND a.id = p.after_snapshot_id
  LEFT JOIN turntree.snapshots b ON b.workspace_id = p.workspace_id AND b.id = p.before_snapshot_id
  WHERE p.workspace_id = %(workspace)b AND p.turn_id = ANY (%(turns)b::uuid[]) AND a.external_kind = 'shadow-tree'
  ORDER BY p.turn_id, p.resource_id;

-- name: archive_states
-- The snapshots whose files are in the object store of this machine.
SELECT DISTINCT s.external_id FROM turntree.snapshots s
  WHERE s.workspace_id = %(workspace)b AND s.external_kind = 'shadow-tree' AND (%(sees_all)b
    OR EXISTS (SELECT FROM turntree.turn_snapshots p WHERE p.workspace_id = s.workspace_id AND p.resource_id = s.resource_id
      AND s.id IN (p.before_snapshot_id, p.after_snapshot_id)))
  ORDER BY 1;

-- name: export_event
-- In the order of the feed, so that a reader of the new feed meets them in this order again. Who may do what is for the
-- workspace that reads the archive to say: the stream of the workspace itself stays here.
SELECT e.id, e.body FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b AND e.stream_id <> turntree.workspace_stream()
    AND NOT EXISTS (SELECT FROM turntree.runs r
      WHERE r.workspace_id = e.workspace_id AND r.id = e.stream_id AND r.status <> 'finished')
    AND NOT EXISTS (SELECT FROM turntree.approvals a LEFT JOIN turntree.runs r ON r.workspace_id = a.workspace_id AND r.id = a.run_id
      WHERE a.workspace_id = e.workspace_id AND a.id = e.stream_id
        AND (a.state IN ('pending', 'approved', 'edited') OR r.status <> 'finished'))
    AND NOT EXISTS (SELECT FROM turntree.plans p
      WHERE p.workspace_id = e.workspace_id AND p.id = e.stream_id AND (p.outcome IS NULL OR NOT (%(sees_all)b
        OR EXISTS (SELECT FROM turntree.session_plans s WHERE s.workspace_id = p.workspace_id AND s.plan_id = p.id))))
    AND (%(sees_all)b OR NOT EXISTS (SELECT FROM turntree.resources r
      WHERE r.workspace_id = e.workspace_id AND r.id = e.stream_id AND NOT r.id = ANY (%(resources)b::uuid[])))
    AND (%(turns)b::uuid[] IS NULL OR e.stream_id = ANY (%(turns)b::uuid[]))
  ORDER BY e.epoch, e.xid, e.n;

-- name: export_turn
SELECT t.id::text, t.parent_id::text, t.depth, t.digest, b.header, b.body
  FROM turntree.turns t JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE t.workspace_id = %(workspace)b AND (%(turns)b::uuid[] IS NULL OR t.id = ANY (%(turns)b::uuid[]))
  ORDER BY t.depth, t.id;

-- name: export_object
SELECT o.digest, o.bytes FROM turntree.objects o
  WHERE o.workspace_id = %(workspace)b AND (%(turns)b::uuid[] IS NULL OR o.digest IN (SELECT h.digest
    FROM turntree.object_holders h WHERE h.workspace_id = %(workspace)b AND h.turn_id = ANY (%(turns)b::uuid[])))
  ORDER BY o.digest;

-- name: export_erased_call
-- Which tools an erased message called is only in these rows, no longer in the body.
SELECT (to_jsonb(c) - 'workspace_id')::text FROM turntree.tool_calls c
  JOIN turntree.turn_bodies b ON b.workspace_id = c.workspace_id AND b.turn_id = c.turn_id
  WHERE c.workspace_id = %(workspace)b AND CASE WHEN %(turns)b::uuid[] IS NULL
    THEN position('{"erased":"sha256:' IN b.body) > 0 ELSE c.turn_id = ANY (%(turns)b::uuid[]) END
  ORDER BY c.turn_id, c.sequence;

-- name: export_erased_file
SELECT (to_jsonb(f) - 'workspace_id')::text FROM turntree.message_files f
  JOIN turntree.turn_bodies b ON b.workspace_id = f.workspace_id AND b.turn_id = f.turn_id
  WHERE f.workspace_id = %(workspace)b AND CASE WHEN %(turns)b::uuid[] IS NULL
    THEN position('{"erased":"sha256:' IN b.body) > 0 ELSE f.turn_id = ANY (%(turns)b::uuid[]) END
  ORDER BY f.turn_id, f.message, f.sequence;

-- name: export_program
SELECT (to_jsonb(p) - 'workspace_id')::text FROM turntree.programs p
  WHERE p.workspace_id = %(workspace)b
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(p.workspace_id, p.id, turntree.viewer()))
  ORDER BY p.id;

-- name: export_program_version
SELECT (to_jsonb(v) - 'workspace_id')::text FROM turntree.program_versions v
  WHERE v.workspace_id = %(workspace)b ORDER BY v.program_id, v.version;

-- name: export_program_reference
SELECT (to_jsonb(r) - 'workspace_id')::text FROM turntree.program_refs r
  WHERE r.workspace_id = %(workspace)b
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(r.workspace_id, r.target_id, turntree.viewer()))
  ORDER BY r.program_id, r.version, r.path COLLATE "C";

-- name: export_grant
SELECT (to_jsonb(g) - 'workspace_id')::text FROM turntree.program_grants g
  WHERE g.workspace_id = %(workspace)b
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(g.workspace_id, g.program_id, turntree.viewer()))
  ORDER BY g.program_id, g.grantee COLLATE "C", g.access COLLATE "C";

-- name: export_session
SELECT jsonb_build_object('id', s.id, 'label', l.name, 'head', s.head_id, 'depth', coalesce(t.depth, 0),
    'head_digest', 'sha256:' || encode(t.digest, 'hex'), 'status', s.status, 'version', s.version, 'events', s.event_seq,
    'created_at', s.created_at, 'updated_at', s.updated_at, 'imported_by', s.imported_by,
    'aliases', coalesce((SELECT jsonb_agg(n.name ORDER BY n.name COLLATE "C") FROM turntree.session_names n
      WHERE n.workspace_id = s.workspace_id AND n.session_id = s.id AND n.reason IS NOT NULL), '[]'),
    'origin', CASE WHEN s.origin IS NOT NULL
      THEN jsonb_build_object('tool', s.origin, 'session_id', s.origin_session_id) END,
    'spawned_by', CASE WHEN w.session_id IS NOT NULL THEN jsonb_build_object('parent_session', w.parent_session_id,
      'parent_turn', w.parent_turn_id, 'call_id', w.call_id, 'mode', w.mode, 'task', w.task) END)::text
  FROM turntree.sessions s
  LEFT JOIN turntree.session_names l ON l.workspace_id = s.workspace_id AND l.session_id = s.id AND l.reason IS NULL
  LEFT JOIN turntree.turns t ON t.workspace_id = s.workspace_id AND t.id = s.head_id
  LEFT JOIN turntree.spawns w ON w.workspace_id = s.workspace_id AND w.session_id = s.id
  WHERE s.workspace_id = %(workspace)b ORDER BY s.id;

-- name: export_name
SELECT (to_jsonb(n) - 'workspace_id')::text FROM turntree.session_names n
  WHERE n.workspace_id = %(workspace)b ORDER BY n.name COLLATE "C";

-- name: export_move
SELECT (to_jsonb(h) - 'workspace_id')::text FROM turntree.session_history h
  WHERE h.workspace_id = %(workspace)b ORDER BY h.session_id, h.version;

-- name: export_spawn
SELECT (to_jsonb(w) - 'workspace_id')::text FROM turntree.spawns w
  WHERE w.workspace_id = %(workspace)b ORDER BY w.session_id;

-- name: export_tag
SELECT (to_jsonb(g) - 'workspace_id')::text FROM turntree.tags g
  WHERE g.workspace_id = %(workspace)b AND (%(turns)b::uuid[] IS NULL OR g.node_id = ANY (%(turns)b::uuid[]))
  ORDER BY g.node_id, g.tag COLLATE "C";

-- name: export_idempotency_key
SELECT (to_jsonb(k) - 'workspace_id')::text FROM turntree.idempotency_keys k
  WHERE k.workspace_id = %(workspace)b ORDER BY k.by COLLATE "C", k.idempotency_key COLLATE "C";

-- name: export_run
SELECT (to_jsonb(r) - 'workspace_id')::text FROM turntree.runs r
  WHERE r.workspace_id = %(workspace)b AND r.status = 'finished'
    AND (%(sees_all)b OR turntree.reader_can_see(r.workspace_id, r.id))
    AND (%(turns)b::uuid[] IS NULL OR r.id = ANY (%(turns)b::uuid[]))
  ORDER BY r.id;

-- name: export_queued_message
-- Messages that were answered. They come before those that wait, so the numbers have no gap.
SELECT (to_jsonb(q) - 'workspace_id')::text FROM turntree.queued_messages q
  WHERE q.workspace_id = %(workspace)b AND q.payload IS NULL AND EXISTS (SELECT FROM turntree.runs r
    WHERE r.workspace_id = q.workspace_id AND r.id = q.run_id AND r.status = 'finished')
  ORDER BY q.session_id, q.seq;

-- name: export_conversation
SELECT (to_jsonb(c) - 'workspace_id')::text FROM turntree.conversations c
  WHERE c.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(c.workspace_id, c.id, turntree.viewer()))
  ORDER BY c.id;

-- name: export_participant
-- Messages that wait stay here, so an agent has not been told of their posts where the archive is read.
SELECT (to_jsonb(p) - 'workspace_id' || jsonb_build_object('told_seq', least(p.told_seq, coalesce((
    SELECT min(d.seq) - 1 FROM turntree.post_deliveries d JOIN turntree.queued_messages q ON q.workspace_id = d.workspace_id
        AND q.session_id = d.session_id AND q.seq = d.message_seq
      WHERE d.workspace_id = p.workspace_id AND d.session_id = p.session_id
        AND NOT (q.payload IS NULL AND EXISTS (SELECT FROM turntree.runs r
          WHERE r.workspace_id = q.workspace_id AND r.id = q.run_id AND r.status = 'finished'))), p.told_seq))))::text
  FROM turntree.participants p WHERE p.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(p.workspace_id, p.conversation_id, turntree.viewer()))
  ORDER BY p.conversation_id, p.number;

-- name: export_post
SELECT (to_jsonb(p) - 'workspace_id')::text FROM turntree.posts p
  WHERE p.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL ORDER BY p.conversation_id, p.seq;

-- name: export_bound_session
SELECT (to_jsonb(b) - 'workspace_id')::text FROM turntree.bound_sessions b
  WHERE b.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(b.workspace_id, b.conversation_id, turntree.viewer()))
  ORDER BY b.session_id;

-- name: export_post_decision
SELECT (to_jsonb(d) - 'workspace_id')::text FROM turntree.post_decisions d
  WHERE d.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL ORDER BY d.conversation_id, d.seq;

-- name: export_post_delivery
SELECT (to_jsonb(d) - 'workspace_id')::text FROM turntree.post_deliveries d
  JOIN turntree.queued_messages q ON q.workspace_id = d.workspace_id AND q.session_id = d.session_id AND q.seq = d.message_seq
    AND q.payload IS NULL
  JOIN turntree.runs r ON r.workspace_id = q.workspace_id AND r.id = q.run_id AND r.status = 'finished'
  WHERE d.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL
    AND (%(sees_all)b OR NOT turntree.is_program_hidden(d.workspace_id, d.conversation_id, turntree.viewer()))
  ORDER BY d.conversation_id, d.seq, d.session_id, d.message_seq;

-- name: export_approval
-- What is decided for good. One that still allows something stays here: it would allow it there too.
SELECT (to_jsonb(a) - 'workspace_id' || '{"args": null, "answer": null, "question": null, "request_key": null}')::text
  FROM turntree.approvals a LEFT JOIN turntree.runs r ON r.workspace_id = a.workspace_id AND r.id = a.run_id
  WHERE a.workspace_id = %(workspace)b AND %(turns)b::uuid[] IS NULL AND a.state NOT IN ('pending', 'approved', 'edited')
    AND (a.run_id IS NULL OR r.status = 'finished') ORDER BY a.created_at, a.id;

-- name: export_source
SELECT (to_jsonb(s) - 'workspace_id' - 'transcript_id' || jsonb_build_object('origin', n.origin, 'transcript', n.name))::text
  FROM turntree.turn_sources s JOIN turntree.transcripts n ON n.workspace_id = s.workspace_id AND n.id = s.transcript_id
  WHERE s.workspace_id = %(workspace)b
    AND (%(sees_all)b OR EXISTS (SELECT FROM turntree.turns t WHERE t.workspace_id = s.workspace_id AND t.id = s.turn_id))
  ORDER BY n.origin COLLATE "C", n.name COLLATE "C", s.turn_id;

-- name: export_raw_block
SELECT (to_jsonb(b) - 'workspace_id')::text FROM turntree.raw_blocks b
  WHERE b.workspace_id = %(workspace)b ORDER BY b.digest;

-- name: export_import_cursor
SELECT (to_jsonb(i) - 'workspace_id' - 'written_by')::text FROM turntree.import_cursors i
  WHERE i.workspace_id = %(workspace)b AND (%(sees_all)b OR NOT EXISTS (SELECT FROM unnest(i.block_digests) d (digest)
    WHERE NOT EXISTS (SELECT FROM turntree.raw_blocks b WHERE b.workspace_id = i.workspace_id AND b.digest = d.digest)))
  ORDER BY i.origin COLLATE "C", i.transcript COLLATE "C", i.by COLLATE "C";

-- name: export_handoff
SELECT (to_jsonb(h) - 'workspace_id')::text FROM turntree.handoffs h
  WHERE h.workspace_id = %(workspace)b ORDER BY h.tool COLLATE "C", h.tool_session_id COLLATE "C";

-- name: export_resource
-- A part is created after its whole.
SELECT (to_jsonb(r) - 'workspace_id')::text FROM turntree.resources r
  WHERE r.workspace_id = %(workspace)b AND (%(sees_all)b OR r.id = ANY (%(resources)b::uuid[]))
  ORDER BY r.created_at, r.part_of NULLS FIRST, r.id;

-- name: export_snapshot
SELECT (to_jsonb(s) - 'workspace_id')::text FROM turntree.snapshots s
  WHERE s.workspace_id = %(workspace)b AND (%(sees_all)b OR s.resource_id = ANY (%(resources)b::uuid[])) ORDER BY s.id;

-- name: export_handle
SELECT (to_jsonb(h) - 'workspace_id')::text FROM turntree.handles h
  WHERE h.workspace_id = %(workspace)b AND (%(sees_all)b OR h.resource_id = ANY (%(resources)b::uuid[]))
  ORDER BY h.id COLLATE "C";

-- name: export_attachment
SELECT (to_jsonb(a) - 'workspace_id')::text FROM turntree.resource_attachments a
  WHERE a.workspace_id = %(workspace)b ORDER BY a.session_id, a.resource_id;

-- name: export_turn_snapshot
SELECT (to_jsonb(p) - 'workspace_id')::text FROM turntree.turn_snapshots p
  WHERE p.workspace_id = %(workspace)b ORDER BY p.turn_id, p.resource_id;

-- name: export_plan
SELECT (to_jsonb(p) - 'workspace_id')::text FROM turntree.plans p
  WHERE p.workspace_id = %(workspace)b AND p.outcome IS NOT NULL AND (%(sees_all)b
    OR EXISTS (SELECT FROM turntree.session_plans s WHERE s.workspace_id = p.workspace_id AND s.plan_id = p.id))
  ORDER BY p.id;

-- name: export_session_plan
SELECT (to_jsonb(s) - 'workspace_id')::text FROM turntree.session_plans s
  JOIN turntree.plans p ON p.workspace_id = s.workspace_id AND p.id = s.plan_id AND p.outcome IS NOT NULL
  WHERE s.workspace_id = %(workspace)b ORDER BY s.session_id, s.version;

-- name: export_object_writer
SELECT (to_jsonb(w) - 'workspace_id')::text FROM turntree.object_writers w
  WHERE w.workspace_id = %(workspace)b ORDER BY w.digest, w.by COLLATE "C";

-- name: import_begin
-- One import at a time, of archives or of transcripts. Nested loops would be chosen by statistics from before.
SELECT pg_advisory_xact_lock(hashtextextended('turntree:import:' || %(workspace)b::text, 0)),
  set_config('TimeZone', 'UTC', true), set_config('jit', 'off', true),
  EXISTS (SELECT FROM turntree.events WHERE workspace_id = %(workspace)b);

-- name: import_tables
-- What the archive holds of each stream, and what the ledger had of it before; the objects that its messages refer to.
CREATE TEMP TABLE archive_streams (id uuid PRIMARY KEY, given int NOT NULL, known int NOT NULL) ON COMMIT DROP;
CREATE TEMP TABLE archive_references (digest bytea PRIMARY KEY) ON COMMIT DROP;
CREATE TEMP TABLE archive_agents (name text PRIMARY KEY, owner text NOT NULL, main uuid) ON COMMIT DROP;

-- name: list_agents
-- The private agents that the ledger has before an import, each with its main session.
INSERT INTO pg_temp.archive_agents (name, owner, main)
  SELECT p.name, p.owner, n.session_id FROM turntree.programs p
    LEFT JOIN turntree.session_names n ON n.workspace_id = p.workspace_id AND n.name = p.name || ':main'
    WHERE p.workspace_id = %(workspace)s AND p.kind = 'agent' AND p.visibility = 'private';

-- name: exposed_agent
-- What is said to a private agent goes to its main session, which therefore is private and its owner's. An archive may
-- not give it another one.
SELECT n.name FROM pg_temp.archive_agents a
  JOIN turntree.session_names n ON n.workspace_id = %(workspace)s AND n.name = a.name || ':main'
  LEFT JOIN turntree.programs p ON p.workspace_id = n.workspace_id AND p.id = n.session_id
  WHERE n.session_id IS DISTINCT FROM a.main AND (p.visibility, p.owner) IS DISTINCT FROM ('private', a.owner)
  ORDER BY 1;

-- name: exposed_sessions
-- Sessions of this ledger that the archive binds to a conversation: those who take part would read them. And sessions of an
-- agent in a conversation of this ledger that the archive does not go on with.
SELECT g.session_id::text FROM jsonb_populate_recordset(NULL::turntree.bound_sessions, %(rows)s::jsonb) g
  WHERE NOT EXISTS (SELECT FROM turntree.bound_sessions b WHERE b.workspace_id = g.workspace_id AND b.session_id = g.session_id)
    AND ((SELECT a.known FROM pg_temp.archive_streams a WHERE a.id = g.session_id) IS DISTINCT FROM 0
      OR g.agent IS NOT NULL AND NOT EXISTS (SELECT FROM pg_temp.archive_streams a WHERE a.id = g.conversation_id AND a.known < a.given));

-- name: foreign_deliveries
-- Of which posts the archive claims that an agent was told, without a post, without a message that began a run in a session
-- of a conversation, or where it goes on with neither the session nor its conversation: the agent would never be told.
SELECT g.seq, g.session_id::text FROM jsonb_populate_recordset(NULL::turntree.post_deliveries, %(rows)s::jsonb) g
  WHERE NOT EXISTS (SELECT FROM turntree.post_deliveries d WHERE d.workspace_id = g.workspace_id AND d.conversation_id = g.conversation_id
      AND d.seq = g.seq AND d.session_id = g.session_id AND d.message_seq = g.message_seq)
    AND NOT (EXISTS (SELECT FROM turntree.posts p
        WHERE p.workspace_id = g.workspace_id AND p.conversation_id = g.conversation_id AND p.seq = g.seq)
      AND EXISTS (SELECT FROM turntree.queued_messages q
        JOIN turntree.runs r ON r.workspace_id = q.workspace_id AND r.id = q.run_id AND r.session_id = q.session_id
        WHERE q.workspace_id = g.workspace_id AND q.session_id = g.session_id AND q.seq = g.message_seq)
      AND EXISTS (SELECT FROM turntree.bound_sessions b
        JOIN pg_temp.archive_streams a ON a.id IN (b.session_id, b.conversation_id) AND a.known < a.given
        WHERE b.workspace_id = g.workspace_id AND b.session_id = g.session_id));

-- name: extended_programs
-- What this ledger has of another than the importer and the archive goes on with: conversations with their sessions, and
-- what is private. Who was removed could take part again, and who was not invited could use it.
SELECT DISTINCT p.kind, p.name FROM pg_temp.archive_streams a
  JOIN turntree.programs x ON x.workspace_id = %(workspace)s AND x.id = a.id
  LEFT JOIN turntree.bound_sessions b ON b.workspace_id = x.workspace_id AND b.session_id = x.id
  JOIN turntree.programs p ON p.workspace_id = x.workspace_id AND p.id = coalesce(b.conversation_id, x.id)
  WHERE a.known BETWEEN 1 AND a.given - 1 AND (p.kind = 'conversation' OR p.visibility = 'private')
    AND p.owner <> %(importer)s AND %(importer)s NOT LIKE 'system:%%' ORDER BY 1, 2;

-- name: take_role
SELECT set_config('role', %(role)s, true);

-- name: count_streams
INSERT INTO pg_temp.archive_streams AS a (id, given, known)
  SELECT x.id, max(x.seq) + 1, CASE WHEN %(is_filled)s THEN (SELECT count(*) FROM turntree.events e
      WHERE e.workspace_id = %(workspace)s AND e.stream_id = x.id) ELSE 0 END
    FROM unnest(%(streams)s::uuid[], %(seqs)s::int[]) AS x (id, seq) GROUP BY x.id
  ON CONFLICT (id) DO UPDATE SET given = greatest(a.given, excluded.given);

-- name: import_events
INSERT INTO turntree.events (workspace_id, stream_id, seq, id, kind, body)
  SELECT %(workspace)s, x.stream, x.seq, x.id, x.kind, x.body
    FROM unnest(%(streams)s::uuid[], %(seqs)s::int[], %(ids)s::bytea[], %(kinds)s::text[], %(bodies)s::text[])
      WITH ORDINALITY AS x (stream, seq, id, kind, body, place)
    WHERE NOT (%(keeps_ours)s AND EXISTS (SELECT FROM pg_temp.archive_streams a WHERE a.id = x.stream AND a.known > 0))
    ORDER BY x.place
  ON CONFLICT DO NOTHING;

-- name: differing_events
SELECT x.stream::text, x.seq FROM unnest(%(streams)s::uuid[], %(seqs)s::int[], %(ids)s::bytea[]) AS x (stream, seq, id)
  JOIN turntree.events e ON e.workspace_id = %(workspace)s AND e.stream_id = x.stream AND e.seq = x.seq AND e.id <> x.id;

-- name: import_references
INSERT INTO pg_temp.archive_references (digest) SELECT unnest(%(digests)s::bytea[]) ON CONFLICT DO NOTHING;

-- name: known_turns
SELECT digest, depth FROM turntree.turns WHERE workspace_id = %(workspace)s AND id = ANY (%(turns)s::uuid[]);

-- name: known_bodies
SELECT turn_id::text, body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)s AND turn_id = ANY (%(turns)s::uuid[]);

-- name: import_model_calls
-- The model calls of turns, from the events that were inserted before them.
INSERT INTO turntree.model_calls (workspace_id, turn_id, sequence, model, provider, call_id, input_tokens, output_tokens,
    cached_input_tokens, cache_write_tokens, reasoning_tokens)
  SELECT %(workspace)s, x.stream_id, row_number() OVER (PARTITION BY x.stream_id ORDER BY x.seq, x.place) - 1,
      x.call ->> 'model', x.call ->> 'provider', x.call ->> 'call_id', coalesce((x.call #>> '{usage,input}')::int, 0),
      coalesce((x.call #>> '{usage,output}')::int, 0), coalesce((x.call #>> '{usage,cached_input}')::int, 0),
      coalesce((x.call #>> '{usage,cache_write}')::int, 0), coalesce((x.call #>> '{usage,reasoning}')::int, 0)
    FROM (
      SELECT e.stream_id, e.seq, c.place, c.call FROM turntree.events e,
        LATERAL json_array_elements(CASE e.kind WHEN 'turn.recorded' THEN e.body::json #> '{data,calls}'
          ELSE json_build_array(e.body::json #> '{data,call}') END) WITH ORDINALITY AS c (call, place)
        WHERE e.workspace_id = %(workspace)s AND e.stream_id = ANY (%(turns)s::uuid[])
          AND e.kind IN ('turn.recorded', 'model_call.finished') AND json_typeof(c.call) = 'object'
    ) x
  ON CONFLICT DO NOTHING;

-- name: import_objects
-- A message may have been erased here after the archive was written: its object must not come back.
INSERT INTO turntree.objects (workspace_id, digest, bytes)
  SELECT %(workspace)s, x.digest, x.bytes FROM unnest(%(digests)s::bytea[], %(data)s::bytea[]) AS x (digest, bytes)
    WHERE NOT EXISTS (SELECT FROM pg_temp.archive_references r WHERE r.digest = x.digest)
      OR EXISTS (SELECT FROM turntree.object_holders h WHERE h.workspace_id = %(workspace)s AND h.digest = x.digest)
  ON CONFLICT DO NOTHING;

-- name: missing_object
SELECT 'sha256:' || encode(h.digest, 'hex') FROM turntree.object_holders h
  WHERE h.workspace_id = %(workspace)s AND h.digest IN (SELECT r.digest FROM pg_temp.archive_references r)
    AND NOT EXISTS (SELECT FROM turntree.objects o WHERE o.workspace_id = h.workspace_id AND o.digest = h.digest)
  LIMIT 1;

-- name: drop_behind_names
-- Where the archive goes on with what the ledger has, its rows replace the older ones.
DELETE FROM turntree.session_names n USING pg_temp.archive_streams a
  WHERE n.workspace_id = %(workspace)s AND n.session_id = a.id AND a.known BETWEEN 1 AND a.given - 1;

-- name: drop_behind_tags
DELETE FROM turntree.tags g USING pg_temp.archive_streams a
  WHERE g.workspace_id = %(workspace)s AND g.node_id = a.id AND a.known BETWEEN 1 AND a.given - 1;

-- name: drop_behind_grants
DELETE FROM turntree.program_grants g USING pg_temp.archive_streams a
  WHERE g.workspace_id = %(workspace)s AND g.program_id = a.id AND a.known BETWEEN 1 AND a.given - 1;

-- name: drop_behind_attachments
DELETE FROM turntree.resource_attachments r USING pg_temp.archive_streams a
  WHERE r.workspace_id = %(workspace)s AND r.session_id = a.id AND a.known BETWEEN 1 AND a.given - 1;

-- name: list_settled
-- The streams that the ledger has and the archive does not go on with: the rows that are here are the newer ones, and a
-- row that is not here would have no event. Where the ledger keeps what it has, it took no event of the archive.
SELECT x.id::text FROM (SELECT DISTINCT unnest(%(streams)s::uuid[])) x (id)
  LEFT JOIN pg_temp.archive_streams a ON a.id = x.id
  WHERE CASE WHEN a.id IS NOT NULL THEN a.known >= a.given OR %(keeps_ours)s AND a.known > 0
    ELSE EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)s AND e.stream_id = x.id) END;

-- name: import_rows
SELECT added, differing::text FROM turntree.import_rows(%(table)s, %(rows)s::jsonb);

-- name: update_sessions
UPDATE turntree.sessions s SET head_id = g.head_id, version = g.version, event_seq = g.event_seq,
    updated_at = g.updated_at, status = g.status, origin = g.origin, origin_session_id = g.origin_session_id,
    imported_by = g.imported_by
  FROM jsonb_populate_recordset(NULL::turntree.sessions, %(rows)s::jsonb) g, pg_temp.archive_streams a
  WHERE s.workspace_id = g.workspace_id AND s.id = g.id AND a.id = g.id AND a.known BETWEEN 1 AND a.given - 1
  RETURNING s.id::text;

-- name: update_programs
UPDATE turntree.programs p SET name = g.name, owner = g.owner, state = g.state, visibility = g.visibility,
    version = g.version, event_seq = g.event_seq, details = g.details, updated_at = g.updated_at
  FROM jsonb_populate_recordset(NULL::turntree.programs, %(rows)s::jsonb) g, pg_temp.archive_streams a
  WHERE p.workspace_id = g.workspace_id AND p.id = g.id AND a.id = g.id AND a.known BETWEEN 1 AND a.given - 1
  RETURNING p.id::text;

-- name: update_conversations
UPDATE turntree.conversations c SET post_seq = g.post_seq, posted_at = g.posted_at
  FROM jsonb_populate_recordset(NULL::turntree.conversations, %(rows)s::jsonb) g, pg_temp.archive_streams a
  WHERE c.workspace_id = g.workspace_id AND c.id = g.id AND a.id = g.id AND a.known BETWEEN 1 AND a.given - 1
  RETURNING c.id::text;

-- name: update_participants
UPDATE turntree.participants p SET removed_by = g.removed_by, removed_at = g.removed_at, session_id = g.session_id, told_seq = g.told_seq
  FROM jsonb_populate_recordset(NULL::turntree.participants, %(rows)s::jsonb) g, pg_temp.archive_streams a
  WHERE p.workspace_id = g.workspace_id AND p.conversation_id = g.conversation_id AND p.number = g.number
    AND a.id = g.conversation_id AND a.known BETWEEN 1 AND a.given - 1
  RETURNING p.conversation_id::text;

-- name: import_transcripts
INSERT INTO turntree.transcripts (workspace_id, origin, name)
  SELECT DISTINCT %(workspace)s::uuid, x.origin, x.transcript
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS x (origin text, transcript text)
    WHERE NOT EXISTS (SELECT FROM turntree.transcripts t
      WHERE t.workspace_id = %(workspace)s AND t.origin = x.origin AND t.name = x.transcript);

-- name: import_sources
INSERT INTO turntree.turn_sources (workspace_id, turn_id, transcript_id, record_first, record_last, importer_version, source_key)
  SELECT %(workspace)s, x.turn_id, t.id, x.record_first, x.record_last, x.importer_version, x.source_key
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS x (turn_id uuid, origin text, transcript text, record_first int,
      record_last int, importer_version int, source_key text)
    JOIN turntree.transcripts t ON t.workspace_id = %(workspace)s AND t.origin = x.origin AND t.name = x.transcript
  ON CONFLICT DO NOTHING;

-- name: import_reach
-- How deep each session of the archive ever stood, from its moves.
INSERT INTO turntree.session_reach AS r (workspace_id, segment_id, session_id, max_depth)
  SELECT m.workspace_id, t.segment_id, m.session_id, max(t.depth) FROM turntree.session_history m
    JOIN turntree.turns t ON t.workspace_id = m.workspace_id AND t.id = m.after_id
    JOIN pg_temp.archive_streams a ON a.id = m.session_id
    WHERE m.workspace_id = %(workspace)s GROUP BY m.workspace_id, t.segment_id, m.session_id
  ON CONFLICT (workspace_id, segment_id, session_id) DO UPDATE SET max_depth = excluded.max_depth;

-- name: import_queues
INSERT INTO turntree.session_queues AS s (workspace_id, session_id, awake_since, posted_seq, claimed_seq)
  SELECT q.workspace_id, q.session_id, max(q.received_at), max(q.seq), max(q.seq) FROM turntree.queued_messages q
    JOIN pg_temp.archive_streams a ON a.id = q.session_id
    WHERE q.workspace_id = %(workspace)s GROUP BY q.workspace_id, q.session_id
  ON CONFLICT (workspace_id, session_id) DO UPDATE SET posted_seq = greatest(s.posted_seq, excluded.posted_seq);

-- name: import_links
SELECT count(turntree.insert_links(%(workspace)s, a.id, 0)) FROM pg_temp.archive_streams a
  WHERE EXISTS (SELECT FROM turntree.events e WHERE e.workspace_id = %(workspace)s AND e.stream_id = a.id
      AND turntree.has_links(e.kind, e.body))
    OR EXISTS (SELECT FROM turntree.turn_bodies b WHERE b.workspace_id = %(workspace)s AND b.turn_id = a.id
      AND (position('"derived_from":[' IN b.header) > 0 OR position('"retry_of":"' IN b.header) > 0));
