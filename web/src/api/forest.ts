/** The shape of the workspace, read once and kept up to date; every page shares it. */
import { useSyncExternalStore } from "react";
import { type Forest, forestOf, grown, paused } from "../core/forest.ts";
import { read } from "./client.ts";
import type { ActivityDocument } from "./types.ts";

export type Activity = ActivityDocument;

export interface ForestState {
  /** Null until the first answer. */
  readonly forest: Forest | null;
  /** Null until the second answer, which may take longer. */
  readonly activity: Activity | null;
  readonly error: unknown;
}

let state: ForestState = { forest: null, activity: null, error: null };
let asking: Promise<void> | null = null;
let isStale = false;
const watchers = new Set<() => void>();

/** The forest as it is now; it is asked for when the first page wants it. */
export function useForest(): ForestState {
  return useSyncExternalStore(watchForest, readForest);
}

export function readForest(): ForestState {
  return state;
}

export function watchForest(tell: () => void): () => void {
  watchers.add(tell);
  if (!state.forest && !asking) void refreshForest();
  return () => {
    watchers.delete(tell);
  };
}

/** Ask what is new. Calls during an answer are gathered into one more question. */
export function refreshForest(): Promise<void> {
  isStale = true;
  asking ??= ask().finally(() => {
    asking = null;
  });
  return asking;
}

async function ask(): Promise<void> {
  while (isStale) {
    isStale = false;
    try {
      const before = state.forest;
      const answer = await read("/shape", before ? { after: before.position } : {});
      const forest = before && !answer.whole ? grown(before, answer) : forestOf(answer, before?.pauses);
      if (forest !== before || state.error) put({ ...state, forest, error: null });
      if (before && forest === before) continue;
      const wait = activityAt + ACTIVITY_MS - Date.now();
      if (wait > 0) askActivityLater(wait);
      else await askActivity();
    } catch (error) {
      put({ ...state, error });
    }
  }
}

/** The days are a scan of all turns: while work goes on they follow at a distance. */
const ACTIVITY_MS = 10_000;
let activityAt = 0;
let isActivityDue = false;

async function askActivity(): Promise<void> {
  activityAt = Date.now();
  // The days of the strip are those of the clock that the rest of the page is read by.
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const activity = await read("/shape/activity", { zone: timeZone });
  put({ forest: paused(state.forest!, activity.pauses), activity, error: null });
}

function askActivityLater(wait: number): void {
  if (isActivityDue) return;
  isActivityDue = true;
  setTimeout(() => {
    isActivityDue = false;
    askActivity().catch(() => undefined);
  }, wait);
}

function put(next: ForestState): void {
  state = next;
  for (const tell of watchers) tell();
}
