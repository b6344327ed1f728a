import type { RefObject } from "react";
import { useHotkeys } from "./useHotkeys.ts";

/** `j` and `k` move the focus through the elements marked `data-row` inside the list; Enter is the browser's. */
export function useRowKeys(list: RefObject<HTMLElement | null>): void {
  const move = (step: number) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  useHotkeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1) });
}
