/** One connection to the server's stream, opened again whenever it breaks, at the position it had reached. */

import type { Message } from "../core/live.ts";

/** What tabs share a stream by, before the place of the page. */
export const STREAM_NAME = "turntree-stream";
const ADDRESS = "/api/v1/stream";
const WAIT_MS = 500;
const WAIT_MS_MAX = 8_000;
const EVENTS = ["hello", "changed", "words", "import"] as const;

/** Tells every message until the answer is called; `place` is where the page is served. */
export function openSource(place: string, tell: (message: Message) => void): () => void {
  let source: EventSource | null = null;
  let position = "";
  let wait = WAIT_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const address = place + ADDRESS;
  const open = () => {
    source = new EventSource(position ? `${address}?after=${encodeURIComponent(position)}` : address);
    for (const event of EVENTS) {
      source.addEventListener(event, (message: MessageEvent<string>) => {
        if (message.lastEventId) position = message.lastEventId;
        tell({ event, data: JSON.parse(message.data) } as Message);
      });
    }
    source.onopen = () => {
      wait = WAIT_MS;
    };
    // A browser tries again by itself, but gives up on an answer that is no stream.
    source.onerror = () => {
      tell({ event: "link", data: { isOpen: false } });
      source?.close();
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, WAIT_MS_MAX);
    };
  };
  open();
  return () => {
    clearTimeout(timer);
    source?.close();
  };
}
