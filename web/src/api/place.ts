/** Where this page is served: by `turntree ui` at the root, by a server for a team below `/w/` and the workspace. */

const PLACE = /^\/w\/[^/]+(?=\/|$)/;

/** The part of a path that names the workspace, still escaped; empty on a machine of one's own. */
export function placeIn(path: string): string {
  return PLACE.exec(path)?.[0] ?? "";
}

/** The part of this page's own path. A worker is a script without one, and is told. */
export const PLACE_HERE = typeof document === "undefined" ? "" : placeIn(location.pathname);

/** Whether other people reach this server: what is on its machine is not theirs. */
export const IS_SHARED = PLACE_HERE !== "";

/** The address by which the command line names this server: `https://turntree.example.net/w/team`. */
export const SERVER = IS_SHARED ? `${location.origin}${PLACE_HERE}` : "";

/** The page to log in with; it leads back to where the reader is, and only that reader if it is known who they were. */
export function loginAddress(place: string, path: string, user?: string): string {
  const rest = path.startsWith(place) ? path.slice(place.length) : "";
  const of = user === undefined ? "" : `&of=${encodeURIComponent(user)}`;
  return `${place}/login${rest && rest !== "/" ? `#to=${encodeURIComponent(rest)}${of}` : ""}`;
}
