/** The sign of Turntree: a thread and the branch that leaves it. */
export function Mark() {
  return (
    <svg
      className="mark"
      viewBox="0 0 32 32"
      fill="none"
      strokeWidth={3.2}
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M11 28V9" stroke="var(--accent)" />
      <path d="M11 22c0-7 11-4 11-11" stroke="var(--tone-0)" />
      <circle cx="11" cy="6.5" r="3.5" fill="var(--accent)" />
      <circle cx="22" cy="8.5" r="3.5" fill="var(--tone-0)" />
    </svg>
  );
}
