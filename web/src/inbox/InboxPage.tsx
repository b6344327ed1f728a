import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import {
  AtSign,
  Check,
  CheckCheck,
  CircleAlert,
  CircleQuestionMark,
  Inbox,
  type LucideIcon,
  Mail,
  ShieldQuestionMark,
  UserPlus,
} from "lucide-react";
import { useRef } from "react";
import { waitingApprovals } from "../api/approvals.ts";
import { conversationOf, noticePages, postOf, readNotices, wordOf } from "../api/inbox.ts";
import type { NoticeDocument } from "../api/types.ts";
import { Waiting } from "../approvals/Waiting.tsx";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import { useRowKeys } from "../parts/useRowKeys.ts";
import type { Address } from "../shell/address.ts";
import { useTeamAct } from "../team/Team.tsx";
import { visible } from "../thread/text.ts";
import "../act/act.css";
import "../sessions/sessions.css";
import "./inbox.css";

const ICONS: Record<string, LucideIcon> = {
  mention: AtSign,
  invitation: UserPlus,
  question: CircleQuestionMark,
  approval: ShieldQuestionMark,
  failure: CircleAlert,
};

/** What waits for the reader, then what they were told: mentions, invitations and failures, the newest first. */
export default function InboxPage() {
  const address: Address = useSearch({ strict: false });
  const navigate = useNavigate();
  const isAll = address.view === "all";
  const answer = useInfiniteQuery(noticePages(isAll));
  const act = useTeamAct();
  const list = useRef<HTMLDivElement>(null);
  useRowKeys(list);
  const waiting = useQuery(waitingApprovals);
  const requests = waiting.data?.approvals ?? [];
  const asked = new Set(requests.map((one) => one.id));
  const pages = answer.data?.pages ?? [];
  // What waits is shown itself, with all that decides it.
  const notices = pages
    .flatMap((page) => page.notices)
    .filter((notice) => !asked.has(wordOf(notice.refs.approval) ?? ""));
  const unread = pages[0]?.unread ?? 0;
  const failing = pages[0]?.failing ?? [];
  const mark = (ids: readonly string[] | null) => void act.run(() => readNotices(ids));
  useHotkeys({
    e: () => {
      // Elsewhere the key edits what waits.
      const row = document.activeElement?.closest<HTMLElement>("[data-notice]");
      const id = row?.dataset.notice;
      if (id && row?.classList.contains("unread")) mark([id]);
    },
  });
  return (
    <Page
      title="Inbox"
      className="inbox"
      aside={
        <div className="filters">
          <Button
            aria-pressed={isAll}
            onClick={() =>
              void navigate({ to: "/inbox", search: { view: isAll ? undefined : "all" }, replace: true })
            }
          >
            Show read ones
          </Button>
          {unread > 0 ? (
            <Button
              icon={<CheckCheck aria-hidden="true" />}
              onClick={() => mark(null)}
              aria-busy={act.isBusy}
            >
              Mark all as read
            </Button>
          ) : null}
        </div>
      }
    >
      {answer.isPending ? <Skeleton label="Reading the inbox" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {act.problem ? <Failure error={act.problem} compact /> : null}
      {failing.map((channel) => (
        <p key={channel.channel} className="inbox-failing" role="note">
          <CircleAlert aria-hidden="true" />
          <span>
            Your notices do not reach <b>{visible(channel.address)}</b> by {visible(channel.channel)}:{" "}
            {visible(channel.error)}
          </span>
        </p>
      ))}
      <div ref={list}>
        {waiting.isError ? (
          <Failure error={waiting.error} retry={() => void waiting.refetch()} compact />
        ) : null}
        <Waiting requests={requests} />
        {answer.isSuccess && notices.length === 0 && requests.length === 0 ? (
          <Empty
            title={isAll ? "You were told nothing yet" : "Nothing waits for you"}
            icon={<Inbox aria-hidden="true" />}
          >
            What agents may not do without you, their questions, mentions, invitations to conversations, and
            failures of what you started come here.
          </Empty>
        ) : null}
        {notices.length > 0 ? (
          <>
            <ul className="notices" aria-label="Notices">
              {notices.map((notice) => (
                <Row key={notice.id} notice={notice} mark={() => mark([notice.id])} />
              ))}
            </ul>
            {answer.hasNextPage ? (
              <p className="notices-more">
                <Button onClick={() => void answer.fetchNextPage()} aria-busy={answer.isFetchingNextPage}>
                  More
                </Button>
              </p>
            ) : null}
            <Command line="turntree inbox" label="that shows it" />
          </>
        ) : null}
      </div>
    </Page>
  );
}

function Row({ notice, mark }: { notice: NoticeDocument; mark: () => void }) {
  const Sign = ICONS[notice.kind] ?? Mail;
  const isUnread = notice.read_at === null;
  const by = visible(notice.by.replace(/^\w+:/, ""));
  const text = visible(notice.text);
  return (
    <li className={isUnread ? "notice unread" : "notice"} data-notice={notice.id}>
      <Sign aria-hidden="true" />
      <div className="notice-body">
        <p className="notice-text">
          <NoticeLink notice={notice}>
            <bdi>{by}</bdi> <span className="notice-words">{text}</span>
          </NoticeLink>
        </p>
        <p className="notice-about">
          <Chip kind={notice.kind === "failure" ? "bad" : "plain"}>{notice.kind}</Chip>
          <Time at={notice.at} as="moment" />
          {notice.displaced ? <span>not read: later ones took its place</span> : null}
          {isUnread ? <span className="visually-hidden">unread</span> : null}
        </p>
      </div>
      {isUnread ? (
        <button
          type="button"
          className="icon-button"
          title="Mark as read  e"
          aria-label={`Mark as read: ${by} ${text.slice(0, 60)}`}
          onClick={mark}
        >
          <Check aria-hidden="true" />
        </button>
      ) : null}
    </li>
  );
}

/** Leads to what a notice is about, if that is a page. */
function NoticeLink({ notice, children }: { notice: NoticeDocument; children: React.ReactNode }) {
  const conversation = conversationOf(notice);
  const turn = wordOf(notice.refs.run) ?? wordOf(notice.refs.turn);
  if (conversation) {
    const post = postOf(notice);
    return (
      <Link
        to="/c/$conversation"
        params={{ conversation }}
        search={post === null ? {} : { post: String(post) }}
        data-row=""
      >
        {children}
      </Link>
    );
  }
  if (turn)
    return (
      <Link to="/t/$turn" params={{ turn }} data-row="">
        {children}
      </Link>
    );
  return (
    <span data-row="" tabIndex={-1}>
      {children}
    </span>
  );
}
