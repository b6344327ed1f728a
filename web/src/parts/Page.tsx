import type { ReactNode } from "react";
import { useEffect } from "react";

/** The frame of a page: its heading, its name in the browser's title, and room that scrolls. */
export function Page(props: {
  title: string;
  /** The heading is there for screen readers only: the page shows its own. */
  quiet?: boolean;
  /** What stands beside the heading: figures, filters. */
  aside?: ReactNode;
  className?: string;
  children: ReactNode;
}) {
  useTitle(props.title);
  return (
    <div className={`page ${props.className ?? ""}`}>
      {props.quiet ? (
        <h1 className="visually-hidden">{props.title}</h1>
      ) : (
        <header className="page-head">
          <h1>{props.title}</h1>
          {props.aside}
        </header>
      )}
      {props.children}
    </div>
  );
}

/** Names the page in the browser's title, its history and for screen readers. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Turntree` : "Turntree";
  }, [title]);
}
