/** Which act is open, and what was done last. Small, so that every page can hold it; the dialogs are loaded late. */
import { meQuery } from "../api/me.ts";
import { queryClient } from "../api/queryClient.ts";
import type { components } from "../api/schema.d.ts";
import { isOffered } from "./offers.ts";

export interface TurnTarget {
  id: string;
  digest: string;
  title: string;
}

export interface Target {
  turn: TurnTarget;
  /** The label of the session in view; null asks which one, where it matters. */
  session?: string | null;
}

export type Tool = "claude-code" | "codex" | "opencode" | "gemini";

export type Act =
  | { kind: "fork" | "worktree" | "tag" | "revert" | "share"; target: Target }
  | { kind: "rewind"; target: Target; before?: boolean }
  | { kind: "handoff"; target: Target; tool?: Tool }
  | { kind: "rename" | "archive" | "undo"; session: string; head?: string | null };

/** What the server answers to an act. */
export type ActResult = components["schemas"]["ActResult"];

export interface Done {
  kind: Act["kind"];
  result: ActResult;
}

interface State {
  act: Act | null;
  done: Done | null;
}

let state: State = { act: null, done: null };
const listeners = new Set<() => void>();

function set(next: Partial<State>): void {
  state = { ...state, ...next };
  for (const listener of listeners) listener();
}

export const actStore = {
  subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
  get: (): State => state,
  open(act: Act): void {
    if (!isOffered(act.kind, queryClient.getQueryData(meQuery.queryKey))) return;
    typed.start(actStore.close);
    set({ act });
  },
  close(): void {
    typed.stop();
    set({ act: null });
  },
  finish(kind: Act["kind"], result: ActResult): void {
    // Another dialog may have been opened while the server was still at work.
    set({ act: state.act?.kind === kind ? null : state.act, done: { kind, result } });
  },
  dismiss(): void {
    set({ done: null });
  },
};

/**
 * Letters typed while a dialog is still loading. A person who knows the keys types `f` and the name in one go; the
 * dialog's field takes what came before it.
 */
class TypedAhead {
  text = "";
  entered = false;
  private listening = false;
  private cancel: () => void = () => undefined;

  start(cancel: () => void): void {
    this.text = "";
    this.entered = false;
    this.cancel = cancel;
    if (this.listening) return;
    this.listening = true;
    addEventListener("keydown", this.onKey, true);
  }

  stop(): void {
    this.listening = false;
    removeEventListener("keydown", this.onKey, true);
  }

  /** What was typed so far; from now on the field gets the keys itself. */
  take(): { text: string; entered: boolean } {
    this.stop();
    const taken = { text: this.text, entered: this.entered };
    this.text = "";
    this.entered = false;
    return taken;
  }

  private onKey = (event: KeyboardEvent): void => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape") {
      this.stop();
      this.cancel();
    } else if (event.key === "Enter") this.entered = true;
    else if (event.key === "Backspace") this.text = this.text.slice(0, -1);
    else if ([...event.key].length === 1) this.text += event.key;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
}

export const typed = new TypedAhead();
