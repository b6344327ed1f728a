import { createContext, useContext, useRef, useSyncExternalStore } from "react";

/** A scroll is over when none has come for this long. */
const STILL_MS = 100;

/** Whether the reader of a thread scrolls now. */
export class Stillness {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchers = new Set<() => void>();

  isStill = (): boolean => this.timer === undefined;

  move(): void {
    const wasStill = this.isStill();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.tell();
    }, STILL_MS);
    if (wasStill) this.tell();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  watch = (tell: () => void): (() => void) => {
    this.watchers.add(tell);
    return () => {
      this.watchers.delete(tell);
    };
  };

  private tell(): void {
    for (const tell of this.watchers) tell();
  }
}

export const StillnessOfReader = createContext(new Stillness());

/** False for what appears while the reader scrolls past it; true from when the reader stands still. */
export function useRested(): boolean {
  const stillness = useContext(StillnessOfReader);
  const hasRested = useRef(false);
  return useSyncExternalStore(stillness.watch, () => {
    hasRested.current ||= stillness.isStill();
    return hasRested.current;
  });
}
