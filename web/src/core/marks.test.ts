import fc from "fast-check";
import { expect, test } from "vitest";
import { marksOf, stretches } from "./marks.ts";

test("stretches of any marks make the whole text again", () => {
  fc.assert(
    fc.property(fc.string(), fc.array(fc.tuple(fc.nat(30), fc.nat(30))), (text, marks) => {
      const parts = stretches(text, marks);
      expect(parts.map((part) => part.text).join("")).toBe(text);
      expect(parts.every((part) => part.text !== "" && text.startsWith(part.text, part.start))).toBe(true);
    }),
  );
});
test("marks that overlap are one", () => {
  expect(
    stretches("mail template", [
      [0, 4],
      [2, 7],
    ]).map((part) => [part.text, part.isMarked]),
  ).toEqual([
    ["mail", true],
    [" te", true],
    ["mplate", false],
  ]);
});
test("words are found in any case of letters", () => {
  expect(marksOf("The Mailer sends mails", "mail")).toEqual([
    [4, 8],
    [17, 21],
  ]);
});
