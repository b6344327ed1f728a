/** One cache of answers for the page. What the ledger holds never changes; what is new comes by the stream. */

import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { lock } from "./lock.ts";
import { asProblem } from "./problem.ts";

const ATTEMPTS = 2;

const onError = (error: unknown) => {
  if (asProblem(error).isLocked) lock.close();
};

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
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
