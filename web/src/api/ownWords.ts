/** Under which names this browser keeps what a person typed: each workspace has its own. */

import { PLACE_HERE } from "./place.ts";

export const DRAFTS = `turntree.drafts${PLACE_HERE}`;
export const SEARCHES = `turntree.searches${PLACE_HERE}`;

/** A person who logs out leaves nothing behind. */
export function forgetWords(): void {
  try {
    sessionStorage.removeItem(DRAFTS);
    localStorage.removeItem(SEARCHES);
    // Where earlier releases kept the searches of all people.
    localStorage.removeItem("turntree.searches");
  } catch {
    // The browser keeps nothing.
  }
}
