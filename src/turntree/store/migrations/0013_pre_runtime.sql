-- What a runtime needs: messages on their way in, sessions that are awake, and who works for them.

-- Which move a key led to is an answer. The inbox holds what nobody has answered yet.
ALTER TABLE turntree.inbox RENAME TO answers;
ALTER TABLE turntree.answers RENAME CONSTRAINT inbox_pkey TO answers_pkey;

-- A session as one who is woken up. Apart from sessions, whose row is locked by every move: what is
-- sent to a session that is at work must not wait for it. awake says that one wake-up is under way,
-- number wakes; worker is whoever took it. Whatever stands at or before taken is in somebody's hands
-- already, and no later message can join it.
CREATE TABLE turntree.actors (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  awake_since timestamptz NOT NULL,
  posted int NOT NULL DEFAULT 0,
  taken int NOT NULL DEFAULT 0,
  wakes int NOT NULL DEFAULT 0,
  awake boolean NOT NULL DEFAULT false,
  worker text,
  PRIMARY KEY (workspace_id, session_id)
) WITH (fillfactor = 70);
-- Whoever looks for sessions that nobody looks after never meets one that sleeps.
CREATE INDEX actors_awake ON turntree.actors (workspace_id, awake_since) WHERE awake;

-- What was sent to a session, in order. The words stand here until a run begins with them, and only
-- their digest afterwards: they can be erased from a turn, and must not live on in here.
CREATE TABLE turntree.inbox (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  run_id uuid NOT NULL,
  received_at timestamptz NOT NULL,
  seq int NOT NULL,
  digest turntree.digest NOT NULL,
  by text NOT NULL,
  key text,
  payload text,
  options jsonb NOT NULL,
  PRIMARY KEY (workspace_id, session_id, seq)
);
CREATE UNIQUE INDEX inbox_keys ON turntree.inbox (workspace_id, key) WHERE key IS NOT NULL;
CREATE INDEX inbox_waiting ON turntree.inbox (workspace_id, session_id, seq) WHERE payload IS NOT NULL;

-- Who serves. That somebody lives is proven by a lock he holds, that he is not stuck by beat_at.
CREATE TABLE turntree.workers (
  workspace_id uuid NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (workspace_id, name)
) WITH (fillfactor = 50);

ALTER TABLE turntree.runs
  ADD COLUMN failures int NOT NULL DEFAULT 0,
  ADD COLUMN cancel_requested boolean NOT NULL DEFAULT false,
  ADD COLUMN discard boolean NOT NULL DEFAULT false,
  ADD COLUMN worker text,
  ADD COLUMN parked_reason text,
  ADD COLUMN canceled_by text,
  ADD COLUMN canceled_at timestamptz;
-- Asked twice a second by every worker; hardly ever is there a row in it.
CREATE INDEX runs_canceled ON turntree.runs (workspace_id, worker) WHERE cancel_requested AND status <> 'finished';

SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['actors', 'inbox', 'workers']) t;
GRANT INSERT, UPDATE ON turntree.actors, turntree.inbox, turntree.workers TO turntree_app;
GRANT DELETE ON turntree.workers TO turntree_app;
