import { Link } from "@tanstack/react-router";
import { Chip } from "../../parts/Chip.tsx";
import { Time } from "../../parts/Figures.tsx";
import { Failure, Skeleton } from "../../parts/States.tsx";
import { visible } from "../text.ts";
import type { Turn } from "../wire.ts";
import { useAbout } from "./useAbout.ts";

const STEP_PX = 12;

/** Why the turn is there, and what it was allowed to do. */
export function CausesTab({ turn }: { turn: Turn }) {
  const causes = useAbout("/turns/{revision}/causes", { revision: turn.id });
  const permissions = useAbout("/turns/{revision}/permissions", { revision: turn.id });
  return (
    <>
      <h3>What led to it</h3>
      {causes.isPending ? (
        <Skeleton rows={3} />
      ) : causes.isError ? (
        <Failure error={causes.error} retry={() => void causes.refetch()} compact />
      ) : (
        <ol className="causes">
          <li>
            <p>
              Asked by {visible(causes.data.principal)}
              {turn.model ? `; ${visible(turn.model)} answered` : ""}
            </p>
          </li>
          {causes.data.steps.map((step, index) => (
            <li key={index} style={{ paddingInlineStart: (step.depth - 1) * STEP_PX }}>
              <p>
                {step.turn && step.turn !== turn.id ? (
                  <Link to="/t/$turn" params={{ turn: step.turn }}>
                    {visible(step.text)}
                  </Link>
                ) : step.session ? (
                  <Link to="/s/$label" params={{ label: step.session }}>
                    {visible(step.text)}
                  </Link>
                ) : (
                  visible(step.text)
                )}{" "}
                {step.at ? (
                  <small className="faint">
                    <Time at={step.at} as="moment" />
                  </small>
                ) : null}
              </p>
            </li>
          ))}
        </ol>
      )}
      {causes.data?.is_cut ? <p className="note">There are earlier causes.</p> : null}
      <h3>Permissions</h3>
      {permissions.isPending ? (
        <Skeleton rows={2} />
      ) : permissions.isError ? (
        <Failure error={permissions.error} retry={() => void permissions.refetch()} compact />
      ) : permissions.data.principal === null && permissions.data.records.length === 0 ? (
        <p className="note">None were recorded for this turn. Imported transcripts do not contain them.</p>
      ) : (
        <ul className="permissions">
          <Patterns kind="ok" word="allowed" patterns={permissions.data.allowed} />
          <Patterns kind="bad" word="withheld" patterns={permissions.data.withheld} />
          {permissions.data.records.map((record, index) => (
            <li key={index}>
              <code>{visible(record.action)}</code>
              <Chip kind={record.decision === "denied" ? "bad" : "ok"}>{record.decision}</Chip>
              <small className="faint">
                {visible(record.principal)}
                {record.why ? `: ${visible(record.why)}` : ""}
              </small>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** What the turn could have done: the patterns that its sender, its agent and its message all permit. */
function Patterns(props: { kind: "ok" | "bad"; word: string; patterns: readonly string[] }) {
  if (props.patterns.length === 0) return null;
  return (
    <li>
      <Chip kind={props.kind}>{props.word}</Chip>
      {props.patterns.map((pattern) => (
        <code key={pattern}>{visible(pattern)}</code>
      ))}
    </li>
  );
}
