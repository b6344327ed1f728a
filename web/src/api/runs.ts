/** Runs in progress, for the pages that show them: followed once for all tabs of a browser. */

import { useEffect, useSyncExternalStore } from "react";
import { type FollowedRun, followed, learn } from "../core/runNews.ts";
import { addressOf, apiAddress } from "./client.ts";
import { onTold, sendWish } from "./stream.ts";

interface Shown {
  state: FollowedRun;
  count: number;
  watchers: Set<() => void>;
}

const shown = new Map<string, Shown>();

onTold((told) => {
  const entry = shown.get(told.run);
  if (!entry) return;
  entry.state = "state" in told ? told.state : told.news.reduce(learn, entry.state);
  for (const watcher of entry.watchers) watcher();
});

/** What is known of a run, from now on as it happens; null for none. */
export function useRun(run: string | null): FollowedRun | null {
  useEffect(() => {
    if (!run) return;
    enter(run).count++;
    sendWish({ follow: run, address: addressOfRun(run) });
    return () => {
      const entry = enter(run);
      if (--entry.count > 0) return;
      shown.delete(run);
      sendWish({ leave: run });
    };
  }, [run]);
  return useSyncExternalStore(
    (tell) => {
      if (!run) return () => undefined;
      const { watchers } = enter(run);
      watchers.add(tell);
      return () => watchers.delete(tell);
    },
    () => (run ? (shown.get(run)?.state ?? null) : null),
  );
}

function enter(run: string): Shown {
  let entry = shown.get(run);
  if (!entry) {
    entry = { state: followed(run), count: 0, watchers: new Set() };
    shown.set(run, entry);
  }
  return entry;
}

/** A worker has no address of the page that it serves: it gets the whole one. */
function addressOfRun(run: string): string {
  return new URL(apiAddress(addressOf("/runs/{run}/events", { run })), location.href).href;
}
