import type { ButtonHTMLAttributes, ReactNode } from "react";

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "plain" | "primary" | "quiet" | "danger";
  icon?: ReactNode;
  /** The key that does the same. */
  hotkey?: string;
}

export function Button({ kind = "plain", icon, hotkey, className = "", children, ...rest }: Props) {
  return (
    <button type="button" className={`button ${kind} ${className}`} aria-keyshortcuts={hotkey} {...rest}>
      {icon}
      {children}
      {hotkey ? <kbd aria-hidden="true">{hotkey}</kbd> : null}
    </button>
  );
}
