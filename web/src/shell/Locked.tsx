import { Command } from "../parts/Command.tsx";
import { Mark } from "./Mark.tsx";

/** Shown once the server does not know this browser; it asks for nothing and tries nothing again. */
export function Locked() {
  return (
    <main className="locked">
      <title>Locked · Turntree</title>
      <Mark />
      <h1>This page needs a fresh link</h1>
      <p>
        Turntree opens only for the person who started it. Run this in a terminal; it prints a link and opens
        it in your browser.
      </p>
      <Command line="turntree ui" />
    </main>
  );
}
