import { expect, test } from "vitest";
import { joined, quoted } from "./shellWords.ts";

test("a plain word stays as it is", () => {
  expect(quoted("claude-code/storefront/cart-total~3")).toBe("claude-code/storefront/cart-total~3");
});
test("spaces and quotes are quoted", () => {
  expect(joined("turntree", "search", "it's here")).toBe("turntree search 'it'\\''s here'");
});
test("an empty word is still a word", () => {
  expect(quoted("")).toBe("''");
});
test("what a terminal would obey is spelt out", () => {
  expect(quoted("a\u001b[2J\u202eb")).toBe("$'a\\x1b[2J\\u202eb'");
});
