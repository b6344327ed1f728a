import { type Hotkeys, useHotkeys } from "../parts/useHotkeys.ts";
import { actStore, type Target, type Tool } from "./acts.ts";

interface Acts {
  fork(target: Target): void;
  rewind(target: Target): void;
  revert(target: Target): void;
  share(target: Target): void;
  worktree(target: Target): void;
  tag(target: Target): void;
  handoff(target: Target & { tool?: Tool }): void;
  undo(of: { session: string; head?: string | null }): void;
  rename(of: { session: string; head?: string | null }): void;
  archive(of: { session: string; head?: string | null }): void;
}

const ACTS: Acts = {
  fork: (target) => actStore.open({ kind: "fork", target }),
  rewind: (target) => actStore.open({ kind: "rewind", target }),
  revert: (target) => actStore.open({ kind: "revert", target }),
  share: (target) => actStore.open({ kind: "share", target }),
  worktree: (target) => actStore.open({ kind: "worktree", target }),
  tag: (target) => actStore.open({ kind: "tag", target }),
  handoff: ({ tool, ...target }) => actStore.open({ kind: "handoff", target, ...(tool ? { tool } : {}) }),
  undo: (of) => actStore.open({ kind: "undo", ...of }),
  rename: (of) => actStore.open({ kind: "rename", ...of }),
  archive: (of) => actStore.open({ kind: "archive", ...of }),
};

/** Opens the dialog of an act; each shows its command line, and afterwards how to undo it. */
export function useActs(): Acts {
  return ACTS;
}

/** The keys of a page on which a turn is selected: fork, rewind, revert, share, worktree, tag, and so on. */
export function useActKeys(find: () => (Target & { head?: string | null }) | null): void {
  const on = (act: (target: Target & { head?: string | null }) => void) => () => {
    const target = find();
    if (target) act(target);
  };
  const onSession = (act: (of: { session: string; head?: string | null }) => void) =>
    on(({ session, head }) => {
      if (session) act({ session, ...(head === undefined ? {} : { head }) });
    });
  const keys: Hotkeys = {
    f: on(ACTS.fork),
    r: on(ACTS.rewind),
    v: on(ACTS.revert),
    s: on(ACTS.share),
    w: on(ACTS.worktree),
    t: on(ACTS.tag),
    o: on(ACTS.handoff),
    n: onSession(ACTS.rename),
    x: onSession(ACTS.archive),
    u: onSession(ACTS.undo),
  };
  useHotkeys(keys);
}
