-- Triggers and what came in by them. The policies show a person their own, and an admin all.

-- name: create_trigger
SELECT turntree.create_trigger(%(workspace)b, %(id)b, %(name)b, %(owner)b, %(target)b, %(prompt)b, %(scopes)b, %(secret)b, %(at)b,
  %(roles)b::text[]);

-- name: rotate_trigger
SELECT turntree.rotate_trigger(%(workspace)b, %(id)b, %(secret)b, %(until)b, %(by)b, %(at)b, %(roles)b::text[]);

-- name: set_trigger_state
SELECT turntree.set_trigger_state(%(workspace)b, %(id)b, %(state)b, %(by)b, %(at)b, %(roles)b::text[]);

-- name: list_triggers
-- In the order in which they were made.
SELECT t.id, t.name, t.owner, t.target, t.prompt, t.scopes, t.state, t.created_at, count(f.message_id), max(f.at)
  FROM turntree.triggers t LEFT JOIN turntree.trigger_firings f ON f.workspace_id = t.workspace_id AND f.trigger_id = t.id
  WHERE t.workspace_id = %(workspace)b AND t.state <> 'deleted' AND (%(id)b::text IS NULL OR t.id = %(id)b)
  GROUP BY t.workspace_id, t.id ORDER BY t.created_at, t.id;

-- name: count_trigger_secrets
-- As the system: how many secrets of each are valid, and not which.
SELECT s.holder, count(*) FROM turntree.webhook_secrets s
  WHERE s.workspace_id = %(workspace)b AND s.holder = ANY (%(holders)b::text[]) AND coalesce(s.expires_at > %(at)b::timestamptz, true)
  GROUP BY s.holder;

-- name: list_secrets
-- As the system: the secrets that are accepted, the newest first.
SELECT s.secret FROM turntree.webhook_secrets s
  WHERE s.workspace_id = %(workspace)b AND s.holder = %(id)b AND coalesce(s.expires_at > %(at)b::timestamptz, true) ORDER BY s.number DESC;

-- name: list_firings
-- Newest first.
SELECT f.message_id, f.run_id::text, f.at, f.digest FROM turntree.trigger_firings f
  WHERE f.workspace_id = %(workspace)b AND f.trigger_id = %(trigger)b AND (%(message)b::text IS NULL OR f.message_id = %(message)b)
  ORDER BY f.at DESC, f.message_id DESC LIMIT %(limit)b;

-- name: record_firing
SELECT turntree.record_firing(%(workspace)b, %(trigger)b, %(message)b, %(owner)b, %(digest)b::bytea, %(run)b::text::uuid, %(at)b);
