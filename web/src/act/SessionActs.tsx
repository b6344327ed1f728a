import { Archive, PenLine } from "lucide-react";
import { Button } from "../parts/Button.tsx";
import { useOffered } from "./offers.ts";
import { useActs } from "./useActs.ts";

/** What can be done with a whole session; for the head of a page that shows one. */
export function SessionActs(props: { session: string; head?: string | null }) {
  const acts = useActs();
  const offers = useOffered();
  if (!offers("rename")) return null;
  return (
    <span className="session-acts">
      <Button
        kind="quiet"
        icon={<PenLine aria-hidden="true" />}
        hotkey="n"
        onClick={() => acts.rename(props)}
      >
        <span>Rename</span>
      </Button>
      <Button
        kind="quiet"
        icon={<Archive aria-hidden="true" />}
        hotkey="x"
        onClick={() => acts.archive(props)}
      >
        <span>Archive</span>
      </Button>
    </span>
  );
}
