/** Shares one stream among all tabs of the page: a browser opens six connections to a server, and no more. */

import { hear, type LiveState, type Message, SILENT } from "../core/live.ts";
import { RunSources } from "./runSources.ts";
import { openSource, STREAM_NAME } from "./source.ts";
import type { Wish } from "./wish.ts";

/** The page names the worker after its place: each workspace has one of its own. */
const place = self.name.slice(STREAM_NAME.length);
const ports = new Set<MessagePort>();
let state: LiveState = SILENT;
let isOpen = false;
const runs = new RunSources((told, followers) => {
  for (const port of followers)
    (port as MessagePort).postMessage({ event: "run", data: told } satisfies Message);
});

addEventListener("connect", (event) => {
  const port = (event as MessageEvent).ports[0]!;
  ports.add(port);
  port.postMessage({ event: "state", data: state } satisfies Message);
  port.onmessage = ({ data }: MessageEvent<Wish>) => {
    if ("follow" in data) runs.follow(data.follow, data.address, port);
    else if ("leave" in data) runs.leave(data.leave, port);
    else {
      // A tab says when it goes.
      ports.delete(port);
      runs.forget(port);
    }
  };
  if (isOpen) return;
  isOpen = true;
  openSource(place, (message) => {
    state = hear(state, message);
    for (const one of ports) one.postMessage(message);
  });
});
