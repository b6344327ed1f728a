import { Check, Copy } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Button } from "../parts/Button.tsx";

/** A secret that is shown this once, with a button that copies it. */
export function Once(props: { title: string; text: string; children: ReactNode; close: () => void }) {
  const [isCopied, setCopied] = useState(false);
  const box = useRef<HTMLElement>(null);
  useEffect(() => box.current?.querySelector("button")?.focus(), []);
  const copy = async () => {
    // Not every browser lets a page copy; the text can be selected.
    const isDone = await navigator.clipboard.writeText(props.text).then(
      () => true,
      () => false,
    );
    setCopied(isDone);
  };
  return (
    <section className="once" aria-label={props.title} ref={box}>
      <h2>{props.title}</h2>
      <code>{props.text}</code>
      <div className="act-buttons">
        <Button
          kind="primary"
          icon={isCopied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
          onClick={() => void copy()}
        >
          {isCopied ? "Copied" : "Copy"}
        </Button>
        <Button onClick={props.close}>I have it</Button>
      </div>
      <p className="visually-hidden" role="status">
        {isCopied ? "Copied" : ""}
      </p>
      {props.children}
    </section>
  );
}
