import { useState } from "react";
import { IS_SHARED } from "../api/place.ts";
import { Dialog } from "../parts/Dialog.tsx";
import { Keys } from "../parts/Keys.tsx";
import { areKeysOff, MODIFIER, switchKeys } from "../parts/useHotkeys.ts";

const GROUPS: readonly { name: string; keys: readonly (readonly [string, string])[] }[] = [
  {
    name: "Everywhere",
    keys: [
      [`${MODIFIER.trim()} K`, "search, or run a command"],
      ["/", "search"],
      ["g c", "canopy"],
      ["g g", "graph"],
      ["g s", "sessions"],
      ["g v", "conversations"],
      ["g i", "inbox"],
      ["g $", "costs"],
      ...(IS_SHARED ? ([["g m", "members, keys and your account"]] as const) : []),
      ["g t", "light or dark"],
      ["?", "these keys"],
      ["Esc", "back, or close"],
    ],
  },
  {
    name: "Move",
    keys: [
      ["j k", "down, up"],
      ["Enter", "open"],
      ["h", "the turn before"],
      ["l", "the turn after, on the main branch"],
      ["[ ]", "previous, next fork"],
      ["+ −", "zoom the canopy"],
      ["← →", "move through time"],
    ],
  },
  {
    name: "Act on the selected turn",
    keys: [
      ["f", "fork here"],
      ["c", "mark it, then compare"],
      ["r", "rewind to it"],
      ["v", "revert it: take back only this turn"],
      ["s", "share the thread up to it"],
      ["u", "undo"],
      ["w", "open its files in a worktree"],
      ["t", "tag it"],
      ["n", "rename the session"],
      ["x", "archive the session"],
    ],
  },
  {
    name: "In a thread",
    keys: [
      ["← →", "another branch"],
      ["e", "open or fold tool calls"],
      ["i", "open or fold reasoning"],
      ["d", "details of the turn"],
      ["y", "copy the address"],
      ["m", "write a message"],
      ["Esc", "stop the answer that is being written"],
    ],
  },
  {
    name: "Conversations and inbox",
    keys: [
      ["n", "new conversation"],
      ["m", "write a post"],
      ["@", "mention a person or an agent"],
      ["↑ ↓", "choose whom, and Enter takes it"],
      ["e", "mark the notice as read, or edit what waits"],
      ["a", "approve what waits, once"],
      ["x", "say no, with a reason"],
    ],
  },
];

/** Every key of the page. */
export default function Help(props: { close: () => void }) {
  const [isOff, setOff] = useState(areKeysOff);
  return (
    <Dialog title="Keys" close={props.close} className="help">
      <div className="dialog-body">
        {GROUPS.map((group) => (
          <section key={group.name}>
            <h3>{group.name}</h3>
            <dl>
              {group.keys.map(([keys, does]) => (
                <div key={keys}>
                  <dt>
                    <Keys keys={keys} />
                  </dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <label className="help-switch">
        <input
          type="checkbox"
          checked={!isOff}
          onChange={(event) => {
            switchKeys(!event.target.checked);
            setOff(!event.target.checked);
          }}
        />
        Single keys are on
      </label>
    </Dialog>
  );
}
