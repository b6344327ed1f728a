import { Check, Copy } from "lucide-react";
import { Fragment, useState } from "react";
import { SERVER } from "../api/place.ts";
import { overServer } from "../core/overServer.ts";

/** A command line that does the same, to copy. */
export function Command(props: { line: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const line = overServer(props.line, SERVER);
  const copy = async () => {
    await navigator.clipboard.writeText(line);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <span className={SERVER ? "command far" : "command"}>
      <code>
        {line.split(" ").map((word, index) => (
          <Fragment key={index}>
            {index > 0 ? " " : null}
            <span>{word}</span>
          </Fragment>
        ))}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy the command ${props.label ?? line}`}>
        {copied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
      </button>
      <span className="visually-hidden" role="status">
        {copied ? "Copied" : ""}
      </span>
    </span>
  );
}
