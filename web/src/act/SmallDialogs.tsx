import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { read, write } from "../api/client.ts";
import { IS_SHARED } from "../api/place.ts";
import { asProblem } from "../api/problem.ts";
import { bytes, count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { useLater } from "../parts/useLater.ts";
import { type ActResult, actStore, type Target, type Tool } from "./acts.ts";
import { digits, spell } from "./command.ts";
import { Field, Frame, inQuotes, Trouble } from "./Frame.tsx";
import { FOLDER_PAUSE_MS, useAct, useFirstField, useNoField, useWorkspace } from "./useAct.ts";

/** A folder with the files as a turn left them. */
export function WorktreeDialog({ target }: { target: Target }) {
  const { turn } = target;
  const act = useAct("worktree");
  const workspace = useWorkspace();
  const make = (folder: string) =>
    void act.finish("/acts/worktree", { at: turn.id, folder: folder.trim() || null });
  const { field, text, setText } = useFirstField("", make);
  const folder = text.trim() || null;
  const asked = useLater(folder, FOLDER_PAUSE_MS);
  const plan = useQuery({
    queryKey: ["acts", "worktree", turn.id, asked],
    queryFn: () => write("/acts/worktree/plan", { at: turn.id, folder: asked }),
    placeholderData: (before) => before,
    retry: false,
    staleTime: 0,
  });
  const place = plan.data?.places[0];
  const problem = act.problem ?? (plan.error ? asProblem(plan.error) : null);
  return (
    <Frame
      title={`Files of ${inQuotes(turn.title)}`}
      lead="A new folder with the files as this turn left them. Your present files stay as they are."
      command={spell(
        workspace,
        "worktree",
        plan.data?.digest ?? digits(turn.digest),
        ...(folder ? [folder] : []),
      )}
      problem={problem}
      submit={() => make(text)}
      verb="Make the folder"
      busy={act.busy}
      disabled={!place || plan.isError}
    >
      <div className="act-body">
        <Field
          name="Folder"
          id="worktree-folder"
          inputRef={field}
          value={text}
          change={setText}
          placeholder={place?.place}
          hint={
            place
              ? `${count(place.files, "file")}, ${bytes(place.bytes)}. Its session is called ${plan.data?.label}.`
              : plan.data?.why_no_files
          }
        />
      </div>
    </Frame>
  );
}

/** A word by which a turn is found again. */
export function TagDialog({ target }: { target: Target }) {
  const { turn } = target;
  const act = useAct("tag");
  const workspace = useWorkspace();
  const add = (name: string) =>
    void (name.trim() && act.finish("/acts/tag", { at: turn.id, name: name.trim() }));
  const { field, text, setText } = useFirstField("", add);
  return (
    <Frame
      title={`Tag ${inQuotes(turn.title)}`}
      lead="A word by which you find this turn again."
      command={spell(workspace, "tag", digits(turn.digest), text.trim() || "WORD")}
      problem={act.problem}
      submit={() => add(text)}
      verb="Add the tag"
      busy={act.busy}
      disabled={!text.trim()}
    >
      <div className="act-body">
        <Field name="Tag" id="tag-name" inputRef={field} value={text} change={setText} />
      </div>
    </Frame>
  );
}

/** Another label; the old one still leads to the session. */
export function RenameDialog({ session, head }: { session: string; head: string | null }) {
  const act = useAct("rename");
  const workspace = useWorkspace();
  const [expected, setExpected] = useState(head);
  const rename = (label: string) =>
    void (
      label.trim() &&
      label.trim() !== session &&
      act.finish("/acts/rename", { session, label: label.trim(), expected_head: expected })
    );
  const { field, text, setText } = useFirstField(session, rename);
  return (
    <Frame
      title={`Rename ${session}`}
      lead="The old name still leads to it."
      command={spell(workspace, "session", "rename", session, text.trim() || "NAME")}
      problem={act.problem}
      remedy={<GoOn problem={act.problem} goOn={() => setExpected(null)} forget={act.forget} />}
      submit={() => rename(text)}
      verb="Rename"
      busy={act.busy}
      disabled={!text.trim() || text.trim() === session}
    >
      <div className="act-body">
        <Field name="Name" id="rename-name" inputRef={field} value={text} change={setText} />
      </div>
    </Frame>
  );
}

/** Out of the lists; its turns stay. */
export function ArchiveDialog({ session, head }: { session: string; head: string | null }) {
  useNoField();
  const act = useAct("archive");
  const workspace = useWorkspace();
  const [expected, setExpected] = useState(head);
  const body = useRef<HTMLDivElement>(null);
  useSubmitFocus(body);
  return (
    <Frame
      title={`Archive ${session}`}
      lead="It leaves the lists. Its turns stay, can be found, and one key brings it back."
      command={spell(workspace, "session", "archive", session)}
      problem={act.problem}
      remedy={<GoOn problem={act.problem} goOn={() => setExpected(null)} forget={act.forget} />}
      submit={() => void act.finish("/acts/archive", { session, expected_head: expected })}
      verb="Archive"
      busy={act.busy}
    >
      <div ref={body} />
    </Frame>
  );
}

const TOOLS: readonly { tool: Tool; name: string }[] = [
  { tool: "claude-code", name: "Claude Code" },
  { tool: "codex", name: "Codex" },
  { tool: "opencode", name: "opencode" },
  { tool: "gemini", name: "Gemini CLI" },
];

/** A session of another tool, written where the tool looks for it; its command is copied. */
export function HandoffDialog({ target, tool: first }: { target: Target; tool: Tool }) {
  useNoField();
  const { turn } = target;
  const [tool, setTool] = useState(first);
  const [folder, setFolder] = useState("");
  const [done, setDone] = useState<ActResult | null>(null);
  const act = useAct("handoff");
  const workspace = useWorkspace();
  const body = useRef<HTMLFieldSetElement>(null);
  useEffect(() => {
    body.current?.querySelector<HTMLInputElement>("input:checked")?.focus();
  }, []);
  const needsFolder = act.problem?.detail.includes("folder") ?? false;
  const hand = async () => {
    const result = await act.run("/acts/handoff", {
      at: turn.id,
      tool,
      folder: folder.trim() || null,
    });
    if (!result) return;
    // Not every browser lets a page copy; the command is shown with its own button then.
    await navigator.clipboard.writeText(result.paste ?? "").catch(() => undefined);
    setDone(result);
  };
  const name = TOOLS.find((one) => one.tool === tool)!.name;
  if (done) return <HandedOff result={done} name={name} />;
  return (
    <Frame
      title="Continue in another tool"
      lead={`Writes the thread up to ${inQuotes(turn.title)} as a session that the tool can continue. No file of the tool is changed.`}
      command={spell(
        workspace,
        "handoff",
        digits(turn.digest),
        "--to",
        tool,
        ...(folder.trim() ? ["--into", folder.trim()] : []),
      )}
      problem={act.problem}
      submit={() => void hand()}
      verb={`Continue in ${name}`}
      busy={act.busy}
    >
      <div className="act-body">
        <fieldset className="act-tools" ref={body}>
          <legend className="visually-hidden">Tool</legend>
          {TOOLS.map((one) => (
            <label key={one.tool}>
              <input
                type="radio"
                name="tool"
                checked={tool === one.tool}
                onChange={() => setTool(one.tool)}
              />
              <span>{one.name}</span>
            </label>
          ))}
        </fieldset>
        {needsFolder || folder ? (
          <Field
            name="Folder to work in"
            id="handoff-folder"
            value={folder}
            change={setFolder}
            placeholder="/home/you/project"
          />
        ) : null}
      </div>
    </Frame>
  );
}

function HandedOff({ result, name }: { result: ActResult; name: string }) {
  const close = () => actStore.finish("handoff", result);
  const button = useRef<HTMLDivElement>(null);
  useEffect(() => button.current?.querySelector("button")?.focus(), []);
  return (
    <Dialog title={`Ready in ${name}`} close={close} className="act" quiet>
      <header className="act-head">
        <h2>Ready in {name}</h2>
        <p>Paste this command into a terminal. It is on your clipboard.</p>
      </header>
      <div className="act-body">
        <Command line={result.paste ?? ""} label={`that continues in ${name}`} />
        {result.notes?.map((note) => (
          <p key={note} className="act-hint">
            {note}
          </p>
        ))}
      </div>
      <footer className="act-foot">
        <span className="act-hint">{result.folder}</span>
        <div className="act-buttons" ref={button}>
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        </div>
      </footer>
    </Dialog>
  );
}

/** Undoes at once; it is only seen where something has to be decided. */
export function UndoDialog({ session, head }: { session: string; head: string | null | undefined }) {
  useNoField();
  const act = useAct("undo");
  const workspace = useWorkspace();
  const begun = useRef(false);
  const [failed, setFailed] = useState<unknown>(null);
  const [expected, setExpected] = useState(head);
  const offered = useRef<NonNullable<ActResult["undo"]> | null>(null);
  const undo = async (at: string | null | undefined, conflicts: "ask" | "keep" | "exact") => {
    const step = offered.current;
    if (!step && IS_SHARED)
      return act.finish("/sessions/{session}/undo", { expected_head: at ?? null }, { session });
    if (!step) return act.finish("/acts/undo", { session, expected_head: at ?? null, conflicts });
    // Only an act with files takes a choice.
    const body = conflicts === "ask" ? step.body : { ...step.body, conflicts };
    const result = await act.takeBack({ ...step, body });
    if (result) actStore.finish("undo", result);
  };
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    // What the bar shows is undone first. After an undo, the next one goes further back.
    const last = actStore.get().done;
    const step = last && last.kind !== "undo" ? last.result.undo : null;
    if (step?.path) {
      offered.current = step;
      void undo(null, "ask");
      return;
    }
    const seen =
      head === undefined
        ? read("/threads/{revision}", { revision: session, limit: 1 }).then((page) => page.head)
        : Promise.resolve(head);
    seen.then((at) => {
      setExpected(at);
      return undo(at, "ask");
    }, setFailed);
  });
  const problem = act.problem ?? (failed ? asProblem(failed) : null);
  if (!problem) return null;
  const isChoice = problem.kind === "files-in-conflict";
  return (
    <Dialog title={`Undo in ${session}`} close={actStore.close} className="act" quiet>
      <header className="act-head">
        <h2>{isChoice ? "Files changed since then" : `Nothing was undone in ${session}`}</h2>
        <p>
          {isChoice
            ? "The last move changed these files too, and they have changed again since."
            : "The session and its files are as they were."}
        </p>
      </header>
      <Trouble problem={problem}>
        {problem.kind === "head-moved" ? (
          <Button onClick={() => void undo(problem.head, "ask")}>Undo from where it is now</Button>
        ) : undefined}
      </Trouble>
      <footer className="act-foot">
        <Command line={spell(workspace, "undo", session)} label="of this" />
        <div className="act-buttons">
          <Button kind="quiet" onClick={actStore.close} autoFocus>
            {isChoice ? "Cancel" : "Close"}
          </Button>
          {isChoice ? (
            <>
              <Button onClick={() => void undo(expected, "exact")}>All as it was</Button>
              <Button kind="primary" onClick={() => void undo(expected, "keep")}>
                Keep mine
              </Button>
            </>
          ) : null}
        </div>
      </footer>
    </Dialog>
  );
}

function GoOn(props: { problem: { kind: string } | null; goOn: () => void; forget: () => void }) {
  if (props.problem?.kind !== "head-moved") return null;
  return (
    <Button
      onClick={() => {
        props.goOn();
        props.forget();
      }}
    >
      Go on with it as it is now
    </Button>
  );
}

function useSubmitFocus(inside: React.RefObject<HTMLElement | null>): void {
  useEffect(() => {
    inside.current?.closest("form")?.querySelector<HTMLElement>("button[type=submit]")?.focus();
  }, [inside]);
}
