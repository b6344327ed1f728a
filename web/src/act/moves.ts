/** Moves of sessions on a server for a team: without files, and told like the acts of one's own machine. */

import { addressOf } from "../api/client.ts";
import type { SessionDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import type { ActResult } from "./acts.ts";
import { digits, spell } from "./command.ts";

const REWIND = "/sessions/{session}/rewind";
const UNDO = "/sessions/{session}/undo";

/** What a move did, the command that does the same, and the way back. */
export function toldMove(workspace: string, path: string, body: object, after: SessionDocument): ActResult {
  const { label, head } = after;
  const asked = body as { to?: string; expected_head?: string | null };
  const at = after.digest ? digits(after.digest) : "its beginning";
  const result = (done: string, command: string, undo: ActResult["undo"]): ActResult => ({
    done,
    command,
    undo,
    session: label,
    turn: head,
    folder: null,
    paste: null,
    notes: [],
  });
  if (path === "/sessions")
    return result(`Forked ${at} as ${label}; nothing was copied`, spell(workspace, "fork", at, label), {
      command: spell(workspace, "session", "archive", label),
      path: "/acts/archive",
      body: { session: label },
    });
  if (asked.to !== undefined)
    return result(
      `Moved ${label} to ${at}, ${count(after.turns, "turn")} long; files stay as they are`,
      spell(workspace, "rewind", label, at),
      {
        command: spell(workspace, "undo", label),
        path: addressOf(UNDO, { session: label }),
        body: { expected_head: head },
      },
    );
  return result(`Undone: ${label} is back at ${at}`, spell(workspace, "undo", label), null);
}

/** The way back to a turn at which a session was before an undo of a rewind. */
export function rewindAgain(
  workspace: string,
  after: ActResult,
  to: string | null | undefined,
): ActResult["undo"] {
  if (!to || !after.session) return null;
  return {
    command: spell(workspace, "rewind", after.session, to),
    path: addressOf(REWIND, { session: after.session }),
    body: { to, expected_head: after.turn },
  };
}
