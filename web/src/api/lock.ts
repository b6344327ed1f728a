/** Whether the server knows this browser. The key of the address is exchanged once and leaves the address at once. */

import { write } from "./client.ts";
import { asProblem } from "./problem.ts";

type Listener = () => void;

let isClosed = false;
const listeners = new Set<Listener>();

export const lock = {
  isClosed: (): boolean => isClosed,
  close(): void {
    if (isClosed) return;
    isClosed = true;
    for (const listener of listeners) listener();
  },
  subscribe(listener: Listener): Listener {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
};

/** The key that `turntree ui` put into the address, which is cleaned before anything can fail. */
export function takeKey(location: Location, history: History): string | null {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key) history.replaceState(history.state, "", location.pathname + location.search);
  return key;
}

/** Exchanges the key for a cookie. A key that is spent is no fault while the cookie still opens the page. */
export async function unlock(key: string): Promise<void> {
  try {
    await write("/session-key", { key });
  } catch (error) {
    if (!asProblem(error).isLocked && asProblem(error).status !== 403) throw error;
  }
}
