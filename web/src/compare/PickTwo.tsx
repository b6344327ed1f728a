import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";
import { read } from "../api/client.ts";
import { Button } from "../parts/Button.tsx";
import { Failure } from "../parts/States.tsx";
import { visible } from "../thread/text.ts";
import { type Pair, wordOf } from "./pair.ts";

/** Which two to compare, by name, with the sessions of late as suggestions. */
export function PickTwo({ pair }: { pair: Pair }) {
  const navigate = useNavigate();
  const id = useId();
  const [left, setLeft] = useState(pair.left);
  const [right, setRight] = useState(pair.right);
  const sessions = useQuery({
    queryKey: ["sessions", "to compare"],
    queryFn: ({ signal }) => read("/sessions", { limit: 50 }, signal),
  });
  const compare = (event: React.FormEvent) => {
    event.preventDefault();
    if (left.trim() && right.trim())
      void navigate({
        to: "/compare/$pair",
        params: { pair: wordOf({ left: left.trim(), right: right.trim() }) },
      });
  };
  return (
    <div className="page pick-two">
      <h1 className="display">Compare two threads</h1>
      <p className="faint">
        Two branches of one tree are compared from where they part: what they cost, what they said and what
        they did to the files. In a thread, <kbd>c</kbd> marks a turn and a second <kbd>c</kbd> compares.
      </p>
      <form onSubmit={compare}>
        {(
          [
            ["This", left, setLeft],
            ["with this", right, setRight],
          ] as const
        ).map(([name, value, set]) => (
          <label key={name}>
            <span>{name}</span>
            <input
              value={value}
              onChange={(event) => set(event.target.value)}
              list={`${id}-sessions`}
              placeholder="A session's label, or a turn"
              autoComplete="off"
              spellCheck={false}
            />
          </label>
        ))}
        <datalist id={`${id}-sessions`}>
          {sessions.data?.sessions.map((session) => (
            <option key={session.id} value={session.label}>
              {visible(session.title)}
            </option>
          ))}
        </datalist>
        <Button kind="primary" type="submit" disabled={!left.trim() || !right.trim()}>
          Compare
        </Button>
      </form>
      {sessions.isError ? (
        <Failure error={sessions.error} retry={() => void sessions.refetch()} compact />
      ) : null}
    </div>
  );
}
