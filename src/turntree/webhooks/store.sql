-- Webhooks and what leaves by them. The policies show a person their own, and an admin all.

-- name: create_webhook
SELECT turntree.create_webhook(%(workspace)b, %(id)b, %(owner)b, %(url)b, %(events)b::text[], %(secret)b, %(at)b, %(right)b, %(roles)b::text[]);

-- name: rotate_webhook
SELECT turntree.rotate_webhook(%(workspace)b, %(id)b, %(secret)b, %(until)b, %(by)b, %(at)b, %(roles)b::text[]);

-- name: set_webhook_state
SELECT turntree.set_webhook_state(%(workspace)b, %(id)b, %(state)b, %(by)b, %(at)b, %(roles)b::text[]);

-- name: list_webhooks
-- In the order in which they were made.
SELECT w.id, w.owner, w.url, w.events, w.state, w.created_at,
    count(*) FILTER (WHERE d.id IS NOT NULL AND d.outcome IS NULL), count(*) FILTER (WHERE d.outcome = 'failed')
  FROM turntree.webhooks w LEFT JOIN turntree.notice_deliveries d
    ON d.workspace_id = w.workspace_id AND d.channel = 'webhook' AND d.address = w.id
  WHERE w.workspace_id = %(workspace)b AND w.state <> 'deleted'
  GROUP BY w.workspace_id, w.id ORDER BY w.created_at, w.id;

-- name: count_secrets
-- As the system: how many secrets of each are valid, and not which.
SELECT s.holder, count(*) FROM turntree.webhook_secrets s
  WHERE s.workspace_id = %(workspace)b AND s.holder = ANY (%(holders)b::text[]) AND coalesce(s.expires_at > %(at)b::timestamptz, true)
  GROUP BY s.holder;

-- name: find_endpoint
-- As the system: where a webhook sends, for whom, and with which secrets it signs, the newest first.
SELECT w.owner, w.url, w.state, (SELECT coalesce(array_agg(s.secret ORDER BY s.number DESC), '{}') FROM turntree.webhook_secrets s
    WHERE s.workspace_id = w.workspace_id AND s.holder = w.id AND coalesce(s.expires_at > %(at)b::timestamptz, true))
  FROM turntree.webhooks w WHERE w.workspace_id = %(workspace)b AND w.id = %(id)b;

-- name: list_deliveries
-- Newest first. The kind of an event is no secret of it, but its owner alone reads what leaves.
SELECT d.id, d.address, coalesce(e.kind, CASE WHEN d.event_stream IS NULL THEN 'inbox.notices' ELSE 'event' END), coalesce(d.outcome, 'waiting'), d.attempts, d.error, d.created_at, d.ended_at
  FROM turntree.notice_deliveries d LEFT JOIN turntree.events e
    ON e.workspace_id = d.workspace_id AND e.stream_id = d.event_stream AND e.seq = d.event_seq
  WHERE d.workspace_id = %(workspace)b AND d.channel = 'webhook' AND d.address = %(webhook)b AND d.person = %(person)b
    AND (NOT %(failed)b OR d.outcome = 'failed') AND (%(id)b::text IS NULL OR d.id = %(id)b)
  ORDER BY d.created_at DESC, d.id DESC LIMIT %(limit)b;

-- name: resend_delivery
SELECT turntree.resend_delivery(%(workspace)b, %(id)b, %(at)b);

-- name: list_listening
-- The webhooks that events leave by, with the last position that was looked at, and whether their owner may still be sent any.
SELECT w.id, w.owner, w.events, w.epoch, w.xid::text::bigint, w.n, turntree.may_hear_events(w.workspace_id, w.owner)
  FROM turntree.webhooks w WHERE w.workspace_id = %(workspace)b AND w.state = 'active' AND w.events <> '{}' ORDER BY w.id;

-- name: begin_event_deliveries
SELECT turntree.begin_event_deliveries(%(workspace)b, %(webhook)b, %(before)b::text[], %(until)b::text[], %(ids)b::text[], %(streams)b::uuid[],
  %(seqs)b::int[], %(at)b);
