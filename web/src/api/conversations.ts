/** Questions about conversations: which there are, who takes part, what was said, whom to mention. */

import { queryOptions } from "@tanstack/react-query";
import { read } from "./client.ts";
import type { MentionSuggestion, PostDocument } from "./types.ts";

export type Post = PostDocument;

export const POSTS_PAGE = 50;
const WINDOW_READ_MAX = 500;

export function conversationList(archived: boolean) {
  return queryOptions({
    queryKey: ["conversations", archived],
    queryFn: async ({ signal }) => (await read("/conversations", { archived }, signal)).conversations,
  });
}

/** A conversation with all who take part or did: their posts are still there. */
export function conversationView(name: string) {
  return queryOptions({
    queryKey: ["conversation", name],
    queryFn: ({ signal }) =>
      read("/conversations/{conversation}", { conversation: name, past: true }, signal),
  });
}

/** The newest posts between two numbers, oldest first. */
export async function readPosts(
  conversation: string,
  range: { after?: number; before?: number; limit?: number } = {},
): Promise<Post[]> {
  const limit = Math.min(range.limit ?? POSTS_PAGE, WINDOW_READ_MAX);
  const page = await read("/conversations/{conversation}/posts", { conversation, ...range, limit });
  return page.posts;
}

/** Whom a person may mean who has typed this much of a name. */
export function mentionSuggestions(conversation: string, typed: string | null) {
  return queryOptions({
    queryKey: ["suggestions", conversation, typed],
    queryFn: async ({ signal }): Promise<MentionSuggestion[]> => {
      const words = { conversation, typed: typed ?? "" };
      return (await read("/conversations/{conversation}/suggestions", words, signal)).suggestions;
    },
    enabled: typed !== null,
    staleTime: 5_000,
    placeholderData: (before) => before,
    retry: false,
  });
}
