/** Shares one stream among all tabs of the page: a browser opens six connections to a server, and no more. */

import { hear, type LiveState, type Message, SILENT } from "../core/live.ts";
import { openSource, STREAM_NAME } from "./source.ts";

/** The page names the worker after its place: each workspace has one of its own. */
const place = self.name.slice(STREAM_NAME.length);
const ports = new Set<MessagePort>();
let state: LiveState = SILENT;
let isOpen = false;

addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  ports.add(port);
  port.postMessage({ event: "state", data: state } satisfies Message);
  // A tab says when it goes.
  port.onmessage = () => ports.delete(port);
  if (isOpen) return;
  isOpen = true;
  openSource(place, (message) => {
    state = hear(state, message);
    for (const one of ports) one.postMessage(message);
  });
});
