import { expect, test } from "vitest";
import { keepOwn, readOwn } from "./ownWords.ts";
import { recentSearches, rememberSearch } from "./recentSearches.ts";
import { storage } from "./storage.fixture.ts";

const NAME = "words";

test("what a person typed is there for that person", () => {
  const kept = storage();
  keepOwn(kept, NAME, "ana", ["depot"]);
  expect(readOwn(kept, NAME, "ana")).toEqual(["depot"]);
});

test("another person gets none of it, and it is gone", () => {
  const kept = storage();
  keepOwn(kept, NAME, "ana", ["depot"]);
  expect(readOwn(kept, NAME, "mia")).toBeNull();
  expect(kept.getItem(NAME)).toBeNull();
});

test("what was kept before it said whose it is belongs to no one", () => {
  for (const text of ['["depot"]', "{", "7", '{"words":["depot"]}']) {
    const kept = storage();
    kept.setItem(NAME, text);
    expect(readOwn(kept, NAME, "ana")).toBeNull();
  }
});

test("searches are listed newest first, for the person who searched", () => {
  const kept = storage();
  for (const words of ["depot", "har", "harbour", "x"]) rememberSearch(kept, NAME, "ana", words);
  expect(recentSearches(kept, NAME, "ana")).toEqual(["harbour", "depot"]);
  expect(recentSearches(kept, NAME, "mia")).toEqual([]);
});
