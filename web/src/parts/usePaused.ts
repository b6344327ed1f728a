import { useEffect, useState } from "react";

/** True from when the reader has pressed no key and no button for that long. */
export function usePaused(ms: number): boolean {
  const [hasPaused, setPaused] = useState(false);
  useEffect(() => {
    if (hasPaused) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => setPaused(true), ms);
    };
    wait();
    addEventListener("keydown", wait);
    addEventListener("pointerdown", wait);
    return () => {
      clearTimeout(timer);
      removeEventListener("keydown", wait);
      removeEventListener("pointerdown", wait);
    };
  }, [hasPaused, ms]);
  return hasPaused;
}
