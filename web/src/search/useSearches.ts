/** What the person who reads has searched for lately, in this browser. */

import { useMemo } from "react";
import { useMe } from "../api/me.ts";
import { SEARCHES } from "../api/ownWords.ts";
import { recentSearches, rememberSearch } from "../core/recentSearches.ts";

interface Searches {
  list: () => string[];
  remember: (words: string) => void;
}

/** Nothing is listed or remembered before the server has said who reads. */
export function useSearches(): Searches {
  const person = useMe()?.user;
  return useMemo(
    () => ({
      list: () => (person === undefined ? [] : recentSearches(localStorage, SEARCHES, person)),
      remember: (words) => {
        if (person !== undefined) rememberSearch(localStorage, SEARCHES, person, words);
      },
    }),
    [person],
  );
}
