/** Who is asking, what this server can do for them, and what they are permitted to do. */

import { queryOptions, useQuery } from "@tanstack/react-query";
import { read } from "./client.ts";
import type { Me } from "./types.ts";

/** An action that a role, a key or a login session permits. */
export type Right =
  | "read"
  | "invoke"
  | "create"
  | "configure"
  | "key.create"
  | "key.manage"
  | "member.manage";

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => read("/me", {}, signal),
});

/** Undefined until the server has answered. */
export function useMe(): Me | undefined {
  return useQuery(meQuery).data;
}

/** Whether the caller is permitted something; nothing is, before the server has answered. */
export function mayDo(me: Me | undefined, right: Right): boolean {
  return me?.may?.includes(right) ?? false;
}
