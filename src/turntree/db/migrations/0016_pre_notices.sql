-- Notices: what a person is told, before and after they read it, and by which deliveries it was sent on to them.

CREATE DOMAIN turntree.notice_kind AS text CHECK (VALUE IN ('message', 'question', 'mention', 'invitation', 'failure'));

-- The id is the start of the digest of the person and the key of the notice, so the same key twice is one notice. What a
-- sender's later notices have displaced counts as read, without having been read.
CREATE TABLE turntree.notices (
  workspace_id uuid NOT NULL,
  person text NOT NULL CHECK (person LIKE 'human:_%'),
  id text NOT NULL CHECK (id ~ '^[0-9a-f]{16}$'),
  kind turntree.notice_kind NOT NULL,
  by text NOT NULL,
  text text NOT NULL CHECK (length(text) BETWEEN 1 AND 10000),
  refs jsonb NOT NULL,
  at timestamptz NOT NULL,
  read_at timestamptz,
  is_displaced boolean NOT NULL DEFAULT false,
  PRIMARY KEY (workspace_id, person, id),
  CHECK (read_at IS NOT NULL OR NOT is_displaced)
);
CREATE INDEX notices_order ON turntree.notices (workspace_id, person, at, id);
CREATE INDEX notices_unread ON turntree.notices (workspace_id, person, at, id) WHERE read_at IS NULL;

-- Deliveries: messages that leave the ledger by a channel, each with one or more notices. The row is there before the
-- first attempt. Its doubts are the attempts that were begun and whose answer is not known: each may have been accepted.
CREATE TABLE turntree.notice_deliveries (
  workspace_id uuid NOT NULL,
  id text NOT NULL CHECK (id <> ''),
  person text NOT NULL CHECK (person LIKE 'human:_%'),
  channel text NOT NULL CHECK (channel <> ''),
  address text NOT NULL CHECK (length(address) BETWEEN 1 AND 2000),
  created_at timestamptz NOT NULL,
  attempts int NOT NULL DEFAULT 0,
  refusals int NOT NULL DEFAULT 0,
  doubts int NOT NULL DEFAULT 0,
  next_attempt_at timestamptz NOT NULL,
  claimed_until timestamptz,
  error text,
  outcome text CHECK (outcome IN ('delivered', 'failed', 'withdrawn')),
  ended_at timestamptz,
  PRIMARY KEY (workspace_id, id),
  CHECK ((outcome IS NULL) = (ended_at IS NULL))
);
CREATE INDEX notice_deliveries_open ON turntree.notice_deliveries (workspace_id, next_attempt_at) WHERE outcome IS NULL;
CREATE INDEX notice_deliveries_order ON turntree.notice_deliveries (workspace_id, person, channel, created_at);

-- Which notices a delivery has: each leaves by a channel once.
CREATE TABLE turntree.delivered_notices (
  workspace_id uuid NOT NULL,
  person text NOT NULL,
  channel text NOT NULL,
  notice_id text NOT NULL,
  delivery_id text NOT NULL,
  PRIMARY KEY (workspace_id, person, channel, notice_id),
  FOREIGN KEY (workspace_id, person, notice_id) REFERENCES turntree.notices,
  FOREIGN KEY (workspace_id, delivery_id) REFERENCES turntree.notice_deliveries
);
CREATE INDEX delivered_notices_delivery ON turntree.delivered_notices (workspace_id, delivery_id);

SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['notices', 'notice_deliveries', 'delivered_notices']) t;
-- People who query with SQL have no use for it, and an import adds none.
REVOKE SELECT ON turntree.notices, turntree.notice_deliveries, turntree.delivered_notices
  FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.notices, turntree.notice_deliveries TO turntree_app;
GRANT INSERT, DELETE ON turntree.delivered_notices TO turntree_app;

-- Unread messages were in the details of the person's program. They stay there too, as the events say, until the person
-- reads their inbox for the first time.
DO $$
DECLARE
  v_workspace constant text := current_setting('turntree.workspace', true);
  v_viewer constant text := current_setting('turntree.viewer', true);
  v_ws uuid;
BEGIN
  PERFORM set_config('turntree.viewer', 'system:turntree', true);
  FOR v_ws IN SELECT id FROM turntree.workspaces LOOP
    PERFORM set_config('turntree.workspace', v_ws::text, true);
    INSERT INTO turntree.notices (workspace_id, person, id, kind, by, text, refs, at)
      SELECT v_ws, 'human:' || p.name,
          left(encode(sha256(convert_to('human:' || p.name || ' details ' || m.number, 'UTF8')), 'hex'), 16),
          'message', m.entry ->> 'by', left(m.entry ->> 'message', 10000), '{}',
          -- Their times were not kept. They stay in their order.
          p.updated_at + m.number * interval '1 microsecond'
        FROM turntree.programs p, LATERAL jsonb_array_elements(p.details -> 'inbox') WITH ORDINALITY m (entry, number)
        WHERE p.workspace_id = v_ws AND p.kind = 'human' AND jsonb_typeof(p.details -> 'inbox') = 'array'
          AND m.entry ->> 'by' <> '' AND m.entry ->> 'message' <> '';
  END LOOP;
  PERFORM set_config('turntree.workspace', coalesce(v_workspace, ''), true);
  PERFORM set_config('turntree.viewer', coalesce(v_viewer, ''), true);
END $$;
