import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef } from "react";

/** The end counts as in view if it is no further below the window than this. */
const NEAR_PX = 72;
const ROOM_PX = 20;

/**
 * Keeps the end of what is being written in view, as long as the reader has it in view: from one answer to the next,
 * until the reader scrolls away.
 */
export function useTail(
  scroller: RefObject<HTMLElement | null>,
  foot: RefObject<HTMLElement | null>,
  run: string | null,
  letGo: () => void,
): { toEnd: () => void } {
  const isFollowing = useRef(false);
  const settle = useCallback(() => {
    const box = scroller.current;
    const end = foot.current;
    if (!box || !end || !isFollowing.current) return;
    const below = distanceBelow(end, box);
    if (below <= 0) return;
    // A jump that still holds its turn would pull the page back.
    letGo();
    box.scrollTop += below + ROOM_PX;
  }, [scroller, foot, letGo]);

  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const look = () => {
      if (foot.current) isFollowing.current = distanceBelow(foot.current, box) < NEAR_PX;
    };
    // Between two answers there is no end to look for, and the reader may go elsewhere.
    const leave = () => {
      if (!foot.current) isFollowing.current = false;
    };
    box.addEventListener("scroll", look, { passive: true });
    for (const name of ["wheel", "touchmove", "keydown"])
      box.addEventListener(name, leave, { passive: true });
    return () => {
      box.removeEventListener("scroll", look);
      for (const name of ["wheel", "touchmove", "keydown"]) box.removeEventListener(name, leave);
    };
  }, [scroller, foot]);

  // Words, code that is coloured and folds that open all make the page longer.
  useLayoutEffect(() => {
    const box = scroller.current;
    const page = foot.current?.parentElement;
    if (!box || !page || !run) return;
    isFollowing.current ||= distanceBelow(foot.current!, box) < NEAR_PX;
    settle();
    const observer = new ResizeObserver(settle);
    observer.observe(page);
    return () => observer.disconnect();
  }, [scroller, foot, run, settle]);

  const toEnd = useCallback(() => {
    isFollowing.current = true;
    settle();
  }, [settle]);
  return { toEnd };
}

function distanceBelow(end: Element, box: Element): number {
  return end.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom;
}
