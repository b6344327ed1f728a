import { useQuery } from "@tanstack/react-query";
import { type Answer, type Query, type ReadPath, read } from "../../api/client.ts";

type AboutTurn = Extract<ReadPath, `/turns/{revision}/${string}`>;

/** What the server knows about a turn under one name: files, context, causes … A sealed turn does not change. */
export function useAbout<Path extends AboutTurn>(path: Path, parameters: Query<Path>, isWanted = true) {
  return useQuery<Answer<Path>>({
    queryKey: ["about", path, parameters],
    queryFn: ({ signal }) => read(path, parameters, signal),
    enabled: isWanted,
    staleTime: 5 * 60_000,
  });
}
