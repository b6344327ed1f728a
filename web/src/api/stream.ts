/** What happens on the server, as it happens. Queries are asked again, the forest grows, words appear. */

import { useSyncExternalStore } from "react";
import { type ChangeSet, hear, type LiveState, type Message, SILENT } from "../core/live.ts";
import { readForest, refreshForest } from "./forest.ts";
import { followLeader } from "./leader.ts";
import { lock } from "./lock.ts";
import { meQuery } from "./me.ts";
import { IS_SHARED, PLACE_HERE } from "./place.ts";
import { queryClient } from "./queryClient.ts";
import type { Told } from "./runSources.ts";
import { STREAM_NAME } from "./source.ts";
import workerAddress from "./stream.worker.ts?sharedworker&url";
import type { Wish } from "./wish.ts";

/** Changes are gathered this long before anything is asked again. */
const GATHER_MS = 150;
/** Answers that no later turn can change. */
const FINAL = new Set([
  "part",
  "thread-page",
  "raw",
  "file",
  "diff",
  "content",
  "blame",
  "context",
  "preview",
  // Posts are read by their numbers, where a change says that there are new ones.
  "posts",
]);
const POLICY = "turntree-worker";

interface Policies {
  createPolicy(
    name: string,
    rules: { createScriptURL: (given: string) => string },
  ): {
    createScriptURL(given: string): unknown;
  };
}

let state: LiveState = SILENT;
let isStarted = false;
let pass: ((wish: Wish) => void) | null = null;
const unheard: Wish[] = [];
const followers = new Set<(told: Told) => void>();
const watchers = new Set<() => void>();
const listeners = new Set<(change: ChangeSet) => void>();

/** Listens from now on; a second call does nothing. */
export function startStream(): void {
  if (isStarted || lock.isClosed()) return;
  isStarted = true;
  askWho();
  if (typeof SharedWorker === "undefined") wishTo(followLeader(receive));
  else shareWorker();
  addEventListener("pagehide", (event) => {
    if (!event.persisted) sendWish({ gone: true });
  });
  // A page that a browser shows again as it was left may be of a person who has logged out since.
  addEventListener("pageshow", (event) => {
    if (event.persisted) askWho();
  });
}

/** Asks the one that listens for all tabs to follow a run for this one, or to end that. */
export function sendWish(wish: Wish): void {
  if (pass) pass(wish);
  else unheard.push(wish);
}

/** Calls for all that is told of runs. */
export function onTold(listener: (told: Told) => void): void {
  followers.add(listener);
}

function wishTo(listener: (wish: Wish) => void): void {
  pass = listener;
  for (const wish of unheard.splice(0)) listener(wish);
}

/** Everything that is in progress: replies and imports. */
export function useLive(): LiveState {
  return useSyncExternalStore(watch, () => state);
}

/** Calls for each change until the answer is called. */
export function onChange(listener: (change: ChangeSet) => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Whether the server listened once and does not now. */
export function useIsCutOff(): boolean {
  return useSyncExternalStore(watch, () => state.hello !== null && !state.isOpen);
}

/** The labels of sessions with a reply in progress, one per line: a text changes only when one of them does. */
export function useLabelsAtWork(): string {
  return useSyncExternalStore(watch, labelsAtWork);
}

function labelsAtWork(): string {
  return [...new Set([...state.runs.values()].map((run) => run.label))].sort().join("\n");
}

function watch(tell: () => void): () => void {
  watchers.add(tell);
  return () => {
    watchers.delete(tell);
  };
}

function shareWorker(): void {
  let worker: SharedWorker;
  try {
    worker = new SharedWorker(trusted(workerAddress), {
      type: "module",
      name: STREAM_NAME + PLACE_HERE,
    });
  } catch {
    wishTo(followLeader(receive));
    return;
  }
  worker.onerror = () => {
    worker.port.close();
    wishTo(followLeader(receive));
  };
  worker.port.onmessage = ({ data }: MessageEvent<Message>) => receive(data);
  wishTo((wish) => worker.port.postMessage(wish));
}

/** The page allows one script to be started by its address, and this is it. */
function trusted(address: string): string {
  const policies = (globalThis as { trustedTypes?: Policies }).trustedTypes;
  if (!policies) return address;
  const policy = policies.createPolicy(POLICY, {
    createScriptURL: (given) => {
      const url = new URL(given, location.href);
      if (url.origin === location.origin && url.pathname.startsWith("/assets/")) return url.href;
      throw new TypeError(`${given} is not a script of this page`);
    },
  });
  return policy.createScriptURL(address) as string;
}

function receive(message: Message): void {
  if (message.event === "run") {
    for (const tell of followers) tell(message.data);
    return;
  }
  const before = state;
  state = hear(state, message);
  if (message.event === "hello" && before.hello && before.hello.server !== message.data.server) {
    askWho();
    askAgain();
  }
  if (message.event === "hello" || message.event === "state") catchUp();
  // A stream does not say why it ended: the server, or the login session. It is open again for the next person.
  if (IS_SHARED && (message.event === "hello" || (message.event === "link" && !message.data.isOpen)))
    askWho();
  if (message.event === "changed") {
    for (const listener of listeners) listener(message.data);
    askAgain();
  }
  if (message.event === "import" && message.data.state === "finished") askAgain();
  if (state !== before) for (const tell of watchers) tell();
}

/** A forest that was read before the stream was open may have missed something. */
function catchUp(): void {
  const { forest, error } = readForest();
  if (forest || error) void refreshForest();
}

let isGathering = false;

function askAgain(): void {
  if (isGathering) return;
  isGathering = true;
  setTimeout(() => {
    isGathering = false;
    if (readForest().forest) void refreshForest();
    void queryClient.invalidateQueries({ predicate: ({ queryKey }) => !FINAL.has(String(queryKey[0])) });
  }, GATHER_MS);
}

/** Asks who reads, and where: for another person or workspace the page begins anew. */
function askWho(): void {
  void queryClient.fetchQuery({ ...meQuery, staleTime: 0, retry: false }).catch(() => undefined);
}
