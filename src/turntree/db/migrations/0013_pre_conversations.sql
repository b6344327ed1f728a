-- Conversations: what people and agents say to each other, and the session in which each agent answers.

-- A conversation is a program; a fork of one shows the posts of its parent up to one of them, by reference.
CREATE TABLE turntree.conversations (
  workspace_id uuid NOT NULL,
  id uuid NOT NULL,
  parent_id uuid,
  forked_seq int,
  post_seq int NOT NULL DEFAULT 0,
  posted_at timestamptz,
  PRIMARY KEY (workspace_id, id),
  FOREIGN KEY (workspace_id, id) REFERENCES turntree.programs,
  FOREIGN KEY (workspace_id, parent_id) REFERENCES turntree.conversations,
  CHECK ((parent_id IS NULL) = (forked_seq IS NULL))
) WITH (fillfactor = 70);

-- Who takes part, and who did. told_seq is the last post that an agent was told of.
CREATE TABLE turntree.participants (
  workspace_id uuid NOT NULL,
  conversation_id uuid NOT NULL,
  number int NOT NULL CHECK (number > 0),
  principal text NOT NULL CHECK (principal LIKE 'human:_%' OR principal LIKE 'agent:_%'),
  added_by text NOT NULL,
  added_at timestamptz NOT NULL,
  removed_by text,
  removed_at timestamptz,
  session_id uuid CHECK (session_id IS NULL OR principal LIKE 'agent:_%'),
  told_seq int NOT NULL DEFAULT 0,
  PRIMARY KEY (workspace_id, conversation_id, number),
  FOREIGN KEY (workspace_id, conversation_id) REFERENCES turntree.conversations,
  CHECK ((removed_at IS NULL) = (removed_by IS NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX participants_present ON turntree.participants (workspace_id, conversation_id, principal)
  WHERE removed_at IS NULL;
CREATE INDEX participants_principal ON turntree.participants (workspace_id, principal) WHERE removed_at IS NULL;

-- What was said, in order. A post's canonical bytes are here until it is erased; then their digest is. An answer names its
-- turn. cause_seq is the post of a person that led to a post, hops how many turns of agents lie between, and charged_to
-- that person.
CREATE TABLE turntree.posts (
  workspace_id uuid NOT NULL,
  conversation_id uuid NOT NULL,
  seq int NOT NULL CHECK (seq > 0),
  id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('participant', 'system')),
  author text CHECK ((author IS NULL) = (kind = 'system')),
  digest turntree.digest NOT NULL,
  body text NOT NULL,
  posted_at timestamptz NOT NULL,
  turn_id uuid,
  cause_seq int,
  hops int NOT NULL DEFAULT 0,
  charged_to text,
  idempotency_key text,
  PRIMARY KEY (workspace_id, conversation_id, seq),
  UNIQUE (workspace_id, id),
  FOREIGN KEY (workspace_id, conversation_id) REFERENCES turntree.conversations
);
CREATE UNIQUE INDEX posts_key ON turntree.posts (workspace_id, conversation_id, author, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX posts_turn ON turntree.posts (workspace_id, turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX posts_cause ON turntree.posts (workspace_id, conversation_id, cause_seq) WHERE turn_id IS NOT NULL;
CREATE INDEX posts_charged ON turntree.posts (workspace_id, charged_to, posted_at) WHERE turn_id IS NOT NULL;

-- The sessions of a conversation: those in which its agents answer, and forks of them. Who reads the conversation reads
-- them; other viewers do not.
CREATE TABLE turntree.bound_sessions (
  workspace_id uuid NOT NULL,
  session_id uuid NOT NULL,
  conversation_id uuid NOT NULL,
  agent text,
  PRIMARY KEY (workspace_id, session_id),
  FOREIGN KEY (workspace_id, conversation_id) REFERENCES turntree.conversations
);

-- Which message of which session tells an agent of a post: an erased post is erased there too.
CREATE TABLE turntree.post_deliveries (
  workspace_id uuid NOT NULL,
  conversation_id uuid NOT NULL,
  seq int NOT NULL,
  session_id uuid NOT NULL,
  message_seq int NOT NULL,
  PRIMARY KEY (workspace_id, conversation_id, seq, session_id)
);

-- The one change a post may undergo: the eraser replaces its words by their digest.
CREATE FUNCTION turntree.check_post_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'turntree_eraser' THEN
    RAISE EXCEPTION 'facts are permanent: posts refuses update' USING ERRCODE = 'TT003';
  END IF;
  IF NEW.body <> '{"erased":"sha256:' || encode(OLD.digest, 'hex') || '"}' OR to_jsonb(NEW) - 'body' <> to_jsonb(OLD) - 'body' THEN
    RAISE EXCEPTION 'an erasure replaces the words of a post and nothing else' USING ERRCODE = 'TT003';
  END IF;
  RETURN NEW;
END $$;

SELECT turntree.enable_row_security(t) FROM unnest(ARRAY['conversations', 'participants']) t;
SELECT turntree.make_append_only('posts', false, 'check_post_erasure');
SELECT turntree.make_append_only(t, false) FROM unnest(ARRAY['bound_sessions', 'post_deliveries']) t;
-- An import adds none of them. Who reads what is decided with the privileges of the role that asks.
REVOKE SELECT ON turntree.posts, turntree.post_deliveries FROM turntree_importer;
REVOKE SELECT ON turntree.post_deliveries FROM turntree_reader;
GRANT SELECT ON turntree.conversations, turntree.participants, turntree.bound_sessions TO turntree_searcher;
GRANT INSERT ON turntree.conversations, turntree.participants TO turntree_app;
GRANT UPDATE ON turntree.conversations, turntree.participants TO turntree_app;
GRANT SELECT ON turntree.posts, turntree.post_deliveries, turntree.queued_messages TO turntree_eraser;
GRANT UPDATE (body) ON turntree.posts TO turntree_eraser;
GRANT SELECT, UPDATE (event_seq) ON turntree.programs TO turntree_eraser;
