import { useQuery } from "@tanstack/react-query";
import { Eraser } from "lucide-react";
import { useState } from "react";
import { write } from "../api/client.ts";
import { count } from "../core/format.ts";
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
import { type RevertRow, reasonOf, restOf, rowsOf } from "./revertRows.ts";
import { useAct, useNoField } from "./useAct.ts";
import type { RevertPlan } from "./wire.ts";

type Choice = "keep" | "exact" | "mark";
const STAYS_SHOWN_MAX = 4;
const CHOICES: readonly (readonly [Choice, string, string])[] = [
  ["keep", "Keep what is there", "The lines that are there now stay; everything else goes back."],
  ["exact", "As before the turn", "These lines become as they were before the turn. Undo brings them back."],
  ["mark", "Mark both", "Both versions are written into the file, with markers, for you to decide there."],
];

/** The plan of taking back one turn: what goes back, what came later and stays, and conflicts as a choice. */
export function RevertDialog({ target }: { target: Target }) {
  useNoField();
  const { turn } = target;
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [picked, setPicked] = useState<Choice>("keep");
  const act = useAct("revert");
  const ask = (files: string[] | null, conflicts: Choice | "ask") => ({
    queryKey: ["acts", "revert", turn.id, files, conflicts],
    queryFn: () => write("/acts/revert/plan", { at: turn.id, files, conflicts }),
    ...PLANNED,
  });
  const whole = useQuery(ask(null, "ask"));
  const files = whole.data?.files ?? [];
  const chosen = left.size === 0 ? null : files.filter((path) => !left.has(path));
  const asked = useQuery({
    ...ask(chosen, "ask"),
    enabled: whole.data !== undefined,
    placeholderData: (before: RevertPlan | undefined) => before,
  });
  const isChoice = (asked.data?.conflicts.length ?? 0) > 0;
  const decided = useQuery({
    ...ask(chosen, picked),
    enabled: isChoice && !asked.isPlaceholderData,
    placeholderData: (before: RevertPlan | undefined) => before,
  });
  const latest = isChoice ? decided : asked;
  const plan = latest.data ?? asked.data;
  const isReady = latest.data !== undefined && !latest.isPlaceholderData && !asked.isPlaceholderData;
  const isStuck = plan?.conflicts.some((one) => isChoice && isReady && !one.decided) ?? false;
  const body = useReadyFocus(isReady);
  const toggle = (path: string) =>
    setLeft((before) => {
      const next = new Set(before);
      if (!next.delete(path)) next.add(path);
      return next;
    });
  const revert = () =>
    plan &&
    void act.finish("/acts/revert", {
      at: turn.id,
      files: chosen,
      conflicts: isChoice ? picked : "ask",
      expected_changes: plan.expected_changes,
    });
  const again = () => {
    act.forget();
    void whole.refetch();
    void asked.refetch();
    if (isChoice) void decided.refetch();
  };
  const fails = whole.error ?? asked.error ?? decided.error;
  const changes = plan?.goes_back.length ?? 0;
  return (
    <Frame
      title={`Revert ${inQuotes(turn.title)}`}
      lead="Takes back what this one turn did to files. Everything later stays, and one key brings it back."
      command={plan && !plan.why_nothing ? plan.command : undefined}
      problem={act.problem}
      remedy={act.problem?.status === 409 ? <Button onClick={again}>Look again</Button> : undefined}
      submit={revert}
      verb={changes ? `Take back ${count(changes, "file")}` : "Take back"}
      busy={act.busy}
      disabled={!isReady || isStuck || changes === 0}
    >
      <div ref={body}>
        {plan ? (
          <>
            <p className="act-move">
              <Eraser aria-hidden="true" />
              <span>
                Only <code>{plan.digest}</code> is taken back
                {plan.folder ? <> in {visible(plan.folder)}</> : null}
              </span>
              <small>no session moves</small>
            </p>
            {plan.why_nothing && left.size === 0 ? <p className="act-note">{plan.why_nothing}</p> : null}
            {left.size > 0 && left.size === files.length ? (
              <p className="act-note">No file is chosen.</p>
            ) : null}
            <ul className="act-files" aria-label="Files" aria-busy={latest.isFetching}>
              {rowsOf(plan, files, left)
                .slice(0, SHOWN_MAX)
                .map((row) => (
                  <Row
                    key={row.path}
                    row={row}
                    picked={picked}
                    {...(files.length > 1 && files.includes(row.path)
                      ? { isChosen: !left.has(row.path), toggle: () => toggle(row.path) }
                      : {})}
                  />
                ))}
              {plan.stays.slice(0, STAYS_SHOWN_MAX).map((step) => (
                <StayLine
                  key={`stay ${step.folder} ${step.path}`}
                  path={<code>{visible(step.path)}</code>}
                  why="changed later, stays"
                />
              ))}
            </ul>
            <Notes notes={restOf(plan, Math.min(plan.stays.length, STAYS_SHOWN_MAX))} />
            {isChoice ? (
              <ConflictChoice
                legend={`${count(asked.data?.conflicts.length ?? 0, "file")} changed again since`}
                choices={CHOICES.map(([value, words]) => [value, words] as const)}
                picked={picked}
                pick={setPicked}
                hint={
                  isStuck
                    ? "One of them cannot be decided here: a file is where its folder was. Move that file away, or leave this one out."
                    : isReady && changes === 0
                      ? "Then nothing goes back."
                      : CHOICES.find(([value]) => value === picked)![2]
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

function Row(props: { row: RevertRow; picked: Choice; isChosen?: boolean; toggle?: () => void }) {
  const { row, toggle } = props;
  const path = toggle ? (
    <label className="act-file">
      <input type="checkbox" checked={props.isChosen ?? true} onChange={toggle} />
      <code>{visible(row.path)}</code>
    </label>
  ) : (
    <code>{visible(row.path)}</code>
  );
  switch (row.kind) {
    case "back":
      return <FileLine step={row.step} path={path} note={row.step.merged ? "later lines stay" : undefined} />;
    case "conflict":
      return (
        <ConflictLine
          path={path}
          why={reasonOf(row.conflict)}
          end={props.picked === "keep" ? "stays" : props.picked === "exact" ? "goes back" : "gets markers"}
        />
      );
    case "stays":
      return <StayLine path={path} why={row.why} />;
  }
}
