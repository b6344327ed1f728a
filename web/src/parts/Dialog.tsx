import { X } from "lucide-react";
import type { ReactNode } from "react";
import { useEffect, useRef } from "react";

/** A modal of the browser itself: focus stays inside, Escape closes, and focus goes back to where it was. */
export function Dialog(props: {
  title: string;
  close: () => void;
  children: ReactNode;
  className?: string;
  /** The title is there for screen readers only. */
  quiet?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const close = useRef(props.close);
  close.current = props.close;
  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    dialog.showModal();
    // React's autoFocus comes before the dialog is open, and showModal takes the first field.
    dialog.querySelector<HTMLElement>("input:not([type=radio], [type=checkbox])")?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      className={`dialog ${props.className ?? ""}`}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        close.current();
      }}
      onClick={(event) => {
        if (event.target === element.current) close.current();
      }}
    >
      {props.quiet ? null : (
        <header className="dialog-head">
          <h2>{props.title}</h2>
          <button type="button" className="button quiet" onClick={props.close} aria-label="Close">
            <X aria-hidden="true" />
          </button>
        </header>
      )}
      {props.children}
    </dialog>
  );
}
