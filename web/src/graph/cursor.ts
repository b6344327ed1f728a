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

/** Keys that come faster than this are held or drummed: the reader is on the way. */
const QUICK_MS = 120;
let frame = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let askedAt = Number.NEGATIVE_INFINITY;

/** Do the newest of these when the next frame is painted; on a way of many steps, when the reader rests. */
export function afterPaint(work: () => void): void {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  const now = performance.now();
  const isOnTheWay = now - askedAt < QUICK_MS;
  askedAt = now;
  if (isOnTheWay) timer = setTimeout(work, QUICK_MS);
  else
    frame = requestAnimationFrame(() => {
      timer = setTimeout(work);
    });
}
