/** The keys of a chord, one cap each: `g c`. */
export function Keys(props: { keys: string }) {
  return props.keys.split(" ").map((key, place) => <kbd key={`${key} ${String(place)}`}>{key}</kbd>);
}
