import { useQuery, useQueryClient } from "@tanstack/react-query";
import { ArrowUp, UserPlus } from "lucide-react";
import { type KeyboardEvent, type Ref, useEffect, useLayoutEffect, useRef, useState } from "react";
import { spell } from "../act/command.ts";
import { useWorkspace } from "../act/useAct.ts";
import { write } from "../api/client.ts";
import { mentionSuggestions } from "../api/conversations.ts";
import { DRAFTS } from "../api/ownWords.ts";
import { asProblem, OFFLINE, type Problem } from "../api/problem.ts";
import type { ConversationDocument, MentionSuggestion, PostOutcome } from "../api/types.ts";
import { count, joinWords } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { useLater } from "../parts/useLater.ts";
import { keepDraft, readDraft } from "../thread/composer/drafts.ts";
import { placedMentions } from "../thread/markdown/blocks.ts";
import { MentionBadge } from "../thread/markdown/Mention.tsx";
import { visible } from "../thread/text.ts";
import {
  fromPost,
  type PostDraft,
  type TypedMention,
  toPost,
  typedMention,
  withMention,
  withoutGap,
} from "./mentionDraft.ts";
import { personOf } from "./people.ts";
import { moved, SuggestionList } from "./SuggestionList.tsx";
import "../thread/composer/composer.css";

const POST_BYTES_MAX = 65_536;
const KEEP_MS = 250;
const TYPED_MS = 80;
const HEIGHT_PX_MAX = 260;
const LIST = "mention-list";
const EMPTY: PostDraft = { text: "", chosen: [] };

interface Props {
  conversation: ConversationDocument;
  person: string;
  names: ReadonlyMap<string, string>;
  /** The principals of those who take part. */
  present: ReadonlySet<string>;
  field: Ref<HTMLTextAreaElement>;
  /** Called when a post was stored. */
  onPost: (outcome: PostOutcome) => void;
  add: (principal: string, name: string) => void;
}

/** A post to a conversation: while `@` is typed it suggests whom to mention. */
export function PostComposer(props: Props) {
  const { conversation } = props;
  const [place] = useState(() => `conversation ${conversation.id}`);
  const [store] = useState(() => ({ storage: sessionStorage, name: DRAFTS, person: props.person }));
  const [draft, setDraft] = useState<PostDraft>(() => fromPost(readDraft(store, place)));
  const [caret, setCaret] = useState(0);
  const [active, setActive] = useState(0);
  /** The `@` for which the reader closed the list. */
  const [dismissed, setDismissed] = useState<number | null>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [outcome, setOutcome] = useState<PostOutcome | null>(null);
  const attempt = useRef({ body: "", key: "" });
  /** The `@` whose list was closed because the field lost the focus. */
  const blurredAt = useRef<number | null>(null);
  const picking = useRef<Promise<void> | null>(null);
  const own = useRef<HTMLTextAreaElement>(null);
  const workspace = useWorkspace();
  const client = useQueryClient();

  const words = toPost(draft).trim();
  const typed: TypedMention | null = typedMention(draft.text, caret);
  const asked = useLater(typed && typed.start !== dismissed ? typed.typed : null, TYPED_MS);
  const answer = useQuery(mentionSuggestions(conversation.name, asked));
  const options = typed && typed.start !== dismissed && asked !== null ? (answer.data ?? []) : [];
  const isOpen = options.length > 0;
  const chosen = Math.min(active, options.length - 1);

  useEffect(() => {
    const timer = setTimeout(() => keepDraft(store, place, toPost(draft)), KEEP_MS);
    return () => clearTimeout(timer);
  }, [store, place, draft]);
  const latest = useRef(draft);
  latest.current = draft;
  useEffect(() => {
    const keep = () => keepDraft(store, place, toPost(latest.current));
    addEventListener("pagehide", keep);
    return () => removeEventListener("pagehide", keep);
  }, [store, place]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the field is as high as what is in it.
  useLayoutEffect(() => {
    const field = own.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, HEIGHT_PX_MAX)}px`;
  }, [draft.text]);
  /** Where the caret was after a mention was taken, with the space that came with it. */
  const gapAt = useRef<number | null>(null);
  const wishedCaret = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (wishedCaret.current === null) return;
    own.current?.setSelectionRange(wishedCaret.current, wishedCaret.current);
    wishedCaret.current = null;
  });
  const isTyping = typed !== null;
  // The next `@` opens the list again.
  useEffect(() => {
    if (!isTyping) setDismissed(null);
  }, [isTyping]);
  // Another beginning has another best fit.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new words move the choice.
  useEffect(() => setActive(0), [asked]);

  const tooLong = Math.max(0, new TextEncoder().encode(words).length - POST_BYTES_MAX);
  const canPost = words !== "" && !busy && tooLong === 0;
  const called = isOpen ? [] : mentionsOf(words);

  /** Puts a mention in place of what was typed up to `end`; the caret may be further on already. */
  const take = (option: MentionSuggestion, from: TypedMention, end: number, beyond = 0) => {
    const next = withMention(latest.current, from, end, option);
    const to = next.caret + beyond;
    wishedCaret.current = to;
    gapAt.current = beyond === 0 ? to : null;
    latest.current = next.draft;
    setDraft(next.draft);
    setCaret(to);
    // The name that was taken is followed by a space, and begins no other name.
    setDismissed(from.start);
    own.current?.focus();
  };
  const pick = (option: MentionSuggestion) => {
    if (typed) take(option, typed, caret);
  };

  /**
   * What a person who types fast meant: the list on the page is still that of fewer letters. They go on to type while
   * the right one is asked for, and a second Enter posts what they see then.
   */
  async function pickLate(before: TypedMention): Promise<void> {
    const query = mentionSuggestions(conversation.name, before.typed);
    const found = await client.fetchQuery(query).catch((): MentionSuggestion[] => []);
    const end = before.start + 1 + before.typed.length;
    const { text } = latest.current;
    if (text.slice(before.start, end) !== `@${before.typed}`) return;
    if (found[0]) take(found[0], before, end, (own.current?.selectionStart ?? end) - end);
    else if (text.length === end) void post();
  }

  async function post(): Promise<void> {
    if (picking.current) await picking.current;
    const words = toPost(latest.current).trim();
    const names = { conversation: conversation.name };
    const line = JSON.stringify([conversation.id, words]);
    if (attempt.current.body !== line) attempt.current = { body: line, key: crypto.randomUUID() };
    setBusy(true);
    setProblem(null);
    setOutcome(null);
    try {
      const { key } = attempt.current;
      const path = "/conversations/{conversation}/posts";
      const made = await write(path, { text: words }, key, names);
      attempt.current = { body: "", key: "" };
      setDraft(EMPTY);
      setCaret(0);
      keepDraft(store, place, "");
      setOutcome(made);
      props.onPost(made);
    } catch (error) {
      const found = asProblem(error);
      if (found.status !== OFFLINE) attempt.current = { body: "", key: "" };
      setProblem(found);
    } finally {
      setBusy(false);
      own.current?.focus();
    }
  }

  const onKey = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    const isPlain = !event.shiftKey && !event.altKey && !event.ctrlKey && !event.metaKey;
    const isStale = typed !== null && (asked !== typed.typed || answer.isFetching);
    if (typed && typed.start !== dismissed && isStale && isPlain && event.key === "Enter") {
      event.preventDefault();
      picking.current = pickLate(typed).finally(() => {
        picking.current = null;
      });
      return;
    }
    if (isOpen) {
      const next = moved(event.key, chosen, options.length);
      const option = options[chosen];
      if (next !== null) setActive(next);
      else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && option) pick(option);
      else if (event.key === "Escape") setDismissed(typed?.start ?? null);
      else return;
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (event.key === "Enter" && !event.shiftKey && !event.altKey) {
      // Where fingers type, a line is broken by Enter: there is no Shift.
      if (matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (canPost) void post();
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      document.querySelector<HTMLElement>(".talk-scroller")?.focus();
    }
  };

  return (
    <div className="talk-write">
      {isOpen ? (
        <SuggestionList
          id={LIST}
          options={options}
          active={chosen}
          pick={pick}
          absent={(option) => (option.kind === "agent" ? "comes in" : "takes no part yet")}
        />
      ) : null}
      <p className="visually-hidden" role="status">
        {isOpen ? `${count(options.length, "suggestion")}: ${visible(options[chosen]?.name ?? "")}` : ""}
      </p>
      <section className="composer" aria-label="Write a post">
        {outcome ? (
          <Outcome
            outcome={outcome}
            names={props.names}
            present={props.present}
            isOwn={conversation.owner === `human:${props.person}`}
            add={props.add}
          />
        ) : null}
        {problem ? (
          <div className="composer-end failed" role="alert">
            <p>{sentence(problem)}</p>
            <Button kind="quiet" onClick={() => setProblem(null)}>
              Close
            </Button>
          </div>
        ) : null}
        <form
          className="composer-box"
          onSubmit={(event) => {
            event.preventDefault();
            if (canPost) void post();
          }}
        >
          <textarea
            ref={(element) => {
              own.current = element;
              if (typeof props.field === "function") props.field(element);
              else if (props.field) props.field.current = element;
            }}
            rows={1}
            value={draft.text}
            placeholder={
              conversation.is_participant ? "Write a post, @ mentions" : "Your first post brings you in"
            }
            aria-label="Post"
            aria-describedby="talk-calls"
            aria-autocomplete="list"
            aria-controls={isOpen ? LIST : undefined}
            aria-activedescendant={isOpen ? `${LIST}-${chosen}` : undefined}
            aria-keyshortcuts="m"
            onChange={(event) => {
              const { value, selectionStart } = event.target;
              const next = withoutGap(draft.text, value, gapAt.current, selectionStart);
              gapAt.current = null;
              if (next.caret !== selectionStart) wishedCaret.current = next.caret;
              setDraft({ ...draft, text: next.text });
              setCaret(next.caret);
            }}
            onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
            onKeyDown={onKey}
            onBlur={() => {
              blurredAt.current = typed && dismissed === null ? typed.start : null;
              if (blurredAt.current !== null) setDismissed(blurredAt.current);
            }}
            onFocus={() => setDismissed((before) => (before === blurredAt.current ? null : before))}
            dir="auto"
            autoComplete="off"
          />
          <Button
            kind="primary"
            type="submit"
            className="composer-send"
            disabled={!canPost}
            aria-busy={busy}
            icon={<ArrowUp aria-hidden="true" />}
          >
            {busy ? "Posting…" : "Post"}
          </Button>
        </form>
        <p id="talk-calls" className="talk-calls">
          {called.length > 0 ? (
            <>
              Calls{" "}
              {called.map((mention) => (
                <MentionBadge key={`${mention.kind}:${mention.id}`} mention={mention} />
              ))}
            </>
          ) : (
            <span>Mention a person or an agent with @. Agents that are mentioned answer.</span>
          )}
        </p>
        {tooLong > 0 ? (
          <p className="composer-note" role="alert">
            This is {count(tooLong, "byte")} too long for one post.
          </p>
        ) : null}
        {words ? (
          <div className="composer-command">
            <Command
              line={spell(workspace, "conversation", "post", conversation.name, words)}
              label="that posts it"
            />
          </div>
        ) : null}
      </section>
    </div>
  );
}

/** What a post set in motion, where that is not seen in the posts. */
function Outcome(props: {
  outcome: PostOutcome;
  names: ReadonlyMap<string, string>;
  present: ReadonlySet<string>;
  /** Whether the writer created the conversation. */
  isOwn: boolean;
  add: (principal: string, name: string) => void;
}) {
  const { outcome } = props;
  const absent = outcome.absent
    .filter((principal) => !props.present.has(principal))
    .map((principal) => ({ principal, name: visible(personOf(principal, props.names).name) }));
  return (
    <>
      {outcome.redacted > 0 ? (
        <p className="composer-note" role="status">
          {count(outcome.redacted, "secret")} removed before the post was stored.
        </p>
      ) : null}
      {absent.length > 0 ? (
        <div className="composer-note talk-absent" role="status">
          <p>
            <b>{joinWords(absent.map((one) => one.name))}</b> {absent.length === 1 ? "takes" : "take"} no part
            here, and {absent.length === 1 ? "reads" : "read"} nothing of it.
            {props.isOwn ? "" : " Its creator was told."}
          </p>
          {absent.map((one) => (
            <Button
              key={one.principal}
              icon={<UserPlus aria-hidden="true" />}
              onClick={() => props.add(one.principal, one.name)}
            >
              Add {one.name}
            </Button>
          ))}
        </div>
      ) : null}
    </>
  );
}

function mentionsOf(words: string) {
  const seen = new Set<string>();
  return words.includes("](")
    ? placedMentions(words).flatMap(({ mention }) => {
        const target = `${mention.kind}:${mention.id}`;
        if (mention.silent || seen.has(target)) return [];
        seen.add(target);
        return [mention];
      })
    : [];
}

function sentence(problem: Problem): string {
  const said = visible(problem.detail || problem.message);
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}.`;
}
