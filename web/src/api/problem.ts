/** What went wrong, as a person can read it: the server's problem+json, or no server at all. */

import { IS_SHARED } from "./place.ts";

export class Problem extends Error {
  readonly status: number;
  readonly detail: string;
  /** Commands or addresses that help. */
  readonly next: readonly string[];
  /** The server's name of the problem: `head-moved`. */
  readonly kind: string;
  /** The turn at which a session is now that moved since the page showed it. */
  readonly head: string | null;

  constructor(
    status: number,
    title: string,
    detail = "",
    next: readonly string[] = [],
    more: { kind?: string; head?: string | null } = {},
  ) {
    super(title);
    this.name = "Problem";
    this.status = status;
    this.detail = detail;
    this.next = next;
    this.kind = more.kind ?? "";
    this.head = more.head ?? null;
  }

  /** The page's cookie is not known to the server any more. */
  get isLocked(): boolean {
    return this.status === 401;
  }

  get isMissing(): boolean {
    return this.status === 404;
  }
}

export const OFFLINE = 0;

/** The problem that an answer states; an answer that states none is described by its status. */
export function problemOf(status: number, body: unknown): Problem {
  if (typeof body === "object" && body !== null) {
    const fields = body as Record<string, unknown>;
    const title = typeof fields.title === "string" && fields.title ? fields.title : TITLES[status];
    const told = Array.isArray(fields.next) ? fields.next.filter((item) => typeof item === "string") : [];
    // A server for a team names requests, which a person cannot type; a local one names commands.
    const next = IS_SHARED ? [] : told;
    return new Problem(status, title ?? `The server answered ${status}`, text(fields.detail), next, {
      kind: text(fields.type).split(":").at(-1) ?? "",
      head: text(fields.head) || null,
    });
  }
  return new Problem(status, TITLES[status] ?? `The server answered ${status}`);
}

/** The steps that a person can take: a server for a team also names requests, for programs. */
export function stepsFor(steps: readonly string[] | undefined, isShared = IS_SHARED): readonly string[] {
  return (steps ?? []).filter((step) => !isShared || !/\b(GET|POST) \//.test(step));
}

/** Anything that was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  // A part of the page that was not loaded yet is asked for like an answer.
  if (error instanceof TypeError || (error instanceof Error && NOT_LOADED.test(error.message))) {
    const title = "Turntree is not answering";
    if (IS_SHARED)
      return new Problem(OFFLINE, title, "The server may be restarting, or out of reach. Try again soon.");
    return new Problem(OFFLINE, title, "It may have been stopped. Start it again in a terminal.", [
      "turntree ui",
    ]);
  }
  return new Problem(
    500,
    "Something in this page failed",
    error instanceof Error ? error.message : String(error),
  );
}

const NOT_LOADED = /^(Unable to preload CSS|Failed to fetch dynamically imported|Importing a module script)/;

const TITLES: Record<number, string> = {
  401: "This page is locked",
  403: "This is not allowed",
  404: "There is nothing here",
  409: "It changed in the meantime",
  413: "This is too large",
  422: "The server does not understand this",
  500: "Something in the server failed",
};

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
