import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";
import { useEffect, useState } from "react";
import { read, write } from "../api/client.ts";
import { count, shortId } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { visible } from "../thread/text.ts";
import type { Target } from "./acts.ts";
import { FileLine } from "./FileLine.tsx";
import { Frame, inQuotes } from "./Frame.tsx";
import {
  ConflictChoice,
  ConflictLine,
  NoPlan,
  Notes,
  PLANNED,
  SHOWN_MAX,
  StayLine,
  useReadyFocus,
} from "./Plan.tsx";
import { useAct, useNoField } from "./useAct.ts";
import type { RewindPlan } from "./wire.ts";

type Choice = "ask" | "keep" | "exact";
const CHOICES = [
  ["keep", "Keep mine"],
  ["exact", "All as it was"],
] as const;

/** The plan of a move back: what goes back, what is yours and stays, and conflicts as a choice. */
export function RewindDialog({ target, before }: { target: Target; before: boolean }) {
  useNoField();
  const { turn } = target;
  const [session, setSession] = useState(target.session ?? null);
  const [choice, setChoice] = useState<Choice>("ask");
  const act = useAct("rewind");
  const holders = useQuery({
    queryKey: ["turn", turn.id],
    queryFn: ({ signal }) => read("/turns/{revision}", { revision: turn.id }, signal),
    enabled: !target.session,
  });
  const sessions = target.session ? [target.session] : (holders.data?.sessions ?? []);
  useEffect(() => {
    if (!session && sessions[0]) setSession(sessions[0]);
  }, [session, sessions]);
  const ask = (conflicts: Choice) => ({
    queryKey: ["acts", "rewind", session, turn.id, before, conflicts],
    queryFn: () => write("/acts/rewind/plan", { session: session ?? "", to: turn.id, before, conflicts }),
    enabled: session !== null,
    ...PLANNED,
  });
  const asked = useQuery(ask("ask"));
  const chosen = useQuery({ ...ask(choice), enabled: session !== null && choice !== "ask" });
  const conflicts = asked.data?.conflicts ?? [];
  useEffect(() => {
    // Keeping what is yours is the choice that loses nothing.
    if (choice === "ask" && conflicts.length > 0) setChoice("keep");
  }, [choice, conflicts.length]);
  const plan = choice === "ask" ? asked.data : (chosen.data ?? asked.data);
  const isReady =
    plan !== undefined && (choice === "ask" ? conflicts.length === 0 : chosen.data !== undefined);
  const body = useReadyFocus(isReady);
  const move = (withFiles: boolean) =>
    plan &&
    void act.finish("/acts/rewind", {
      session: plan.session,
      to: turn.id,
      before,
      with_files: withFiles,
      conflicts: withFiles ? choice : "ask",
      expected_head: plan.expected_head,
    });
  const again = () => {
    act.forget();
    void asked.refetch();
    void chosen.refetch();
  };
  const hasFiles = plan ? plan.why_no_files === null : false;
  const isThere = plan ? plan.turns_left === 0 : false;
  const fails = asked.error ?? chosen.error ?? holders.error;
  return (
    <Frame
      title={`Go back to ${inQuotes(turn.title)}`}
      lead="Nothing is deleted. Every turn after it keeps its address, and one key brings you back."
      command={hasFiles ? plan?.command : plan?.command_without_files}
      problem={act.problem}
      remedy={
        act.problem?.status === 409 ? (
          <Button onClick={again}>
            {act.problem.kind === "head-moved" ? "Plan again from where it is now" : "Look again"}
          </Button>
        ) : undefined
      }
      submit={() => move(hasFiles)}
      verb={hasFiles ? "Go back with files" : "Go back"}
      busy={act.busy}
      disabled={!isReady || (isThere && !hasFiles)}
      others={
        plan && hasFiles && !isThere ? (
          <Button onClick={() => move(false)} disabled={act.busy}>
            Only the talk
          </Button>
        ) : null
      }
    >
      <div ref={body}>
        {target.session ? null : (
          <div className="act-body">
            <div className="act-field">
              <label htmlFor="rewind-session">Session that moves</label>
              <select
                id="rewind-session"
                value={session ?? ""}
                onChange={(event) => setSession(event.target.value)}
              >
                {sessions.map((label) => (
                  <option key={label}>{label}</option>
                ))}
              </select>
              {holders.data && sessions.length === 0 ? (
                <p className="act-hint">No session holds this turn. Fork it instead.</p>
              ) : null}
            </div>
          </div>
        )}
        {plan ? (
          <>
            <p className="act-move">
              <ArrowLeft aria-hidden="true" />
              <span>
                <b>{plan.session}</b> {isThere ? "stays at" : "moves to"} <code>{plan.digest}</code>
              </span>
              <small>
                {isThere
                  ? "it is there already"
                  : `${count(plan.turns_left, "turn")} stay${plan.turns_left === 1 ? "s" : ""}, unnamed`}
              </small>
            </p>
            {plan.why_no_files ? <p className="act-note">{plan.why_no_files}</p> : null}
            {hasFiles && plan.goes_back.length + plan.stays.length + conflicts.length === 0 ? (
              <p className="act-note">All files are as they were then.</p>
            ) : null}
            <ul className="act-files" aria-label="Files" aria-busy={chosen.isFetching}>
              {plan.goes_back.slice(0, SHOWN_MAX).map((step) => (
                <FileLine
                  key={`back ${step.folder} ${step.path}`}
                  step={step}
                  path={<code>{visible(step.path)}</code>}
                />
              ))}
              {choice === "exact"
                ? null
                : plan.stays
                    .slice(0, SHOWN_MAX)
                    .map((step) => (
                      <StayLine
                        key={`stay ${step.folder} ${step.path}`}
                        path={<code>{visible(step.path)}</code>}
                        why="yours, stays"
                      />
                    ))}
              {(choice === "exact" ? [] : conflicts.slice(0, SHOWN_MAX)).map((step) => (
                <ConflictLine
                  key={`both ${step.folder} ${step.path}`}
                  path={<code>{visible(step.path)}</code>}
                  why="a turn changed it, and you did too"
                  end="stays"
                />
              ))}
            </ul>
            <Notes notes={restOf(plan)} />
            {conflicts.length > 0 ? (
              <ConflictChoice
                legend={`${count(conflicts.length, "file")} changed by a turn and by you`}
                choices={CHOICES}
                picked={choice}
                pick={setChoice}
                hint={
                  choice === "exact"
                    ? "Every file becomes as it was then, also those that only you changed. Undo brings them back."
                    : "What you have now stays; everything else goes back."
                }
              />
            ) : null}
          </>
        ) : (
          <NoPlan error={fails} />
        )}
      </div>
    </Frame>
  );
}

function restOf(plan: RewindPlan): string[] {
  const cut = [plan.goes_back, plan.stays, plan.conflicts].reduce(
    (sum, steps) => sum + Math.max(0, steps.length - SHOWN_MAX),
    0,
  );
  return [
    ...(cut ? [`${count(cut, "more file")} not listed`] : []),
    ...plan.notes,
    ...(plan.untouched
      ? [`${count(plan.untouched, "file")} in ${plan.folder ?? shortId(plan.session)} already as then`]
      : []),
  ];
}
