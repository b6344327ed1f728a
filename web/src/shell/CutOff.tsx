import { useEffect, useState } from "react";
import { IS_SHARED } from "../api/place.ts";
import { useIsCutOff } from "../api/stream.ts";
import { Command } from "../parts/Command.tsx";

/** A server that is started again is back within this time: nothing needs to be said. */
const PATIENCE_MS = 3_000;

/** Says that the server was stopped while the page is open: what is read may be old, and nothing can be done. */
export function CutOff() {
  const isCutOff = useIsCutOff();
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    setLong(false);
    if (!isCutOff) return;
    const timer = setTimeout(() => setLong(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isCutOff]);
  if (!isCutOff || !isLong) return null;
  return (
    <div className="cut-off" role="status">
      <p>
        <b>Turntree is not answering.</b> What you see may be old. This page goes on by itself once it runs
        again{IS_SHARED ? "." : ":"}
      </p>
      {IS_SHARED ? null : <Command line="turntree ui" />}
    </div>
  );
}
