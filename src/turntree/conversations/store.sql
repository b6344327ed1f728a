-- Conversations, their participants and their posts.

-- name: lock_conversation
SELECT (turntree.lock_conversation(%(workspace)b, %(conversation)b)).id::text;

-- name: add_participant
SELECT turntree.add_participant(%(workspace)b, %(conversation)b, %(principal)b, %(by)b, %(at)b);

-- name: remove_participant
SELECT turntree.remove_participant(%(workspace)b, %(conversation)b, %(principal)b, %(by)b, %(at)b);

-- name: fork_conversation
SELECT turntree.fork_conversation(%(workspace)b, %(conversation)b, %(parent)b, %(seq)b, %(by)b, %(at)b);

-- name: create_post
SELECT seq, repeated, cause, hops FROM turntree.create_post(%(workspace)b, %(conversation)b, %(post)b, %(body)b, %(author)b::text, %(at)b,
  %(key)b::text, %(turn)b::uuid, %(cause)b::int, %(hops)b::int, %(charged)b::text);

-- name: address_participants
SELECT became, principal, session_id::text, told_seq, is_new FROM turntree.address_participants(%(workspace)b, %(conversation)b,
  %(seq)b::int, %(kinds)b::text[], %(names)b::text[], %(ids)b::text[]::uuid[], %(author)b, %(hops)b::int, %(hops_max)b::int, %(charged)b,
  %(tokens_max)b::bigint, %(at)b);

-- name: tell_agent
SELECT run_id::text, seq, wake FROM turntree.tell_agent(%(workspace)b, %(session)b, %(payload)b, %(by)b, %(at)b, %(options)b);

-- name: record_delivery
SELECT turntree.record_delivery(%(workspace)b, %(conversation)b, %(seqs)b::int[], %(session)b, %(messages)b::int[], %(until)b::int);

-- name: list_posts
SELECT conversation_id::text, seq, id::text, kind, author, body, digest,
    to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), turn_id::text,
    (SELECT t.digest FROM turntree.turns t WHERE t.workspace_id = x.workspace_id AND t.id = x.turn_id), cause_seq, hops,
    (SELECT jsonb_build_object('agents', d.agents, 'reason', d.reason, 'by', d.method, 'turn', d.turn_id)::text
      FROM turntree.post_decisions d WHERE d.workspace_id = x.workspace_id AND d.conversation_id = x.conversation_id AND d.seq = x.seq),
    x.author LIKE 'human:%%' AND EXISTS (SELECT FROM turntree.post_deliveries y
      JOIN turntree.queued_messages q ON q.workspace_id = y.workspace_id AND q.session_id = y.session_id AND q.seq = y.message_seq
      WHERE y.workspace_id = x.workspace_id AND y.conversation_id = x.conversation_id AND y.seq = x.seq AND q.options ? 'triage'
        AND (q.options #>> '{conversation,post}')::int = x.seq AND q.canceled_at IS NULL
        AND NOT EXISTS (SELECT FROM turntree.turn_bodies t WHERE t.workspace_id = q.workspace_id AND t.turn_id = q.run_id))
  FROM turntree.list_posts(%(workspace)b, %(conversation)b, %(after)b::int, %(before)b::int, %(limit)b::int) x
  WHERE (SELECT NOT turntree.is_program_hidden(%(workspace)b, %(conversation)b, turntree.viewer()));

-- name: list_untold_posts
-- Of the posts after the last one that an agent was told of, in order, those that it was not told of: newest first.
SELECT conversation_id::text, seq, id::text, kind, author, body, digest,
    to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), turn_id::text, NULL::bytea, cause_seq, hops,
    NULL, false
  FROM turntree.list_untold_posts(%(workspace)b, %(conversation)b, %(session)b, %(after)b::int, %(before)b::int, %(limit)b::int);

-- name: list_explanations
SELECT p.body FROM turntree.posts p WHERE p.workspace_id = %(workspace)b AND p.conversation_id = %(conversation)b
  AND p.seq > %(cause)b::int AND p.cause_seq = %(cause)b::int AND p.author IS NULL AND p.turn_id IS NULL;

-- name: forget_delivery
SELECT turntree.forget_delivery(%(workspace)b, %(session)b, %(run)b);

-- name: list_addressed
-- What a repeated post addressed: its runs, by the sessions that were told of it last.
SELECT b.agent, d.session_id::text, q.run_id::text FROM turntree.post_deliveries d
  JOIN turntree.bound_sessions b ON b.workspace_id = d.workspace_id AND b.session_id = d.session_id
  JOIN turntree.queued_messages q ON q.workspace_id = d.workspace_id AND q.session_id = d.session_id AND q.seq = d.message_seq
  WHERE d.workspace_id = %(workspace)b AND d.conversation_id = %(conversation)b AND d.seq = %(seq)b::int
    AND (q.options #>> '{conversation,post}')::int = d.seq AND NOT q.options ? 'triage'
  ORDER BY d.session_id;

-- name: list_pending
-- The runs that are not sealed yet and answer a post of a person, or an answer to it.
SELECT DISTINCT q.run_id::text FROM turntree.bound_sessions b
  JOIN turntree.queued_messages q ON q.workspace_id = b.workspace_id AND q.session_id = b.session_id
  WHERE b.workspace_id = %(workspace)b AND b.conversation_id = %(conversation)b AND b.agent IS NOT NULL
    AND (q.options #>> '{conversation,cause}')::int = %(cause)b::int AND q.canceled_at IS NULL
    AND NOT EXISTS (SELECT FROM turntree.turn_bodies t WHERE t.workspace_id = b.workspace_id AND t.turn_id = q.run_id)
    AND NOT turntree.is_program_hidden(b.workspace_id, b.conversation_id, turntree.viewer());

-- name: list_participants
SELECT x.principal, coalesce(c.name, substring(x.principal FROM position(':' IN x.principal) + 1)), x.added_by,
    to_char(x.added_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), x.removed_by,
    to_char(x.removed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), x.session_id::text,
    (SELECT n.name FROM turntree.session_names n WHERE n.workspace_id = x.workspace_id AND n.session_id = x.session_id
      AND n.reason IS NULL), x.session_id IS NOT NULL AND (
      EXISTS (SELECT FROM turntree.runs r WHERE r.workspace_id = x.workspace_id AND r.session_id = x.session_id AND r.status <> 'finished')
      OR EXISTS (SELECT FROM turntree.queued_messages q WHERE q.workspace_id = x.workspace_id AND q.session_id = x.session_id
        AND q.payload IS NOT NULL AND q.canceled_at IS NULL))
  FROM turntree.participants x
  LEFT JOIN turntree.programs p ON p.workspace_id = x.workspace_id AND p.kind || ':' || p.name = x.principal
    AND p.name = substring(x.principal FROM position(':' IN x.principal) + 1)
  LEFT JOIN LATERAL (SELECT convert_from(o.bytes, 'UTF8')::jsonb ->> 'name' AS name FROM turntree.program_versions v
    JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
    WHERE v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version) c ON true
  WHERE x.workspace_id = %(workspace)b AND x.conversation_id = %(conversation)b
    AND (%(all)b::boolean OR x.removed_at IS NULL)
    AND NOT turntree.is_program_hidden(x.workspace_id, x.conversation_id, turntree.viewer())
  ORDER BY x.number;

-- name: list_names
SELECT x.principal, coalesce(convert_from(o.bytes, 'UTF8')::jsonb ->> 'name', p.name)
  FROM unnest(%(principals)b::text[]) x (principal)
  JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.kind || ':' || p.name = x.principal
    AND p.name = substring(x.principal FROM position(':' IN x.principal) + 1)
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest;

-- name: list_conversations
-- The one of a name or an id, in any state, or all in some states: first where something was said last.
SELECT p.id::text, p.name, coalesce(d.config ->> 'title', p.name), p.owner, p.state, p.visibility,
    c.post_seq, to_char(c.posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    (SELECT count(*)::int FROM turntree.participants x WHERE x.workspace_id = c.workspace_id AND x.conversation_id = c.id
      AND x.removed_at IS NULL),
    turntree.is_participant(p.workspace_id, p.id, %(by)b), c.parent_id::text, c.forked_seq,
    coalesce((d.config ->> 'agent_turns_max')::int, %(agent_turns_max)b::int), coalesce((d.config ->> 'triage')::boolean, false)
  FROM (SELECT x.* FROM turntree.programs x
      WHERE x.workspace_id = %(workspace)b AND (x.name = %(name)b::text OR x.id = %(id)b::uuid)
    UNION ALL SELECT x.* FROM turntree.programs x
      WHERE %(name)b::text IS NULL AND x.workspace_id = %(workspace)b AND x.state = ANY (%(states)b::text[])) p
  JOIN turntree.conversations c ON c.workspace_id = p.workspace_id AND c.id = p.id
  JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest,
    LATERAL (SELECT convert_from(o.bytes, 'UTF8')::jsonb AS config) d
  WHERE p.kind = 'conversation' AND NOT turntree.is_program_hidden(p.workspace_id, p.id, turntree.viewer())
  ORDER BY coalesce(c.posted_at, p.created_at) DESC, p.name;

-- name: list_candidates
-- Whom a principal could mention in a conversation: the agents that it may read, and people. used_at is when one last
-- said something there, of the newest 1000 posts: asked at each letter that is typed, it must not read 100,000.
WITH people (name) AS (
  SELECT substring(m.principal FROM 7) FROM turntree.members m
    WHERE m.workspace_id = %(workspace)b AND m.role IS NOT NULL AND m.principal LIKE 'human:_%%'
  UNION SELECT substring(x.principal FROM 7) FROM turntree.participants x
    WHERE x.workspace_id = %(workspace)b AND x.conversation_id = %(conversation)b AND x.removed_at IS NULL AND x.principal LIKE 'human:_%%'
), candidates (kind, principal, id, program_id, state, may_invoke) AS (
  SELECT 'agent', 'agent:' || p.name, p.name, p.id, p.state,
      turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'invoke')
    FROM turntree.programs p WHERE p.workspace_id = %(workspace)b AND p.kind = 'agent' AND p.state <> 'deleted' AND p.owner <> 'system:triage'
      AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read')
  UNION ALL
  SELECT 'user', 'human:' || x.name, x.name, p.id, 'active', true FROM people x
    LEFT JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.kind = 'human' AND p.name = x.name
      AND turntree.has_program_access(p.workspace_id, p.id, p.owner, p.visibility, %(by)b, 'read')
), lately (author, used_at) AS (
  SELECT y.author, max(y.posted_at) FROM turntree.conversations t
    JOIN turntree.posts y ON y.workspace_id = t.workspace_id AND y.conversation_id = t.id AND y.seq > t.post_seq - 1000
    WHERE t.workspace_id = %(workspace)b AND t.id = %(conversation)b GROUP BY y.author
)
SELECT c.kind, c.id, coalesce(convert_from(o.bytes, 'UTF8')::jsonb ->> 'name', c.id), c.state, c.may_invoke,
    turntree.is_participant(%(workspace)b, %(conversation)b, c.principal),
    to_char(u.used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  FROM candidates c
  LEFT JOIN lately u ON u.author = c.principal
  LEFT JOIN turntree.programs p ON p.workspace_id = %(workspace)b AND p.id = c.program_id
  LEFT JOIN turntree.program_versions v ON v.workspace_id = p.workspace_id AND v.program_id = p.id AND v.version = p.version
  LEFT JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
  WHERE c.principal <> %(by)b ORDER BY c.principal;

-- name: find_question
-- Which post a turn answers, also if it failed.
SELECT q.options #>> '{conversation,id}', (q.options #>> '{conversation,post}')::int FROM turntree.runs r
  JOIN turntree.queued_messages q ON q.workspace_id = r.workspace_id AND q.session_id = r.session_id AND q.run_id = r.id
  WHERE r.workspace_id = %(workspace)b AND r.id = %(turn)b AND q.options ? 'conversation' ORDER BY q.seq LIMIT 1;

-- name: require_post_erasure
SELECT turntree.require_post_erasure(%(workspace)b, %(conversation)b, %(seq)b::int, %(by)b);

-- name: erase_post
SELECT turntree.erase_post(%(workspace)b, %(conversation)b, %(seq)b::int, %(reason)b, %(by)b, %(at)b);

-- name: find_triage_agent
SELECT turntree.find_triage_agent(%(workspace)b);

-- name: find_triage
-- Whether a conversation wants a decision, and the agent that makes it.
SELECT turntree.wants_triage(%(workspace)b, %(conversation)b), turntree.find_triage_agent(%(workspace)b);

-- name: open_triage_session
SELECT session_id::text, told_seq FROM turntree.open_triage_session(%(workspace)b, %(conversation)b, %(agent)b, %(at)b);

-- name: decide_post
SELECT turntree.decide_post(%(workspace)b, %(conversation)b, %(seq)b::int, %(agents)b::text[], %(reason)b, %(method)b, %(turn)b::uuid, %(at)b);

-- name: tokens_charged
SELECT turntree.tokens_charged(%(workspace)b, %(person)b, date_trunc('day', %(at)b::timestamptz, 'UTC'));

-- name: list_triage_candidates
-- The agents that could answer a post: they take part, are able to, and its author and the person who is charged may
-- invoke them. With the posts of people that each has answered here, the newest first.
SELECT a.name, coalesce(d.config ->> 'name', a.name), coalesce(d.config ->> 'description', d.config ->> 'system_prompt', ''),
    ARRAY(SELECT q.body FROM turntree.posts y
      JOIN turntree.posts q ON q.workspace_id = y.workspace_id AND q.conversation_id = y.conversation_id AND q.seq = y.cause_seq
      WHERE y.workspace_id = x.workspace_id AND y.conversation_id = x.conversation_id AND y.author = x.principal
        AND y.turn_id IS NOT NULL AND y.hops = 1 ORDER BY y.seq DESC LIMIT %(limit)b::int)
  FROM turntree.participants x
  JOIN turntree.programs a ON a.workspace_id = x.workspace_id AND a.kind = 'agent' AND 'agent:' || a.name = x.principal
    AND a.state NOT IN ('paused', 'error', 'deleted') AND a.owner <> 'system:triage'
  JOIN turntree.program_versions v ON v.workspace_id = a.workspace_id AND v.program_id = a.id AND v.version = a.version
  JOIN turntree.objects o ON o.workspace_id = a.workspace_id AND o.digest = v.digest,
    LATERAL (SELECT convert_from(o.bytes, 'UTF8')::jsonb AS config) d
  WHERE x.workspace_id = %(workspace)b AND x.conversation_id = %(conversation)b AND x.removed_at IS NULL
    AND turntree.has_program_access(a.workspace_id, a.id, a.owner, a.visibility, %(author)b, 'invoke')
    AND turntree.has_program_access(a.workspace_id, a.id, a.owner, a.visibility, %(charged)b, 'invoke')
  ORDER BY x.number;

-- name: list_routable
-- The agents that the decision of a run may name.
SELECT jsonb_array_elements_text(q.options #> '{triage,candidates}') FROM turntree.runs r
  JOIN turntree.queued_messages q ON q.workspace_id = r.workspace_id AND q.session_id = r.session_id AND q.run_id = r.id
  WHERE r.workspace_id = %(workspace)b AND r.id = %(run)b AND q.options ? 'triage';
