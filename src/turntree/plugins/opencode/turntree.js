// Tells Turntree when a session is opened, a turn begins, calls tools, waits and ends: turntree-hook.
// Written by `turntree hook install opencode`; `turntree hook uninstall opencode` removes it.
import { spawnSync } from "node:child_process"

const LAUNCHER = "@LAUNCHER@"
const TIMEOUT_MS = 2000
// Tools that change no files.
const READS = /^(glob|grep|list|ls|read|todoread|todowrite|webfetch|websearch|codesearch|question|skill)$/

export const Turntree = async ({ directory, worktree }) => {
  const parents = new Map()
  const cwd = worktree && worktree !== "/" ? worktree : directory

  const tell = (kind, session, call) => {
    try {
      let root = session
      while (parents.has(root)) root = parents.get(root)
      const told = { session_id: root, agent_id: root === session ? null : session, cwd, tool_use_id: call }
      const command = `[ -r "${LAUNCHER}" ] && sh "${LAUNCHER}" opencode ${kind}; exit 0`
      spawnSync("sh", ["-c", command], {
        input: JSON.stringify(told),
        stdio: ["pipe", "ignore", "ignore"],
        timeout: TIMEOUT_MS,
      })
    } catch {
      // Whatever happens to Turntree must not happen to opencode.
    }
  }

  return {
    event: async ({ event }) => {
      const told = event.properties ?? {}
      if (event.type === "session.created") {
        if (told.info?.parentID) parents.set(told.info.id, told.info.parentID)
        else if (told.info?.id) tell("session", told.info.id)
      } else if (event.type === "session.idle" && told.sessionID) {
        tell("end", told.sessionID)
      } else if (/^permission\.(asked|updated)$/.test(event.type) && told.sessionID) {
        tell("wait", told.sessionID)
      }
    },
    "chat.message": async (input) => {
      if (input.sessionID) tell("begin", input.sessionID)
    },
    "tool.execute.before": async (input) => {
      if (input.sessionID && !READS.test(input.tool)) tell("call", input.sessionID, input.callID)
    },
    "tool.execute.after": async (input) => {
      if (input.sessionID && !READS.test(input.tool)) tell("return", input.sessionID, input.callID)
    },
  }
}
