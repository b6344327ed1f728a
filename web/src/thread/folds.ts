import { createContext } from "react";

export type Fold = "as it is" | "open" | "closed";

/** What the keys of the page did to all tool calls and to all reasoning. */
export const Folds = createContext<{ tools: Fold; reasoning: Fold }>({
  tools: "as it is",
  reasoning: "as it is",
});
