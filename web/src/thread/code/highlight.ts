/** Code in colours, by Shiki's engine without WebAssembly. Loaded when the first code is shown.
 *
 * Shiki gives colours as style attributes, which the page's policy forbids: here they become classes.
 */
import { createCssVariablesTheme, createHighlighterCore, type LanguageInput } from "shiki/core";
import { createJavaScriptRegexEngine } from "shiki/engine/javascript";

export interface Piece {
  text: string;
  className: string | undefined;
}

const LANGUAGES: Record<string, () => Promise<unknown>> = {
  bash: () => import("@shikijs/langs/bash"),
  c: () => import("@shikijs/langs/c"),
  css: () => import("@shikijs/langs/css"),
  diff: () => import("@shikijs/langs/diff"),
  docker: () => import("@shikijs/langs/docker"),
  go: () => import("@shikijs/langs/go"),
  html: () => import("@shikijs/langs/html"),
  java: () => import("@shikijs/langs/java"),
  javascript: () => import("@shikijs/langs/javascript"),
  json: () => import("@shikijs/langs/json"),
  markdown: () => import("@shikijs/langs/markdown"),
  python: () => import("@shikijs/langs/python"),
  rust: () => import("@shikijs/langs/rust"),
  sql: () => import("@shikijs/langs/sql"),
  toml: () => import("@shikijs/langs/toml"),
  tsx: () => import("@shikijs/langs/tsx"),
  typescript: () => import("@shikijs/langs/typescript"),
  yaml: () => import("@shikijs/langs/yaml"),
};

const CLASSES: Record<string, string> = {
  "--tk-token-keyword": "tk-keyword",
  "--tk-token-string": "tk-string",
  "--tk-token-string-expression": "tk-string",
  "--tk-token-comment": "tk-comment",
  "--tk-token-function": "tk-function",
  "--tk-token-constant": "tk-constant",
  "--tk-token-inserted": "tk-string",
  "--tk-token-deleted": "tk-constant",
};

const theme = createCssVariablesTheme({ name: "classes", variablePrefix: "--tk-", fontStyle: false });
const highlighter = createHighlighterCore({
  themes: [theme],
  langs: [],
  engine: createJavaScriptRegexEngine({ forgiving: true }),
});

/** The lines of a text in pieces, each with its class; null for a language that is not known. */
export async function highlight(text: string, language: string): Promise<Piece[][] | null> {
  const load = LANGUAGES[language];
  if (!load) return null;
  const [shiki, grammar] = await Promise.all([highlighter, load()]);
  await shiki.loadLanguage((grammar as { default: LanguageInput }).default);
  const lines = shiki.codeToTokensBase(text, {
    lang: language as never,
    theme: "classes",
    tokenizeTimeLimit: 2_000,
  });
  return lines.map((line) =>
    line.map((token) => ({
      text: token.content,
      className: CLASSES[/--[\w-]+/.exec(token.color ?? "")?.[0] ?? ""],
    })),
  );
}
