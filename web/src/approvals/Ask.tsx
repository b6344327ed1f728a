import { Link } from "@tanstack/react-router";
import { Check, Pencil, X } from "lucide-react";
import {
  type FormEvent,
  type ReactNode,
  type Ref,
  useId,
  useImperativeHandle,
  useMemo,
  useRef,
  useState,
} from "react";
import { type Decision, decide, readAgain, readApproval } from "../api/approvals.ts";
import { asProblem } from "../api/problem.ts";
import type { ApprovalDocument } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { CodeText } from "../thread/code/Code.tsx";
import { visible } from "../thread/text.ts";
import { edit as editViewer } from "../thread/viewers/edit.tsx";
import { Values } from "../thread/viewers/other.tsx";
import {
  answerOf,
  argsOfText,
  askerOf,
  callOf,
  commandOf,
  exact,
  type Field,
  fieldsOf,
  headingOf,
  kindOfRequest,
  lineOf,
  otherArgs,
  verdictOf,
} from "./request.ts";
import "../act/act.css";
import "../thread/reading.css";
import "./approvals.css";

/** What the keys of a page do with the request that it shows. */
export interface AskHandle {
  approve: () => void;
  edit: () => void;
  refuse: () => void;
}

type Mode = "read" | "edit" | "refuse";

/** A request to a person with everything that decides it. `told` hears what was done, in words. */
export function Ask(props: {
  request: ApprovalDocument;
  told: (words: string) => void;
  handle?: Ref<AskHandle>;
  /** Whether the keys of the page work here, and are named on the buttons. */
  hasKeys?: boolean;
  /** In a thread, where the agent and the session are known. */
  isInline?: boolean;
}) {
  const { request, told, hasKeys = false } = props;
  const [mode, setMode] = useState<Mode>("read");
  const [trouble, setTrouble] = useState("");
  const [isBusy, setBusy] = useState(false);
  const running = useRef(false);
  const asker = visible(askerOf(request));
  const isQuestion = request.kind === "question";
  const mayEdit = request.may_answer && !isQuestion && request.args !== null;
  // Requests of one moment begin alike.
  const short = request.id.slice(-8);
  const titleId = useId();
  const card = useRef<HTMLDivElement>(null);
  const back = () => {
    setMode("read");
    card.current?.focus();
  };

  const send = async (decision: Decision, words: string) => {
    if (running.current || !request.may_answer) return;
    running.current = true;
    setBusy(true);
    setTrouble("");
    try {
      await decide(request.id, decision);
      told(words);
      await readAgain();
    } catch (error) {
      const now = await readApproval(request.id).catch(() => null);
      if (now && now.state !== "pending") {
        told(`${verdictOf(now.state, now.decided_by)}. You changed nothing`);
        await readAgain();
      } else setTrouble(sentence(asProblem(error).detail || asProblem(error).message));
    } finally {
      running.current = false;
      setBusy(false);
    }
  };
  const line = visible(lineOf(request)).slice(0, 120);
  const approve = () => {
    if (!isQuestion) void send({ verb: "approve" }, `You approved it: ${line}`);
  };
  const startEdit = () => mayEdit && setMode("edit");
  const startRefusal = () => request.may_answer && setMode("refuse");
  useImperativeHandle(props.handle, () => ({ approve, edit: startEdit, refuse: startRefusal }));
  const key = (name: string) => (hasKeys ? { hotkey: name } : {});
  const noun = isQuestion ? "an answer" : "the call";

  return (
    <div
      ref={card}
      role="group"
      className={props.isInline ? "ask-card inline" : "ask-card"}
      aria-labelledby={titleId}
      tabIndex={-1}
    >
      <h2 id={titleId} dir="auto">
        {visible(headingOf(request)).slice(0, 400)}
      </h2>
      <p className="ask-why">
        {isQuestion ? (
          <>
            <b>{asker}</b> called <code>{visible(request.tool)}</code>, which asks before it goes on.
          </>
        ) : request.reason ? (
          <>
            <b>Asked because</b> {visible(request.reason)}
            {request.line === null ? null : (
              <span className="faint"> (line {request.line} of the policy)</span>
            )}
            .{" "}
          </>
        ) : null}
        {isQuestion ? null : (
          <>
            <b>If you say no</b>, {asker} reads your reason and goes on without {noun}.
          </>
        )}
      </p>
      <Asked request={request} />
      {mode === "edit" ? (
        <EditForm
          request={request}
          isBusy={isBusy}
          close={back}
          send={(args) => void send({ verb: "edit", args }, `You approved it with changes: ${line}`)}
        />
      ) : mode === "refuse" ? (
        <RefuseForm
          asker={asker}
          isBusy={isBusy}
          close={back}
          send={(note) => void send({ verb: "reject", note }, `You said no: ${line}`)}
        />
      ) : !request.may_answer ? (
        <p className="ask-others">{whoDecides(request)}</p>
      ) : isQuestion ? (
        <AnswerForm
          request={request}
          isBusy={isBusy}
          send={(answer) => void send({ verb: "answer", answer }, "You answered it")}
        >
          <Button icon={<X aria-hidden="true" />} onClick={startRefusal} {...key("x")}>
            Say no
          </Button>
        </AnswerForm>
      ) : (
        <div className="ask-buttons">
          <Button
            kind="primary"
            icon={<Check aria-hidden="true" />}
            onClick={approve}
            aria-busy={isBusy}
            {...key("a")}
          >
            Approve once
          </Button>
          {mayEdit ? (
            <Button icon={<Pencil aria-hidden="true" />} onClick={startEdit} {...key("e")}>
              Edit
            </Button>
          ) : null}
          <Button icon={<X aria-hidden="true" />} onClick={startRefusal} {...key("x")}>
            Say no
          </Button>
        </div>
      )}
      {trouble ? (
        <p className="act-trouble" role="alert">
          {trouble}
        </p>
      ) : null}
      <p className="ask-about">
        <span>
          Asked <Time at={request.created_at} as="moment" />, waits until{" "}
          <Time at={request.expires_at} as="moment" />
        </span>
        {props.isInline || request.session === null ? null : (
          <Link to="/s/$label" params={{ label: request.label ?? request.session }}>
            Open the session
          </Link>
        )}
        {props.isInline ? null : (
          <Command
            line={isQuestion ? `turntree answer ${short} ANSWER` : `turntree approve ${short}`}
            label="that decides it"
          />
        )}
      </p>
    </div>
  );
}

/** What is asked, by its kind: a command, the lines that change, or the arguments. */
function Asked({ request }: { request: ApprovalDocument }) {
  // The same object for the same request: what is drawn of it is kept.
  const shown = useMemo(() => ({ ...request, args: exact(request.args) }), [request]);
  const call = useMemo(() => callOf(shown), [shown]);
  if (request.kind === "question") return null;
  if (shown.args === null) return <p className="note">The arguments are not kept any more.</p>;
  const kind = kindOfRequest(shown);
  const rest = otherArgs(shown);
  const label = kind === "call" ? `What ${request.tool} is given` : "Its other arguments";
  return (
    <div className="ask-what">
      {kind === "change" ? (
        <>
          <p className="file-head">
            <code>{visible(editViewer.what(call))}</code> {editViewer.result?.(call)}
          </p>
          <editViewer.Body call={call} />
        </>
      ) : kind === "command" ? (
        <CodeText text={commandOf(shown)} language="bash" isWrapped label="The command" />
      ) : null}
      {kind === "call" || Object.keys(rest).length > 0 ? (
        <>
          {kind === "call" ? null : (
            <p className="ask-rest">{rest === shown.args ? "all arguments" : "with these other arguments"}</p>
          )}
          <Values value={rest} label={label} />
        </>
      ) : null}
      {request.folder ? (
        <p className="ask-folder">
          in <code>{visible(request.folder)}</code>
        </p>
      ) : null}
    </div>
  );
}

function EditForm(props: {
  request: ApprovalDocument;
  isBusy: boolean;
  close: () => void;
  send: (args: Record<string, unknown>) => void;
}) {
  const { request } = props;
  const only = kindOfRequest(request) === "command" && typeof request.args?.command === "string";
  const [text, setText] = useState(
    only ? String(request.args?.command) : JSON.stringify(request.args, null, 2),
  );
  const args = only ? { ...request.args, command: text } : argsOfText(text);
  const id = useId();
  return (
    <Form
      close={props.close}
      isBusy={props.isBusy}
      verb="Approve with these changes"
      send={() => (args ? props.send(args) : undefined)}
      isReady={args !== null && text.trim() !== ""}
    >
      <div className="act-field">
        <label htmlFor={id}>{only ? "The command" : "The arguments, as JSON"}</label>
        <textarea
          id={id}
          autoFocus
          rows={Math.min(16, text.split("\n").length + 1)}
          value={text}
          spellCheck={false}
          aria-invalid={args === null}
          aria-describedby={args === null ? `${id}-bad` : undefined}
          onChange={(event) => setText(event.target.value)}
        />
        {args === null ? (
          <p className="act-hint" id={`${id}-bad`}>
            This is not a JSON object yet.
          </p>
        ) : null}
      </div>
    </Form>
  );
}

function RefuseForm(props: {
  asker: string;
  isBusy: boolean;
  close: () => void;
  send: (note: string) => void;
}) {
  const [note, setNote] = useState("");
  const id = useId();
  return (
    <Form
      close={props.close}
      isBusy={props.isBusy}
      verb="Say no"
      send={() => props.send(note.trim())}
      isReady
    >
      <div className="act-field">
        <label htmlFor={id}>Why, if you like: {props.asker} reads it</label>
        <textarea
          id={id}
          autoFocus
          rows={2}
          maxLength={2000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
      </div>
    </Form>
  );
}

function AnswerForm(props: {
  request: ApprovalDocument;
  isBusy: boolean;
  send: (answer: unknown) => void;
  children: ReactNode;
}) {
  const fields = fieldsOf(props.request);
  const [given, setGiven] = useState<Record<string, string | boolean>>({});
  const text = String(given[""] ?? "");
  const answer = fields.length > 0 ? answerOf(fields, given) : text.trim() || null;
  const id = useId();
  const set = (name: string, value: string | boolean) => setGiven({ ...given, [name]: value });
  return (
    <Form
      isBusy={props.isBusy}
      verb="Answer"
      send={() => props.send(answer)}
      isReady={answer !== null}
      other={props.children}
    >
      {fields.map((field) => (
        <FieldOf
          key={field.name}
          id={`${id}-${field.name}`}
          field={field}
          value={given[field.name]}
          set={set}
        />
      ))}
      {fields.length === 0 ? (
        <div className="act-field">
          <label htmlFor={id}>Your answer</label>
          <textarea id={id} rows={2} value={text} onChange={(event) => set("", event.target.value)} />
        </div>
      ) : null}
    </Form>
  );
}

function FieldOf(props: {
  id: string;
  field: Field;
  value: string | boolean | undefined;
  set: (name: string, value: string | boolean) => void;
}) {
  const { field, id, set } = props;
  const value = props.value ?? field.first;
  const title = `${visible(field.title)}${field.isRequired ? "" : " (optional)"}`;
  if (typeof value === "boolean")
    return (
      <label className="act-check">
        <input type="checkbox" checked={value} onChange={(event) => set(field.name, event.target.checked)} />
        <span>
          {visible(field.title)}
          {field.about ? <small>{visible(field.about)}</small> : null}
        </span>
      </label>
    );
  return (
    <div className="act-field">
      <label htmlFor={id}>{title}</label>
      {field.type === "choice" ? (
        <select id={id} value={value} onChange={(event) => set(field.name, event.target.value)}>
          <option value="">Choose</option>
          {field.choices.map((choice) => (
            <option key={choice} value={choice}>
              {visible(choice)}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          inputMode={field.type === "number" ? "decimal" : "text"}
          value={value}
          onChange={(event) => set(field.name, event.target.value)}
        />
      )}
      {field.about ? <p className="act-hint">{visible(field.about)}</p> : null}
    </div>
  );
}

/** Escape gives up; Ctrl or ⌘ with Enter sends. */
function Form(props: {
  verb: string;
  isReady: boolean;
  isBusy: boolean;
  send: () => void;
  close?: () => void;
  other?: ReactNode;
  children: ReactNode;
}) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (props.isReady) props.send();
  };
  return (
    <form
      className="ask-form"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape" && props.close) {
          event.stopPropagation();
          props.close();
        } else if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit(event);
      }}
    >
      {props.children}
      <div className="ask-buttons">
        <Button kind="primary" type="submit" disabled={!props.isReady} aria-busy={props.isBusy}>
          {props.verb}
        </Button>
        {props.other}
        {props.close ? (
          <Button kind="quiet" onClick={props.close}>
            Back
          </Button>
        ) : null}
      </div>
    </form>
  );
}

function whoDecides(request: ApprovalDocument): string {
  const people = request.answerers.map((one) => visible(one.replace(/^human:/, "")));
  return people.length > 0 ? `${people.join(" or ")} decides this.` : "Another person decides this.";
}

function sentence(words: string): string {
  return words ? `${words.charAt(0).toUpperCase()}${words.slice(1).replace(/\.$/, "")}.` : "";
}
