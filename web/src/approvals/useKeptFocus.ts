import { type RefObject, useEffect } from "react";

/** Deciding takes away what had the focus: what comes next has it then, or the words about what was done. */
export function useKeptFocus(place: RefObject<HTMLElement | null>, said: string, next: string): void {
  useEffect(() => {
    if (!said || document.activeElement !== document.body) return;
    const target = place.current?.querySelector<HTMLElement>(next);
    (target ?? place.current?.querySelector<HTMLElement>(".ask-said"))?.focus({ preventScroll: true });
  });
}
