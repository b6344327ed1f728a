/** How the page asks the server. Every call ends in a value or throws a Problem.
 *
 * Paths, parameters, bodies and answers are those of the generated schema: a route that changes is an error of
 * the compiler where it is asked.
 */

import { PLACE_HERE } from "./place.ts";
import { asProblem, problemOf } from "./problem.ts";
import type { paths } from "./schema.d.ts";

const BASE = "/api/v1";

type Route<Path extends string> = paths[`${typeof BASE}${Path}` & keyof paths];
type Json<Operation> = Operation extends {
  responses: { 200: { content: { "application/json": infer Answer } } };
}
  ? Answer
  : undefined;
type PathsWith<Shape> = {
  [Path in keyof paths]: paths[Path] extends Shape
    ? Path extends `${typeof BASE}${infer Rest}`
      ? Rest
      : never
    : never;
}[keyof paths];

/** Lists are sent with commas; what is null, undefined or empty is not sent. */
type Word = string | number | boolean | readonly string[] | null | undefined;
type Sent<Value> = Value | null | undefined | (Value extends string ? readonly string[] : never);
type OfPath<Given> = Given extends { path: infer Names } ? Names : unknown;
type OfQuery<Given> = Given extends { query?: infer Names }
  ? [NonNullable<Names>] extends [never]
    ? unknown
    : { [Name in keyof NonNullable<Names>]: Sent<NonNullable<Names>[Name]> }
  : unknown;
type Parameters<Operation> = Operation extends { parameters: infer Given }
  ? OfPath<Given> & OfQuery<Given>
  : unknown;
type Rest<Given> = object extends Given
  ? [parameters?: Given, signal?: AbortSignal]
  : [parameters: Given, signal?: AbortSignal];

type Reads<Path extends string> = Route<Path> extends { get: infer Operation } ? Operation : never;
type Writes<Path extends string> = Route<Path> extends { post: infer Operation } ? Operation : never;

export type ReadPath = PathsWith<{
  get: { responses: { 200: { content: { "application/json": unknown } } } };
}>;
export type TextPath = PathsWith<{ get: { responses: { 200: { content: { "text/plain": unknown } } } } }>;
export type WritePath = PathsWith<{ post: object }>;

export type Answer<Path extends ReadPath> = Json<Reads<Path>>;
export type Query<Path extends ReadPath> = Parameters<Reads<Path>>;
export type Body<Path extends WritePath> =
  Writes<Path> extends {
    requestBody?: { content: { "application/json": infer Document } };
  }
    ? Document
    : never;

/** What GET answers. Parameters of the path and of the query are given together. */
export async function read<Path extends ReadPath>(
  path: Path,
  ...[parameters, signal]: Rest<Query<Path>>
): Promise<Answer<Path>> {
  const answer = await ask(addressOf(path, parameters as object), { signal: signal ?? null });
  return (await answer.json()) as Answer<Path>;
}

/** The text that GET answers: whole messages, not documents. */
export async function readText<Path extends TextPath>(
  path: Path,
  ...[parameters, signal]: Rest<Parameters<Reads<Path>>>
): Promise<string> {
  return (await ask(addressOf(path, parameters as object), { signal: signal ?? null })).text();
}

/**
 * What POST answers. The key makes a second try of the same act do nothing; give it when you try again yourself.
 * `names` are the parameters of the path.
 */
export async function write<Path extends WritePath>(
  path: Path,
  body: Body<Path>,
  key: string = crypto.randomUUID(),
  names: Record<string, string> = {},
): Promise<Json<Writes<Path>>> {
  const answer = await ask(addressOf(path, names), {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify(body),
  });
  return (answer.status === 204 ? undefined : await answer.json()) as Json<Writes<Path>>;
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(PLACE_HERE + BASE + path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw asProblem(error);
  }
  if (answer.ok) return answer;
  throw problemOf(answer.status, await answer.json().catch(() => null));
}

/** Where a path of the API is, for what asks by itself. */
export function apiAddress(path: string): string {
  return PLACE_HERE + BASE + path;
}

/** The path with its names filled in, and the other parameters behind it. A label may hold slashes. */
export function addressOf(path: string, parameters: object = {}): string {
  const given: Record<string, Word> = { ...parameters };
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = given[name];
    delete given[name];
    return encodeURIComponent(String(value));
  });
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === "") continue;
    words.set(name, Array.isArray(value) ? value.join(",") : String(value));
  }
  const text = words.toString();
  return text ? `${filled}?${text}` : filled;
}
