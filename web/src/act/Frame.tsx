import type { FormEvent, ReactNode } from "react";
import { OFFLINE, type Problem } from "../api/problem.ts";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { actStore } from "./acts.ts";
import "./act.css";

/** A dialog of an act: what it does, its fields, what went wrong, the command that does the same, and the buttons. */
export function Frame(props: {
  title: string;
  lead: ReactNode;
  children?: ReactNode;
  command?: string | undefined;
  problem?: Problem | null;
  /** What helps with the problem, beside trying again. */
  remedy?: ReactNode;
  submit: () => void;
  verb: string;
  busy: boolean;
  disabled?: boolean;
  others?: ReactNode;
  /** How the dialog goes away; an act of a turn or session needs none of its own. */
  close?: () => void;
  /** Whether what it does is hard to take back. */
  isDanger?: boolean;
}) {
  const close = props.close ?? actStore.close;
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    if (!props.busy && !props.disabled) props.submit();
  };
  return (
    <Dialog title={props.title} close={close} className="act" quiet>
      <form onSubmit={onSubmit} aria-busy={props.busy}>
        <header className="act-head">
          <h2>{props.title}</h2>
          <p>{props.lead}</p>
        </header>
        {props.children}
        {props.problem ? <Trouble problem={props.problem}>{props.remedy}</Trouble> : null}
        <footer className="act-foot">
          {props.command ? <Command line={props.command} label="of this" /> : <span />}
          <div className="act-buttons">
            <Button kind="quiet" onClick={close}>
              Cancel
            </Button>
            {props.others}
            <Button
              kind={props.isDanger ? "danger" : "primary"}
              type="submit"
              disabled={props.disabled ?? false}
              aria-busy={props.busy}
            >
              {props.busy ? "Working…" : props.verb}
            </Button>
          </div>
        </footer>
      </form>
    </Dialog>
  );
}

/** What was refused, in a sentence, with the way on. */
export function Trouble(props: { problem: Problem; children?: ReactNode }) {
  const { problem } = props;
  const said = problem.detail || problem.message;
  return (
    <div className="act-trouble" role="alert">
      <p>{said.charAt(0).toUpperCase() + said.slice(1)}.</p>
      {problem.kind === "head-moved" ? (
        <p>Nothing was changed. Look at what is new first, or go on with the session as it is now.</p>
      ) : null}
      {problem.status === OFFLINE || !props.children
        ? problem.next.map((command) => <Command key={command} line={command} />)
        : null}
      {props.children}
    </div>
  );
}

/** A text field with its name above it and a sentence below. */
export function Field(props: {
  name: string;
  id: string;
  value: string;
  change: (text: string) => void;
  placeholder?: string | undefined;
  hint?: ReactNode;
  inputRef?: React.RefObject<HTMLInputElement | null>;
}) {
  return (
    <div className="act-field">
      <label htmlFor={props.id}>{props.name}</label>
      <input
        id={props.id}
        ref={props.inputRef}
        value={props.value}
        placeholder={props.placeholder}
        onChange={(event) => props.change(event.target.value)}
        autoComplete="off"
        autoCapitalize="off"
        spellCheck={false}
        aria-describedby={props.hint ? `${props.id}-hint` : undefined}
      />
      {props.hint ? (
        <p id={`${props.id}-hint`} className="act-hint">
          {props.hint}
        </p>
      ) : null}
    </div>
  );
}

/** A title as words in quotes, cut where it becomes long. */
export function inQuotes(title: string): string {
  const plain = title.trim().replace(/\s+/g, " ");
  if (!plain) return "this turn";
  return `“${plain.length > 60 ? `${plain.slice(0, 59).trimEnd()}…` : plain}”`;
}
