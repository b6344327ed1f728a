import { age as ageOf, exact, figure, moment, short } from "../core/format.ts";
import { useNow } from "./useNow.ts";

/** When something happened: an age or a moment, with the exact time in its tooltip. */
export function Time(props: { at: number | string; as?: "age" | "moment" }) {
  const now = useNow();
  const at = typeof props.at === "number" ? props.at : Date.parse(props.at);
  return (
    <time dateTime={new Date(at).toISOString()} title={exact(at)}>
      {props.as === "moment" ? moment(at, now) : ageOf(at, now)}
    </time>
  );
}

/** `62.7K tokens`, with every digit in its tooltip. */
export function Tokens(props: { value: number | null | undefined; bare?: boolean }) {
  if (props.value === null || props.value === undefined) return <span className="faint">unknown</span>;
  return (
    <span title={`${figure(props.value)} tokens`}>
      {short(props.value)}
      {props.bare ? "" : " tokens"}
    </span>
  );
}

/** A few large figures in a row, each under its name. */
export function Figures(props: { items: readonly { name: string; value: string; title?: string }[] }) {
  return (
    <dl className="figures">
      {props.items.map((item) => (
        <div key={item.name} title={item.title}>
          <dt>{item.name}</dt>
          <dd>{item.value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Fourteen days as bars; the words around it say the same. */
export function Sparkline(props: { values: readonly number[]; label: string }) {
  const top = Math.max(1, ...props.values);
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${props.values.length * 4} 16`}
      role="img"
      aria-label={props.label}
      preserveAspectRatio="none"
    >
      {props.values.map((value, index) => {
        const height = value === 0 ? 0.75 : Math.max(2, (value / top) * 16);
        return (
          <rect
            key={index}
            x={index * 4}
            y={16 - height}
            width={3}
            height={height}
            data-empty={value === 0}
          />
        );
      })}
    </svg>
  );
}
