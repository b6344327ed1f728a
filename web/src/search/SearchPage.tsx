import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ListTree, Search, Trees } from "lucide-react";
import { useEffect, useRef } from "react";
import { isAsked, wholeSearch } from "../api/search.ts";
import type { SearchHitDocument } from "../api/types.ts";
import { lightWords } from "../canopy/lightWords.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { count, titled } from "../core/format.ts";
import { joined } from "../core/shellWords.ts";
import { Button } from "../parts/Button.tsx";
import { Chip, Dot } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Marked } from "../parts/Marked.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useRowKeys } from "../parts/useRowKeys.ts";
import { useTyped } from "../parts/useTyped.ts";
import { placeOf } from "./hit.ts";
import { useSearches } from "./useSearches.ts";
import "./search.css";

/** Every turn that says the words, with the place where it says them. */
export default function SearchPage() {
  const { q = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const [words, setWords] = useTyped(q, (next) =>
    navigate({ to: "/search", search: next ? { q: next } : {}, replace: true }),
  );
  const list = useRef<HTMLOListElement>(null);
  const answer = useInfiniteQuery(wholeSearch(q.trim()));
  const hits = answer.data?.pages.flatMap((page) => page.hits) ?? [];
  const first = answer.data?.pages[0];
  const searches = useSearches();
  useRowKeys(list);

  useEffect(() => lightWords(q), [q]);
  useEffect(() => searches.remember(q), [searches, q]);

  return (
    <Page title={q ? `Search: ${q}` : "Search"} quiet className="search">
      <search>
        <label className="search-field">
          <Search aria-hidden="true" />
          <span className="visually-hidden">Words to search for</span>
          <input
            type="search"
            autoFocus={!q}
            value={words}
            onChange={(event) => setWords(event.target.value)}
            placeholder="Any half-sentence you remember"
            spellCheck={false}
          />
        </label>
      </search>
      {!isAsked(q) ? <Beginning choose={setWords} /> : null}
      {isAsked(q) && answer.isPending ? <Skeleton rows={9} label="Searching" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {q && first ? (
        <>
          <div className="search-sum">
            <p role="status">{sumOf(first.total, first.next !== null)}</p>
            {hits.length > 0 ? (
              <span className="search-acts">
                <Link to="/" search={{ q }} className="button">
                  <Trees aria-hidden="true" />
                  In the canopy
                </Link>
                <Link to="/graph" search={{ q }} className="button">
                  <ListTree aria-hidden="true" />
                  In the graph
                </Link>
              </span>
            ) : null}
          </div>
          {first.is_behind ? (
            <p className="search-note">New turns are still being indexed and may be missing here.</p>
          ) : null}
          {hits.length === 0 ? (
            <Empty
              title="No turn says this"
              action={<Command line={joined("turntree", "search", q)} label="for this search" />}
            >
              {first.hint ?? "Try fewer words, or a part of one."}
            </Empty>
          ) : (
            <ol className="hits" ref={list}>
              {hits.map((hit) => (
                <Hit key={hit.turn} hit={hit} words={q} />
              ))}
            </ol>
          )}
          {answer.hasNextPage ? (
            <Button
              className="more"
              disabled={answer.isFetchingNextPage}
              onClick={() => void answer.fetchNextPage()}
            >
              {answer.isFetchingNextPage ? "Reading more" : "Show more"}
            </Button>
          ) : null}
          {hits.length > 0 ? (
            <p className="search-command">
              <Command line={joined("turntree", "search", q)} label="for this search" />
            </p>
          ) : null}
        </>
      ) : null}
    </Page>
  );
}

function Hit(props: { hit: SearchHitDocument; words: string }) {
  const { hit, words } = props;
  return (
    <li className={`tone-${toneOf(hit.agent)}`}>
      <Link {...placeOf(hit)} className="hit" data-row="">
        <Dot />
        <span className="hit-title">
          <Marked text={titled(hit.title)} words={words} />
        </span>
        <Time at={hit.at} as="moment" />
        {hit.snippet && hit.snippet !== hit.title ? (
          <span className="hit-snippet">
            <Marked text={hit.snippet} marks={hit.marks} />
          </span>
        ) : null}
        <span className="hit-about">
          <span>{agentName(hit.agent)}</span>
          {hit.model ? <span>{hit.model}</span> : null}
          {hit.project ? <span>{hit.project}</span> : null}
          {hit.sessions[0] ? <span className="mono clip">{hit.sessions[0]}</span> : null}
          <span>{hit.why}</span>
          {hit.outcome === "completed" ? null : <Chip kind="bad">{hit.outcome}</Chip>}
        </span>
      </Link>
    </li>
  );
}

function Beginning(props: { choose: (words: string) => void }) {
  const recent = useSearches().list();
  return (
    <div className="search-start">
      {recent.length > 0 ? (
        <section>
          <h2>Searched lately</h2>
          <ul>
            {recent.map((words) => (
              <li key={words}>
                <button type="button" className="button quiet" onClick={() => props.choose(words)}>
                  {words}
                </button>
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <section>
        <h2>Narrow it</h2>
        <dl>
          {OPERATORS.map(([word, does]) => (
            <div key={word}>
              <dt>
                <code>{word}</code>
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
      </section>
    </div>
  );
}

const OPERATORS = [
  ['"as a phrase"', "these words, in this order"],
  ["-word", "without this word"],
  ["in:session", "in one session"],
  ["by:name", "written by one agent or person"],
  ["model:name", "answered by one model"],
  ["tool:name", "that used a tool"],
  ["file:path", "that touched a file"],
  ["failed:yes", "that failed"],
  ["after:2026-11-01", "since a day; before: until one"],
] as const;

function sumOf(total: number, isMore: boolean): string {
  if (total === 0) return "";
  return isMore ? `${count(total, "turn")} or more` : count(total, "turn");
}
