import { useCallback, useEffect, useRef, useState } from "react";
import { Stillness } from "./stillness.ts";

/** From this many turns on only those near the window are on the page. */
export const WINDOW_FROM = 100;
/** How long a jump is corrected at every frame while the turns around it are laid out; later, when they grow. */
const SETTLE_MS = 1_500;
/** A scroll that ends further than this from where a jump left it was the reader's. */
const READER_PX = 40;

/** The scrolling of a thread: which turn is in view, and jumps that land where they should. */
export function useReader(total: number, known: number) {
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  /** Scrolls a long thread to a turn that is not on the page; set by the window of its turns. */
  const scrollTo = useRef<((depth: number) => void) | null>(null);
  const isWindow = total > WINDOW_FROM;
  const [here, setHere] = useState(1);
  const [stillness] = useState(() => new Stillness());
  const target = useRef<{ depth: number; until: number; top: number } | null>(null);

  const settle = useCallback(() => {
    const goal = target.current;
    if (!goal) return;
    const box = scroller.current;
    const article = box?.querySelector<HTMLElement>(`#turn-${goal.depth}`);
    if (box && article) box.scrollTop += distanceFromTop(article, box);
    else scrollTo.current?.(goal.depth);
    if (box) goal.top = box.scrollTop;
  }, []);

  const jump = useCallback(
    (depth: number) => {
      const bounded = Math.max(1, Math.min(total, depth));
      target.current = { depth: bounded, until: performance.now() + SETTLE_MS, top: 0 };
      setHere(bounded);
      settle();
    },
    [total, settle],
  );

  // Turns that come in above the goal push it away: go there again until things are quiet or the reader scrolls.
  // biome-ignore lint/correctness/useExhaustiveDependencies: each turn that arrives moves the others.
  useEffect(() => {
    if (!target.current) return;
    let frame = 0;
    const again = () => {
      if (!target.current || performance.now() > target.current.until) return;
      settle();
      frame = requestAnimationFrame(again);
    };
    frame = requestAnimationFrame(again);
    return () => cancelAnimationFrame(frame);
  }, [known, here, settle]);

  // On a slow machine colours and pages come later than that. The goal stays where it is until the reader moves.
  useEffect(() => {
    // With what follows the turns: a short last turn can only rise as far as the page goes on below it.
    const box = list.current?.parentElement;
    if (!box) return;
    const observer = new ResizeObserver(() => settle());
    observer.observe(box);
    // The composer takes some of its height, and more of it while a message is written.
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, [settle]);

  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const letGo = () => {
      target.current = null;
    };
    const look = () => {
      if (target.current) return;
      const top = box.getBoundingClientRect().top + Math.min(160, box.clientHeight / 4);
      let depth = 0;
      for (const article of box.querySelectorAll<HTMLElement>("article[data-depth]")) {
        if (depth !== 0 && article.getBoundingClientRect().top > top) break;
        depth = Number(article.dataset.depth);
      }
      // At the very end the last turn is the one that is read, however short it is.
      if (box.scrollTop > 0 && box.scrollTop + box.clientHeight >= box.scrollHeight - 2)
        depth = Math.max(depth, total);
      if (depth > 0) setHere(depth);
    };
    const onScroll = () => {
      const goal = target.current;
      if (goal && performance.now() > goal.until && Math.abs(box.scrollTop - goal.top) > READER_PX) {
        // Turns above the goal that turn out shorter also move the scroll, and leave the goal where it is.
        const article = box.querySelector(`#turn-${goal.depth}`);
        if (!article || Math.abs(distanceFromTop(article, box)) > READER_PX) letGo();
      }
      stillness.move();
    };
    // What tells about the turn in view asks the server: it follows when the reader stands still, not at each turn
    // that passes.
    const offStill = stillness.watch(() => {
      if (stillness.isStill()) look();
    });
    box.addEventListener("scroll", onScroll, { passive: true });
    for (const name of ["wheel", "touchmove", "pointerdown", "keydown"])
      box.addEventListener(name, letGo, { passive: true });
    return () => {
      offStill();
      stillness.stop();
      box.removeEventListener("scroll", onScroll);
      for (const name of ["wheel", "touchmove", "pointerdown", "keydown"])
        box.removeEventListener(name, letGo);
    };
  }, [total, stillness]);

  const letGo = useCallback(() => {
    target.current = null;
  }, []);
  return { scroller, list, scrollTo, stillness, isWindow, here, jump, letGo };
}

/** How far a turn is from where a jump puts it, a little below the upper edge. */
function distanceFromTop(article: Element, box: Element): number {
  return article.getBoundingClientRect().top - box.getBoundingClientRect().top - 6;
}
