-- A post of which an agent was told in a turn that failed is told again: by another message, in the same session.
ALTER TABLE turntree.post_deliveries DROP CONSTRAINT post_deliveries_pkey,
  ADD PRIMARY KEY (workspace_id, conversation_id, seq, session_id, message_seq);
