/** The same without a shared worker: one tab holds a lock and the stream, and tells the others. */

import { hear, type LiveState, type Message, SILENT } from "../core/live.ts";
import { PLACE_HERE } from "./place.ts";
import { openSource, STREAM_NAME } from "./source.ts";

const NAME = STREAM_NAME + PLACE_HERE;
type Note = { ask: true } | { tell: Message };

/** Tells every message, from the server or from the tab that leads. */
export function followLeader(tell: (message: Message) => void): void {
  const channel = new BroadcastChannel(NAME);
  let isLeader = false;
  let state: LiveState = SILENT;
  channel.onmessage = ({ data }: MessageEvent<Note>) => {
    if ("tell" in data) {
      if (!isLeader) tell(data.tell);
    } else if (isLeader) {
      channel.postMessage({ tell: { event: "state", data: state } } satisfies Note);
    }
  };
  channel.postMessage({ ask: true } satisfies Note);
  // The lock is kept until the tab goes; then the next tab in line leads.
  void navigator.locks.request(NAME, () => {
    isLeader = true;
    openSource(PLACE_HERE, (message) => {
      state = hear(state, message);
      channel.postMessage({ tell: message } satisfies Note);
      tell(message);
    });
    return new Promise(() => undefined);
  });
}
