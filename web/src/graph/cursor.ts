/** Where the reader of the list is. A key moves it at once; what is costly to draw follows. */
import { useSyncExternalStore } from "react";
import type { Place } from "../core/forest.ts";

export class Cursor {
  private place: Place | null = null;
  private readonly watchers = new Set<() => void>();

  readonly get = (): Place | null => this.place;

  readonly watch = (tell: () => void): (() => void) => {
    this.watchers.add(tell);
    return () => {
      this.watchers.delete(tell);
    };
  };

  move(place: Place | null): void {
    if (place?.segment === this.place?.segment && place?.depth === this.place?.depth) return;
    this.place = place;
    for (const tell of this.watchers) tell();
  }
}

export function useCursor(cursor: Cursor): Place | null {
  return useSyncExternalStore(cursor.watch, cursor.get);
}

let waiting = 0;

/** Do the newest of these when the next frame is painted. */
export function afterPaint(work: () => void): void {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => setTimeout(work));
}
