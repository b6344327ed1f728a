import { Link } from "@tanstack/react-router";
import { IS_SHARED } from "../api/place.ts";
import { Command } from "../parts/Command.tsx";

/** How a workspace without turns gets its first ones: from this machine, or over the network by a message. */
export function Begin() {
  if (IS_SHARED) return <Command line="turntree send main 'Hello'" label="that sends a message" />;
  return (
    <Link to="/welcome" className="button primary">
      See what is on this machine
    </Link>
  );
}
