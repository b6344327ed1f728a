-- Which files a message touched, as rows that can be looked up by path; and the schema of views.

CREATE DOMAIN turntree.file_use AS text CHECK (VALUE IN ('read', 'written', 'referenced', 'attached'));

-- A slim projection: the messages' contexts in the bodies are the truth.
CREATE TABLE turntree.message_files (
  workspace_id uuid NOT NULL,
  turn_id uuid NOT NULL,
  message smallint NOT NULL,
  sequence smallint NOT NULL,
  line_start int,
  line_end int,
  kind turntree.file_use NOT NULL,
  path text NOT NULL,
  PRIMARY KEY (workspace_id, turn_id, message, sequence)
);
-- The same files are touched again and again, so an entry shares its key with many others.
CREATE INDEX message_files_path ON turntree.message_files (workspace_id, path);

SELECT turntree.make_append_only('message_files', true);

-- Stable names for people who write SQL; the views are made with the functions.
CREATE SCHEMA ledger;
GRANT USAGE ON SCHEMA ledger TO turntree_app, turntree_reader;
