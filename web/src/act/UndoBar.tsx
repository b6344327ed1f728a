import { Link } from "@tanstack/react-router";
import { Undo2, X } from "lucide-react";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { actStore, type Done } from "./acts.ts";
import { Trouble } from "./Frame.tsx";
import { useAct } from "./useAct.ts";
import "./act.css";

/** What was done, the command that does the same, and the way back. It stays until it is closed or replaced. */
export default function UndoBar({ done }: { done: Done }) {
  const { result } = done;
  const act = useAct("undo");
  const step = result.undo;
  const undo = async () => {
    if (!step?.path) return;
    const undone = await act.takeBack(step);
    if (undone) actStore.finish("undo", undone);
  };
  return (
    <section className="undo-bar" aria-label="What was done">
      <div className="undo-said" role="status">
        <p>{result.done}.</p>
        {result.notes?.map((note) => (
          <small key={note}>{note}.</small>
        ))}
      </div>
      <Command
        line={result.paste ?? result.command}
        label={result.paste ? "that continues it" : "that does the same"}
      />
      <div className="act-buttons">
        {result.session && (done.kind === "fork" || done.kind === "worktree") ? (
          <Link
            className="button"
            to="/s/$label"
            params={{ label: result.session }}
            onClick={actStore.dismiss}
          >
            Open it
          </Link>
        ) : null}
        {step?.path ? (
          <Button
            icon={<Undo2 aria-hidden="true" />}
            onClick={() => void undo()}
            aria-busy={act.busy}
            {...(done.kind === "undo" ? {} : { hotkey: "u" })}
          >
            {done.kind === "undo" ? "Do it again" : "Undo"}
          </Button>
        ) : null}
        <Button kind="quiet" onClick={actStore.dismiss} aria-label="Close this message">
          <X aria-hidden="true" />
        </Button>
      </div>
      {step && !step.path ? (
        <p className="undo-command">
          <span>Undo with</span> <Command line={step.command} label="that undoes it" />
        </p>
      ) : null}
      {act.problem ? (
        <Trouble problem={act.problem}>{step ? <Command line={step.command} /> : null}</Trouble>
      ) : null}
    </section>
  );
}
