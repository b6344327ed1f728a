/** How the page asks the server. Every call ends in a value or throws a Problem. */

import { asProblem, problemOf } from "./problem.ts";

const BASE = "/api/v1";

export type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

/** What GET answers. */
export async function read<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const answer = await ask(path + wordsOf(query), { signal: signal ?? null });
  return (await answer.json()) as T;
}

/** The text that GET answers: whole messages, not documents. */
export async function readText(path: string, signal?: AbortSignal): Promise<string> {
  return (await ask(path, { signal: signal ?? null })).text();
}

/** What POST answers. The key makes a second try of the same act do nothing; give it when you try again yourself. */
export async function write<T>(path: string, body: unknown, key: string = crypto.randomUUID()): Promise<T> {
  const answer = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify(body),
  });
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

/** One segment of a path: a label may hold slashes. */
export function segment(value: string): string {
  return encodeURIComponent(value);
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(BASE + path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw asProblem(error);
  }
  if (answer.ok) return answer;
  throw problemOf(answer.status, await answer.json().catch(() => null));
}

function wordsOf(query: Query): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    words.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = words.toString();
  return text ? `?${text}` : "";
}
