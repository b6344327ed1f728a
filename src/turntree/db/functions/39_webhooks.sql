-- Webhooks and triggers: what their owners change about them, and which events leave. Every change is an event of the
-- workspace's own stream, which members read: no secret and no address is in it.

-- Adds a secret of a webhook or a trigger. Those before it are valid until p_until. As the system: no other viewer sees one.
CREATE OR REPLACE FUNCTION turntree.add_webhook_secret(p_ws uuid, p_holder text, p_secret text, p_until text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  DELETE FROM turntree.webhook_secrets WHERE workspace_id = p_ws AND holder = p_holder AND expires_at <= p_at::timestamptz;
  UPDATE turntree.webhook_secrets SET expires_at = least(expires_at, p_until::timestamptz) WHERE workspace_id = p_ws AND holder = p_holder;
  INSERT INTO turntree.webhook_secrets (workspace_id, holder, number, secret)
    SELECT p_ws, p_holder, coalesce(max(s.number), 0) + 1, p_secret FROM turntree.webhook_secrets s
      WHERE s.workspace_id = p_ws AND s.holder = p_holder;
  PERFORM set_config('turntree.viewer', v_viewer, true);
END $$;

-- Removes the secrets of a webhook or a trigger that is deleted.
CREATE OR REPLACE FUNCTION turntree.drop_webhook_secrets(p_ws uuid, p_holder text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  DELETE FROM turntree.webhook_secrets WHERE workspace_id = p_ws AND holder = p_holder;
  PERFORM set_config('turntree.viewer', v_viewer, true);
END $$;

-- Records an event about a webhook or a trigger: p_noun is the one or the other.
CREATE OR REPLACE FUNCTION turntree.record_webhook_event(p_ws uuid, p_noun text, p_id text, p_verb text, p_by text, p_at text, p_more text)
RETURNS void LANGUAGE sql AS $$
  SELECT turntree.record_event(p_ws, turntree.workspace_stream(), p_noun || '.' || p_verb, p_at,
    '{"by":' || turntree.canonical_text(p_by) || p_more || ',"' || p_noun || '":' || turntree.canonical_text(p_id) || '}')
$$;

-- Returns a list of texts as canonical JSON.
CREATE OR REPLACE FUNCTION turntree.canonical_texts(p_texts text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT '[' || coalesce(string_agg(turntree.canonical_text(x.t), ',' ORDER BY x.n), '') || ']' FROM unnest(p_texts) WITH ORDINALITY x (t, n)
$$;

-- Raises unless the viewer is the principal in whose name something is made.
CREATE OR REPLACE FUNCTION turntree.require_self(p_owner text, p_right text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_owner <> turntree.viewer() THEN
    RAISE EXCEPTION '% cannot do this for %', turntree.viewer(), p_owner USING ERRCODE = '42501',
      DETAIL = jsonb_build_object('session', turntree.workspace_stream(), 'by', turntree.viewer(), 'right', p_right,
        'reason', 'it would act for another person')::text;
  END IF;
END $$;

-- Makes a webhook, to which events leave from now on. p_roles may make such a one.
CREATE OR REPLACE FUNCTION turntree.create_webhook(
  p_ws uuid, p_id text, p_owner text, p_url text, p_events text[], p_secret text, p_at text, p_right text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_owner, p_right, p_roles);
  PERFORM turntree.require_self(p_owner, p_right);
  -- After all events of this transaction, and of those before it.
  INSERT INTO turntree.webhooks (workspace_id, id, owner, url, events, state, created_at, epoch, xid, n)
    SELECT p_ws, p_id, p_owner, p_url, p_events, 'active', p_at::timestamptz, s.epoch, pg_current_xact_id(), 9223372036854775807
      FROM turntree.shard s;
  PERFORM turntree.add_webhook_secret(p_ws, p_id, p_secret, p_at, p_at);
  PERFORM turntree.record_webhook_event(p_ws, 'webhook', p_id, 'created', p_owner, p_at, ',"events":' || turntree.canonical_texts(p_events));
END $$;

-- Locks a webhook that the viewer may change: its owner, and p_roles.
CREATE OR REPLACE FUNCTION turntree.lock_webhook(p_ws uuid, p_id text, p_by text, p_roles text[])
RETURNS turntree.webhooks LANGUAGE plpgsql AS $$
DECLARE
  w turntree.webhooks;
BEGIN
  PERFORM turntree.lock_members();
  SELECT * INTO w FROM turntree.webhooks x WHERE x.workspace_id = p_ws AND x.id = p_id AND x.state <> 'deleted' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no webhook %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'webhook.list'))::text;
  ELSIF w.owner <> turntree.viewer() THEN
    PERFORM turntree.require_role(p_ws, p_by, 'webhook.manage', p_roles);
  END IF;
  RETURN w;
END $$;

-- Replaces the secret of a webhook; the one before signs too, until p_until.
CREATE OR REPLACE FUNCTION turntree.rotate_webhook(p_ws uuid, p_id text, p_secret text, p_until text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  w constant turntree.webhooks := turntree.lock_webhook(p_ws, p_id, p_by, p_roles);
BEGIN
  -- Who learns the secret can sign as this webhook does: that is for its owner alone.
  PERFORM turntree.require_self(w.owner, 'webhook.create');
  PERFORM turntree.add_webhook_secret(p_ws, p_id, p_secret, p_until, p_at);
  PERFORM turntree.record_webhook_event(p_ws, 'webhook', p_id, 'rotated', p_by, p_at, '');
END $$;

-- Pauses a webhook, resumes it or deletes it. What happens while it is paused leaves when it is resumed. What a deleted one has
-- not sent is withdrawn. Returns the state before.
CREATE OR REPLACE FUNCTION turntree.set_webhook_state(p_ws uuid, p_id text, p_state text, p_by text, p_at text, p_roles text[])
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  w constant turntree.webhooks := turntree.lock_webhook(p_ws, p_id, p_by, p_roles);
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  IF w.state = p_state THEN
    RETURN w.state;
  END IF;
  UPDATE turntree.webhooks SET state = p_state WHERE workspace_id = p_ws AND id = p_id;
  IF p_state = 'deleted' THEN
    PERFORM turntree.drop_webhook_secrets(p_ws, p_id);
    PERFORM set_config('turntree.viewer', 'system:turntree', true);
    PERFORM turntree.end_delivery(p_ws, d.id, 'withdrawn', NULL, p_at) FROM turntree.notice_deliveries d
      WHERE d.workspace_id = p_ws AND d.channel = 'webhook' AND d.address = p_id AND d.outcome IS NULL;
    PERFORM set_config('turntree.viewer', v_viewer, true);
  END IF;
  PERFORM turntree.record_webhook_event(p_ws, 'webhook', p_id,
    CASE p_state WHEN 'active' THEN 'resumed' WHEN 'paused' THEN 'paused' ELSE 'deleted' END, p_by, p_at, '');
  RETURN w.state;
END $$;

-- Whether a person may be sent the events of a workspace: what p_roles may do, and nothing else.
CREATE OR REPLACE FUNCTION turntree.may_hear_events(p_ws uuid, p_person text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_person AND m.role = 'admin')
$$;

-- Begins a delivery of each of some events, and moves the position of a webhook from the first position to the second one.
-- Returns false if another worker has moved it: then that one has begun them.
CREATE OR REPLACE FUNCTION turntree.begin_event_deliveries(
  p_ws uuid, p_webhook text, p_from text[], p_to text[], p_ids text[], p_streams uuid[], p_seqs int[], p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_owner text;
BEGIN
  UPDATE turntree.webhooks SET epoch = p_to[1]::int, xid = p_to[2]::xid8, n = p_to[3]::bigint
    WHERE workspace_id = p_ws AND id = p_webhook AND state = 'active' AND epoch = p_from[1]::int AND xid = p_from[2]::xid8
      AND n = p_from[3]::bigint
    RETURNING owner INTO v_owner;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO turntree.notice_deliveries (workspace_id, id, person, channel, address, created_at, next_attempt_at, event_stream, event_seq)
    SELECT p_ws, x.id, v_owner, 'webhook', p_webhook, p_at::timestamptz, p_at::timestamptz, x.stream, x.seq
      FROM unnest(p_ids, p_streams, p_seqs) x (id, stream, seq) ON CONFLICT DO NOTHING;
  RETURN true;
END $$;

-- Claims an attempt to deliver an event until p_until, before anything is sent, and returns its number with the body of the event.
-- Returns nothing if another worker has it or the webhook is paused. A delivery is withdrawn if the owner of the webhook may no
-- longer read the event.
CREATE OR REPLACE FUNCTION turntree.claim_event(p_ws uuid, p_id text, p_until text, p_at text)
RETURNS TABLE (attempt int, body text) LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
  v_state text;
  v_body text;
  d record;
BEGIN
  SELECT x.person, x.address, x.attempts, x.event_stream, x.event_seq INTO d FROM turntree.notice_deliveries x
    WHERE x.workspace_id = p_ws AND x.id = p_id AND x.outcome IS NULL AND x.next_attempt_at <= p_at::timestamptz
      AND coalesce(x.claimed_until <= p_at::timestamptz, true) FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT w.state INTO v_state FROM turntree.webhooks w WHERE w.workspace_id = p_ws AND w.id = d.address;
  IF v_state = 'paused' THEN
    RETURN;
  ELSIF v_state = 'active' AND turntree.may_hear_events(p_ws, d.person) THEN
    -- As its owner: the policy of the events decides, now and not when the event was found.
    PERFORM set_config('turntree.viewer', d.person, true);
    SELECT e.body INTO v_body FROM turntree.events e
      WHERE e.workspace_id = p_ws AND e.stream_id = d.event_stream AND e.seq = d.event_seq;
    PERFORM set_config('turntree.viewer', v_viewer, true);
  END IF;
  IF v_body IS NULL THEN
    PERFORM turntree.end_delivery(p_ws, p_id, 'withdrawn', NULL, p_at);
    RETURN;
  END IF;
  UPDATE turntree.notice_deliveries x SET attempts = x.attempts + 1, doubts = x.doubts + 1, claimed_until = p_until::timestamptz
    WHERE x.workspace_id = p_ws AND x.id = p_id;
  RETURN QUERY SELECT d.attempts + 1, v_body;
END $$;

-- Begins the delivery of an event anew that has ended, under the same id. The viewer is its owner.
CREATE OR REPLACE FUNCTION turntree.resend_delivery(p_ws uuid, p_id text, p_at text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  d record;
BEGIN
  SELECT x.address, x.outcome, x.event_stream, w.state INTO d FROM turntree.notice_deliveries x
    JOIN turntree.webhooks w ON w.workspace_id = p_ws AND w.id = x.address
    WHERE x.workspace_id = p_ws AND x.id = p_id AND x.channel = 'webhook' AND x.person = turntree.viewer() FOR NO KEY UPDATE OF x;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no delivery %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'webhook.list'))::text;
  ELSIF d.state = 'deleted' THEN
    RAISE EXCEPTION 'the webhook % was deleted', d.address USING ERRCODE = 'TT003';
  ELSIF d.event_stream IS NULL THEN
    RAISE EXCEPTION 'the delivery % has notices: those that are unread leave by themselves', p_id USING ERRCODE = 'TT003';
  ELSIF d.outcome IS NULL THEN
    RAISE EXCEPTION 'the delivery % has not ended', p_id USING ERRCODE = 'TT003';
  END IF;
  UPDATE turntree.notice_deliveries SET outcome = NULL, ended_at = NULL, error = NULL, refusals = 0, resent_at = p_at::timestamptz,
      next_attempt_at = p_at::timestamptz, claimed_until = NULL
    WHERE workspace_id = p_ws AND id = p_id;
  RETURN d.address;
END $$;

-- Makes a trigger, by which messages come in and act for its owner.
CREATE OR REPLACE FUNCTION turntree.create_trigger(
  p_ws uuid, p_id text, p_name text, p_owner text, p_target text, p_prompt text, p_scopes text, p_secret text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  PERFORM turntree.require_role(p_ws, p_owner, 'trigger.create', p_roles);
  PERFORM turntree.require_self(p_owner, 'trigger.create');
  INSERT INTO turntree.triggers (workspace_id, id, name, owner, target, prompt, scopes, state, created_at)
    VALUES (p_ws, p_id, p_name, p_owner, p_target, p_prompt, p_scopes::jsonb, 'active', p_at::timestamptz);
  PERFORM turntree.add_webhook_secret(p_ws, p_id, p_secret, p_at, p_at);
  PERFORM turntree.record_webhook_event(p_ws, 'trigger', p_id, 'created', p_owner, p_at, ',"scopes":' || p_scopes);
END $$;

-- Locks a trigger that the viewer may change: its owner, and p_roles.
CREATE OR REPLACE FUNCTION turntree.lock_trigger(p_ws uuid, p_id text, p_by text, p_roles text[])
RETURNS turntree.triggers LANGUAGE plpgsql AS $$
DECLARE
  t turntree.triggers;
BEGIN
  PERFORM turntree.lock_members();
  SELECT * INTO t FROM turntree.triggers x WHERE x.workspace_id = p_ws AND x.id = p_id AND x.state <> 'deleted' FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no trigger %', p_id USING ERRCODE = 'TT002',
      DETAIL = jsonb_build_object('hint', jsonb_build_object('action', 'trigger.list'))::text;
  ELSIF t.owner <> turntree.viewer() THEN
    PERFORM turntree.require_role(p_ws, p_by, 'trigger.manage', p_roles);
  END IF;
  RETURN t;
END $$;

-- Replaces the secret of a trigger; the one before is accepted until p_until.
CREATE OR REPLACE FUNCTION turntree.rotate_trigger(p_ws uuid, p_id text, p_secret text, p_until text, p_by text, p_at text, p_roles text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  t constant turntree.triggers := turntree.lock_trigger(p_ws, p_id, p_by, p_roles);
BEGIN
  -- Who learns the secret can act as its owner.
  PERFORM turntree.require_self(t.owner, 'trigger.create');
  PERFORM turntree.add_webhook_secret(p_ws, p_id, p_secret, p_until, p_at);
  PERFORM turntree.record_webhook_event(p_ws, 'trigger', p_id, 'rotated', p_by, p_at, '');
END $$;

-- Pauses a trigger, resumes it or deletes it. Returns the state before.
CREATE OR REPLACE FUNCTION turntree.set_trigger_state(p_ws uuid, p_id text, p_state text, p_by text, p_at text, p_roles text[])
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  t constant turntree.triggers := turntree.lock_trigger(p_ws, p_id, p_by, p_roles);
BEGIN
  IF t.state = p_state THEN
    RETURN t.state;
  END IF;
  -- An admin may stop what acts for another person, and only that person lets it act again.
  IF p_state = 'active' THEN
    PERFORM turntree.require_self(t.owner, 'trigger.create');
  END IF;
  UPDATE turntree.triggers SET state = p_state WHERE workspace_id = p_ws AND id = p_id;
  IF p_state = 'deleted' THEN
    PERFORM turntree.drop_webhook_secrets(p_ws, p_id);
  END IF;
  PERFORM turntree.record_webhook_event(p_ws, 'trigger', p_id,
    CASE p_state WHEN 'active' THEN 'resumed' WHEN 'paused' THEN 'paused' ELSE 'deleted' END, p_by, p_at, '');
  RETURN t.state;
END $$;

-- Records that a message came in by a trigger and which run answers it. The same message again records nothing.
CREATE OR REPLACE FUNCTION turntree.record_firing(
  p_ws uuid, p_trigger text, p_message text, p_owner text, p_digest bytea, p_run uuid, p_at text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM turntree.lock_members();
  INSERT INTO turntree.trigger_firings (workspace_id, trigger_id, message_id, owner, digest, run_id, at)
    VALUES (p_ws, p_trigger, p_message, p_owner, p_digest, p_run, p_at::timestamptz) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM turntree.record_webhook_event(p_ws, 'trigger', p_trigger, 'fired', p_owner, p_at,
    ',"message":' || turntree.canonical_text(p_message) || ',"run":"' || p_run || '"');
  RETURN true;
END $$;
