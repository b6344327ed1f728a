-- Webhooks: where events and notices leave to, and triggers, by which messages come in. Both sign what they send by Standard
-- Webhooks, with secrets that both sides know.

-- A secret signs what leaves, so that a digest of it would not do: the table is read by the system alone. While a secret is
-- replaced, the old one is valid until it expires. The holder is a webhook or a trigger.
CREATE TABLE turntree.webhook_secrets (
  workspace_id uuid NOT NULL,
  holder text NOT NULL,
  number int NOT NULL CHECK (number > 0),
  secret text NOT NULL CHECK (secret LIKE 'whsec\_%'),
  expires_at timestamptz,
  PRIMARY KEY (workspace_id, holder, number)
);

-- Without kinds of events, a webhook is for the notices of its owner alone. The position is that of the last event of the
-- feed for which it was decided whether it leaves.
CREATE TABLE turntree.webhooks (
  workspace_id uuid NOT NULL,
  id text NOT NULL CHECK (id LIKE 'wh-%'),
  owner text NOT NULL CHECK (owner LIKE 'human:_%'),
  url text NOT NULL CHECK (length(url) BETWEEN 1 AND 2000),
  events text[] NOT NULL,
  state text NOT NULL CHECK (state IN ('active', 'paused', 'deleted')),
  created_at timestamptz NOT NULL,
  epoch int NOT NULL,
  xid xid8 NOT NULL,
  n bigint NOT NULL,
  PRIMARY KEY (workspace_id, id)
);
CREATE INDEX webhooks_active ON turntree.webhooks (workspace_id) WHERE state = 'active' AND events <> '{}';

-- A delivery has notices or one event. One that was given up may be sent again, which begins its time anew.
ALTER TABLE turntree.notice_deliveries ADD COLUMN event_stream uuid, ADD COLUMN event_seq int, ADD COLUMN resent_at timestamptz,
  ADD CONSTRAINT notice_deliveries_event CHECK ((event_stream IS NULL) = (event_seq IS NULL) AND (event_stream IS NULL OR channel = 'webhook'));
CREATE INDEX notice_deliveries_address ON turntree.notice_deliveries (workspace_id, address, created_at) WHERE channel = 'webhook';

CREATE TABLE turntree.triggers (
  workspace_id uuid NOT NULL,
  id text NOT NULL CHECK (id LIKE 'tr-%'),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  owner text NOT NULL CHECK (owner LIKE 'human:_%'),
  target text NOT NULL CHECK (target <> ''),
  prompt text NOT NULL CHECK (length(prompt) <= 10000),
  scopes jsonb NOT NULL,
  state text NOT NULL CHECK (state IN ('active', 'paused', 'deleted')),
  created_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, id)
);

-- The messages that a trigger has taken, by their ids: one that comes again is posted once.
CREATE TABLE turntree.trigger_firings (
  workspace_id uuid NOT NULL,
  trigger_id text NOT NULL,
  message_id text NOT NULL CHECK (length(message_id) BETWEEN 1 AND 200),
  owner text NOT NULL,
  digest turntree.digest NOT NULL,
  run_id uuid NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, trigger_id, message_id),
  FOREIGN KEY (workspace_id, trigger_id) REFERENCES turntree.triggers
);
CREATE INDEX trigger_firings_order ON turntree.trigger_firings (workspace_id, trigger_id, at);

SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['webhook_secrets', 'webhooks', 'triggers']) t;
SELECT turntree.make_append_only('trigger_firings', false);
-- People who query with SQL have no use for it, and an import adds none.
REVOKE SELECT ON turntree.webhook_secrets, turntree.webhooks, turntree.triggers, turntree.trigger_firings
  FROM turntree_reader, turntree_importer;
GRANT INSERT, UPDATE ON turntree.webhook_secrets, turntree.webhooks, turntree.triggers TO turntree_app;
GRANT DELETE ON turntree.webhook_secrets TO turntree_app;
