import { Check, Copy, WrapText } from "lucide-react";
import { memo, useMemo, useState } from "react";
import { piecesOf, visible } from "../text.ts";
import { languageOf } from "./languages.ts";
import { useHighlight } from "./useHighlight.ts";

/** A piece of code with its language, a button that copies it, and colours once they are loaded. */
export const Code = memo(function Code(props: { text: string; lang: string }) {
  const [isWrapped, setWrapped] = useState(false);
  return (
    <figure className="code">
      <figcaption>
        <span>{visible(props.lang).slice(0, 24) || "text"}</span>
        <button
          type="button"
          className="button quiet"
          aria-label="Wrap long lines"
          aria-pressed={isWrapped}
          onClick={() => setWrapped(!isWrapped)}
        >
          <WrapText aria-hidden="true" />
        </button>
        <CopyButton text={props.text} label="Copy this code" />
      </figcaption>
      <CodeText
        text={props.text}
        language={languageOf(props.lang)}
        isWrapped={isWrapped}
        label={`Code, ${props.lang || "text"}`}
      />
    </figure>
  );
});

export function CodeText(props: { text: string; language: string; isWrapped?: boolean; label: string }) {
  const text = useMemo(() => visible(props.text), [props.text]);
  const lines = useHighlight(text, props.language);
  return (
    <pre
      className={props.isWrapped ? "wrapped" : undefined}
      tabIndex={0}
      role="group"
      aria-label={props.label}
    >
      {lines
        ? lines.map((line, number) => (
            <span key={number}>
              {line.map((piece, index) => (
                <span key={index} className={piece.className}>
                  {piece.text}
                </span>
              ))}
              {"\n"}
            </span>
          ))
        : piecesOf(text).map((piece, index) => (
            <span key={index} className="piece">
              {piece}
            </span>
          ))}
    </pre>
  );
}

export function CopyButton(props: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(props.text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button
      type="button"
      className="button quiet"
      aria-label={isCopied ? "Copied" : props.label}
      onClick={copy}
    >
      {isCopied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
    </button>
  );
}
