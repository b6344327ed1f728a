import { useQuery } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useState } from "react";
import { readText } from "../api/client.ts";
import { Button } from "../parts/Button.tsx";
import { Failure } from "../parts/States.tsx";
import type { PartPlace } from "./flow.ts";
import { PlainText } from "./markdown/Markdown.tsx";
import { visible } from "./text.ts";

/** The turn around a part: what is cut is asked for by it. Empty while the turn is being written. */
export const TurnOfPart = createContext<string>("");

interface Props {
  at: PartPlace;
  noun?: string;
  /** What is known without asking. */
  beginning?: ReactNode;
  /** The whole, in place of its beginning; without it, the whole stands in a box of its own. */
  show?: (text: string) => ReactNode;
}

/** The beginning of what was cut and a button; the whole text once it is asked for. */
export function Whole(props: Props) {
  const turn = useContext(TurnOfPart);
  const [isAsked, setAsked] = useState(false);
  const { message, part } = props.at;
  const text = useQuery({
    queryKey: ["part", turn, message, part],
    queryFn: ({ signal }) =>
      readText("/turns/{revision}/text/{message}/{part}", { revision: turn, message, part }, signal),
    enabled: isAsked,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!turn)
    return (
      <>
        {props.beginning}
        <p className="cut">This is only the beginning. The rest can be read once the turn is sealed.</p>
      </>
    );
  if (text.data !== undefined && props.show) return props.show(text.data);
  if (text.isError)
    return (
      <>
        {props.beginning}
        <Failure error={text.error} retry={() => void text.refetch()} compact />
      </>
    );
  if (text.data !== undefined)
    return (
      <div className="whole" role="group" aria-label={`The whole ${props.noun ?? "text"}`} tabIndex={0}>
        <PlainText text={visible(text.data)} />
      </div>
    );
  return (
    <>
      {props.beginning}
      <p className="cut">
        <span>This is only the beginning.</span>
        <Button kind="quiet" disabled={isAsked} onClick={() => setAsked(true)}>
          {isAsked ? "Reading …" : `Show the whole ${props.noun ?? "text"}`}
        </Button>
      </p>
    </>
  );
}
