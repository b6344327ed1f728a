/** Which acts the page offers: those that the caller is permitted, where the server can do them. */

import { mayDo, type Right, useMe } from "../api/me.ts";
import { IS_SHARED } from "../api/place.ts";
import type { Me } from "../api/types.ts";
import type { Act } from "./acts.ts";

const NEEDS: Record<Act["kind"], Right> = {
  fork: "create",
  worktree: "create",
  rewind: "invoke",
  revert: "invoke",
  undo: "invoke",
  tag: "invoke",
  rename: "configure",
  archive: "configure",
  handoff: "read",
  share: "read",
};
/** They work with files and tools of the server's machine, which is not the reader's. */
const OF_THE_MACHINE: ReadonlySet<Act["kind"]> = new Set(["worktree", "revert", "handoff"]);

/** Whether an act is offered; on one's own machine all are, until the server says otherwise. */
export function isOffered(kind: Act["kind"], me: Me | undefined, isShared: boolean = IS_SHARED): boolean {
  if (isShared && OF_THE_MACHINE.has(kind)) return false;
  if (!me) return !isShared;
  // A guest acts only where a session was granted to them by name, which is not told of each session.
  const isGuest = isShared && !mayDo(me, "create");
  return mayDo(me, NEEDS[kind]) && !(isGuest && NEEDS[kind] === "invoke");
}

export function useOffered(): (kind: Act["kind"]) => boolean {
  const me = useMe();
  return (kind) => isOffered(kind, me);
}
