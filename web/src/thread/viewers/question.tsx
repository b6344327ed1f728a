import { MessageCircleQuestion } from "lucide-react";
import { visible } from "../text.ts";
import { argsOf, argument, type Call, kindOf } from "./call.ts";
import { Output } from "./Output.tsx";
import type { Viewer } from "./viewer.ts";

/** A question that the agent put to the person, with its choices and the answer. */
export const question: Viewer = {
  matches: (call) => kindOf(call) === "question",
  icon: MessageCircleQuestion,
  verb: () => "Asked you",
  what: (call) => questionsOf(call)[0]?.text ?? call.about,
  isOpen: () => true,
  Body: QuestionBody,
};

function questionsOf(call: Call): { text: string; options: string[] }[] {
  const { questions } = argsOf(call);
  const list = Array.isArray(questions) ? questions : [argsOf(call)];
  return list.flatMap((one) => {
    if (typeof one !== "object" || one === null) return [];
    const { question: text, prompt, message, options } = one as Record<string, unknown>;
    const words = [text, prompt, message].find((value) => typeof value === "string");
    if (typeof words !== "string") return [];
    const choices = (Array.isArray(options) ? options : []).map((option: unknown) =>
      typeof option === "string" ? option : String((option as { label?: unknown } | null)?.label ?? ""),
    );
    return [{ text: words, options: choices.filter(Boolean) }];
  });
}

function QuestionBody({ call }: { call: Call }) {
  const questions = questionsOf(call);
  return (
    <div className="padded">
      {questions.map((one) => (
        <div key={one.text}>
          <p>{visible(one.text)}</p>
          {one.options.length > 0 ? (
            <ul className="choices">
              {one.options.map((option) => (
                <li key={option}>{visible(option)}</li>
              ))}
            </ul>
          ) : null}
        </div>
      ))}
      {questions.length === 0 ? <p>{visible(argument(call, ["text"]) || call.about)}</p> : null}
      <Output call={call} label="The answer" />
    </div>
  );
}
