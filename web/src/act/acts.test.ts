import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

const target = { turn: { id: "1", digest: "abcd", title: "one" }, session: "main" };

describe("letters typed after the key of a dialog", () => {
  let press: (key: string) => boolean = () => false;
  let listening = 0;

  beforeEach(() => {
    const listeners = new Set<(event: KeyboardEvent) => void>();
    vi.stubGlobal("addEventListener", (_: string, on: (event: KeyboardEvent) => void) => {
      listeners.add(on);
      listening = listeners.size;
    });
    vi.stubGlobal("removeEventListener", (_: string, on: (event: KeyboardEvent) => void) => {
      listeners.delete(on);
      listening = listeners.size;
    });
    press = (key) => {
      let stopped = false;
      const event = { key, preventDefault() {}, stopImmediatePropagation: () => (stopped = true) };
      for (const on of listeners) on(event as unknown as KeyboardEvent);
      return stopped;
    };
  });
  afterEach(() => vi.unstubAllGlobals());

  it("are kept for the field, and reach no other key", async () => {
    const { actStore, typed } = await import("./acts.ts");
    actStore.open({ kind: "fork", target });
    for (const key of ["r", "o", "x", "Backspace", "u", "n", "d"]) expect(press(key)).toBe(true);
    expect(press("Shift")).toBe(false);
    press("Enter");
    expect(typed.take()).toEqual({ text: "round", entered: true });
    expect(listening).toBe(0);
    expect(press("f")).toBe(false);
  });

  it("are dropped when Escape closes the dialog before it opened", async () => {
    const { actStore, typed } = await import("./acts.ts");
    actStore.open({ kind: "tag", target });
    press("a");
    press("Escape");
    expect(actStore.get().act).toBeNull();
    expect(listening).toBe(0);
    actStore.open({ kind: "tag", target });
    expect(typed.take().text).toBe("");
  });
});
