import { lazy, Suspense, useEffect, useRef, useSyncExternalStore } from "react";
import { actStore } from "./acts.ts";

const ActDialog = lazy(() => import("./ActDialog.tsx"));
const UndoBar = lazy(() => import("./UndoBar.tsx"));

/** The open dialog of an act, and the bar that says what was done; the shell shows it once for all pages. */
export function ActHost() {
  const { act, done } = useSyncExternalStore(actStore.subscribe, actStore.get);
  const wasOpen = useRef(false);
  useEffect(() => {
    if (act) {
      wasOpen.current = true;
      return;
    }
    if (!wasOpen.current) return;
    wasOpen.current = false;
    // What had the focus may be gone: the keys of the page must still have a place.
    requestAnimationFrame(() => {
      const focused = document.activeElement;
      if (!focused || focused === document.body) document.getElementById("main")?.focus();
    });
  }, [act]);
  return (
    <Suspense fallback={null}>
      {act ? <ActDialog act={act} /> : null}
      {done ? <UndoBar done={done} /> : null}
    </Suspense>
  );
}
