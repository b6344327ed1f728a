/** Who is asking, what this server can do for them, and what they are permitted to do. */

import { queryOptions, useQuery } from "@tanstack/react-query";
import { read } from "./client.ts";
import { PLACE_HERE } from "./place.ts";
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
  queryFn: ({ signal }) => readMe(signal),
});

let known: Me | null = null;

/**
 * What this page has read is of one person in one workspace. In another tab, another person may have logged in: then
 * the answer never comes, because the page is left for one that begins anew.
 */
async function readMe(signal: AbortSignal): Promise<Me> {
  const me = await read("/me", {}, signal);
  if (known && (me.user !== known.user || me.workspace !== known.workspace)) {
    location.assign(`${PLACE_HERE}/`);
    return new Promise(() => undefined);
  }
  known = me;
  return me;
}

/** Undefined until the server has answered. */
export function useMe(): Me | undefined {
  return useQuery(meQuery).data;
}

/** Whether the caller is permitted something; nothing is, before the server has answered. */
export function mayDo(me: Me | undefined, right: Right): boolean {
  return me?.may?.includes(right) ?? false;
}
