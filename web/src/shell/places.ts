/** What the bar at the top calls an address. */
export function placeName(path: string): string {
  const name = NAMES[path];
  if (name) return name;
  const [, area = "", rest = ""] = path.split("/");
  if (area === "s") return decoded(rest);
  if (area === "c") return "Conversation";
  if (area === "t") return "One turn, and what led to it";
  if (area === "compare") return decoded(rest).replace("...", " and ");
  return "Nothing here";
}

const NAMES: Record<string, string> = {
  "/": "Canopy",
  "/graph": "Graph",
  "/sessions": "Sessions",
  "/conversations": "Conversations",
  "/inbox": "Inbox",
  "/costs": "Costs",
  "/search": "Search",
  "/welcome": "Welcome",
  "/members": "Members",
  "/invitations": "Invitations",
  "/keys": "Keys",
  "/account": "Your account",
};

function decoded(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  }
}
