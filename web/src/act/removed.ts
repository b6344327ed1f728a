/** The report of a shared page, in sentences. */
import { count } from "../core/format.ts";
import type { RemovedParts } from "./wire.ts";

export function removedLines(removed: RemovedParts): string[] {
  return [
    ...removed.messages.map(
      (one) => `Message ${one.message} of ${one.turn} held ${count(one.secrets, "secret")} and is left out`,
    ),
    ...removed.files.map((one) => `${one.path}: ${count(one.secrets, "secret")} removed`),
    ...removed.files_left_out.map((path) => `${path}: left out, too large to check or binary with a secret`),
    ...(removed.turns_without_events
      ? [`The model calls of ${count(removed.turns_without_events, "turn")} held a secret and are left out`]
      : []),
    ...(removed.snapshots_missing
      ? [`The files of ${count(removed.snapshots_missing, "snapshot")} are not stored on this machine`]
      : []),
  ];
}
