/** How figures, times and names read. Pure: the moment "now" is an argument, so that tests can stop the clock. */

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en");
const dayOfYear = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });
const dayAndYear = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", year: "numeric" });
const utcDay = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", timeZone: "UTC" });
const utcDayAndYear = new Intl.DateTimeFormat("en", {
  month: "short",
  day: "numeric",
  year: "numeric",
  timeZone: "UTC",
});
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat("en", { dateStyle: "full", timeStyle: "medium" });

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `20,009` */
export function figure(value: number): string {
  return whole.format(value);
}

/** `4.9K`: for tokens and counts that need no last digit. */
export function short(value: number): string {
  return value < 1000 ? whole.format(value) : compact.format(value);
}

/** `1 turn`, `2 turns`; an irregular plural is given. */
export function count(value: number, noun: string, plural = `${noun}s`): string {
  return `${whole.format(value)} ${value === 1 ? noun : plural}`;
}

/** Dollars with as many digits as mean something; an unknown price says so. */
export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "$0";
  if (value < 0.01) return "< $0.01";
  return `$${value.toLocaleString("en", value < 100 ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : { maximumFractionDigits: 0 })}`;
}

/** `16 min`, `7 h`, `3 d`, and a date after four weeks. */
export function age(at: number, now: number): string {
  const passed = now - at;
  if (passed < MINUTE) return "now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  if (passed < 28 * DAY) return `${Math.floor(passed / DAY)} d`;
  return day(at, now);
}

/** `Nov 16`, with the year where it is another one. */
export function day(at: number, now: number): string {
  const format = new Date(at).getFullYear() === new Date(now).getFullYear() ? dayOfYear : dayAndYear;
  return format.format(at);
}

/** The same for a day that is counted in UTC, as costs are. */
export function dayInUtc(at: number, now: number): string {
  const isThisYear = new Date(at).getUTCFullYear() === new Date(now).getUTCFullYear();
  return (isThisYear ? utcDay : utcDayAndYear).format(at);
}

/** `14:02` */
export function time(at: number): string {
  return clock.format(at);
}

/** `Nov 16, 14:02` */
export function moment(at: number, now: number): string {
  return `${day(at, now)}, ${time(at)}`;
}

/** The whole moment, for a tooltip. */
export function exact(at: number): string {
  return full.format(at);
}

/** `34 s`, `12 min`, `3 h 20 min` */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${Math.round(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.round(ms / MINUTE)} min`;
  const hours = Math.floor(ms / HOUR);
  const minutes = Math.round((ms - hours * HOUR) / MINUTE);
  return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
}

/** `1.2 MB` */
export function bytes(value: number): string {
  if (value < 1024) return count(value, "byte");
  const units = ["KB", "MB", "GB", "TB"];
  let size = value / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** `a, b and c` */
export function joinWords(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${last}` : last;
}

/** What a turn is called: its words may have been erased, or it never had any. */
export function titled(title: string): string {
  return title || "A turn without words";
}

/** The first eight digits of a turn's id or digest, as the command line prints them. */
export function shortId(id: string): string {
  return bareDigest(id).slice(0, 8);
}

/** A digest without the name of its algorithm, as the command line takes it. */
export function bareDigest(digest: string): string {
  return digest.slice(digest.indexOf(":") + 1);
}
