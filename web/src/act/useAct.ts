import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type Body, type WritePath, write } from "../api/client.ts";
import { lock } from "../api/lock.ts";
import { useMe } from "../api/me.ts";
import { IS_SHARED } from "../api/place.ts";
import { asProblem, OFFLINE, type Problem } from "../api/problem.ts";
import type { SessionDocument } from "../api/types.ts";
import { type Act, type ActResult, actStore, typed } from "./acts.ts";
import { rewindAgain, toldMove } from "./moves.ts";

/** A folder that is typed is asked about when the typing pauses. */
export const FOLDER_PAUSE_MS = 150;
/** An act, not the plan of one; without files, on a server for a team, it is a move of a session. */
export type ActPath =
  | Exclude<Extract<WritePath, `/acts/${string}`>, `${string}/plan`>
  | "/sessions"
  | `/sessions/{session}/${"rewind" | "undo"}`;

/** Does something once: a second click waits, and a try after a lost connection does not do it twice. */
export function useAct(kind: Act["kind"]) {
  const client = useQueryClient();
  const workspace = useWorkspace();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const sent = useRef({ body: "", key: "" });
  const running = useRef(false);

  async function run<Path extends ActPath>(
    path: Path,
    body: Body<Path>,
    names: Record<string, string> = {},
  ): Promise<ActResult | null> {
    if (running.current) return null;
    running.current = true;
    setBusy(true);
    setProblem(null);
    const text = path + JSON.stringify([names, body]);
    if (sent.current.body !== text) sent.current = { body: text, key: crypto.randomUUID() };
    try {
      const answer = (await write(path, body, sent.current.key, names)) as ActResult | SessionDocument;
      void client.invalidateQueries();
      return "done" in answer ? answer : toldMove(workspace, path, body as object, answer);
    } catch (error) {
      const found = asProblem(error);
      if (found.isLocked) lock.close();
      if (found.status !== OFFLINE) sent.current = { body: "", key: "" };
      setProblem(found);
      return null;
    } finally {
      running.current = false;
      setBusy(false);
    }
  }

  async function finish<Path extends ActPath>(
    path: Path,
    body: Body<Path>,
    names: Record<string, string> = {},
  ): Promise<void> {
    const result = await run(path, body, names);
    if (result) actStore.finish(kind, result);
  }

  /** Take the step back that the answer to an act offered: the server names an act and its body. */
  async function takeBack(step: NonNullable<ActResult["undo"]>): Promise<ActResult | null> {
    if (!step.path) return null;
    const result = await run(step.path as ActPath, (step.body ?? {}) as Body<ActPath>);
    // Of its moves a server for a team tells no way again: what was left by a rewind is known here.
    const left = kind === "undo" && result?.undo === null && IS_SHARED ? step.body?.expected_head : null;
    return result && left ? { ...result, undo: rewindAgain(workspace, result, String(left)) } : result;
  }

  return { run, finish, takeBack, busy, problem, forget: () => setProblem(null) };
}

/** The workspace that commands have to name. */
export function useWorkspace(): string {
  return useMe()?.workspace ?? "default";
}

/** The first field of a dialog: it has the focus, and begins with what was typed before it was there. */
export function useFirstField(start: string, submit: (text: string) => void) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(start);
  const latest = useRef(submit);
  latest.current = submit;
  useEffect(() => {
    const before = typed.take();
    if (before.text && field.current) {
      // The next key may come before React has drawn this: the field itself must hold it already.
      field.current.value = before.text;
      setText(before.text);
    }
    field.current?.focus();
    if (!before.text) field.current?.select();
    if (before.entered) latest.current(before.text || start);
  }, [start]);
  return { field, text, setText };
}

/** For a dialog without a field: what was typed ahead has no place to go. */
export function useNoField(): void {
  useEffect(() => {
    typed.take();
  }, []);
}
