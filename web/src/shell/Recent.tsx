/** The sessions that were picked up lately. */
export function Recent() {
  return <div className="recent" />;
}
