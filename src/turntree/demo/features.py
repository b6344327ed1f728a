"""What the sample projects are about: small pieces of code, each with a mistake and its fix.

Everything here is made up. The code is real: the sample data has files, and the differences that
people see are those between these texts.
"""

from collections.abc import Mapping
from typing import Final

from turntree.core.value import value


@value
class SampleProject:
    """A project with its first files."""

    name: str
    about: str
    check: str
    """The command that runs its tests."""
    files: Mapping[str, str]


@value
class Feature:
    """A piece of work on a project: a test, code, the mistake in it and the fix."""

    project: str
    name: str
    noun: str
    question: str
    finding: str
    path: str
    code: str
    test_path: str
    test: str
    doubt: str
    """What a person asks about after the code is there."""
    wrong: str
    """The lines of the code that are wrong."""
    right: str
    other: str
    """Another way to write the code, which a fork tries."""


def _readme(name: str, about: str) -> str:
    return f"# {name}\n\n{about}\n\nThis is sample data that Turntree made.\n\n## What it does\n\n"


@value
class Companion:
    """What a fix changes besides the wrong lines."""

    feature: str
    old: str
    new: str


COMPANIONS: Final = (
    Companion("slugs", "import re\n", "import re\nimport unicodedata\n"),
    Companion(
        "dates", "\n\n\ndef parse",
        '\n\nDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()\n\n\ndef parse',
    ),
    Companion(
        "tile-cache", "new Map<string, T>();\n",
        "new Map<string, T>();\n\n  constructor(private readonly limit: number) {}\n",
    ),
    Companion("offline", "Promise<T | null> {", "Promise<{ value: T; isOld: boolean } | null> {"),
    Companion(
        "alarm", "type Alarm struct{ Limit float64 }",
        "type Alarm struct {\n\tLimit, Quiet float64\n\ton           bool\n}",
    ),
    Companion("csv", 'import "fmt"', 'import (\n\t"fmt"\n\t"strings"\n\t"time"\n)'),
    Companion("gaps", "package sensors\n", 'package sensors\n\nimport "time"\n'),
)  # fmt: skip


def fixed_code(feature: Feature) -> str:
    """Return the code of a feature without its mistake."""
    code = feature.code.replace(feature.wrong, feature.right)
    for companion in COMPANIONS:
        if companion.feature == feature.name:
            code = code.replace(companion.old, companion.new, 1)
    return code


PROJECTS: Final = (
    SampleProject(
        "shop", "A small web shop.", "pytest -q",
        {
            "README.md": _readme("shop", "A small web shop."),
            "src/app.py": 'from http import HTTPStatus\n\n\ndef index() -> tuple[int, str]:\n'
            '    return HTTPStatus.OK, "welcome to the shop"\n',
            "src/money.py": "def in_cents(price: str) -> int:\n    whole, _, rest = "
            'price.partition(".")\n    return int(whole) * 100 + int(rest.ljust(2, "0")[:2] or 0)\n',
        },
    ),
    SampleProject(
        "notes", "Notes in the terminal.", "pytest -q",
        {
            "README.md": _readme("notes", "Notes in the terminal."),
            "notes/store.py": "from pathlib import Path\n\n\ndef read(folder: Path) -> list[str]:\n"
            '    return [path.read_text() for path in sorted(folder.glob("*.md"))]\n',
            "pyproject.toml": '[project]\nname = "notes"\nversion = "0.1.0"\n',
        },
    ),
    SampleProject(
        "weather-map", "A map of the weather that loads fast.", "npm test",
        {
            "README.md": _readme("weather-map", "A map of the weather that loads fast."),
            "src/map.ts": "export interface Tile {\n  x: number;\n  y: number;\n  zoom: number;\n}\n"
            "\nexport const keyOf = (tile: Tile) => `${tile.zoom}/${tile.x}/${tile.y}`;\n",
            "package.json": '{\n  "name": "weather-map",\n  "private": true\n}\n',
        },
    ),
    SampleProject(
        "pixel-garden", "A garden of pixels that grows while you look.", "node --test",
        {
            "README.md": _readme("pixel-garden", "A garden of pixels that grows."),
            "src/garden.js": "export function makeGarden(width, height) {\n"
            '  return Array.from({ length: height }, () => Array(width).fill("."));\n}\n',
        },
    ),
    SampleProject(
        "sensors", "Temperatures of a house, once a minute.", "go test ./...",
        {
            "README.md": _readme("sensors", "Temperatures of a house, once a minute."),
            "reading.go": 'package sensors\n\nimport "time"\n\n// Reading is one value of one '
            "sensor.\ntype Reading struct {\n\tSensor string\n\tAt     time.Time\n\tC      float64"
            "\n}\n",
            "go.mod": "module example.org/sensors\n\ngo 1.24\n",
        },
    ),
)  # fmt: skip

FEATURES: Final = (
    Feature(
        "shop",
        "discount",
        "discounts",
        "How would a discount code change the total of a cart?",
        "The total is summed in one place, so a discount can be taken off there.",
        "src/discount.py",
        "def discounted(total: int, percent: int) -> int:\n"
        '    """Return a total in cents after a discount."""\n'
        "    return total - total * percent / 100\n",
        "tests/test_discount.py",
        "from src.discount import discounted\n\n\ndef test_discount_is_taken_off():\n"
        "    assert discounted(1000, 10) == 900\n\n\ndef test_total_stays_whole():\n"
        "    assert isinstance(discounted(999, 15), int)\n",
        "Does the total stay a whole number of cents?",
        "    return total - total * percent / 100\n",
        "    if not 0 <= percent <= 100:\n"
        '        raise ValueError(f"not a percentage: {percent}")\n'
        "    return total - round(total * percent / 100)\n",
        "from decimal import ROUND_HALF_UP, Decimal\n\n\n"
        "def discounted(total: int, percent: int) -> int:\n"
        '    """Return a total in cents after a discount."""\n'
        "    off = Decimal(total) * percent / 100\n"
        "    return total - int(off.quantize(Decimal(1), ROUND_HALF_UP))\n",
    ),
    Feature(
        "shop",
        "cart-merge",
        "merging carts",
        "What happens to a guest's cart after login?",
        "It is dropped: login starts a new session and the cart hangs on the old one.",
        "src/cart.py",
        "def merged(mine: dict[str, int], guest: dict[str, int]) -> dict[str, int]:\n"
        '    """Return one cart from two."""\n'
        "    return mine | guest\n",
        "tests/test_cart.py",
        "from src.cart import merged\n\n\ndef test_carts_are_merged():\n"
        '    assert merged({"tea": 1}, {"cup": 2}) == {"tea": 1, "cup": 2}\n\n\n'
        "def test_amounts_are_added():\n"
        '    assert merged({"tea": 1}, {"tea": 2}) == {"tea": 3}\n',
        "And if both carts have the same article?",
        "    return mine | guest\n",
        "    both = dict(mine)\n"
        "    for article, amount in guest.items():\n"
        "        both[article] = both.get(article, 0) + amount\n"
        "    return both\n",
        "from collections import Counter\n\n\n"
        "def merged(mine: dict[str, int], guest: dict[str, int]) -> dict[str, int]:\n"
        '    """Return one cart from two."""\n'
        "    return dict(Counter(mine) + Counter(guest))\n",
    ),
    Feature(
        "shop",
        "rate-limit",
        "the rate limit",
        "Can we slow down guessing of passwords?",
        "Nothing counts attempts yet. A window for each address would be enough.",
        "src/limit.py",
        "class RateLimit:\n"
        '    """Allows a number of attempts in a window of seconds."""\n\n'
        "    def __init__(self, attempts: int, window_s: float) -> None:\n"
        "        self.attempts, self.window_s = attempts, window_s\n"
        "        self.seen: dict[str, list[float]] = {}\n\n"
        "    def allows(self, address: str, now: float) -> bool:\n"
        "        times = self.seen.setdefault(address, [])\n"
        "        times.append(now)\n"
        "        return len(times) <= self.attempts\n",
        "tests/test_limit.py",
        "from src.limit import RateLimit\n\n\ndef test_third_attempt_is_refused():\n"
        "    limit = RateLimit(2, 60)\n"
        '    assert [limit.allows("a", t) for t in (0, 1, 2)] == [True, True, False]\n\n\n'
        "def test_old_attempts_are_forgotten():\n"
        "    limit = RateLimit(1, 60)\n"
        '    assert limit.allows("a", 0) and limit.allows("a", 61)\n',
        "Is an address blocked forever now?",
        "        times = self.seen.setdefault(address, [])\n"
        "        times.append(now)\n"
        "        return len(times) <= self.attempts\n",
        "        recent = [t for t in self.seen.get(address, []) if now - t < self.window_s]\n"
        "        self.seen[address] = [*recent, now]\n"
        "        return len(recent) < self.attempts\n",
        "from collections import deque\n\n\nclass RateLimit:\n"
        '    """Allows a number of attempts in a window of seconds."""\n\n'
        "    def __init__(self, attempts: int, window_s: float) -> None:\n"
        "        self.attempts, self.window_s = attempts, window_s\n"
        "        self.seen: dict[str, deque[float]] = {}\n\n"
        "    def allows(self, address: str, now: float) -> bool:\n"
        "        times = self.seen.setdefault(address, deque(maxlen=self.attempts))\n"
        "        is_free = len(times) < self.attempts or now - times[0] >= self.window_s\n"
        "        times.append(now)\n"
        "        return is_free\n",
    ),
    Feature(
        "shop",
        "slugs",
        "addresses of articles",
        "Why do two articles share one address?",
        "The slug keeps letters only, so 'Tea 1' and 'Tea 2' are both 'tea'.",
        "src/slug.py",
        "import re\n\n\ndef slug(title: str) -> str:\n"
        '    """Return the part of an address that names an article."""\n'
        '    return re.sub(r"[^a-z]+", "-", title.lower())\n',
        "tests/test_slug.py",
        "from src.slug import slug\n\n\ndef test_numbers_stay():\n"
        '    assert slug("Tea 1") != slug("Tea 2")\n\n\ndef test_no_dash_at_the_ends():\n'
        '    assert slug(" Tea! ") == "tea"\n',
        "What does it do with umlauts?",
        '    return re.sub(r"[^a-z]+", "-", title.lower())\n',
        '    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()\n'
        '    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")\n',
        "import re\n\n\ndef slug(title: str) -> str:\n"
        '    """Return the part of an address that names an article."""\n'
        '    words = re.findall(r"[^\\W_]+", title.lower())\n'
        '    return "-".join(words)\n',
    ),
    Feature(
        "shop",
        "invoice",
        "invoices",
        "Where is the number of an invoice made?",
        "It counts rows, so two orders at the same time get the same number.",
        "src/invoice.py",
        "def next_number(numbers: list[str], year: int) -> str:\n"
        '    """Return the number of the next invoice."""\n'
        '    return f"{year}-{len(numbers) + 1}"\n',
        "tests/test_invoice.py",
        "from src.invoice import next_number\n\n\ndef test_numbers_start_again_each_year():\n"
        '    assert next_number(["2025-7", "2026-1"], 2026) == "2026-0002"\n',
        "Do the numbers start again each year?",
        '    return f"{year}-{len(numbers) + 1}"\n',
        '    used = [int(one.split("-")[1]) for one in numbers if one.startswith(f"{year}-")]\n'
        '    return f"{year}-{max(used, default=0) + 1:04}"\n',
        "def next_number(numbers: list[str], year: int) -> str:\n"
        '    """Return the number of the next invoice."""\n'
        '    count = sum(one.startswith(f"{year}-") for one in numbers)\n'
        '    return f"{year}-{count + 1:04}"\n',
    ),
    Feature(
        "notes",
        "search",
        "search",
        "How are notes found today?",
        "Only by their file name. Their text is never read.",
        "notes/search.py",
        "def search(notes: list[str], words: str) -> list[str]:\n"
        '    """Return the notes that contain all words."""\n'
        "    return [note for note in notes if words in note]\n",
        "tests/test_search.py",
        "from notes.search import search\n\n\ndef test_words_match_in_any_order():\n"
        '    assert search(["buy green tea"], "tea buy") == ["buy green tea"]\n\n\n'
        'def test_case_does_not_matter():\n    assert search(["Tea"], "tea") == ["Tea"]\n',
        "Does the order of the words matter?",
        "    return [note for note in notes if words in note]\n",
        "    wanted = words.lower().split()\n"
        "    return [note for note in notes if all(word in note.lower() for word in wanted)]\n",
        "import re\n\n\ndef search(notes: list[str], words: str) -> list[str]:\n"
        '    """Return the notes that contain all words."""\n'
        "    patterns = [re.compile(re.escape(word), re.I) for word in words.split()]\n"
        "    return [note for note in notes if all(p.search(note) for p in patterns)]\n",
    ),
    Feature(
        "notes",
        "tags",
        "tags",
        "Could a note have tags without a database?",
        "Yes: words that begin with # in its text are enough.",
        "notes/tags.py",
        'import re\n\n\ndef tags(note: str) -> list[str]:\n    """Return the tags of a note."""\n'
        '    return re.findall(r"#(\\w+)", note)\n',
        "tests/test_tags.py",
        "from notes.tags import tags\n\n\ndef test_tags_are_found_once():\n"
        '    assert tags("#tea and #tea") == ["tea"]\n\n\ndef test_headings_are_not_tags():\n'
        '    assert tags("# Tea") == []\n\n\ndef test_colours_are_not_tags():\n'
        '    assert tags("colour:#ffaa00") == []\n',
        "What about #ffaa00 in a style?",
        '    return re.findall(r"#(\\w+)", note)\n',
        '    found = re.findall(r"(?<![\\w:])#([a-z]\\w*)", note.lower())\n'
        "    return list(dict.fromkeys(found))\n",
        'def tags(note: str) -> list[str]:\n    """Return the tags of a note."""\n'
        '    words = [word for word in note.split() if word.startswith("#") and len(word) > 1]\n'
        '    return sorted({word.strip("#.,").lower() for word in words})\n',
    ),
    Feature(
        "notes",
        "dates",
        "dates",
        "Can I write 'tomorrow' in a reminder?",
        "Not yet. The parser takes ISO dates and fails with a traceback otherwise.",
        "notes/dates.py",
        "from datetime import date, timedelta\n\n\ndef parse(text: str, today: date) -> date:\n"
        '    """Return the day that a text names."""\n'
        '    if text == "tomorrow":\n        return today + timedelta(1)\n'
        "    return date.fromisoformat(text)\n",
        "tests/test_dates.py",
        "from datetime import date\n\nfrom notes.dates import parse\n\nTODAY = date(2026, 2, 27)\n\n\n"
        'def test_days_have_names():\n    assert parse("tomorrow", TODAY) == date(2026, 2, 28)\n'
        '    assert parse("friday", TODAY) == date(2026, 3, 6)\n',
        "And 'friday'?",
        '    if text == "tomorrow":\n        return today + timedelta(1)\n'
        "    return date.fromisoformat(text)\n",
        "    word = text.strip().lower()\n"
        '    if word == "tomorrow":\n        return today + timedelta(1)\n'
        "    if word in DAYS:\n"
        "        ahead = (DAYS.index(word) - today.weekday() - 1) % 7 + 1\n"
        "        return today + timedelta(ahead)\n"
        "    return date.fromisoformat(word)\n",
        "from datetime import date, timedelta\n\n\ndef parse(text: str, today: date) -> date:\n"
        '    """Return the day that a text names."""\n'
        '    days = {(today + timedelta(n)).strftime("%A").lower(): n for n in range(1, 8)}\n'
        '    days["tomorrow"] = 1\n'
        "    if text in days:\n        return today + timedelta(days[text])\n"
        "    return date.fromisoformat(text)\n",
    ),
    Feature(
        "notes",
        "export",
        "the export",
        "How do I get my notes out again?",
        "There is no command for it. The files are Markdown, so one file can hold them all.",
        "notes/export.py",
        'def export(notes: dict[str, str]) -> str:\n    """Return all notes as one document."""\n'
        '    return "\\n".join(f"# {title}\\n{text}" for title, text in notes.items())\n',
        "tests/test_export.py",
        "from notes.export import export\n\n\ndef test_headings_inside_go_one_level_down():\n"
        '    assert export({"A": "# B"}) == "# A\\n\\n## B\\n"\n',
        "What if a note has headings of its own?",
        '    return "\\n".join(f"# {title}\\n{text}" for title, text in notes.items())\n',
        "    pieces = []\n"
        "    for title, text in notes.items():\n"
        '        lines = [f"#{line}" if line.startswith("#") else line for line in text.splitlines()]\n'
        '        pieces.append("\\n".join((f"# {title}", "", *lines)) + "\\n")\n'
        '    return "\\n".join(pieces)\n',
        'def export(notes: dict[str, str]) -> str:\n    """Return all notes as one document."""\n'
        '    line = "-" * 72\n'
        '    return f"\\n{line}\\n".join(f"{title}\\n\\n{text}" for title, text in notes.items())\n',
    ),
    Feature(
        "weather-map",
        "tile-cache",
        "the tile cache",
        "Why does the map load tiles twice?",
        "Each layer keeps tiles for itself. A shared cache would halve the requests.",
        "src/cache.ts",
        "export class TileCache<T> {\n  private readonly tiles = new Map<string, T>();\n\n"
        "  get(key: string, load: () => T): T {\n"
        "    const known = this.tiles.get(key);\n"
        "    if (known) return known;\n"
        "    const tile = load();\n    this.tiles.set(key, tile);\n    return tile;\n  }\n}\n",
        "test/cache.test.ts",
        'import { expect, test } from "vitest";\nimport { TileCache } from "../src/cache";\n\n'
        'test("forgets the oldest tile", () => {\n  const cache = new TileCache<number>(2);\n'
        '  for (const key of ["a", "b", "c"]) cache.get(key, () => 1);\n'
        '  expect(cache.get("a", () => 2)).toBe(2);\n});\n',
        "Does the cache ever forget a tile?",
        "    const known = this.tiles.get(key);\n"
        "    if (known) return known;\n"
        "    const tile = load();\n    this.tiles.set(key, tile);\n    return tile;\n",
        "    const tile = this.tiles.has(key) ? (this.tiles.get(key) as T) : load();\n"
        "    this.tiles.delete(key);\n"
        "    this.tiles.set(key, tile);\n"
        "    const [oldest] = this.tiles.keys();\n"
        "    if (this.tiles.size > this.limit && oldest) this.tiles.delete(oldest);\n"
        "    return tile;\n",
        "export class TileCache<T extends object> {\n"
        "  private readonly tiles = new Map<string, WeakRef<T>>();\n\n"
        "  get(key: string, load: () => T): T {\n"
        "    const known = this.tiles.get(key)?.deref();\n"
        "    if (known) return known;\n"
        "    const tile = load();\n    this.tiles.set(key, new WeakRef(tile));\n"
        "    return tile;\n  }\n}\n",
    ),
    Feature(
        "weather-map",
        "colour-scale",
        "the colour scale",
        "Which colours do temperatures get?",
        "A rainbow, which is hard to read for people with red-green blindness.",
        "src/scale.ts",
        "const STOPS = [[-20, 220], [10, 120], [40, 0]] as const;\n\n"
        "export function hueOf(celsius: number): number {\n"
        "  const [cold, , warm] = STOPS;\n"
        "  const share = (celsius - cold[0]) / (warm[0] - cold[0]);\n"
        "  return cold[1] + share * (warm[1] - cold[1]);\n}\n",
        "test/scale.test.ts",
        'import { expect, test } from "vitest";\nimport { hueOf } from "../src/scale";\n\n'
        'test("stays on the scale", () => {\n  expect(hueOf(-60)).toBe(220);\n'
        "  expect(hueOf(99)).toBe(0);\n});\n",
        "What colour is minus sixty?",
        "  const share = (celsius - cold[0]) / (warm[0] - cold[0]);\n",
        "  const bounded = Math.min(Math.max(celsius, cold[0]), warm[0]);\n"
        "  const share = (bounded - cold[0]) / (warm[0] - cold[0]);\n",
        'const NAMES = ["#2b5c8a", "#7fa6c9", "#f2ead3", "#d98b5f", "#9c3b26"] as const;\n\n'
        "export function colourOf(celsius: number): string {\n"
        "  const step = Math.floor((celsius + 20) / 12);\n"
        "  return NAMES[Math.min(Math.max(step, 0), NAMES.length - 1)] ?? NAMES[0];\n}\n",
    ),
    Feature(
        "weather-map",
        "wind-arrows",
        "the wind arrows",
        "Why do the arrows point the wrong way?",
        "The service reports where the wind comes from, and we draw where it goes.",
        "src/wind.ts",
        "export function arrowAngle(from: number): number {\n  return from;\n}\n",
        "test/wind.test.ts",
        'import { expect, test } from "vitest";\nimport { arrowAngle } from "../src/wind";\n\n'
        'test("a north wind points south", () => expect(arrowAngle(0)).toBe(180));\n'
        'test("angles stay below 360", () => expect(arrowAngle(270)).toBe(90));\n',
        "Which way does a north wind point?",
        "  return from;\n",
        "  return (from + 180) % 360;\n",
        "export function arrowAngle(from: number): number {\n"
        "  const radians = (from * Math.PI) / 180 + Math.PI;\n"
        "  return ((radians * 180) / Math.PI) % 360;\n}\n",
    ),
    Feature(
        "weather-map",
        "offline",
        "working offline",
        "What does the map show in a tunnel?",
        "A white page: every request fails and nothing catches it.",
        "src/offline.ts",
        "export async function loaded<T>(load: () => Promise<T>, last: T | null): Promise<T | null> {\n"
        "  try {\n    return await load();\n  } catch {\n    return last;\n  }\n}\n",
        "test/offline.test.ts",
        'import { expect, test } from "vitest";\nimport { loaded } from "../src/offline";\n\n'
        'test("shows the last weather and says so", async () => {\n'
        "  const answer = await loaded(() => Promise.reject(new Error()), 7);\n"
        "  expect(answer).toEqual({ value: 7, isOld: true });\n});\n",
        "Does a person see that it is old?",
        "  try {\n    return await load();\n  } catch {\n    return last;\n  }\n",
        "  try {\n    return { value: await load(), isOld: false };\n"
        "  } catch {\n    return last === null ? null : { value: last, isOld: true };\n  }\n",
        "export const online = () => navigator.onLine;\n\n"
        "export async function loaded<T>(load: () => Promise<T>, last: T | null): Promise<T | null> {\n"
        "  return online() ? load() : last;\n}\n",
    ),
    Feature(
        "weather-map",
        "units",
        "units",
        "Can people in the US read this map?",
        "Only in Celsius. The numbers are formatted in four places.",
        "src/units.ts",
        'export type Unit = "C" | "F";\n\n'
        "export function shown(celsius: number, unit: Unit): string {\n"
        '  const value = unit === "C" ? celsius : celsius * 1.8 + 32;\n'
        "  return `${value}°${unit}`;\n}\n",
        "test/units.test.ts",
        'import { expect, test } from "vitest";\nimport { shown } from "../src/units";\n\n'
        'test("rounds", () => expect(shown(20.26, "C")).toBe("20°C"));\n'
        'test("has no negative zero", () => expect(shown(-0.2, "C")).toBe("0°C"));\n',
        "Why do I see 68.36800000000001°F?",
        "  return `${value}°${unit}`;\n",
        "  const rounded = Math.round(value);\n"
        "  return `${rounded === 0 ? 0 : rounded}°${unit}`;\n",
        'export type Unit = "celsius" | "fahrenheit";\n\n'
        "export const shown = (value: number, unit: Unit): string =>\n"
        '  new Intl.NumberFormat("en", { style: "unit", unit, maximumFractionDigits: 0 }).format(value);\n',
    ),
    Feature(
        "pixel-garden",
        "growth",
        "growing",
        "How could plants grow without a timer each?",
        "One tick can age the whole grid; a plant is then a function of its age.",
        "src/grow.js",
        'const STAGES = [".", ",", "i", "Y", "*"];\n\nexport function grow(garden) {\n'
        "  return garden.map((row) => row.map((cell) => STAGES[STAGES.indexOf(cell) + 1]));\n}\n",
        "test/grow.test.js",
        'import assert from "node:assert";\nimport test from "node:test";\n'
        'import { grow } from "../src/grow.js";\n\ntest("a flower stays a flower", () => {\n'
        '  assert.deepEqual(grow([["*", "i"]]), [["*", "Y"]]);\n});\n',
        "What does a flower become?",
        "  return garden.map((row) => row.map((cell) => STAGES[STAGES.indexOf(cell) + 1]));\n",
        "  const older = (cell) => STAGES[STAGES.indexOf(cell) + 1] ?? cell;\n"
        "  return garden.map((row) => row.map(older));\n",
        'const NEXT = { ".": ",", ",": "i", i: "Y", Y: "*" };\n\nexport function grow(garden) {\n'
        "  return garden.map((row) => row.map((cell) => NEXT[cell] ?? cell));\n}\n",
    ),
    Feature(
        "pixel-garden",
        "rain",
        "rain",
        "Could it rain on the garden?",
        "Each column can drop one pixel per frame. Nothing else moves.",
        "src/rain.js",
        "export function fall(drops, height) {\n  return drops.map(([x, y]) => [x, y + 1]);\n}\n",
        "test/rain.test.js",
        'import assert from "node:assert";\nimport test from "node:test";\n'
        'import { fall } from "../src/rain.js";\n\ntest("drops end at the ground", () => {\n'
        "  assert.deepEqual(fall([[0, 2], [1, 0]], 3), [[1, 1]]);\n});\n",
        "Where do the drops go at the ground?",
        "  return drops.map(([x, y]) => [x, y + 1]);\n",
        "  return drops.map(([x, y]) => [x, y + 1]).filter(([, y]) => y < height);\n",
        "export function fall(drops, height) {\n"
        "  return drops.map(([x, y]) => [x, (y + 1) % height]);\n}\n",
    ),
    Feature(
        "pixel-garden",
        "saving",
        "saving",
        "Is my garden gone when I close the tab?",
        "Yes, it lives in memory. A string of its rows fits into the address.",
        "src/save.js",
        'export const toText = (garden) => garden.map((row) => row.join("")).join("|");\n'
        'export const fromText = (text) => text.split("|").map((row) => row.split(""));\n',
        "test/save.test.js",
        'import assert from "node:assert";\nimport test from "node:test";\n'
        'import { fromText, toText } from "../src/save.js";\n\ntest("any text is safe", () => {\n'
        '  assert.equal(fromText("<b>|..."), null);\n'
        '  assert.equal(toText(fromText("..|.*")), "..|.*");\n});\n',
        "What if the address holds something else?",
        'export const fromText = (text) => text.split("|").map((row) => row.split(""));\n',
        "export function fromText(text) {\n"
        '  const rows = text.split("|");\n'
        "  const isGarden = rows.every((row) => /^[.,iY*]+$/.test(row) && row.length === rows[0].length);\n"
        '  return isGarden ? rows.map((row) => row.split("")) : null;\n}\n',
        'const KEY = "garden";\n\nexport const save = (garden) =>\n'
        "  localStorage.setItem(KEY, JSON.stringify(garden));\n"
        'export const load = () => JSON.parse(localStorage.getItem(KEY) ?? "null");\n',
    ),
    Feature(
        "pixel-garden",
        "palette",
        "the palette",
        "Can the garden have a night?",
        "All colours are constants in the drawing code. One palette per hour would do.",
        "src/palette.js",
        'export function palette(hour) {\n  return hour > 6 && hour < 20 ? "day" : "night";\n}\n',
        "test/palette.test.js",
        'import assert from "node:assert";\nimport test from "node:test";\n'
        'import { palette } from "../src/palette.js";\n\ntest("there is a dusk", () => {\n'
        '  assert.deepEqual([6, 12, 20, 23].map(palette), ["dawn", "day", "dusk", "night"]);\n});\n',
        "Is there nothing between day and night?",
        '  return hour > 6 && hour < 20 ? "day" : "night";\n',
        '  if (hour >= 5 && hour < 8) return "dawn";\n'
        '  if (hour >= 8 && hour < 19) return "day";\n'
        '  return hour >= 19 && hour < 22 ? "dusk" : "night";\n',
        "export function lightness(hour) {\n"
        "  return Math.round(50 + 40 * Math.cos(((hour - 13) / 12) * Math.PI));\n}\n",
    ),
    Feature(
        "sensors",
        "average",
        "averages",
        "How is the mean of an hour computed?",
        "Over all readings, and a sensor that sends twice counts twice.",
        "average.go",
        "package sensors\n\n// Mean returns the mean of readings.\n"
        "func Mean(readings []Reading) float64 {\n\tsum := 0.0\n"
        "\tfor _, one := range readings {\n\t\tsum += one.C\n\t}\n"
        "\treturn sum / float64(len(readings))\n}\n",
        "average_test.go",
        'package sensors\n\nimport "testing"\n\nfunc TestMeanOfNothing(t *testing.T) {\n'
        '\tif _, ok := Mean(nil); ok {\n\t\tt.Fatal("there is no mean of nothing")\n\t}\n}\n',
        "What is the mean of an hour without readings?",
        "func Mean(readings []Reading) float64 {\n\tsum := 0.0\n"
        "\tfor _, one := range readings {\n\t\tsum += one.C\n\t}\n"
        "\treturn sum / float64(len(readings))\n}\n",
        "func Mean(readings []Reading) (mean float64, ok bool) {\n"
        "\tif len(readings) == 0 {\n\t\treturn 0, false\n\t}\n"
        "\tfor _, one := range readings {\n\t\tmean += one.C / float64(len(readings))\n\t}\n"
        "\treturn mean, true\n}\n",
        'package sensors\n\nimport "slices"\n\n// Median is calmer than a mean.\n'
        "func Median(values []float64) float64 {\n\tsorted := slices.Sorted(slices.Values(values))\n"
        "\treturn sorted[len(sorted)/2]\n}\n",
    ),
    Feature(
        "sensors",
        "alarm",
        "the alarm",
        "Why did the alarm ring forty times last night?",
        "The value moved around the limit, and each crossing rang.",
        "alarm.go",
        "package sensors\n\n// Alarm rings above a limit.\ntype Alarm struct{ Limit float64 }\n\n"
        "// Rings says whether a reading rings the alarm.\n"
        "func (a *Alarm) Rings(c float64) bool {\n\treturn c > a.Limit\n}\n",
        "alarm_test.go",
        'package sensors\n\nimport "testing"\n\nfunc TestAlarmRingsOnce(t *testing.T) {\n'
        "\talarm, rung := Alarm{Limit: 20, Quiet: 19}, 0\n"
        "\tfor _, c := range []float64{21, 20.5, 21, 18, 22} {\n"
        "\t\tif alarm.Rings(c) {\n\t\t\trung++\n\t\t}\n\t}\n"
        '\tif rung != 2 {\n\t\tt.Fatalf("rang %d times", rung)\n\t}\n}\n',
        "Does it still ring at every crossing?",
        "// Rings says whether a reading rings the alarm.\n"
        "func (a *Alarm) Rings(c float64) bool {\n\treturn c > a.Limit\n}\n",
        "// Rings says whether a reading rings the alarm: once, until it was quiet again.\n"
        "func (a *Alarm) Rings(c float64) bool {\n"
        "\twasOn := a.on\n"
        "\ta.on = c > a.Limit || (a.on && c > a.Quiet)\n"
        "\treturn a.on && !wasOn\n}\n",
        'package sensors\n\nimport "time"\n\n// Alarm rings at most once an hour.\n'
        "type Alarm struct {\n\tLimit float64\n\tlast  time.Time\n}\n\n"
        "func (a *Alarm) Rings(r Reading) bool {\n"
        "\tif r.C <= a.Limit || r.At.Sub(a.last) < time.Hour {\n\t\treturn false\n\t}\n"
        "\ta.last = r.At\n\treturn true\n}\n",
    ),
    Feature(
        "sensors",
        "csv",
        "the CSV export",
        "Can the readings go into a spreadsheet?",
        "They are binary. A CSV with one line per reading is a few lines of code.",
        "csv.go",
        'package sensors\n\nimport "fmt"\n\n// Line returns a reading as a line of CSV.\n'
        'func Line(r Reading) string {\n\treturn fmt.Sprintf("%s,%s,%f", r.Sensor, r.At, r.C)\n}\n',
        "csv_test.go",
        'package sensors\n\nimport "testing"\n\nfunc TestCommaInName(t *testing.T) {\n'
        "\tif got := Line(Reading{Sensor: `attic, left`}); got[0] != '\"' {\n"
        "\t\tt.Fatal(got)\n\t}\n}\n",
        "What if a sensor's name has a comma?",
        '\treturn fmt.Sprintf("%s,%s,%f", r.Sensor, r.At, r.C)\n',
        '\tname := `"` + strings.ReplaceAll(r.Sensor, `"`, `""`) + `"`\n'
        '\treturn fmt.Sprintf("%s,%s,%.2f", name, r.At.UTC().Format(time.RFC3339), r.C)\n',
        'package sensors\n\nimport (\n\t"encoding/csv"\n\t"io"\n\t"strconv"\n)\n\n'
        "func Write(to io.Writer, readings []Reading) error {\n\tout := csv.NewWriter(to)\n"
        "\tfor _, r := range readings {\n"
        "\t\t_ = out.Write([]string{r.Sensor, strconv.FormatFloat(r.C, 'f', 2, 64)})\n\t}\n"
        "\tout.Flush()\n\treturn out.Error()\n}\n",
    ),
    Feature(
        "sensors",
        "gaps",
        "gaps",
        "Why is the curve straight from two to four at night?",
        "A sensor was off, and the drawing connects the points it has.",
        "gaps.go",
        "package sensors\n\n// Split cuts readings where a sensor was silent.\n"
        "func Split(readings []Reading) [][]Reading {\n\treturn [][]Reading{readings}\n}\n",
        "gaps_test.go",
        'package sensors\n\nimport (\n\t"testing"\n\t"time"\n)\n\n'
        "func TestSilenceSplits(t *testing.T) {\n\tat := time.Unix(0, 0)\n"
        "\tparts := Split([]Reading{{At: at}, {At: at.Add(time.Hour)}})\n"
        "\tif len(parts) != 2 {\n\t\tt.Fatal(parts)\n\t}\n}\n",
        "Is an hour of silence a gap now?",
        "\treturn [][]Reading{readings}\n",
        "\tvar parts [][]Reading\n"
        "\tfor n, one := range readings {\n"
        "\t\tif n == 0 || one.At.Sub(readings[n-1].At) > 5*time.Minute {\n"
        "\t\t\tparts = append(parts, nil)\n\t\t}\n"
        "\t\tparts[len(parts)-1] = append(parts[len(parts)-1], one)\n\t}\n"
        "\treturn parts\n",
        'package sensors\n\nimport "time"\n\n// IsGap says whether two readings are far apart.\n'
        "func IsGap(a, b Reading) bool {\n\treturn b.At.Sub(a.At) > 5*time.Minute\n}\n",
    ),
)
