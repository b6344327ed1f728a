import { ListChecks } from "lucide-react";
import { useMemo } from "react";
import { Markdown } from "../markdown/Markdown.tsx";
import { visible } from "../text.ts";
import { argsOf, argument, type Call, kindOf } from "./call.ts";
import { Output } from "./Output.tsx";
import { type Step, stepsOf } from "./outputs.ts";
import type { Viewer } from "./viewer.ts";

/** A list of steps with what is done, or a plan as text. */
export const plan: Viewer = {
  matches: (call) => kindOf(call) === "plan",
  icon: ListChecks,
  verb: () => "Planned",
  what: (call) => {
    const steps = stepsOf(argsOf(call));
    const now = steps.find((step) => step.state === "now") ?? steps.find((step) => step.state === "open");
    return now?.text ?? argument(call, ["subject", "description", "explanation"]) ?? call.about;
  },
  result: (call) => {
    const steps = stepsOf(argsOf(call));
    return steps.length > 0
      ? `${steps.filter((step) => step.state === "done").length} of ${steps.length} done`
      : null;
  },
  Body: PlanBody,
};

const STATE: Record<Step["state"], { sign: string; word: string }> = {
  done: { sign: "✓", word: "done" },
  now: { sign: "▸", word: "in progress" },
  open: { sign: "○", word: "open" },
  dropped: { sign: "×", word: "dropped" },
};

function PlanBody({ call }: { call: Call }) {
  const steps = useMemo(() => stepsOf(argsOf(call)), [call]);
  const text = argument(call, ["plan", "description", "explanation"]);
  if (steps.length === 0 && !text) return <Output call={call} />;
  return (
    <div className="padded">
      {text ? <Markdown text={text} /> : null}
      <ul className="steps-of-plan">
        {steps.map((step, index) => (
          <li key={index} className={step.state}>
            <span aria-hidden="true">{STATE[step.state].sign}</span>
            <span>
              <span className="visually-hidden">{STATE[step.state].word}: </span>
              {visible(step.text)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
