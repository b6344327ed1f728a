/** What waits to be decided by a person. */

import { queryOptions } from "@tanstack/react-query";
import { read, write } from "./client.ts";
import { queryClient } from "./queryClient.ts";
import type { ApprovalDocument } from "./types.ts";

const WAITING_MAX = 200;

/** The requests that wait for the reader, oldest first. */
export const waitingApprovals = queryOptions({
  queryKey: ["approvals", "waiting"],
  queryFn: ({ signal }) => read("/approvals", { mine: true, limit: WAITING_MAX }, signal),
});

/** What a session waits for, also where others decide. */
export function sessionApprovals(session: string) {
  return queryOptions({
    queryKey: ["approvals", "session", session],
    queryFn: ({ signal }) => read("/approvals", { session, limit: WAITING_MAX }, signal),
  });
}

export type Decision =
  | { verb: "approve" }
  | { verb: "reject"; note: string }
  | { verb: "edit"; args: Record<string, unknown> }
  | { verb: "answer"; answer: unknown };

/** Decide a request, and return it as it is then. */
export async function decide(id: string, decision: Decision): Promise<ApprovalDocument> {
  const names = { approval: id };
  switch (decision.verb) {
    case "approve":
      return write("/approvals/{approval}/approve", { note: null }, undefined, names);
    case "reject":
      return write("/approvals/{approval}/reject", { note: decision.note || null }, undefined, names);
    case "edit":
      return write("/approvals/{approval}/edit", { args: decision.args, note: null }, undefined, names);
    case "answer":
      return write("/approvals/{approval}/answer", { answer: decision.answer, note: null }, undefined, names);
  }
}

/** A request as it is now, after another answer came first. */
export function readApproval(id: string): Promise<ApprovalDocument> {
  return read("/approvals/{approval}", { approval: id });
}

export function readAgain(): Promise<void> {
  return queryClient.invalidateQueries({
    predicate: ({ queryKey }) => queryKey[0] === "approvals" || queryKey[0] === "inbox",
  });
}
