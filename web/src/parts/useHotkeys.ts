import { useEffect, useRef } from "react";

export type Hotkeys = Record<string, (event: KeyboardEvent) => void>;

/** `⌘` on Apple's machines, `Ctrl ` elsewhere. */
export const MODIFIER = typeof navigator !== "undefined" && /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl ";

const CHORD_MS = 900;
const OFF = "turntree.keys";
let pending = "";
let pendingAt = 0;

/**
 * Runs the action of a key: `{ j: down, "g s": toSessions, "mod+k": search }`. Single keys do nothing while the
 * reader types, while a dialog is open (unless `inDialog`), or when they are switched off.
 */
export function useHotkeys(keys: Hotkeys, options: { inDialog?: boolean; isOff?: boolean } = {}): void {
  const latest = useRef(keys);
  latest.current = keys;
  const { inDialog = false, isOff = false } = options;
  useEffect(() => {
    if (isOff) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      const mod = event.metaKey || event.ctrlKey;
      const typing = isTyping(event.target);
      if (!mod && event.key !== "Escape" && areKeysOff()) return;
      if ((typing || event.altKey || (!inDialog && isDialogOpen())) && !mod) return;
      const name = mod ? `mod+${event.key.toLowerCase()}` : event.key;
      const chord = pending && event.timeStamp - pendingAt < CHORD_MS ? `${pending} ${name}` : "";
      const action =
        latest.current[chord] ?? (chord && chord in latest.current ? undefined : latest.current[name]);
      if (action) {
        event.preventDefault();
        action(event);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [inDialog, isOff]);
}

/** Remembers the first key of a chord, after every page has seen it. The shell calls this once. */
export function rememberChord(event: KeyboardEvent): void {
  if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey) return;
  const isSecond = pending !== "" && event.timeStamp - pendingAt < CHORD_MS;
  pending = !isSecond && event.key === "g" ? "g" : "";
  pendingAt = event.timeStamp;
}

/** Whether the reader switched single keys off; those with Ctrl or ⌘, and Escape, stay. */
export function areKeysOff(): boolean {
  return localStorage.getItem(OFF) === "off";
}

export function switchKeys(isOff: boolean): void {
  if (isOff) localStorage.setItem(OFF, "off");
  else localStorage.removeItem(OFF);
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null
  );
}

function isDialogOpen(): boolean {
  return document.querySelector("dialog[open], [role=dialog]") !== null;
}
