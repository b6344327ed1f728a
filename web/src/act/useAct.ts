import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { read, write } from "../api/client.ts";
import { asProblem, OFFLINE, type Problem } from "../api/problem.ts";
import type { Me } from "../api/types.ts";
import { type Act, type ActResult, actStore, typed } from "./acts.ts";

/** A folder that is typed is asked about when the typing pauses. */
export const FOLDER_PAUSE_MS = 150;

/** Does something once: a second click waits, and a try after a lost connection does not do it twice. */
export function useAct(kind: Act["kind"]) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const sent = useRef({ body: "", key: "" });
  const running = useRef(false);

  async function run(path: string, body: Record<string, unknown>): Promise<ActResult | null> {
    if (running.current) return null;
    running.current = true;
    setBusy(true);
    setProblem(null);
    const text = path + JSON.stringify(body);
    if (sent.current.body !== text) sent.current = { body: text, key: crypto.randomUUID() };
    try {
      const result = await write<ActResult>(path, body, sent.current.key);
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

  async function finish(path: string, body: Record<string, unknown>): Promise<void> {
    const result = await run(path, body);
    if (result) actStore.finish(kind, result);
  }

  return { run, finish, busy, problem, forget: () => setProblem(null) };
}

/** The workspace that commands have to name. */
export function useWorkspace(): string {
  const me = useQuery({ queryKey: ["me"], queryFn: ({ signal }) => read<Me>("/me", {}, signal) });
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
