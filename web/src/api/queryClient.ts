/** One cache of answers for the page. What the ledger holds never changes; what is new comes by the stream. */

import { QueryCache, QueryClient } from "@tanstack/react-query";
import { lock } from "./lock.ts";
import { asProblem } from "./problem.ts";

const ATTEMPTS = 2;

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error) => {
      if (asProblem(error).isLocked) lock.close();
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      // A refusal stays one; only a server that is away or failing is asked again.
      retry: (failures, error) => {
        const { status } = asProblem(error);
        return failures < ATTEMPTS && (status === 0 || status >= 500);
      },
      retryDelay: (failures) => 300 * 2 ** failures,
    },
    mutations: { retry: false },
  },
});
