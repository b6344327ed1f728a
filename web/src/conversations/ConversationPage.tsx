import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowDown, MessagesSquare, Users } from "lucide-react";
import {
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { useWorkspace } from "../act/useAct.ts";
import { conversationView } from "../api/conversations.ts";
import { conversationOf, postOf, readNotices, unreadNotices } from "../api/inbox.ts";
import { mayDo, useMe } from "../api/me.ts";
import { asProblem } from "../api/problem.ts";
import type { ConversationDocument, Me, ParticipantDocument } from "../api/types.ts";
import { joinWords } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { useTitle } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import { useRowKeys } from "../parts/useRowKeys.ts";
import type { Address } from "../shell/address.ts";
import { type Done, DoneBar, useTeamAct } from "../team/Team.tsx";
import { type MentionPeople, MentionPeopleContext } from "../thread/markdown/Mention.tsx";
import type { Mention } from "../thread/markdown/mentions.ts";
import { visible } from "../thread/text.ts";
import { Avatar } from "./Avatar.tsx";
import {
  AddDialog,
  EraseDialog,
  ForkTalkDialog,
  LeaveDialog,
  membership,
  RemoveDialog,
  stateChange,
} from "./dialogs.tsx";
import { People, type TalkAct } from "./People.tsx";
import { PostArticle } from "./PostArticle.tsx";
import { PostComposer } from "./PostComposer.tsx";
import { absentIn, calls, namesOf, personOf, presentIn } from "./people.ts";
import { firstOf, lastOf } from "./postWindow.ts";
import { usePosts } from "./usePosts.ts";
import "../act/act.css";
import "../team/team.css";
import "../thread/reading.css";
import "./conversations.css";

/** A conversation: what was said, who takes part, and a field for the next post. */
export default function ConversationPage() {
  const { conversation: name } = useParams({ strict: false }) as { conversation: string };
  const me = useMe();
  const view = useQuery(conversationView(name));
  const title = view.data?.conversation.title ?? name;
  useTitle(visible(title));
  const isMissing = view.isError && asProblem(view.error).isMissing;
  // One who was removed reads nothing more, not even what is on the page already.
  if (view.data && me && !isMissing)
    return (
      <Talk
        key={view.data.conversation.id}
        me={me}
        conversation={view.data.conversation}
        participants={view.data.participants}
      />
    );
  return (
    <div className="page">
      <h1 className="visually-hidden">Conversation</h1>
      {view.isError ? (
        isMissing ? (
          <Empty
            title="There is no such conversation"
            icon={<MessagesSquare aria-hidden="true" />}
            action={
              <Link to="/conversations" className="button plain">
                All conversations
              </Link>
            }
          >
            It may be private: only those who take part can open it.
          </Empty>
        ) : (
          <Failure error={view.error} retry={() => void view.refetch()} />
        )
      ) : (
        <Skeleton label="Reading the conversation" />
      )}
    </div>
  );
}

interface TalkProps {
  me: Me;
  conversation: ConversationDocument;
  participants: readonly ParticipantDocument[];
}

function Talk({ me, conversation, participants }: TalkProps) {
  const address: Address = useSearch({ strict: false });
  const navigate = useNavigate();
  const workspace = useWorkspace();
  const quick = useTeamAct();
  const viewer = `human:${me.user}`;
  const marked = address.post && /^\d{1,9}$/.test(address.post) ? Number(address.post) : null;
  const [act, setAct] = useState<TalkAct | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const [shownMention, setShownMention] = useState<Mention | null>(null);
  const [arePeopleOpen, setPeopleOpen] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const scroller = useRef<HTMLElement>(null);

  const names = useMemo(() => namesOf(participants), [participants]);
  const present = useMemo(() => presentIn(participants), [participants]);
  const here = useMemo(() => new Set(present.map((one) => one.principal)), [present]);
  // A fork shows the posts of what it was forked from.
  const ids = useMemo(
    () => new Set([conversation.id, ...(conversation.parent ? [conversation.parent] : [])]),
    [conversation.id, conversation.parent],
  );
  const posts = usePosts(conversation.id, ids, marked);
  const { window: shown } = posts;
  const absent = useMemo(
    () =>
      absentIn(
        shown.posts.map((post) => post.content),
        present,
      ),
    [shown.posts, present],
  );
  const { toEnd, isAtBottom } = useScroll(scroller, posts, marked);
  useReadMarks(conversation.id, lastOf(shown));

  const mayPost = mayDo(me, "invoke");
  const mayFork = mayDo(me, "create");
  const isOwner = conversation.owner === viewer;
  const people: MentionPeople = useMemo(
    () => ({
      nameOf: (mention) => names.get(principalOf(mention)) ?? null,
      isReader: (mention) => principalOf(mention) === viewer,
      open: setShownMention,
    }),
    [names, viewer],
  );
  const add = useCallback(
    (principal: string, name: string) => {
      void quick
        .run(() => membership(workspace, conversation).add(principal, name))
        .then((told) => {
          if (told) setDone(told);
        });
    },
    [quick.run, workspace, conversation],
  );
  const finish = (told: Done) => {
    setAct(null);
    setDone(told);
    void posts.refresh();
  };
  const onPostAct = useCallback(
    (kind: "fork" | "erase" | "link", post: number) => {
      if (kind !== "link") setAct({ kind, post });
      else {
        const link = new URL(location.href);
        link.search = `?post=${post}`;
        void navigator.clipboard
          .writeText(link.href)
          .then(() => setDone({ text: `A link to post ${post} is copied` }))
          .catch(() => void navigate({ to: ".", search: { post: String(post) } }));
      }
    },
    [navigate],
  );
  const open = (next: TalkAct) => {
    setPeopleOpen(false);
    if (next.kind !== "state") return setAct(next);
    const change = stateChange(workspace, conversation);
    void quick
      .run(() => change(conversation.state === "active" ? "archived" : "active"))
      .then((told) => {
        if (told) setDone(told);
      });
  };
  useRowKeys(scroller);
  useHotkeys({ m: () => field.current?.focus() });

  const thinking = present.filter((one) => one.is_thinking);
  const news = shown.isAtEnd ? 0 : conversation.posts - lastOf(shown);
  const panel = (
    <People
      conversation={conversation}
      present={present}
      absent={absent}
      names={names}
      viewer={viewer}
      mayPost={mayPost}
      mayFork={mayFork}
      open={open}
      add={add}
    />
  );
  const close = () => setAct(null);
  return (
    <MentionPeopleContext value={people}>
      <div className="talk">
        <div className="talk-main">
          <header className="talk-head">
            <div>
              <h1>
                <bdi>{visible(conversation.title)}</bdi>
              </h1>
              <p>
                <span className="mono clip">{visible(conversation.name)}</span>
                <Chip>{conversation.visibility}</Chip>
                {conversation.state === "active" ? null : <Chip kind="warn">{conversation.state}</Chip>}
                {conversation.parent ? (
                  <Link to="/c/$conversation" params={{ conversation: conversation.parent }}>
                    fork at post {conversation.forked_seq}
                  </Link>
                ) : null}
              </p>
            </div>
            <Button
              className="talk-people-button"
              icon={<Users aria-hidden="true" />}
              onClick={() => setPeopleOpen(true)}
              aria-label={`People and more: ${present.length} take part`}
            >
              {present.length}
            </Button>
          </header>
          <section ref={scroller} className="talk-scroller" aria-label="Posts" tabIndex={0}>
            {posts.isReading ? <Skeleton label="Reading the posts" /> : null}
            {posts.problem ? (
              <Failure error={posts.problem} retry={() => void posts.go(marked)} compact />
            ) : null}
            {firstOf(shown) > 1 ? (
              <p className="talk-more">
                <Button onClick={() => void posts.earlier()}>Earlier posts</Button>
              </p>
            ) : null}
            {!posts.isReading && !posts.problem && shown.posts.length === 0 ? (
              <Empty title="Nothing was said yet" icon={<MessagesSquare aria-hidden="true" />}>
                Write the first post. Type @ to mention a person or an agent: an agent that is mentioned comes
                in and answers.
              </Empty>
            ) : null}
            {shown.posts.map((post) => (
              <PostArticle
                key={post.id}
                post={post}
                names={names}
                isForReader={calls(post.content, me.user)}
                isMarked={post.seq === marked}
                mayErase={mayDo(me, "configure") && (isOwner || post.author === viewer)}
                mayFork={mayFork}
                act={onPostAct}
              />
            ))}
            {shown.isAtEnd ? null : (
              <p className="talk-more">
                <Button onClick={() => void posts.later()}>Later posts</Button>
              </p>
            )}
          </section>
          <div className="talk-foot">
            {!isAtBottom || news > 0 ? (
              <Button className="talk-end" icon={<ArrowDown aria-hidden="true" />} onClick={toEnd}>
                {news > 0 ? "Newest posts" : "To the end"}
              </Button>
            ) : null}
            <p className="talk-thinking" role="status">
              {thinking.length > 0 ? (
                <>
                  <i aria-hidden="true" />
                  {joinWords(thinking.map((one) => visible(personOf(one.principal, names).name)))}{" "}
                  {thinking.length === 1 ? "is" : "are"} thinking…
                </>
              ) : null}
            </p>
          </div>
          {conversation.state !== "active" ? (
            <p className="talk-closed" role="note">
              This conversation is {conversation.state}. It can be read, and nothing new is said in it.
            </p>
          ) : !mayPost ? (
            <p className="talk-closed" role="note">
              Your role or key does not permit you to write here.
            </p>
          ) : (
            <PostComposer
              conversation={conversation}
              person={me.user}
              names={names}
              present={here}
              field={field}
              onPost={() => {
                if (shown.isAtEnd) void posts.refresh().then(toEnd);
                else toEnd();
              }}
              add={add}
            />
          )}
        </div>
        <aside className="talk-side" aria-label="People and more">
          {panel}
        </aside>
      </div>
      {arePeopleOpen ? (
        <Dialog title="People and more" close={() => setPeopleOpen(false)} className="talk-people-dialog">
          <div className="dialog-body talk-side">{panel}</div>
        </Dialog>
      ) : null}
      {shownMention ? (
        <WhoDialog
          mention={shownMention}
          conversation={conversation}
          participants={participants}
          names={names}
          close={() => setShownMention(null)}
          add={mayPost && conversation.is_participant && conversation.state === "active" ? add : null}
        />
      ) : null}
      {act?.kind === "add" ? <AddDialog conversation={conversation} close={close} finish={finish} /> : null}
      {act?.kind === "remove" ? (
        <RemoveDialog
          conversation={conversation}
          principal={act.principal}
          name={act.name}
          close={close}
          finish={finish}
        />
      ) : null}
      {act?.kind === "leave" ? (
        <LeaveDialog
          conversation={conversation}
          close={close}
          left={() => {
            close();
            if (conversation.visibility === "private") void navigate({ to: "/conversations" });
          }}
        />
      ) : null}
      {act?.kind === "fork" ? (
        <ForkTalkDialog
          conversation={conversation}
          post={act.post}
          close={close}
          forked={(made) => {
            close();
            void navigate({ to: "/c/$conversation", params: { conversation: made.name } });
          }}
        />
      ) : null}
      {act?.kind === "erase" ? (
        <EraseDialog conversation={conversation} post={act.post} close={close} finish={finish} />
      ) : null}
      {quick.problem && !done ? (
        <DoneBar
          done={{ text: visible(quick.problem.detail || quick.problem.message) }}
          tell={() => quick.forget()}
        />
      ) : null}
      {done ? <DoneBar done={done} tell={setDone} /> : null}
    </MentionPeopleContext>
  );
}

/** Who a badge is about, whether they are here, and how to bring them in. */
function WhoDialog(props: {
  mention: Mention;
  conversation: ConversationDocument;
  participants: readonly ParticipantDocument[];
  names: ReadonlyMap<string, string>;
  close: () => void;
  add: ((principal: string, name: string) => void) | null;
}) {
  const principal = principalOf(props.mention);
  const person = personOf(principal, props.names);
  const name = visible(props.names.get(principal) ?? props.mention.name);
  const here = presentIn(props.participants).find((one) => one.principal === principal);
  return (
    <Dialog title={name} close={props.close} className="who">
      <div className="dialog-body">
        <p className="who-name">
          <Avatar person={{ ...person, name }} />
          <span>
            <b>{person.kind === "agent" ? "Agent" : "Person"}</b> <code>{visible(principal)}</code>
          </span>
        </p>
        <p>
          {here
            ? here.is_thinking
              ? "Takes part, and is thinking."
              : "Takes part."
            : "Takes no part here, and reads nothing of a private conversation."}
        </p>
        <div className="act-buttons">
          {here?.label ? (
            <Link to="/s/$label" params={{ label: here.label }} className="button plain">
              Open its session
            </Link>
          ) : null}
          {!here && props.add ? (
            <Button
              kind="primary"
              onClick={() => {
                props.add?.(principal, name);
                props.close();
              }}
            >
              Add {name}
            </Button>
          ) : null}
        </div>
      </div>
    </Dialog>
  );
}

function principalOf(mention: Mention): string {
  return `${mention.kind === "agent" ? "agent" : "human"}:${mention.id}`;
}

const NEAR_PX = 600;
const BOTTOM_PX = 48;

/** Keeps the reader where they are: at the end while they are there, else at the post that they read. */
function useScroll(
  scroller: RefObject<HTMLElement | null>,
  posts: ReturnType<typeof usePosts>,
  marked: number | null,
) {
  const { window: shown, isReading, earlier, later, go } = posts;
  const [isAtBottom, setAtBottom] = useState(true);
  const sticks = useRef(marked === null);
  const anchor = useRef<{ post: string; top: number } | null>(null);
  const goal = useRef<number | null>(marked);
  const loading = useRef(false);

  const remember = useCallback(() => {
    const box = scroller.current;
    if (!box) return;
    const top = box.getBoundingClientRect().top;
    const articles = [...box.querySelectorAll<HTMLElement>("[data-post]")];
    const article = articles.find((one) => one.getBoundingClientRect().bottom > top);
    anchor.current = article
      ? { post: article.dataset.post!, top: article.getBoundingClientRect().top - top }
      : null;
    const rest = box.scrollHeight - box.scrollTop - box.clientHeight;
    sticks.current = shown.isAtEnd && rest < BOTTOM_PX;
    setAtBottom(sticks.current);
  }, [scroller, shown.isAtEnd]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever posts are on the page now, the reader stays.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box || isReading) return;
    const wanted = goal.current;
    const article = box.querySelector<HTMLElement>(`[data-post="${wanted ?? anchor.current?.post ?? "0"}"]`);
    if (wanted !== null && article) {
      goal.current = null;
      sticks.current = false;
      article.scrollIntoView({ block: "center" });
      article.focus({ preventScroll: true });
    } else if (sticks.current) box.scrollTop = box.scrollHeight;
    else if (article && anchor.current) {
      const now = article.getBoundingClientRect().top - box.getBoundingClientRect().top;
      box.scrollTop += now - anchor.current.top;
    }
    remember();
  }, [shown.posts, isReading, scroller]);

  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const onScroll = () => {
      remember();
      if (loading.current || isReading) return;
      const rest = box.scrollHeight - box.scrollTop - box.clientHeight;
      const read =
        box.scrollTop < NEAR_PX && firstOf(shown) > 1
          ? earlier
          : rest < NEAR_PX && !shown.isAtEnd
            ? later
            : null;
      if (!read) return;
      loading.current = true;
      void read().finally(() => {
        loading.current = false;
      });
    };
    box.addEventListener("scroll", onScroll, { passive: true });
    return () => box.removeEventListener("scroll", onScroll);
  }, [scroller, remember, shown, isReading, earlier, later]);

  // What grows below (a code block that gets its colours, a field that gets higher) must not hide the last post.
  useEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const observer = new ResizeObserver(() => {
      if (sticks.current) box.scrollTop = box.scrollHeight;
    });
    observer.observe(box);
    return () => observer.disconnect();
  }, [scroller]);

  // Another link to a post of the same conversation.
  const before = useRef(marked);
  useEffect(() => {
    if (before.current === marked) return;
    before.current = marked;
    if (marked === null) return;
    goal.current = marked;
    if (marked >= firstOf(shown) && marked <= lastOf(shown)) {
      document.querySelector(`#post-${marked}`)?.scrollIntoView({ block: "center" });
      goal.current = null;
    } else void go(marked);
  }, [marked, shown, go]);

  const toEnd = useCallback(() => {
    sticks.current = true;
    goal.current = null;
    anchor.current = null;
    const end = () => {
      const box = scroller.current;
      if (box) box.scrollTop = box.scrollHeight;
      setAtBottom(true);
    };
    if (shown.isAtEnd) end();
    else void go(null).then(end);
  }, [scroller, shown.isAtEnd, go]);
  return { toEnd, isAtBottom };
}

/** Notices about posts that are on the page, and of the invitation to it, are read: the reader sees them. */
function useReadMarks(conversation: string, last: number): void {
  const unread = useQuery(unreadNotices);
  const isSeen = useSyncExternalStore(
    (tell) => {
      document.addEventListener("visibilitychange", tell);
      return () => document.removeEventListener("visibilitychange", tell);
    },
    () => document.visibilityState === "visible",
  );
  const marking = useRef(new Set<string>());
  useEffect(() => {
    if (!isSeen) return;
    const found = (unread.data?.notices ?? []).filter(
      (notice) =>
        conversationOf(notice) === conversation &&
        (postOf(notice) ?? 0) <= last &&
        !marking.current.has(notice.id),
    );
    if (found.length === 0) return;
    for (const notice of found) marking.current.add(notice.id);
    readNotices(found.map((notice) => notice.id)).catch(() => {
      for (const notice of found) marking.current.delete(notice.id);
    });
  }, [unread.data, conversation, last, isSeen]);
}
