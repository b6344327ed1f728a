import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { ArrowUp, GitFork, X } from "lucide-react";
import {
  type FormEvent,
  type KeyboardEvent,
  type Ref,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { useWorkspace } from "../../act/useAct.ts";
import { read, write } from "../../api/client.ts";
import { DRAFTS } from "../../api/ownWords.ts";
import { asProblem, OFFLINE, type Problem, stepsFor } from "../../api/problem.ts";
import type { SendPreview } from "../../api/types.ts";
import { count } from "../../core/format.ts";
import { Button } from "../../parts/Button.tsx";
import { Command } from "../../parts/Command.tsx";
import { tail } from "../TurnArticle.tsx";
import { visible } from "../text.ts";
import { sendCommand } from "./command.ts";
import { keepDraft, readDraft } from "./drafts.ts";
import { phaseOf } from "./LiveTurn.tsx";
import type { AnswerState, RunEnd } from "./useAnswer.ts";
import "./composer.css";

/** What the server takes. */
const TEXT_CHARS_MAX = 500_000;
const KEEP_MS = 250;
const LOOK_MS = 5_000;
const HEIGHT_PX_MAX = 260;

export interface Destination {
  /** What the message is sent to: the label of a session, or a turn. */
  to: string;
  label: string | null;
  /** The turn that it follows, as the reader sees it. */
  at: { id: string; digest: string; depth: number } | null;
}

interface Props {
  /** Who writes. */
  person: string;
  destination: Destination;
  /** Another turn that is in view, from which a fork could begin instead. */
  other: { depth: number; choose: () => void } | null;
  /** Set where the reader chose a turn: leads back to the end of the session. */
  back: (() => void) | null;
  answer: AnswerState;
  preview: SendPreview | undefined;
  previewError: unknown;
  model: string;
  setModel: (name: string) => void;
  field: Ref<HTMLTextAreaElement>;
  /** Called before the words are on the page. */
  onSend: () => void;
  leave: () => void;
}

/** Who would answer a message, and where it would go. */
export function usePreview(to: string, model: string, head: string) {
  return useQuery({
    queryKey: ["preview", to, model, head],
    queryFn: ({ signal }) => read("/runs/preview", { to, model: model || null }, signal),
    enabled: to !== "",
    staleTime: 30_000,
    placeholderData: (before) => before,
    // What is missing may be set up meanwhile, in a terminal.
    refetchInterval: ({ state }) =>
      state.data && (state.data.problem || !state.data.is_served) ? LOOK_MS : false,
    retry: false,
  });
}

/** A message to the session or the turn that is read: written, sent, and what waits before it. */
export function Composer(props: Props) {
  const { destination, answer, preview, model } = props;
  const navigate = useNavigate();
  const [place] = useState(() => location.pathname);
  const [store] = useState(() => ({ storage: sessionStorage, name: DRAFTS, person: props.person }));
  const [text, setText] = useState(() => readDraft(store, place));
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [notes, setNotes] = useState<readonly string[]>([]);
  const attempt = useRef({ body: "", key: "" });
  const own = useRef<HTMLTextAreaElement>(null);
  const workspace = useWorkspace();

  useEffect(() => {
    const timer = setTimeout(() => keepDraft(store, place, text), KEEP_MS);
    return () => clearTimeout(timer);
  }, [store, place, text]);
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    const keep = () => keepDraft(store, place, latest.current);
    addEventListener("pagehide", keep);
    return () => removeEventListener("pagehide", keep);
  }, [store, place]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the field is as high as what is in it.
  useLayoutEffect(() => {
    const field = own.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, HEIGHT_PX_MAX)}px`;
  }, [text, preview?.problem]);

  const isBusyThere = answer.run !== null || answer.entry !== null || answer.waiting.length > 0;
  const tooLong = Math.max(0, text.length - TEXT_CHARS_MAX);
  const canSend = text.trim() !== "" && !busy && tooLong === 0 && preview !== undefined && !preview.problem;

  async function send(over: { to?: string; expected?: string | null } = {}): Promise<void> {
    const words = text.trim();
    if (!words || busy) return;
    const to = over.to ?? destination.to;
    // What waits comes first: a message that is sent meanwhile follows it, wherever the head is then.
    const isNext = destination.label !== null && to === destination.to && !isBusyThere;
    const expected = "expected" in over ? over.expected : isNext ? (destination.at?.id ?? null) : null;
    const body = { to, text: words, model: model || null, expected_head: expected ?? null };
    const line = JSON.stringify(body);
    if (attempt.current.body !== line) attempt.current = { body: line, key: crypto.randomUUID() };
    setBusy(true);
    setProblem(null);
    setNotes([]);
    try {
      const made = await write("/runs", body, attempt.current.key);
      attempt.current = { body: "", key: "" };
      setText("");
      keepDraft(store, place, "");
      setNotes(notesOf(made));
      props.onSend();
      if (made.session === destination.label) answer.sent(made.run, words);
      else {
        focusNext = made.session;
        void navigate({ to: "/s/$label", params: { label: made.session } });
      }
    } catch (error) {
      const found = asProblem(error);
      if (found.status !== OFFLINE) attempt.current = { body: "", key: "" };
      setProblem(found);
    } finally {
      setBusy(false);
      own.current?.focus();
    }
  }

  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      // Where fingers type, a line is broken by Enter: there is no Shift.
      if (isTouch() && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (canSend) void send();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      if ((answer.run || answer.entry) && !answer.isStopping) answer.stop();
      else props.leave();
    }
  };
  const restore = (words: string) => {
    setText((before) => (before.trim() ? before : words));
    own.current?.focus();
  };

  return (
    <section className="composer" aria-label="Write to this session">
      <Announcement answer={answer} agent={preview?.agent ?? null} />
      {answer.end ? <EndNote end={answer.end} forget={answer.forget} restore={restore} /> : null}
      {answer.problem ? <Refusal problem={answer.problem} /> : null}
      {answer.waiting.length > 0 ? (
        <ol className="composer-queue" aria-label="Messages that wait, in the order of their answers">
          {answer.waiting.map((one) => (
            <li key={one.run}>
              <span className="clip">{visible(one.text || "A message")}</span>
              <Button
                kind="quiet"
                onClick={() =>
                  void answer.takeBack(one).then((isDone) => {
                    if (isDone && one.text) restore(one.text);
                  })
                }
              >
                Take back
              </Button>
            </li>
          ))}
        </ol>
      ) : null}
      {preview?.problem || props.previewError ? (
        <Cannot preview={preview} error={props.previewError} model={model} setModel={props.setModel} />
      ) : null}
      {preview?.problem ? null : (
        <form
          className="composer-box"
          onSubmit={(event: FormEvent) => {
            event.preventDefault();
            if (canSend) void send();
          }}
        >
          <textarea
            ref={(element) => {
              own.current = element;
              if (typeof props.field === "function") props.field(element);
              else if (props.field) props.field.current = element;
            }}
            rows={1}
            value={text}
            placeholder={placeholderOf(preview, destination)}
            aria-label={placeholderOf(preview, destination)}
            aria-describedby="composer-where"
            aria-keyshortcuts="m"
            onChange={(event) => setText(event.target.value)}
            onKeyDown={onKey}
            dir="auto"
            autoComplete="off"
          />
          <Button
            kind="primary"
            type="submit"
            className="composer-send"
            disabled={!canSend}
            aria-busy={busy}
            icon={<ArrowUp aria-hidden="true" />}
          >
            {busy ? "Sending…" : isBusyThere ? "Queue" : "Send"}
          </Button>
        </form>
      )}
      {preview && !preview.problem ? (
        <div className="composer-foot">
          <p id="composer-where" className="composer-where">
            <Where preview={preview} destination={destination} />
            {props.other ? (
              <button type="button" className="link" onClick={props.other.choose}>
                <GitFork aria-hidden="true" /> Fork at turn {props.other.depth} instead
              </button>
            ) : null}
            {props.back ? (
              <button type="button" className="link" onClick={props.back}>
                Go on at the end instead
              </button>
            ) : null}
          </p>
          <Answers preview={preview} model={model} setModel={props.setModel} />
        </div>
      ) : null}
      {preview && !preview.problem && !preview.is_served ? (
        <div className="composer-note" role="note">
          <span>No worker runs, so a message waits until one does.</span>
          {stepsFor(preview.next).map((step) => (
            <Step key={step} step={step} />
          ))}
        </div>
      ) : null}
      {tooLong > 0 ? (
        <p className="composer-note" role="alert">
          This is {count(tooLong, "character")} too long for one message. Attach it as a file on the command
          line.
        </p>
      ) : null}
      {notes.map((note) => (
        <p key={note} className="composer-note" role="status">
          {visible(note)}
        </p>
      ))}
      {problem ? (
        <Refusal problem={problem}>
          {problem.kind === "head-moved" || problem.kind === "conflict" ? (
            <span className="composer-ways">
              <Button onClick={() => void send({ expected: null })}>Send it to where it is now</Button>
              {destination.at ? (
                <Button onClick={() => void send({ to: destination.at!.id, expected: null })}>
                  Fork where you read
                </Button>
              ) : null}
            </span>
          ) : null}
        </Refusal>
      ) : null}
      {text.trim() && preview && !preview.problem ? (
        <div className="composer-command">
          <Command
            line={sendCommand(
              workspace,
              {
                label: preview.session ?? (destination.at === null ? destination.to : null),
                turn: destination.at?.digest ?? destination.to,
              },
              text.trim(),
              model,
            )}
            label="that sends it"
          />
        </div>
      ) : null}
    </section>
  );
}

/** The page that a fork opened begins with the focus where it was. */
let focusNext: string | null = null;

export function takesFocus(label: string | null): boolean {
  if (label === null || focusNext !== label) return false;
  focusNext = null;
  return true;
}

function Where({ preview, destination }: { preview: SendPreview; destination: Destination }) {
  if (preview.session)
    return (
      <span>
        Continues <b>{visible(tail(preview.session))}</b>
        {destination.at ? ` after turn ${destination.at.depth}` : ""}
      </span>
    );
  if (destination.at)
    return (
      <span className="composer-fork">
        <GitFork aria-hidden="true" /> Begins the fork <b>{visible(preview.begins ?? "")}</b> at turn{" "}
        {destination.at.depth}
      </span>
    );
  return (
    <span>
      Begins the session <b>{visible(preview.begins ?? "")}</b>
    </span>
  );
}

/** Who answers, and the other models that may. */
function Answers(props: { preview: SendPreview; model: string; setModel: (name: string) => void }) {
  const { preview, model, setModel } = props;
  const models = preview.models ?? [];
  const answering = preview.model
    ? preview.agent
      ? `${preview.agent}, ${preview.model.model_id}`
      : `${preview.model.name}, ${preview.model.model_id}`
    : preview.key
      ? `a model set up from ${preview.key}`
      : "";
  const isChoice = models.length > 1 || (models.length === 1 && !answering);
  if (!isChoice && !model)
    return answering ? <p className="composer-model">{visible(answering)} answers</p> : null;
  return (
    <label className="composer-model">
      <span className="visually-hidden">Model that answers</span>
      <select value={model} onChange={(event) => setModel(event.target.value)}>
        <option value="">{model ? "as the session decides" : visible(answering) || "Choose a model"}</option>
        {models.map((one) => (
          <option key={one.name} value={one.name}>
            {visible(`${one.name}, ${one.model_id}`)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Why nothing can answer, and what to do about it. */
function Cannot(props: {
  preview: SendPreview | undefined;
  error: unknown;
  model: string;
  setModel: (name: string) => void;
}) {
  const { preview } = props;
  const problem = preview ? null : asProblem(props.error);
  const said = preview?.problem || problem?.detail || problem?.message || "";
  const steps = stepsFor(preview?.next ?? problem?.next);
  return (
    <div className="composer-cannot" role="note">
      <p>
        <b>Nothing can answer here.</b> {sentence(visible(said))}
      </p>
      {steps.map((step) => (
        <Step key={step} step={step} />
      ))}
      {preview && (preview.models ?? []).length > 0 ? (
        <Answers preview={preview} model={props.model} setModel={props.setModel} />
      ) : null}
    </div>
  );
}

function EndNote(props: { end: RunEnd; forget: () => void; restore: (text: string) => void }) {
  const { end } = props;
  const calls = end.calls > 0 ? `, with ${count(end.calls, "tool call")}` : "";
  const kept = end.isKept
    ? `The session goes on after that turn${calls}.`
    : `The session stays where it was. What was written is kept${calls}.`;
  return (
    <div className={`composer-end ${end.outcome}`} role="alert">
      <div>
        <p>
          <b>{end.outcome === "failed" ? "This message was not answered" : "Stopped"}</b>
          {end.reason ? `: ${visible(end.reason)}. ` : ". "}
          {kept}
        </p>
        {stepsFor(end.next).map((step) => (
          <Step key={step} step={step} />
        ))}
        <span className="composer-ways">
          {end.text ? <Button onClick={() => props.restore(end.text)}>Write it again</Button> : null}
          {end.isKept ? null : (
            <Link className="button quiet" to="/t/$turn" params={{ turn: end.run }}>
              Open that turn
            </Link>
          )}
        </span>
      </div>
      <Button kind="quiet" onClick={props.forget} aria-label="Close this message">
        <X aria-hidden="true" />
      </Button>
    </div>
  );
}

function Refusal(props: { problem: Problem; children?: React.ReactNode }) {
  const { problem } = props;
  return (
    <div className="composer-end failed" role="alert">
      <div>
        <p>{sentence(visible(problem.detail || problem.message))}</p>
        {problem.next.map((step) => (
          <Step key={step} step={step} />
        ))}
        {props.children}
      </div>
    </div>
  );
}

/** A command to copy, or a sentence: over the network a person has no command line on the server. */
function Step({ step }: { step: string }) {
  const isCommand = /^(turntree|TURNTREE_|cd |GET |POST )/.test(step);
  return isCommand ? <Command line={step} /> : <p>{sentence(visible(step))}</p>;
}

/** Says what changes, for those who do not see it; not each word. */
function Announcement({ answer, agent }: { answer: AnswerState; agent: string | null }) {
  const [said, setSaid] = useState("");
  const { run, entry, end } = answer;
  const phase = run || entry ? phaseOf(answer) : "";
  const wasOpen = useRef(false);
  const name = agent ?? "the assistant";
  useEffect(() => {
    if (phase) {
      wasOpen.current = true;
      setSaid(phase === "Waits" ? "Your message waits." : `${name}: ${phase.toLowerCase()}.`);
    } else if (wasOpen.current && !end) {
      wasOpen.current = false;
      setSaid("The answer is complete.");
    }
  }, [phase, end, name]);
  return (
    <p className="visually-hidden" role="status">
      {visible(said)}
    </p>
  );
}

function notesOf(made: {
  redacted: number;
  new_model?: { name: string; model_id: string } | null;
}): string[] {
  const notes: string[] = [];
  if (made.new_model)
    notes.push(`${made.new_model.name} (${made.new_model.model_id}) was set up from your key, and answers.`);
  if (made.redacted > 0)
    notes.push(
      `${count(made.redacted, "secret key")} removed before the message was stored; the model does not get it.`,
    );
  return notes;
}

function placeholderOf(preview: SendPreview | undefined, destination: Destination): string {
  const label = preview?.session ?? preview?.begins ?? destination.label;
  return label ? `Write to ${visible(tail(label))}` : "Write a message";
}

function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(whole) || !whole ? whole : `${whole}.`;
}

function isTouch(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}
