-- Triage: which agents answer a post without a mention. One decision for each such post of a person, where the
-- conversation wants it; turn_id is the turn that it was, and null where rules decided while the post was stored.
CREATE TABLE turntree.post_decisions (
  workspace_id uuid NOT NULL,
  conversation_id uuid NOT NULL,
  seq int NOT NULL,
  agents text[] NOT NULL,
  reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 1000),
  method text NOT NULL CHECK (method IN ('rules', 'rank', 'model')),
  turn_id uuid CHECK (method <> 'rules' OR turn_id IS NULL),
  decided_at timestamptz NOT NULL,
  PRIMARY KEY (workspace_id, conversation_id, seq),
  FOREIGN KEY (workspace_id, conversation_id, seq) REFERENCES turntree.posts
);
CREATE INDEX post_decisions_turn ON turntree.post_decisions (workspace_id, turn_id) WHERE turn_id IS NOT NULL;

SELECT turntree.make_append_only('post_decisions', false);
-- An import adds none of them, and who reads them is decided with the privileges of the role that asks.
REVOKE SELECT ON turntree.post_decisions FROM turntree_importer;
