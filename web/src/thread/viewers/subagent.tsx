import { Link } from "@tanstack/react-router";
import { ArrowRight, Bot } from "lucide-react";
import { useState } from "react";
import { Markdown } from "../markdown/Markdown.tsx";
import { visible } from "../text.ts";
import { Whole } from "../Whole.tsx";
import { argument, type Call, kindOf } from "./call.ts";
import { Output } from "./Output.tsx";
import type { Viewer } from "./viewer.ts";

/** Work given to another agent: the task, its answer, and the way to its own session. */
export const subagent: Viewer = {
  matches: (call) => kindOf(call) === "subagent",
  icon: Bot,
  verb: () => "Asked a subagent",
  what: (call) =>
    argument(call, ["description", "title", "name", "subagent_type", "prompt", "task", "message"]) ||
    call.about,
  result: (call) => (call.spawned ? "has its own session" : null),
  Body: SubagentBody,
};

const TASK_CHARS = 900;

function SubagentBody({ call }: { call: Call }) {
  const task = argument(call, ["prompt", "task", "message", "instructions", "query"]);
  const [isAll, setAll] = useState(false);
  return (
    <div className="padded subagent">
      {call.spawned ? (
        <p>
          <Link className="button" to="/s/$label" params={{ label: call.spawned }}>
            Open its session <code>{visible(call.spawned)}</code> <ArrowRight aria-hidden="true" />
          </Link>
        </p>
      ) : null}
      {task ? (
        <section>
          <h3>The task</h3>
          <Markdown text={isAll ? task : task.slice(0, TASK_CHARS)} />
          {task.length > TASK_CHARS && !isAll ? (
            <button type="button" className="button quiet" onClick={() => setAll(true)}>
              Show all of it
            </button>
          ) : null}
        </section>
      ) : null}
      <section>
        <h3>Its answer</h3>
        {call.state === "ok" && call.output ? <Markdown text={call.output} /> : <Output call={call} />}
        {call.isCut && call.outputAt && call.state === "ok" ? (
          <Whole at={call.outputAt} noun="answer" />
        ) : null}
      </section>
    </div>
  );
}
