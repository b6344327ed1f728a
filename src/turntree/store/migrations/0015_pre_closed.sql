-- Private sessions are absent to whoever may not read them; functions/36_visibility.sql says how. A process of the previous
-- release says nothing of who looks: it finds what is open, and no private session until it is replaced.

-- "Is anything closed to me?" is asked by every statement. Those that are somebody else's stand together.
CREATE INDEX programs_private_sessions ON turntree.programs (workspace_id, owner) WHERE kind = 'session' AND visibility = 'private';
CREATE INDEX programs_private ON turntree.programs (workspace_id, owner) WHERE visibility = 'private';

-- Whoever searches is judged by the same policies, and so reads what judges.
GRANT SELECT ON turntree.programs, turntree.program_grants, turntree.runs, turntree.turn_bodies TO turntree_searcher;

-- An audit asks who was let into sessions.
CREATE INDEX events_shares ON turntree.events (workspace_id, stream_id, seq) WHERE kind IN ('program.granted', 'program.revoked');

-- Whoever opens a token asks whether it was revoked: two kinds of events out of all there are.
CREATE INDEX events_tokens ON turntree.events (workspace_id, stream_id, seq) WHERE kind IN ('token.issued', 'token.revoked');
