/** The same without a shared worker: one tab holds a lock and the streams, and tells the others. */

import { hear, type LiveState, type Message, SILENT } from "../core/live.ts";
import { PLACE_HERE } from "./place.ts";
import { RunSources } from "./runSources.ts";
import { openSource, STREAM_NAME } from "./source.ts";
import type { Wish } from "./wish.ts";

const NAME = STREAM_NAME + PLACE_HERE;
type Note =
  | { ask: true }
  | { tell: Message }
  /** What a tab wants to follow; a tab that has just begun to lead is told again. */
  | { tab: string; wish: Wish }
  | { leads: true };

/** Tells every message, from the server or from the tab that leads; the answer passes wishes on. */
export function followLeader(tell: (message: Message) => void): (wish: Wish) => void {
  const channel = new BroadcastChannel(NAME);
  const own = crypto.randomUUID();
  const wishes = new Map<string, Wish>();
  let runs: RunSources | null = null;
  let state: LiveState = SILENT;
  const tabs = new Map<string, object>();
  const tabOf = (name: string): object => {
    const tab = tabs.get(name) ?? { name };
    tabs.set(name, tab);
    return tab;
  };
  const grant = (name: string, wish: Wish) => {
    if ("follow" in wish) runs?.follow(wish.follow, wish.address, tabOf(name));
    else if ("leave" in wish) runs?.leave(wish.leave, tabOf(name));
    else {
      runs?.forget(tabOf(name));
      tabs.delete(name);
    }
  };
  const ask = (wish: Wish) => {
    if (runs) grant(own, wish);
    else channel.postMessage({ tab: own, wish } satisfies Note);
  };
  channel.onmessage = ({ data }: MessageEvent<Note>) => {
    if ("tell" in data) {
      if (!runs) tell(data.tell);
    } else if ("tab" in data) grant(data.tab, data.wish);
    else if ("leads" in data) for (const wish of wishes.values()) ask(wish);
    else if (runs) channel.postMessage({ tell: { event: "state", data: state } } satisfies Note);
  };
  channel.postMessage({ ask: true } satisfies Note);
  // The lock is kept until the tab goes; then the next tab in line leads.
  void navigator.locks.request(NAME, () => {
    // Tabs that do not follow the run have no place for it.
    runs = new RunSources((told) => {
      const message: Message = { event: "run", data: told };
      channel.postMessage({ tell: message } satisfies Note);
      tell(message);
    });
    channel.postMessage({ leads: true } satisfies Note);
    for (const wish of wishes.values()) grant(own, wish);
    openSource(PLACE_HERE, (message) => {
      state = hear(state, message);
      channel.postMessage({ tell: message } satisfies Note);
      tell(message);
    });
    return new Promise(() => undefined);
  });
  return (wish) => {
    if ("follow" in wish) wishes.set(wish.follow, wish);
    else if ("leave" in wish) wishes.delete(wish.leave);
    ask(wish);
  };
}
