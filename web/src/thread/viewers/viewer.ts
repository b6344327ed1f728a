import type { LucideIcon } from "lucide-react";
import type { ComponentType, ReactNode } from "react";
import type { Call } from "./call.ts";

/** How calls of one kind are shown: a line that says what happened, and a body once it is opened. */
export interface Viewer {
  /** Whether this viewer shows the call. The first of the list that does is taken. */
  matches(call: Call): boolean;
  icon: LucideIcon;
  /** What the call did: "Read", "Edited". */
  verb(call: Call): string;
  /** What it did it to: a path, a command, a question. */
  what(call: Call): string;
  /** What came of it, in a few words at the end of the line. */
  result?(call: Call): ReactNode;
  /** Whether it is open from the start. Calls that failed always are. */
  isOpen?(call: Call): boolean;
  /** The line for several calls in a row; without it each call has its own line. */
  together?(calls: readonly Call[]): string;
  Body: ComponentType<{ call: Call }>;
}
