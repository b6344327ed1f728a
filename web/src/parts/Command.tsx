import { Check, Copy } from "lucide-react";
import { Fragment, useState } from "react";

/** A command line that does the same, to copy. */
export function Command(props: { line: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(props.line);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <span className="command">
      <code>
        {props.line.split(" ").map((word, index) => (
          <Fragment key={index}>
            {index > 0 ? " " : null}
            <span>{word}</span>
          </Fragment>
        ))}
      </code>
      <button type="button" onClick={copy} aria-label={`Copy the command ${props.label ?? props.line}`}>
        {copied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
      </button>
      <span className="visually-hidden" role="status">
        {copied ? "Copied" : ""}
      </span>
    </span>
  );
}
