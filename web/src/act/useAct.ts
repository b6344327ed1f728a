import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { type Body, read, type WritePath, write } from "../api/client.ts";
import { asProblem, OFFLINE, type Problem } from "../api/problem.ts";
import { type Act, type ActResult, actStore, typed } from "./acts.ts";

/** A folder that is typed is asked about when the typing pauses. */
export const FOLDER_PAUSE_MS = 150;
/** An act, not the plan of one. */
export type ActPath = Exclude<Extract<WritePath, `/acts/${string}`>, `${string}/plan`>;

/** Does something once: a second click waits, and a try after a lost connection does not do it twice. */
export function useAct(kind: Act["kind"]) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const sent = useRef({ body: "", key: "" });
  const running = useRef(false);

  async function run<Path extends ActPath>(path: Path, body: Body<Path>): Promise<ActResult | null> {
    if (running.current) return null;
    running.current = true;
    setBusy(true);
    setProblem(null);
    const text = path + JSON.stringify(body);
    if (sent.current.body !== text) sent.current = { body: text, key: crypto.randomUUID() };
    try {
      const result = (await write(path, body, sent.current.key)) as ActResult;
      void client.invalidateQueries();
      return result;
    } catch (error) {
      const found = asProblem(error);
      if (found.status !== OFFLINE) sent.current = { body: "", key: "" };
      setProblem(found);
      return null;
    } finally {
      running.current = false;
      setBusy(false);
    }
  }

  async function finish<Path extends ActPath>(path: Path, body: Body<Path>): Promise<void> {
    const result = await run(path, body);
    if (result) actStore.finish(kind, result);
  }

  /** Take the step back that the answer to an act offered: the server names an act and its body. */
  async function takeBack(step: NonNullable<ActResult["undo"]>): Promise<ActResult | null> {
    return step.path ? run(step.path as ActPath, (step.body ?? {}) as Body<ActPath>) : null;
  }

  return { run, finish, takeBack, busy, problem, forget: () => setProblem(null) };
}

/** The workspace that commands have to name. */
export function useWorkspace(): string {
  const me = useQuery({ queryKey: ["me"], queryFn: ({ signal }) => read("/me", {}, signal) });
  return me.data?.workspace ?? "default";
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
