import { ChevronRight, ImageOff } from "lucide-react";
import { memo, useContext, useEffect, useMemo, useState } from "react";
import { count } from "../core/format.ts";
import { type FlowItem, flowOf } from "./flow.ts";
import { Folds } from "./folds.ts";
import { Markdown, PlainText } from "./markdown/Markdown.tsx";
import { Steps } from "./Steps.tsx";
import { visible } from "./text.ts";
import { Whole } from "./Whole.tsx";
import type { Message } from "./wire.ts";

/** What was answered: prose, reasoning folded, tool calls by what they are. */
export const Flow = memo(function Flow(props: { messages: readonly Message[] }) {
  const items = useMemo(() => flowOf(props.messages), [props.messages]);
  return (
    <div className="flow">
      {items.map((item) => (
        <Item key={item.key} item={item} />
      ))}
    </div>
  );
});

function Item({ item }: { item: FlowItem }) {
  switch (item.is) {
    case "text":
      return (
        <div>
          <Prose item={item} />
        </div>
      );
    case "reasoning":
      return <Reasoning item={item} />;
    case "calls":
      return <Steps groups={item.groups} />;
    case "image":
      return <Picture item={item} />;
    case "erased":
      return <p className="erased">A message was erased here. The ledger keeps its digest, not its words.</p>;
    case "other":
      return (
        <details className="reasoning">
          <summary>
            <ChevronRight className="chevron" aria-hidden="true" /> A part that only its provider can read
          </summary>
          <PlainText text={visible(item.text)} />
        </details>
      );
  }
}

/** Longer texts are shown as they are: finding the Markdown in them would stop the page for a while. */
const MARKDOWN_CHARS_MAX = 400_000;

function Prose({ item }: { item: FlowItem & { is: "text" | "reasoning" } }) {
  const beginning = <Markdown text={item.text} />;
  if (!item.isCut) return beginning;
  const show = (text: string) =>
    text.length > MARKDOWN_CHARS_MAX ? <PlainText text={visible(text)} /> : <Markdown text={text} />;
  return <Whole at={item.at} beginning={beginning} show={show} />;
}

function Reasoning({ item }: { item: FlowItem & { is: "reasoning" } }) {
  const { reasoning } = useContext(Folds);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (reasoning !== "as it is") setOpen(reasoning === "open");
  }, [reasoning]);
  const words = item.text.split(/\s+/, 2_000).length;
  return (
    <details className="reasoning" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <ChevronRight className="chevron" aria-hidden="true" /> Thought{" "}
        <span className="faint">{words < 2_000 ? count(words, "word") : "at length"}</span>
      </summary>
      {isOpen ? (
        <div>
          <Prose item={item} />
        </div>
      ) : null}
    </details>
  );
}

/** An image that is stored here is shown; one elsewhere is never loaded. */
function Picture({ item }: { item: FlowItem & { is: "image" } }) {
  if (item.url && /^data:image\/(png|jpeg|gif|webp);/.test(item.url))
    return (
      <img
        className="picture"
        src={item.url}
        alt={visible(item.text) || "An image in the conversation"}
        loading="lazy"
      />
    );
  return (
    <p className="note">
      <ImageOff aria-hidden="true" /> An image{item.mediaType ? ` (${visible(item.mediaType)})` : ""}
      {item.text ? `: ${visible(item.text)}` : ""}, not shown here.
    </p>
  );
}
