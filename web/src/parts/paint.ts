/** A token of tokens.css as a canvas understands it. */

let probe: HTMLElement | null = null;

/** The colour that `--name` has now: `paint("--tone-0")`. */
export function paint(name: string): string {
  if (!probe) {
    probe = document.createElement("i");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
