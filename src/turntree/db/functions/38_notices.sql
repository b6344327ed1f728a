-- Notices: what people are told, and how it leaves the ledger. A notice is for one person, and no other one reads it. The
-- principal that adds it cannot see the row, so the function does that as the system, and checks nothing about the caller.

-- Returns the id of the notice of a person under a key.
CREATE OR REPLACE FUNCTION turntree.notice_id(p_person text, p_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT left(encode(sha256(convert_to(p_person || ' ' || p_key, 'UTF8')), 'hex'), 16)
$$;

-- Returns how a person wants to hear of something, as their entry in the registry says, and which principal set the
-- address in there that their channel sends to. Only an address that the person set counts: the texts of their notices are
-- sent to it. Runs as the searcher: an entry that is hidden from the viewer still counts.
CREATE OR REPLACE FUNCTION turntree.notice_preferences(p_ws uuid, p_person text)
RETURNS TABLE (preferences jsonb, address_by text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, turntree, pg_temp AS $$
  WITH versions AS (
    SELECT v.version, v.by, v.version = x.version AS is_newest,
        coalesce(nullif(convert_from(o.bytes, 'UTF8')::jsonb -> 'preferences', 'null'), '{}') AS preferences
      FROM turntree.programs x
      JOIN turntree.program_versions v ON v.workspace_id = x.workspace_id AND v.program_id = x.id AND v.version <= x.version
      JOIN turntree.objects o ON o.workspace_id = v.workspace_id AND o.digest = v.digest
      WHERE x.workspace_id = p_ws AND x.kind = 'human' AND x.name = substring(p_person FROM '^human:(.*)$')
  )
  SELECT n.preferences, (SELECT s.by FROM versions s WHERE s.version > coalesce((SELECT max(o.version) FROM versions o
        WHERE o.preferences -> m.member IS DISTINCT FROM n.preferences -> m.member), 0) ORDER BY s.version LIMIT 1)
    FROM versions n, LATERAL (SELECT CASE WHEN n.preferences ->> 'notification_channel' = 'webhook' THEN 'webhook'
      WHEN n.preferences ->> 'notification_channel' IN ('terminal', 'command') THEN 'notification_channel' ELSE 'email' END) m (member)
    WHERE n.is_newest
$$;

-- Whether a person was removed from the workspace. One who was never added is a member: see 0006.
CREATE OR REPLACE FUNCTION turntree.was_removed(p_ws uuid, p_person text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM turntree.members m WHERE m.workspace_id = p_ws AND m.principal = p_person AND m.role IS NULL)
$$;

-- Adds a notice for a person, human:NAME, in the caller's transaction. The same key twice is one notice. Returns whether
-- there is a new one: not for another kind of principal, a removed person, and one who wants no notices.
--
-- A sender has at most 50 unread notices with a person. The next one displaces the oldest of them, so that a flood of
-- one sender hides nothing of another. Two transactions at once may leave one more: no lock is taken for it, so callers
-- may add notices for several people in any order.
CREATE OR REPLACE FUNCTION turntree.add_notice(
  p_ws uuid, p_person text, p_kind text, p_by text, p_text text, p_refs jsonb, p_key text, p_at timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
  v_unread_max constant int := 50;
  v_is_new boolean;
BEGIN
  IF p_person NOT LIKE 'human:_%' OR turntree.was_removed(p_ws, p_person) OR EXISTS (
      SELECT FROM turntree.notice_preferences(p_ws, p_person) n
        WHERE n.preferences ->> 'notification_channel' = 'none') THEN
    RETURN false;
  END IF;
  -- Until the end of this function; an error takes it back too. A SET clause of the function would need a superuser.
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  INSERT INTO turntree.notices (workspace_id, person, id, kind, by, text, refs, at)
    VALUES (p_ws, p_person, turntree.notice_id(p_person, p_key), p_kind, p_by, left(p_text, 10000), p_refs, p_at)
    ON CONFLICT DO NOTHING;
  v_is_new := FOUND;
  IF v_is_new THEN
    -- Locks nothing that another transaction holds: that one displaces it too.
    UPDATE turntree.notices SET read_at = p_at, is_displaced = true
      WHERE workspace_id = p_ws AND person = p_person AND id IN (SELECT x.id FROM turntree.notices x
        WHERE x.workspace_id = p_ws AND x.person = p_person AND x.read_at IS NULL AND x.id IN (SELECT o.id FROM turntree.notices o
          WHERE o.workspace_id = p_ws AND o.person = p_person AND o.by = p_by AND o.read_at IS NULL
          ORDER BY o.at DESC, o.id DESC OFFSET v_unread_max) FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  PERFORM set_config('turntree.viewer', v_viewer, true);
  RETURN v_is_new;
END $$;

-- Marks the notices of a person about a conversation as read: they may no longer read it, and no mail leads there.
CREATE OR REPLACE FUNCTION turntree.settle_notices_of(p_ws uuid, p_person text, p_conversation uuid, p_at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  UPDATE turntree.notices SET read_at = p_at
    WHERE workspace_id = p_ws AND person = p_person AND refs ->> 'conversation' = p_conversation::text AND read_at IS NULL;
  PERFORM set_config('turntree.viewer', v_viewer, true);
END $$;

-- Marks a notice as read because what it asks for was done.
CREATE OR REPLACE FUNCTION turntree.settle_notice(p_ws uuid, p_person text, p_key text, p_at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_viewer constant text := current_setting('turntree.viewer', true);
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  UPDATE turntree.notices SET read_at = p_at
    WHERE workspace_id = p_ws AND person = p_person AND id = turntree.notice_id(p_person, p_key) AND read_at IS NULL;
  PERFORM set_config('turntree.viewer', v_viewer, true);
END $$;

-- Marks notices of the viewer as read, all or some, and returns them in their order. A person with an entry in the
-- registry has an event of it, which says only how many: other members read events. The messages that earlier releases
-- kept in the details of that entry go with it.
CREATE OR REPLACE FUNCTION turntree.read_notices(p_ws uuid, p_person text, p_ids text[], p_at text)
RETURNS TABLE (id text, kind text, by text, text text, refs jsonb, at timestamptz, read_at timestamptz, is_displaced boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  v_ids text[];
  p record;
BEGIN
  IF p_person <> turntree.viewer() THEN
    RAISE EXCEPTION 'only % reads their notices, not %', p_person, turntree.viewer() USING ERRCODE = '42501';
  END IF;
  SELECT x.id, x.details INTO p FROM turntree.programs x
    WHERE x.workspace_id = p_ws AND x.kind = 'human' AND 'human:' || x.name = p_person FOR NO KEY UPDATE;
  WITH changed AS (
    UPDATE turntree.notices SET read_at = p_at::timestamptz WHERE workspace_id = p_ws AND person = p_person
      AND read_at IS NULL AND (p_ids IS NULL OR id = ANY (p_ids)) RETURNING id
  ) SELECT coalesce(array_agg(c.id), '{}') INTO v_ids FROM changed c;
  IF p.id IS NOT NULL AND (cardinality(v_ids) > 0 OR p.details ? 'inbox') THEN
    UPDATE turntree.programs SET details = details - 'inbox', updated_at = p_at::timestamptz
      WHERE workspace_id = p_ws AND id = p.id;
    PERFORM turntree.insert_event(p_ws, p.id, turntree.next_program_seq(p_ws, p.id, 'human'), 'human.read', p_at,
      '{"by":' || turntree.canonical_text(p_person) || ',"count":' || cardinality(v_ids)
        || CASE WHEN p.details ? 'inbox' THEN ',"details":{"inbox":null}' ELSE '' END || '}');
  END IF;
  RETURN QUERY SELECT n.id, n.kind::text, n.by, n.text, n.refs, n.at, n.read_at, n.is_displaced FROM turntree.notices n
    WHERE n.workspace_id = p_ws AND n.person = p_person AND n.id = ANY (v_ids) ORDER BY n.at, n.id;
END $$;

-- Tells the sender of a message that its run failed, if the sender asked for that. Run it as the system.
CREATE OR REPLACE FUNCTION turntree.notice_failed_run(p_ws uuid, p_run uuid, p_event jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  m record;
BEGIN
  SELECT q.by AS sender, q.session_id, n.name INTO m FROM turntree.runs r
    JOIN turntree.queued_messages q ON q.workspace_id = p_ws AND q.session_id = r.session_id AND q.run_id = p_run
      AND q.options @> '{"tells_failure": true}'
    LEFT JOIN turntree.session_names n ON n.workspace_id = p_ws AND n.session_id = r.session_id AND n.reason IS NULL
    WHERE r.workspace_id = p_ws AND r.id = p_run ORDER BY q.seq LIMIT 1;
  IF FOUND THEN
    PERFORM turntree.add_notice(p_ws, turntree.person_behind(m.sender), 'failure', 'system:runtime',
      format('the message to %s was not answered: %s', coalesce(m.name, m.session_id::text),
        coalesce(nullif(concat_ws(': ', nullif(p_event #>> '{data,reason}', ''), nullif(p_event #>> '{data,error}', '')), ''), 'unknown reason')),
      jsonb_build_object('run', p_run, 'session', m.session_id), 'failed run ' || p_run, (p_event ->> 'at')::timestamptz);
  END IF;
END $$;

-- Tells the principal that gave a task that it failed, unless that principal says so.
CREATE OR REPLACE FUNCTION turntree.notice_failed_task(
  p_ws uuid, p_task uuid, p_name text, p_details jsonb, p_data jsonb, p_by text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_person constant text := turntree.person_behind(p_details ->> 'given_by');
BEGIN
  IF v_person <> p_by THEN
    PERFORM turntree.add_notice(p_ws, v_person, 'failure', p_by,
      format('the task %s failed%s', p_name, coalesce(': ' || nullif(p_data ->> 'reason', ''), '')),
      jsonb_build_object('task', p_name), 'failed task ' || p_task || ' ' || p_at, p_at::timestamptz);
  END IF;
END $$;

-- Returns the workspaces in which a notice or an event may have to leave, all in one call: a worker serves many.
CREATE OR REPLACE FUNCTION turntree.workspaces_with_notices(p_at text)
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
  v_before constant text := current_setting('turntree.workspace', true);
  v_ws uuid;
BEGIN
  FOR v_ws IN SELECT id FROM turntree.workspaces ORDER BY id LOOP
    PERFORM set_config('turntree.workspace', v_ws::text, true);
    IF EXISTS (SELECT FROM turntree.notices n WHERE n.workspace_id = v_ws AND n.read_at IS NULL)
        OR EXISTS (SELECT FROM turntree.webhooks w WHERE w.workspace_id = v_ws AND w.state = 'active' AND w.events <> '{}')
        OR EXISTS (SELECT FROM turntree.notice_deliveries d WHERE d.workspace_id = v_ws AND d.outcome IS NULL
          AND d.next_attempt_at <= p_at::timestamptz) THEN
      RETURN NEXT v_ws;
    END IF;
  END LOOP;
  PERFORM set_config('turntree.workspace', coalesce(v_before, ''), true);
END $$;

-- Returns the unread notices of a person that a channel has not had, until a time.
CREATE OR REPLACE FUNCTION turntree.undelivered_notices(p_ws uuid, p_person text, p_channel text, p_until timestamptz)
RETURNS SETOF turntree.notices LANGUAGE sql STABLE AS $$
  SELECT n.* FROM turntree.notices n WHERE n.workspace_id = p_ws AND n.person = p_person AND n.read_at IS NULL AND n.at <= p_until
    AND NOT EXISTS (SELECT FROM turntree.delivered_notices d WHERE d.workspace_id = p_ws AND d.person = p_person
      AND d.channel = p_channel AND d.notice_id = n.id)
$$;

-- Begins the delivery p_id: of the unread notices of a person until p_until that this channel has not had, the oldest
-- p_limit. Returns false if there is none, if another one is open, or if one has ended after p_after.
CREATE OR REPLACE FUNCTION turntree.begin_delivery(
  p_ws uuid, p_person text, p_channel text, p_address text, p_id text, p_until text, p_after text, p_limit int, p_at text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('turntree:delivery:' || p_ws || ' ' || p_channel || ' ' || p_person, 0));
  IF EXISTS (SELECT FROM turntree.notice_deliveries d WHERE d.workspace_id = p_ws AND d.person = p_person
        AND d.channel = p_channel AND d.event_stream IS NULL AND (d.outcome IS NULL OR d.outcome <> 'withdrawn' AND d.ended_at > p_after::timestamptz))
      OR NOT EXISTS (SELECT FROM turntree.undelivered_notices(p_ws, p_person, p_channel, p_until::timestamptz)) THEN
    RETURN false;
  END IF;
  INSERT INTO turntree.notice_deliveries (workspace_id, id, person, channel, address, created_at, next_attempt_at)
    VALUES (p_ws, p_id, p_person, p_channel, p_address, p_at::timestamptz, p_at::timestamptz);
  INSERT INTO turntree.delivered_notices (workspace_id, person, channel, notice_id, delivery_id)
    SELECT p_ws, p_person, p_channel, n.id, p_id
      FROM turntree.undelivered_notices(p_ws, p_person, p_channel, p_until::timestamptz) n ORDER BY n.at, n.id LIMIT p_limit;
  RETURN true;
END $$;

-- Claims an attempt of a delivery until p_until, before anything is sent, and returns its number with each notice that is
-- still unread. From here on the delivery is in doubt, until the attempt is known to have been refused. Returns nothing if
-- another worker has it, or if it is withdrawn now: all of it was read meanwhile, or the person was removed or has another
-- address. What was withdrawn without a doubt leaves with the next delivery.
CREATE OR REPLACE FUNCTION turntree.claim_delivery(p_ws uuid, p_id text, p_address text, p_until text, p_at text)
RETURNS TABLE (attempt int, id text, kind text, by text, text text, refs jsonb, at timestamptz, read_at timestamptz,
  is_displaced boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  d record;
BEGIN
  SELECT x.person, x.channel, x.address, x.attempts INTO d FROM turntree.notice_deliveries x
    WHERE x.workspace_id = p_ws AND x.id = p_id AND x.outcome IS NULL AND x.next_attempt_at <= p_at::timestamptz
      AND coalesce(x.claimed_until <= p_at::timestamptz, true) FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF d.address IS NOT DISTINCT FROM p_address AND NOT turntree.was_removed(p_ws, d.person) THEN
    RETURN QUERY SELECT d.attempts + 1, n.id, n.kind::text, n.by, n.text, n.refs, n.at, n.read_at, n.is_displaced
      FROM turntree.delivered_notices i
      JOIN turntree.notices n ON n.workspace_id = p_ws AND n.person = i.person AND n.id = i.notice_id AND n.read_at IS NULL
      WHERE i.workspace_id = p_ws AND i.delivery_id = p_id ORDER BY n.at, n.id;
    IF FOUND THEN
      UPDATE turntree.notice_deliveries SET attempts = attempts + 1, doubts = doubts + 1, claimed_until = p_until::timestamptz
        WHERE workspace_id = p_ws AND id = p_id;
      RETURN;
    END IF;
  END IF;
  PERFORM turntree.end_delivery(p_ws, p_id, 'withdrawn', NULL, p_at);
END $$;

-- Ends a delivery. What was certainly not delivered, and is unread, may leave with another one.
CREATE OR REPLACE FUNCTION turntree.end_delivery(p_ws uuid, p_id text, p_outcome text, p_error text, p_at text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE turntree.notice_deliveries SET outcome = p_outcome, ended_at = p_at::timestamptz, error = p_error, claimed_until = NULL
    WHERE workspace_id = p_ws AND id = p_id AND outcome IS NULL;
  DELETE FROM turntree.delivered_notices i USING turntree.notice_deliveries d
    WHERE d.workspace_id = p_ws AND d.id = p_id AND d.outcome <> 'delivered' AND d.doubts = 0
      AND i.workspace_id = p_ws AND i.delivery_id = p_id;
END $$;

-- Records how the attempt number p_attempt ended: 'delivered', 'refused' (for now), 'rejected' (for good) or 'lost' (there
-- was no answer, so the doubt stays). p_next is the time of the next attempt; null ends the delivery as failed. An attempt
-- that another one has overtaken decides nothing more, unless it was delivered.
CREATE OR REPLACE FUNCTION turntree.record_attempt(
  p_ws uuid, p_id text, p_attempt int, p_result text, p_error text, p_next text, p_at text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_result = 'delivered' THEN
    PERFORM turntree.end_delivery(p_ws, p_id, 'delivered', NULL, p_at);
    RETURN;
  END IF;
  UPDATE turntree.notice_deliveries SET doubts = doubts - (p_result <> 'lost')::int, refusals = refusals + (p_result = 'rejected')::int,
      error = p_error
    WHERE workspace_id = p_ws AND id = p_id AND outcome IS NULL;
  UPDATE turntree.notice_deliveries SET claimed_until = NULL, next_attempt_at = coalesce(p_next, p_at)::timestamptz
    WHERE workspace_id = p_ws AND id = p_id AND attempts = p_attempt AND outcome IS NULL;
  IF FOUND AND p_next IS NULL THEN
    PERFORM turntree.end_delivery(p_ws, p_id, 'failed', p_error, p_at);
  END IF;
END $$;
