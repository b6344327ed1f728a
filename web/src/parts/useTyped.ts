import { useEffect, useRef, useState } from "react";

const PAUSE_MS = 180;

/** A field whose words go into the address when typing pauses, and follow the address when that changes. */
export function useTyped(kept: string, keep: (words: string) => void): [string, (words: string) => void] {
  const [words, setWords] = useState(kept);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef(keep);
  latest.current = keep;
  useEffect(() => {
    setWords((before) => (before.trim() === kept ? before : kept));
  }, [kept]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (next: string) => {
    setWords(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => latest.current(next.trim()), PAUSE_MS);
  };
  return [words, type];
}
