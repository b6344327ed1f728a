import { Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Activity } from "../api/forest.ts";
import { readPlace, rowAt, useRowVersion } from "../api/rows.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { type Forest, type Place, timeOf, titleOfSegment } from "../core/forest.ts";
import { count, figure, moment, shortId, titled } from "../core/format.ts";
import { type Light, litPlaces } from "../core/light.ts";
import { Button } from "../parts/Button.tsx";
import { Dot } from "../parts/Chip.tsx";
import { useNow } from "../parts/useNow.ts";
import { onTheme } from "../shell/theme.ts";
import { type Days, daysOf, drawStrip, stripMs, stripX } from "./drawStrip.ts";
import { Field } from "./field.ts";
import { canvasContext, readInks } from "./inks.ts";
import { lightWords, useLight } from "./lightWords.ts";
import { PictureButton } from "./PictureButton.tsx";
import { pictureWithoutWords, savePicture } from "./picture.ts";
import { useAtWork } from "./useRunning.ts";

const CARD_WIDTH = 330;
const DRAG_MIN = 4;

interface Look {
  fromMs: number;
  toMs: number;
  projects: number;
  isAll: boolean;
}

/** The strip of days, the strands below it, and what tells about them. */
export function CanopyField(props: { forest: Forest; activity: Activity | null; legend: ReactNode }) {
  const { forest, activity } = props;
  const now = useNow();
  const navigate = useNavigate();
  const light = useLight();
  const running = useAtWork(forest);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const field = useRef<Field | null>(null);
  const [chosen, setChosen] = useState<Place | null>(null);
  const [look, setLook] = useState<Look | null>(null);
  const days = useMemo(() => (activity ? daysOf(activity, forest.agents) : null), [activity, forest.agents]);
  const lit = useMemo(() => litPlaces(light, forest.indexOfId), [light, forest]);

  // The field lives as long as the page; what changes is told to it below.
  const firstForest = useRef(forest);
  useLayoutEffect(() => {
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const one = new Field(canvas.current!, firstForest.current, isStill);
    field.current = one;
    let timer = 0;
    const tell = () => {
      timer = 0;
      const { axis } = one.canopy;
      setLook({
        fromMs: axis.toClock(one.view.a),
        toMs: axis.toClock(one.view.b),
        projects: one.scene(0, 0).placement.bands.length,
        isAll: one.view.a <= 0 && one.view.b >= one.end,
      });
    };
    one.onView = () => {
      timer ||= requestAnimationFrame(tell);
    };
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      one.setSize(width, height);
    });
    observer.observe(box.current!);
    const offTheme = onTheme(() => one.setTheme());
    // Words on a canvas are drawn with what is loaded; draw again when the fonts are.
    void document.fonts?.ready.then(() => one.draw());
    performance.mark("canopy-ready");
    return () => {
      one.stop();
      observer.disconnect();
      offTheme();
      cancelAnimationFrame(timer);
    };
  }, []);
  useEffect(() => {
    firstForest.current = forest;
    field.current?.setForest(forest);
    setChosen(null);
  }, [forest]);
  useEffect(() => field.current?.setLit(lit, light.words !== "" && light.hits.length > 0), [lit, light]);
  useEffect(() => field.current?.setRunning(running), [running]);

  const choose = useCallback((place: Place | null) => {
    const before = field.current!.chosen;
    if (before?.segment === place?.segment && before?.depth === place?.depth) return;
    field.current!.choose(place);
    setChosen(place);
  }, []);
  const open = useCallback(
    async (place: Place) => {
      const known = turnId(forest, place) ?? (await readPlace(forest, place.segment, place.depth))?.turn;
      if (known) void navigate({ to: "/t/$turn", params: { turn: known } });
    },
    [forest, navigate],
  );
  usePointer(box, field, choose, open);

  const step = (by: number) => {
    const one = field.current!;
    const heads = one.heads();
    if (heads.length === 0) return;
    const at = heads.findIndex((head) => head.segment === one.chosen?.segment);
    const next = heads[at < 0 ? 0 : Math.max(0, Math.min(heads.length - 1, at + by))]!;
    one.reveal(next);
    choose(next);
  };
  const onKey = (event: React.KeyboardEvent) => {
    const one = field.current!;
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const wide = one.width * 0.15;
    const width = one.view.b - one.view.a;
    const actions = new Map([
      ["ArrowLeft", () => one.pan(-wide, 0)],
      ["ArrowRight", () => one.pan(wide, 0)],
      ["ArrowUp", () => one.pan(0, -60)],
      ["ArrowDown", () => one.pan(0, 60)],
      ["+", () => one.zoom(0.7)],
      ["=", () => one.zoom(0.7)],
      ["-", () => one.zoom(1.4)],
      ["0", () => one.all()],
      ["Home", () => one.look({ a: 0, b: width, y: one.view.y })],
      ["End", () => one.look({ a: one.end - width, b: one.end, y: one.view.y })],
      ["j", () => step(1)],
      ["k", () => step(-1)],
      ["Enter", () => void (one.chosen && open(one.chosen))],
      ["Escape", () => choose(null)],
    ]);
    const action = actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  };
  const range = (name: string, go: () => void, isOn = false) => (
    <Button kind="quiet" onClick={go} aria-pressed={isOn}>
      {name}
    </Button>
  );
  const save = () => void savePicture(pictureWithoutWords(field.current!, days));
  return (
    <>
      <div className="canopy-bar">
        {props.legend}
        <div className="canopy-ranges" role="group" aria-label="How far back">
          {range("All", () => field.current!.all(), look?.isAll)}
          {range("Month", () => field.current!.lastDays(30))}
          {range("Week", () => field.current!.lastDays(7))}
          {range("Day", () => field.current!.lastDays(1))}
          <PictureButton save={save} />
        </div>
      </div>
      <Strip days={days} forest={forest} lit={lit} isLit={light.hits.length > 0} look={look} field={field} />
      <div className="canopy-stage">
        <div
          ref={box}
          className="canopy-field"
          tabIndex={0}
          role="application"
          aria-roledescription="map"
          aria-label={`Your history in time: ${count(forest.turns, "turn")} in ${count(forest.projects.length, "project")}.`}
          aria-describedby="canopy-keys"
          aria-busy={activity === null}
          onKeyDown={onKey}
        >
          <canvas ref={canvas} aria-hidden="true" />
          {chosen ? <Card forest={forest} place={chosen} field={field.current!} now={now} /> : null}
        </div>
        {light.words ? <LitWords light={light} showAll={() => field.current!.showAll(lit)} /> : null}
      </div>
      <footer className="status">
        {look ? (
          <span>
            {moment(look.fromMs, now)} to {moment(look.toMs, now)}
          </span>
        ) : null}
        {look ? <span className="canopy-projects">{count(look.projects, "project")} in view</span> : null}
        <span className="canopy-quiet">nights and idle hours take no room</span>
        <Link to="/graph" className="canopy-text">
          The same turns as a list
        </Link>
        <span className="keys" id="canopy-keys">
          <span>
            <kbd>←</kbd>
            <kbd>→</kbd>move
          </span>
          <span>
            <kbd>+</kbd>
            <kbd>-</kbd>zoom
          </span>
          <span>
            <kbd>j</kbd>
            <kbd>k</kbd>session
          </span>
          <span>
            <kbd>↵</kbd>open
          </span>
        </span>
      </footer>
    </>
  );
}

/** How many turns are lit, and the ways on from there. */
function LitWords({ light, showAll }: { light: Light; showAll: () => void }) {
  const navigate = useNavigate();
  const hits = light.hits.length;
  const clear = () => {
    lightWords("");
    void navigate({ to: "/", search: {}, replace: true });
  };
  return (
    <div className="canopy-lit">
      <span role="status">
        {hits === 0 ? "No turn says " : `${figure(hits)} ${hits === 1 ? "turn says" : "turns say"} `}
        <q>{light.words}</q>
        {light.isComplete ? "" : ", perhaps more"}
      </span>
      {hits ? (
        <>
          <Button kind="quiet" onClick={showAll}>
            Show all
          </Button>
          <Link to="/search" search={{ q: light.words }} className="button quiet">
            Read
          </Link>
        </>
      ) : null}
      <Button kind="quiet" onClick={clear}>
        Put out
      </Button>
    </div>
  );
}

function turnId(forest: Forest, { segment, depth }: Place): string | undefined {
  if (depth === forest.high[segment]) return forest.lastTurn[segment];
  if (depth === forest.low[segment]) return forest.firstTurn[segment];
  return rowAt(forest, segment, depth)?.turn;
}

/** Drag to move, wheel to scroll, pinch or Ctrl and wheel to zoom, click to open. */
function usePointer(
  box: React.RefObject<HTMLDivElement | null>,
  field: React.RefObject<Field | null>,
  choose: (place: Place | null) => void,
  open: (place: Place) => Promise<void>,
): void {
  useEffect(() => {
    const element = box.current!;
    const fingers = new Map<number, { x: number; y: number }>();
    let moved = 0;
    let spread = 0;
    const at = (event: PointerEvent | WheelEvent) => {
      const rect = element.getBoundingClientRect();
      return { x: event.clientX - rect.left, y: event.clientY - rect.top };
    };
    const onDown = (event: PointerEvent) => {
      if (event.button !== 0) return;
      fingers.set(event.pointerId, at(event));
      if (fingers.size === 1) moved = 0;
      if (event.pointerType === "touch") choose(field.current!.hit(at(event).x, at(event).y));
    };
    const onMove = (event: PointerEvent) => {
      const one = field.current!;
      const point = at(event);
      const before = fingers.get(event.pointerId);
      if (!before) {
        const place = one.hit(point.x, point.y);
        choose(place);
        element.style.cursor = place ? "pointer" : "grab";
        return;
      }
      fingers.set(event.pointerId, point);
      if (fingers.size === 2) {
        const [first, second] = [...fingers.values()] as [typeof point, typeof point];
        const next = Math.hypot(first.x - second.x, first.y - second.y);
        if (spread) one.zoom(spread / Math.max(20, next), (first.x + second.x) / 2);
        spread = next;
        moved = DRAG_MIN * 2;
        return;
      }
      moved += Math.abs(point.x - before.x) + Math.abs(point.y - before.y);
      if (moved <= DRAG_MIN) return;
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      choose(null);
      element.style.cursor = "grabbing";
      one.pan(before.x - point.x, before.y - point.y);
    };
    const onUp = (event: PointerEvent) => {
      if (!fingers.delete(event.pointerId)) return;
      spread = 0;
      element.style.cursor = "grab";
      if (event.type === "pointerup" && moved <= DRAG_MIN) {
        const place = field.current!.hit(at(event).x, at(event).y);
        if (place) void open(place);
      }
    };
    const onLeave = () => {
      if (fingers.size === 0 && document.activeElement !== element) choose(null);
    };
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const one = field.current!;
      if (event.ctrlKey || event.metaKey) one.zoom(Math.exp(event.deltaY * 0.0024), at(event).x);
      else if (event.shiftKey) one.pan(event.deltaY, 0);
      else one.pan(event.deltaX, event.deltaY);
    };
    element.addEventListener("pointerdown", onDown);
    element.addEventListener("pointermove", onMove);
    element.addEventListener("pointerup", onUp);
    element.addEventListener("pointercancel", onUp);
    element.addEventListener("pointerleave", onLeave);
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", onDown);
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("pointerup", onUp);
      element.removeEventListener("pointercancel", onUp);
      element.removeEventListener("pointerleave", onLeave);
      element.removeEventListener("wheel", onWheel);
    };
  }, [box, field, choose, open]);
}

/** What the chosen turn is, beside it. */
function Card(props: { forest: Forest; place: Place; field: Field; now: number }) {
  const { forest, place, field, now } = props;
  useRowVersion();
  const row = rowAt(forest, place.segment, place.depth);
  const point = field.point(place);
  const agent = row?.agent ?? forest.agents[forest.agent[place.segment]!];
  const session = forest.sessionsAt.get(place.segment)?.[0];
  const title = row ? titled(row.title) : (titleOfSegment(forest, place.segment) ?? "…");
  const isLow = point.y > field.height - 190;
  const left = Math.max(8, Math.min(point.x + 18, field.width - CARD_WIDTH - 12));
  return (
    <div
      className={`canopy-card tone-${toneOf(agent)}`}
      style={{
        left,
        top: isLow ? undefined : point.y + 18,
        bottom: isLow ? field.height - point.y + 18 : undefined,
      }}
      role="status"
    >
      <h2>{title}</h2>
      <p>
        <Dot />
        {agentName(agent)}
        {row?.model ? <span className="mono">{row.model}</span> : null}
      </p>
      <p>
        <span>{moment(row?.at_ms ?? timeOf(forest, place.segment, place.depth), now)}</span>
        <span>turn {figure(place.depth)} of its thread</span>
        {row && row.outcome !== "completed" ? <span className="bad">{row.outcome}</span> : null}
      </p>
      {session ? (
        <p className="mono clip">
          {session.label}
          {row ? ` · ${shortId(row.digest)}` : ""}
        </p>
      ) : null}
    </div>
  );
}

/** Days as bars; the frame is what the strands show, and can be dragged. */
function Strip(props: {
  days: Days | null;
  forest: Forest;
  lit: readonly Place[];
  isLit: boolean;
  look: Look | null;
  field: React.RefObject<Field | null>;
}) {
  const { days, forest, lit, isLit, look, field } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [inks, setInks] = useState(readInks);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      setSize({ width, height });
    });
    observer.observe(box.current!);
    const offTheme = onTheme(() => setInks(readInks()));
    return () => {
      observer.disconnect();
      offTheme();
    };
  }, []);
  useEffect(() => {
    if (!days || size.width < 2) return;
    const g = canvasContext(canvas.current!, size.width, size.height, devicePixelRatio);
    const tones = forest.agents.map(toneOf);
    const { width, height } = size;
    drawStrip(g, { days, forest, tones, inks, width, height, lit, isLit, words: true });
  }, [days, forest, lit, isLit, size, inks]);
  const window = useMemo(() => {
    if (!days || !look || size.width < 2) return null;
    // Bars are whole days, so the frame is made of whole days.
    const from = Math.max(0, stripX(days, size.width, new Date(look.fromMs).setHours(0, 0, 0, 0)));
    const to = Math.min(size.width, stripX(days, size.width, new Date(look.toMs).setHours(24, 0, 0, 0)));
    const width = Math.max(12, to - from);
    return { left: Math.max(0, Math.min(from, size.width - width)), width };
  }, [days, look, size]);
  const grab = (event: React.PointerEvent<HTMLDivElement>) => {
    if (!days || !field.current) return;
    const element = event.currentTarget;
    element.setPointerCapture(event.pointerId);
    const one = field.current;
    const rect = element.getBoundingClientRect();
    const busyAt = (x: number) => one.canopy.axis.toBusy(stripMs(days, (x - rect.left) / rect.width));
    const start = busyAt(event.clientX);
    const { a, b } = one.view;
    const offset = start >= a && start <= b ? start - a : (b - a) / 2;
    const move = (x: number) => {
      const at = busyAt(x) - offset;
      one.look({ a: at, b: at + (b - a), y: one.view.y });
    };
    move(event.clientX);
    const onMove = (next: PointerEvent) => move(next.clientX);
    const onUp = () => {
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("pointerup", onUp);
      element.removeEventListener("pointercancel", onUp);
    };
    element.addEventListener("pointermove", onMove);
    element.addEventListener("pointerup", onUp);
    element.addEventListener("pointercancel", onUp);
  };
  return (
    <div className="canopy-strip" ref={box} onPointerDown={grab}>
      <canvas ref={canvas} aria-hidden="true" />
      {window ? <div className="canopy-window" style={window} /> : null}
    </div>
  );
}
