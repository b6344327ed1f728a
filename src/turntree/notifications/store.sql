-- Inboxes, and what leaves them. The policies show a person their own rows.

-- name: list_notices
-- Newest first.
SELECT n.id, n.kind::text, n.by, n.text, n.refs, n.at, n.read_at, n.is_displaced FROM turntree.notices n
  WHERE n.workspace_id = %(workspace)b AND n.person = %(person)b AND (%(everything)b OR n.read_at IS NULL)
    AND (%(before)b::text IS NULL OR (n.at, n.id) < (SELECT c.at, c.id FROM turntree.notices c
      WHERE c.workspace_id = %(workspace)b AND c.person = %(person)b AND c.id = %(before)b))
    -- Of a conversation that the person may no longer read, no word.
    AND CASE WHEN n.refs ? 'conversation'
      THEN NOT turntree.is_program_hidden(n.workspace_id, (n.refs ->> 'conversation')::uuid, n.person) ELSE true END
  ORDER BY n.at DESC, n.id DESC LIMIT %(limit)b;

-- name: count_unread
SELECT count(*) FROM turntree.notices n
  WHERE n.workspace_id = %(workspace)b AND n.person = %(person)b AND n.read_at IS NULL;

-- name: read_notices
SELECT * FROM turntree.read_notices(%(workspace)b, %(person)b, %(ids)b::text[], %(at)b);

-- name: list_failed_deliveries
-- The newest delivery of each channel, where that one failed.
SELECT d.channel, d.address, d.error, d.ended_at FROM (
    SELECT DISTINCT ON (x.channel) x.channel, x.address, x.error, x.ended_at, x.outcome FROM turntree.notice_deliveries x
      WHERE x.workspace_id = %(workspace)b AND x.person = %(person)b AND x.outcome <> 'withdrawn'
      ORDER BY x.channel, x.ended_at DESC) d
  WHERE d.outcome = 'failed' ORDER BY d.channel;

-- name: list_workspaces_with_notices
SELECT turntree.workspaces_with_notices(%(at)b)::text;

-- name: list_waiting
-- The people whose channel has not had all of their unread notices, with the end of their newest delivery. An address
-- counts if the person set it.
SELECT w.person, w.preferences::text, w.oldest, l.ended_at, l.outcome = 'failed', l.address FROM (
    SELECT u.person, u.oldest, p.preferences, p.preferences ->> 'notification_channel' AS channel
      FROM (SELECT n.person, min(n.at) AS oldest FROM turntree.notices n WHERE n.workspace_id = %(workspace)b AND n.read_at IS NULL
          AND NOT EXISTS (SELECT FROM turntree.delivered_notices d WHERE d.workspace_id = n.workspace_id
            AND d.person = n.person AND d.channel = ANY (%(channels)b::text[]) AND d.notice_id = n.id)
        GROUP BY n.person) u
      CROSS JOIN LATERAL turntree.notice_preferences(%(workspace)b, u.person) p
      WHERE p.address_by = u.person AND NOT turntree.was_removed(%(workspace)b, u.person)) w
  LEFT JOIN LATERAL (SELECT d.ended_at, d.outcome, d.address FROM turntree.notice_deliveries d
    WHERE d.workspace_id = %(workspace)b AND d.person = w.person AND d.channel = w.channel AND d.outcome <> 'withdrawn'
      AND d.event_stream IS NULL
    ORDER BY d.ended_at DESC LIMIT 1) l ON true
  WHERE w.channel = ANY (%(channels)b::text[]) ORDER BY w.oldest;

-- name: begin_delivery
SELECT turntree.begin_delivery(%(workspace)b, %(person)b, %(channel)b, %(address)b, %(id)b, %(until)b, %(after)b, %(limit)b, %(at)b);

-- name: list_due_deliveries
-- Deliveries that may be tried now, with the preferences of the person as they are now. Those of a webhook that is paused wait.
SELECT d.id, d.person, d.channel, d.address, coalesce(d.resent_at, d.created_at), d.refusals,
    CASE WHEN d.event_stream IS NULL AND p.address_by = d.person THEN p.preferences ELSE '{}' END::text, d.event_stream IS NOT NULL
  FROM turntree.notice_deliveries d LEFT JOIN LATERAL turntree.notice_preferences(%(workspace)b, d.person) p ON d.event_stream IS NULL
  WHERE d.workspace_id = %(workspace)b AND d.outcome IS NULL AND d.next_attempt_at <= %(at)b::timestamptz
    AND coalesce(d.claimed_until <= %(at)b::timestamptz, true) AND d.channel = ANY (%(channels)b::text[])
    AND NOT (d.channel = 'webhook' AND EXISTS (SELECT FROM turntree.webhooks w
      WHERE w.workspace_id = d.workspace_id AND w.id = d.address AND w.state = 'paused'))
  ORDER BY d.next_attempt_at, d.created_at, d.id LIMIT %(limit)b;

-- name: claim_delivery
SELECT * FROM turntree.claim_delivery(%(workspace)b, %(id)b, %(address)b, %(until)b, %(at)b);

-- name: claim_event
SELECT attempt, body FROM turntree.claim_event(%(workspace)b, %(id)b, %(until)b, %(at)b);

-- name: record_attempt
SELECT turntree.record_attempt(%(workspace)b, %(id)b, %(attempt)b, %(result)b, %(error)b, %(next)b, %(at)b);
