import { useQuery } from "@tanstack/react-query";
import { read, segment } from "../../api/client.ts";

/** What the server knows about a turn under one name: files, context, causes … A sealed turn does not change. */
export function useAbout<T>(turn: string, what: string, query: Record<string, string> = {}, isWanted = true) {
  return useQuery({
    queryKey: ["about", turn, what, query],
    queryFn: ({ signal }) => read<T>(`/turns/${segment(turn)}/${what}`, query, signal),
    enabled: isWanted,
    staleTime: 5 * 60_000,
  });
}
