-- An audit asks for three kinds of events out of all there are. They are few, and bodies hold the rest.
CREATE INDEX events_permissions ON turntree.events (workspace_id, stream_id, seq)
  WHERE kind IN ('permission.granted', 'permission.used', 'permission.denied');
