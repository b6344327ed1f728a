import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, type RefObject, useEffect, useLayoutEffect, useState } from "react";

const TURN_HEIGHT = 420;

interface Props {
  total: number;
  scroller: RefObject<HTMLDivElement | null>;
  list: RefObject<HTMLDivElement | null>;
  scrollTo: RefObject<((depth: number) => void) | null>;
  article: (depth: number) => ReactNode;
  setInView: (low: number, high: number) => void;
}

/**
 * The turns of a long thread that are near the window. It alone is drawn again while the reader scrolls: the spine,
 * the inspector and the keys around it stay as they are.
 */
export function TurnWindow({ total, scroller, list, scrollTo, article, setInView }: Props) {
  const [margin, setMargin] = useState(0);
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => TURN_HEIGHT,
    overscan: 3,
    scrollMargin: margin,
    useFlushSync: false,
  });
  // A turn above the window that is not as tall as was guessed must not move what is read, whichever way it goes.
  virtual.shouldAdjustScrollPositionOnItemSizeChange = (item, _, { scrollOffset }) =>
    item.start < (scrollOffset ?? 0);
  useLayoutEffect(() => {
    setMargin(list.current?.offsetTop ?? 0);
  }, [list]);
  useLayoutEffect(() => {
    scrollTo.current = (depth) => virtual.scrollToIndex(depth - 1, { align: "start" });
    return () => {
      scrollTo.current = null;
    };
  }, [scrollTo, virtual]);
  const items = virtual.getVirtualItems();
  const low = (items[0]?.index ?? 0) + 1;
  const high = (items.at(-1)?.index ?? 0) + 1;
  useEffect(() => setInView(low, high), [low, high, setInView]);
  return (
    <div ref={list} className="turns windowed" style={{ height: virtual.getTotalSize() }}>
      {items.map((item) => (
        <div
          key={item.key}
          ref={virtual.measureElement}
          data-index={item.index}
          style={{ transform: `translateY(${item.start - margin}px)` }}
        >
          {article(item.index + 1)}
        </div>
      ))}
    </div>
  );
}
