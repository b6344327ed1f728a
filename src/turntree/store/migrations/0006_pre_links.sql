-- What an event says of two things, as rows that can be looked up from either of them, and at place -1
-- what a turn's header says it came from. Only events that tell of resources, policies, forks, interruptions and the like leave any: what a turn's own
-- rows tell already is not written twice.

-- A slim projection: the events' bodies are the truth. valid_from and valid_to are when it was so, which
-- need not be when it was recorded; holder is whom an end has to name to end it.
CREATE TABLE turntree.event_links (
  workspace_id uuid NOT NULL,
  stream_id uuid NOT NULL,
  seq int NOT NULL,
  sequence smallint NOT NULL,
  kind text NOT NULL,
  from_kind text NOT NULL,
  from_id text NOT NULL,
  to_kind text NOT NULL,
  to_id text NOT NULL,
  holder text,
  valid_from timestamptz NOT NULL,
  valid_to timestamptz,
  PRIMARY KEY (workspace_id, stream_id, seq, sequence)
);
CREATE INDEX event_links_from ON turntree.event_links (workspace_id, from_id);
CREATE INDEX event_links_to ON turntree.event_links (workspace_id, to_id);
-- Policies and resources are asked for by kind: what was active, what was held at a moment.
CREATE INDEX event_links_kind ON turntree.event_links (workspace_id, kind, valid_from);

SELECT turntree.make_append_only('event_links', true);
