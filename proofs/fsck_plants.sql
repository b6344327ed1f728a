-- Faults that a database lets nobody commit, planted by a superuser whom no trigger and no foreign
-- key stops. Each statement breaks one rule for some subjects, drawn by a seed, and returns them as
-- fsck names them. A statement called ..._open takes away the constraint in the way.

-- name: i01
UPDATE turntree.events e SET id = sha256(e.id) FROM (
    SELECT stream_id, seq FROM turntree.events WHERE workspace_id = %(workspace)s
      ORDER BY md5(stream_id::text || seq || %(seed)s) LIMIT %(count)s) p
  WHERE e.workspace_id = %(workspace)s AND e.stream_id = p.stream_id AND e.seq = p.seq
  RETURNING e.stream_id || ' at ' || e.seq;

-- name: i02
UPDATE turntree.turns SET model = 'grander' WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i03
WITH drawn AS (
  SELECT stream_id, seq, id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.events WHERE workspace_id = %(workspace)s
)
UPDATE turntree.events e SET id = d.id FROM drawn p JOIN drawn d ON d.n = p.n + %(count)s
  WHERE p.n <= %(count)s AND e.workspace_id = %(workspace)s AND e.stream_id = p.stream_id AND e.seq = p.seq
  RETURNING 'event ' || encode(e.id, 'hex');

-- name: i06
WITH drawn AS (
  SELECT node_id, tag, row_number() OVER (ORDER BY md5(node_id::text || %(seed)s)) AS n
    FROM turntree.tags WHERE workspace_id = %(workspace)s
), others AS (
  SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.sessions s WHERE workspace_id = %(workspace)s
      -- A session with a config is a program too, and may have tags.
      AND NOT EXISTS (SELECT FROM turntree.programs p WHERE p.workspace_id = s.workspace_id AND p.id = s.id)
)
UPDATE turntree.tags t SET node_id = o.id FROM drawn d JOIN others o USING (n)
  WHERE d.n <= %(count)s AND t.workspace_id = %(workspace)s AND t.node_id = d.node_id AND t.tag = d.tag
  RETURNING 'tag of ' || t.node_id;

-- name: i07
UPDATE turntree.turns SET parent_id = gen_random_uuid() WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)s AND depth > 1
      ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i08
UPDATE turntree.turns t SET depth = 1000 * n FROM (
    SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
      FROM turntree.turns WHERE workspace_id = %(workspace)s AND depth > 1) p
  WHERE n <= %(count)s AND t.workspace_id = %(workspace)s AND t.id = p.id
  RETURNING t.id::text;

-- name: i09_open
ALTER TABLE turntree.turns DROP CONSTRAINT turns_workspace_id_segment_id_depth_key;

-- name: i09
WITH drawn AS (
  SELECT id, segment_id, depth, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.turns WHERE workspace_id = %(workspace)s AND depth > 1
)
UPDATE turntree.turns t SET segment_id = d.segment_id, depth = d.depth FROM drawn p JOIN drawn d ON d.n = p.n + %(count)s
  WHERE p.n <= %(count)s AND t.workspace_id = %(workspace)s AND t.id = p.id
  RETURNING t.segment_id || ' at depth ' || t.depth;

-- name: i10
-- Each by another number: two that follow each other would fit together again.
UPDATE turntree.segments s SET ordinal = s.ordinal + 7 * n FROM (
    SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
      FROM turntree.segments WHERE workspace_id = %(workspace)s AND ordinal > 0) p
  WHERE n <= %(count)s AND s.workspace_id = %(workspace)s AND s.id = p.id
  RETURNING s.id::text;

-- name: i11
UPDATE turntree.segments SET fork_depth = fork_depth - 1 WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.segments WHERE workspace_id = %(workspace)s AND ordinal > 0
      ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i12
UPDATE turntree.turn_bodies SET body = replace(body, '"role":"user"', '"role":"tool"')
  WHERE workspace_id = %(workspace)s AND turn_id IN (
    SELECT turn_id FROM turntree.turn_bodies WHERE workspace_id = %(workspace)s AND position('"role":"user"' IN body) > 0
      ORDER BY md5(turn_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING turn_id::text;

-- name: i13_open
ALTER TABLE turntree.turns DROP CONSTRAINT turns_workspace_id_digest_key;

-- name: i13
WITH drawn AS (
  SELECT id, digest, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.turns WHERE workspace_id = %(workspace)s
)
UPDATE turntree.turns t SET digest = d.digest FROM drawn p JOIN drawn d ON d.n = p.n + %(count)s
  WHERE p.n <= %(count)s AND t.workspace_id = %(workspace)s AND t.id = p.id
  RETURNING 'digest ' || encode(t.digest, 'hex');

-- name: i14
UPDATE turntree.tool_calls SET tool = 'write' WHERE workspace_id = %(workspace)s AND turn_id IN (
    SELECT turn_id FROM turntree.tool_calls WHERE workspace_id = %(workspace)s
      ORDER BY md5(turn_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING turn_id::text;

-- name: i20
INSERT INTO turntree.message_files (workspace_id, turn_id, message, sequence, kind, path, line_start, line_end)
  SELECT t.workspace_id, t.id, 0, s, 'read', 'a.py', 1, 2 FROM (
      SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)s
        ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s) t, generate_series(100, 101) s
  RETURNING turn_id::text;

-- name: i23
UPDATE turntree.turns SET kind = 'compaction' WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.turns WHERE workspace_id = %(workspace)s AND kind = 'normal'
      ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i24
UPDATE turntree.compactions SET turns_summarized = turns_summarized - 1 WHERE workspace_id = %(workspace)s AND turn_id IN (
    SELECT turn_id FROM turntree.compactions WHERE workspace_id = %(workspace)s
      ORDER BY md5(turn_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING turn_id::text;

-- name: i26
UPDATE turntree.sessions SET head_id = gen_random_uuid() WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.sessions WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i27
UPDATE turntree.sessions SET version = version + 1 WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.sessions WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i28
UPDATE turntree.session_history h SET kind = 'create' FROM (
    SELECT session_id, version FROM turntree.session_history WHERE workspace_id = %(workspace)s AND version > 1
      ORDER BY md5(session_id::text || version || %(seed)s) LIMIT %(count)s) p
  WHERE h.workspace_id = %(workspace)s AND h.session_id = p.session_id AND h.version = p.version
  RETURNING h.session_id || ' version ' || h.version;

-- name: i29
UPDATE turntree.session_history h SET before_id = gen_random_uuid() FROM (
    SELECT session_id, version FROM turntree.session_history WHERE workspace_id = %(workspace)s AND kind = 'advance'
      ORDER BY md5(session_id::text || version || %(seed)s) LIMIT %(count)s) p
  WHERE h.workspace_id = %(workspace)s AND h.session_id = p.session_id AND h.version = p.version
  RETURNING h.session_id || ' version ' || h.version;

-- name: i30
UPDATE turntree.session_names SET reason = 'manual' WHERE workspace_id = %(workspace)s AND name IN (
    SELECT name FROM turntree.session_names WHERE workspace_id = %(workspace)s AND reason IS NULL
      ORDER BY md5(name || %(seed)s) LIMIT %(count)s)
  RETURNING session_id::text;

-- name: i31
UPDATE turntree.spawns SET call_id = 'nobody' WHERE workspace_id = %(workspace)s AND session_id IN (
    SELECT session_id FROM turntree.spawns WHERE workspace_id = %(workspace)s
      ORDER BY md5(session_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING session_id::text;

-- name: i32_open
DROP INDEX turntree.sessions_origin;

-- name: i32
WITH drawn AS (
  SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.sessions WHERE workspace_id = %(workspace)s AND origin IS NULL
), known AS (
  SELECT origin, origin_session_id, imported_by, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.sessions WHERE workspace_id = %(workspace)s AND origin IS NOT NULL
)
UPDATE turntree.sessions s SET origin = k.origin, origin_session_id = k.origin_session_id, imported_by = k.imported_by
  FROM drawn d JOIN known k USING (n)
  WHERE d.n <= %(count)s AND s.workspace_id = %(workspace)s AND s.id = d.id
  RETURNING s.origin || ' ' || s.origin_session_id;

-- name: i34
DELETE FROM turntree.events WHERE workspace_id = %(workspace)s AND seq = 1 AND stream_id IN (
    SELECT stream_id FROM turntree.events WHERE workspace_id = %(workspace)s
      GROUP BY stream_id HAVING count(*) > 2 ORDER BY md5(stream_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING stream_id::text;

-- name: i35
UPDATE turntree.events e SET kind = 'run.started' WHERE workspace_id = %(workspace)s AND seq = 1 AND stream_id IN (
    SELECT id FROM turntree.runs WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING stream_id::text;

-- name: i37
-- What is named by a manifest only is not known to be missing if the manifest is, too.
DELETE FROM turntree.objects WHERE workspace_id = %(workspace)s AND digest IN (
    SELECT digest FROM turntree.objects o WHERE workspace_id = %(workspace)s AND EXISTS (
        SELECT FROM turntree.turn_bodies b WHERE b.workspace_id = o.workspace_id AND position(encode(o.digest, 'hex') IN b.header || b.body) > 0)
      ORDER BY md5(digest::text || %(seed)s) LIMIT %(count)s)
  RETURNING encode(digest, 'hex');

-- name: i38
UPDATE turntree.tool_calls SET status = 'ok' WHERE workspace_id = %(workspace)s AND turn_id IN (
    SELECT stream_id FROM turntree.events WHERE workspace_id = %(workspace)s AND kind = 'run.interrupted'
      ORDER BY md5(stream_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING turn_id::text;

-- name: i43
DELETE FROM turntree.resource_attachments a USING (
    SELECT session_id, resource_id FROM turntree.resource_attachments WHERE workspace_id = %(workspace)s
      ORDER BY md5(session_id::text || resource_id || %(seed)s) LIMIT %(count)s) p
  WHERE a.workspace_id = %(workspace)s AND a.session_id = p.session_id AND a.resource_id = p.resource_id
  RETURNING a.session_id || ' works on ' || a.resource_id;

-- name: i44
UPDATE turntree.snapshots SET size_bytes = size_bytes + 1 WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.snapshots WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING 'snapshot ' || id;

-- name: i47_open
ALTER TABLE turntree.handles DROP CONSTRAINT handles_never_come_back;

-- name: i47
UPDATE turntree.handles SET restorable = true WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.handles WHERE workspace_id = %(workspace)s ORDER BY md5(id || %(seed)s) LIMIT %(count)s)
  RETURNING 'handle ' || id;

-- name: i57
UPDATE turntree.program_refs r SET target_id = r.program_id FROM (
    SELECT DISTINCT ON (md5(program_id::text || %(seed)s)) program_id, version, path FROM turntree.program_refs
      WHERE workspace_id = %(workspace)s ORDER BY md5(program_id::text || %(seed)s) LIMIT %(count)s) p
  WHERE r.workspace_id = %(workspace)s AND (r.program_id, r.version, r.path) = (p.program_id, p.version, p.path)
  RETURNING r.program_id::text;

-- name: i59
-- Sessions with another status, and programs of which something is otherwise: a state, a version's digest, a
-- detail, who sees them, whom they were lent to, or all of it, for the row is gone.
WITH drawn AS (
  SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.programs WHERE workspace_id = %(workspace)s AND kind <> 'session'
), otherwise AS (
  UPDATE turntree.programs p SET
      state = CASE n %% 4 WHEN 0 THEN 'asleep' ELSE state END,
      version = CASE n %% 4 WHEN 1 THEN version + 1 ELSE version END,
      details = CASE n %% 4 WHEN 2 THEN '{"planted": 1}' ELSE details END,
      owner = CASE n %% 4 WHEN 3 THEN 'human:eve' ELSE owner END
    FROM drawn d WHERE n <= %(count)s AND p.workspace_id = %(workspace)s AND p.id = d.id
    RETURNING p.id::text
), lent AS (
  INSERT INTO turntree.program_grants (workspace_id, program_id, grantee, access)
    SELECT %(workspace)s, id, 'human:eve', 'configure' FROM drawn WHERE n BETWEEN %(count)s + 1 AND 2 * %(count)s
    RETURNING program_id::text
), sessions AS (
  UPDATE turntree.sessions SET status = 'deleted' WHERE workspace_id = %(workspace)s AND id IN (
      SELECT id FROM turntree.sessions WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
    RETURNING id::text
)
SELECT id FROM otherwise UNION ALL SELECT program_id FROM lent UNION ALL SELECT id FROM sessions;

-- name: i62
-- Words and vectors of no turn, and among vectors of turns some that are shorter than the others.
WITH drawn AS (
  SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.turns WHERE workspace_id = %(workspace)s
), words AS (
  INSERT INTO turntree.search_documents (workspace_id, turn_id, recipe, lexemes)
    SELECT %(workspace)s, gen_random_uuid(), 1, ''::tsvector FROM generate_series(1, %(count)s)
    RETURNING turn_id
), meanings AS (
  INSERT INTO turntree.embeddings (workspace_id, node_id, embedder, vector)
    SELECT %(workspace)s, gen_random_uuid(), 'planted', array_fill(1::real, ARRAY[3]) FROM generate_series(1, %(count)s)
    UNION ALL
    SELECT %(workspace)s, id, 'planted', array_fill(1::real, ARRAY[CASE WHEN n <= %(count)s THEN 2 ELSE 3 END])
      FROM drawn WHERE n <= 3 * %(count)s
    RETURNING node_id
)
SELECT 'words of ' || turn_id FROM words
UNION ALL
SELECT 'meaning of ' || node_id || ' by planted' FROM meanings
  WHERE node_id NOT IN (SELECT id FROM drawn WHERE n > %(count)s);

-- name: i63
INSERT INTO turntree.tags (workspace_id, node_id, tag) SELECT workspace_id, id, 'nobody put me here' FROM (
    SELECT * FROM turntree.turns WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s) t
  RETURNING node_id::text;

-- name: i65
WITH drawn AS (
  SELECT node_id, tag, row_number() OVER (ORDER BY md5(node_id::text || %(seed)s)) AS n
    FROM turntree.tags WHERE workspace_id = %(workspace)s
), abroad AS (
  SELECT id, row_number() OVER (ORDER BY md5(id::text || %(seed)s)) AS n
    FROM turntree.turns WHERE workspace_id <> %(workspace)s
)
UPDATE turntree.tags t SET node_id = a.id FROM drawn d JOIN abroad a USING (n)
  WHERE d.n <= %(count)s AND t.workspace_id = %(workspace)s AND t.node_id = d.node_id AND t.tag = d.tag
  RETURNING 'tag of ' || t.node_id;

-- name: draw_turns
SELECT t.id::text, b.header || E'\n' || b.body FROM turntree.turns t
  JOIN turntree.turn_bodies b ON b.workspace_id = t.workspace_id AND b.turn_id = t.id
  WHERE t.workspace_id = %(workspace)s AND b.header || E'\n' || b.body LIKE %(like)s
  ORDER BY md5(t.id::text || %(seed)s) LIMIT %(count)s;

-- name: forge_turn
WITH body AS (
  UPDATE turntree.turn_bodies SET header = split_part(%(body)s, E'\n', 1),
      body = substr(%(body)s, strpos(%(body)s, E'\n') + 1) WHERE workspace_id = %(workspace)s AND turn_id = %(turn)s
)
UPDATE turntree.turns SET digest = %(digest)s WHERE workspace_id = %(workspace)s AND id = %(turn)s;

-- name: draw_events
SELECT stream_id::text, seq, body FROM turntree.events WHERE workspace_id = %(workspace)s AND body LIKE %(like)s
  ORDER BY md5(stream_id::text || seq || %(seed)s) LIMIT %(count)s;

-- name: forge_event
UPDATE turntree.events SET body = %(body)s, id = %(id)s
  WHERE workspace_id = %(workspace)s AND stream_id = %(stream)s AND seq = %(seq)s;

-- name: read_bare_bodies
SELECT turn_id, header, body FROM turntree.turn_bodies WHERE workspace_id = %(workspace)b AND turn_id > %(after)b
  ORDER BY turn_id LIMIT %(limit)b;

-- name: read_bare_events
SELECT stream_id, seq, id, kind, body FROM turntree.events WHERE workspace_id = %(workspace)b
  AND (stream_id, seq) > (%(after)b, 2147483647) AND stream_id <= %(last)b;

-- name: read_bare_tool_calls
SELECT turn_id, sequence, call_id, tool, status FROM turntree.tool_calls WHERE workspace_id = %(workspace)b
  AND turn_id > %(after)b AND turn_id <= %(last)b;

-- name: read_bare_model_calls
SELECT * FROM turntree.model_calls WHERE workspace_id = %(workspace)b AND turn_id > %(after)b AND turn_id <= %(last)b;

-- name: i67
UPDATE turntree.session_queues SET posted_seq = posted_seq + 1 WHERE workspace_id = %(workspace)s AND session_id IN (
    SELECT session_id FROM turntree.session_queues WHERE workspace_id = %(workspace)s
      ORDER BY md5(session_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING session_id::text;

-- name: i50
UPDATE turntree.participants SET removed_by = NULL, removed_at = NULL WHERE workspace_id = %(workspace)s
    AND (conversation_id, number) IN (SELECT conversation_id, number FROM turntree.participants
      WHERE workspace_id = %(workspace)s AND removed_at IS NOT NULL ORDER BY md5(conversation_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING principal || ' in ' || conversation_id;

-- name: i51
UPDATE turntree.posts SET hops = hops + 1 WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.posts WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING 'post ' || seq || ' of ' || conversation_id;

-- name: i52
UPDATE turntree.programs SET visibility = 'public' WHERE workspace_id = %(workspace)s AND id IN (
    SELECT session_id FROM turntree.bound_sessions WHERE workspace_id = %(workspace)s
      ORDER BY md5(session_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i53
DELETE FROM turntree.events WHERE workspace_id = %(workspace)s AND kind = 'post.erased' AND stream_id IN (
    SELECT conversation_id FROM turntree.posts WHERE workspace_id = %(workspace)s AND body LIKE '{"erased":%%'
      ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING 'post 3 of ' || stream_id;

-- name: i54
UPDATE turntree.participants SET removed_by = 'human:ana', removed_at = now() WHERE workspace_id = %(workspace)s
    AND (conversation_id, number) IN (SELECT conversation_id, number FROM turntree.participants
      WHERE workspace_id = %(workspace)s AND principal = 'agent:warden' AND removed_at IS NULL
      ORDER BY md5(conversation_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING principal || ' in ' || conversation_id;

-- name: i55
-- Decisions that are gone, that name another agent, and that a turn made which nobody asked for one.
WITH drawn AS (
  SELECT conversation_id, seq, row_number() OVER (ORDER BY md5(conversation_id::text || seq || %(seed)s)) AS n
    FROM turntree.post_decisions WHERE workspace_id = %(workspace)s
), gone AS (
  DELETE FROM turntree.post_decisions d USING drawn p
    WHERE n <= %(count)s AND n %% 3 = 1 AND d.workspace_id = %(workspace)s AND (d.conversation_id, d.seq) = (p.conversation_id, p.seq)
    RETURNING d.conversation_id, d.seq
), otherwise AS (
  UPDATE turntree.post_decisions d SET
      agents = CASE n %% 3 WHEN 2 THEN ARRAY['agent:eve'] ELSE agents END,
      method = CASE n %% 3 WHEN 0 THEN 'model' ELSE method END,
      turn_id = CASE n %% 3 WHEN 0 THEN gen_random_uuid() ELSE turn_id END
    FROM drawn p
    WHERE n <= %(count)s AND n %% 3 <> 1 AND d.workspace_id = %(workspace)s AND (d.conversation_id, d.seq) = (p.conversation_id, p.seq)
    RETURNING d.conversation_id, d.seq
)
SELECT 'post ' || seq || ' of ' || conversation_id FROM (SELECT * FROM gone UNION ALL SELECT * FROM otherwise) x;

-- name: i56
UPDATE turntree.conversations SET posted_at = posted_at - interval '1 hour' WHERE workspace_id = %(workspace)s AND id IN (
    SELECT id FROM turntree.conversations WHERE workspace_id = %(workspace)s ORDER BY md5(id::text || %(seed)s) LIMIT %(count)s)
  RETURNING id::text;

-- name: i42
-- Of two decisions, the one about the call that began.
UPDATE turntree.events e SET kind = 'acme.judged' WHERE workspace_id = %(workspace)s AND kind = 'tool_call.judged' AND seq = 3
    AND stream_id IN (SELECT stream_id FROM turntree.events WHERE workspace_id = %(workspace)s AND kind = 'tool_call.started' AND seq = 7
      ORDER BY md5(stream_id::text || %(seed)s) LIMIT %(count)s)
  RETURNING stream_id || '/7';

-- name: i41
-- Policies that say something else than what was proposed, and others in force than a person activated.
WITH drawn AS (
  SELECT agent, number, row_number() OVER (ORDER BY md5(agent || number || %(seed)s)) AS n
    FROM turntree.policies WHERE workspace_id = %(workspace)s AND is_active
)
UPDATE turntree.policies p SET
    source = CASE WHEN d.n %% 2 = 0 THEN p.source || E'\n' ELSE p.source END,
    is_active = CASE WHEN d.n %% 2 = 1 THEN false ELSE p.is_active END
  FROM drawn d WHERE d.n <= %(count)s AND p.workspace_id = %(workspace)s AND p.agent = d.agent AND p.number = d.number
  RETURNING 'policy ' || coalesce(nullif(p.agent, '') || ' ', '') || p.number;

-- name: i69
UPDATE turntree.members SET role = 'guest' WHERE workspace_id = %(workspace)s AND principal IN (
    SELECT principal FROM turntree.members WHERE workspace_id = %(workspace)s AND role = 'member'
      ORDER BY md5(principal || %(seed)s) LIMIT %(count)s)
  RETURNING principal;

-- name: i70
-- Decisions of a person who was not asked, other decisions than the events say, and calls that started with other arguments.
WITH drawn AS (
  SELECT id, state, row_number() OVER (ORDER BY state = 'used' DESC, md5(id::text || %(seed)s)) AS n
    FROM turntree.approvals WHERE workspace_id = %(workspace)s AND state <> 'pending'
)
UPDATE turntree.approvals a SET
    decided_by = CASE WHEN d.n %% 3 = 1 THEN 'human:eve' ELSE a.decided_by END,
    state = CASE WHEN d.n %% 3 = 2 THEN 'answered' ELSE a.state END,
    used_at = CASE WHEN d.n %% 3 = 2 THEN NULL ELSE a.used_at END,
    allowed_digest = CASE WHEN d.n %% 3 = 0 THEN sha256(a.args_digest) ELSE a.allowed_digest END
  FROM drawn d WHERE d.n <= %(count)s AND a.workspace_id = %(workspace)s AND a.id = d.id
  RETURNING 'approval ' || a.id;
