-- The feed: every event of a workspace, in an order that never changes.

-- name: read_feed
-- Stops before the oldest transaction that is still running anywhere in the cluster: it may yet
-- commit events with an older number, and a reader that had passed them would never see them.
SELECT e.epoch, e.xid::text::bigint, e.n, e.body
  FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b
    AND (e.epoch, e.xid, e.n) > (%(epoch)b::int, %(xid)b::text::xid8, %(n)b::bigint)
    AND (e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
  ORDER BY e.epoch, e.xid, e.n LIMIT %(limit)b::int;

-- name: read_feed_end
-- The newest event that read_feed would return, with the same limit.
SELECT e.epoch, e.xid::text::bigint, e.n
  FROM turntree.events e
  WHERE e.workspace_id = %(workspace)b
    AND (e.epoch < (SELECT epoch FROM turntree.shard) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
  ORDER BY e.epoch DESC, e.xid DESC, e.n DESC LIMIT 1;

-- name: list_visible_by_viewer
SELECT viewers, streams FROM turntree.list_visible_by_group(%(workspace)b, %(viewers)b::text[], %(streams)b::uuid[]);

-- name: list_visible_streams
-- By the same functions as the policy of the events, without reading any.
SELECT s.id::text FROM unnest(%(streams)b::uuid[]) AS s (id)
  WHERE turntree.reader_can_see_all() OR turntree.reader_can_see(%(workspace)b, s.id);
