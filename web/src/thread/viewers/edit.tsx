import { Pencil } from "lucide-react";
import { useMemo } from "react";
import { languageOf } from "../code/languages.ts";
import { ChangeCount, Diff } from "../diff/Diff.tsx";
import { type Change, changeOf, changesOfPatch } from "../diff/rows.ts";
import { visible } from "../text.ts";
import { Whole } from "../Whole.tsx";
import { type Call, editsOf, kindOf, patchOf, pathOf } from "./call.ts";
import { Output } from "./Output.tsx";
import { Values } from "./other.tsx";
import type { Viewer } from "./viewer.ts";

/** A file that was changed, as a diff. */
export const edit: Viewer = {
  matches: (call) => kindOf(call) === "edit",
  icon: Pencil,
  verb: (call) => {
    if (call.state === "failed") return "Could not edit";
    const uses = new Set(changes(call).map((one) => one.use));
    if (uses.size === 1 && uses.has("added")) return "Wrote";
    if (/delete/i.test(call.tool) || (uses.size === 1 && uses.has("removed"))) return "Deleted";
    return "Edited";
  },
  what: (call) => {
    const paths = [...new Set(changes(call).map((one) => one.path))].filter(Boolean);
    return paths.join(", ") || pathOf(call) || call.about;
  },
  result: (call) => {
    const all = changes(call);
    if (all.length === 0) return null;
    return <ChangeCount added={sum(all, "added")} removed={sum(all, "removed")} />;
  },
  isOpen: (call) => {
    const lines = changes(call).reduce((total, one) => total + one.change.rows.length, 0);
    return lines > 0 && lines <= 80;
  },
  Body: EditBody,
};

interface FileChange {
  path: string;
  use: "added" | "changed" | "removed";
  change: Change;
}

const known = new WeakMap<Call, FileChange[]>();

function changes(call: Call): FileChange[] {
  let all = known.get(call);
  if (!all) {
    const patch = patchOf(call);
    all = patch
      ? changesOfPatch(patch)
      : editsOf(call).map(({ path, old, new: next }) => ({
          path,
          use: old === "" ? "added" : "changed",
          change: changeOf(old, next),
        }));
    known.set(call, all);
  }
  return all;
}

const sum = (all: FileChange[], name: "added" | "removed") =>
  all.reduce((total, one) => total + one.change[name], 0);

function EditBody({ call }: { call: Call }) {
  const all = useMemo(() => changes(call), [call]);
  const isMany = new Set(all.map((one) => one.path)).size > 1;
  return (
    <>
      {call.state === "ok" ? null : <Output call={call} label="Why the edit failed" />}
      {all.length === 0 ? <Values value={call.args} label="What the edit was given" /> : null}
      {all.map((one, index) => (
        <div key={index}>
          {isMany ? (
            <p className="file-head">
              <code>{visible(one.path)}</code>
              <ChangeCount added={one.change.added} removed={one.change.removed} />
            </p>
          ) : null}
          {one.change.rows.length === 0 ? (
            <p className="note">
              {one.use === "removed" ? "The file was deleted." : "No lines were recorded."}
            </p>
          ) : (
            <Diff change={one.change} language={languageOf(one.path)} label={`Changes to ${one.path}`} />
          )}
        </div>
      ))}
      {call.isCut ? <Whole at={call.at} noun="edit" /> : null}
    </>
  );
}
