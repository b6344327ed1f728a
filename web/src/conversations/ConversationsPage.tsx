import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { MessagesSquare, Plus } from "lucide-react";
import { useRef, useState } from "react";
import { conversationList } from "../api/conversations.ts";
import { conversationOf, unreadNotices } from "../api/inbox.ts";
import { mayDo, useMe } from "../api/me.ts";
import type { ConversationDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import { useRowKeys } from "../parts/useRowKeys.ts";
import type { Address } from "../shell/address.ts";
import { visible } from "../thread/text.ts";
import { CreateDialog } from "./dialogs.tsx";
import "../act/act.css";
import "../sessions/sessions.css";
import "../team/team.css";
import "./conversations.css";

/** The conversations that the reader may read, the one where something was said last first. */
export default function ConversationsPage() {
  const me = useMe();
  const navigate = useNavigate();
  const address: Address = useSearch({ strict: false });
  const isArchived = address.archived === "yes";
  const answer = useQuery(conversationList(isArchived));
  const unread = useQuery(unreadNotices);
  const [isCreating, setCreating] = useState(false);
  const list = useRef<HTMLUListElement>(null);
  useRowKeys(list);
  const mayCreate = mayDo(me, "create");
  useHotkeys({ n: () => mayCreate && setCreating(true) });
  const unreadIn = new Map<string, number>();
  for (const notice of unread.data?.notices ?? []) {
    const conversation = conversationOf(notice);
    if (conversation) unreadIn.set(conversation, (unreadIn.get(conversation) ?? 0) + 1);
  }
  const conversations = answer.data ?? [];
  const create = (
    <Button kind="primary" icon={<Plus aria-hidden="true" />} onClick={() => setCreating(true)} hotkey="n">
      New conversation
    </Button>
  );
  return (
    <Page
      title="Conversations"
      className="conversations"
      aside={
        <div className="filters">
          <Button
            aria-pressed={isArchived}
            onClick={() =>
              void navigate({
                to: "/conversations",
                search: { archived: isArchived ? undefined : "yes" },
                replace: true,
              })
            }
          >
            Archived
          </Button>
          {mayCreate && conversations.length > 0 ? create : null}
        </div>
      }
    >
      {answer.isPending ? <Skeleton label="Reading the conversations" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {answer.isSuccess && conversations.length === 0 ? (
        <Empty
          title={isArchived ? "No conversation at all" : "No conversation yet"}
          icon={<MessagesSquare aria-hidden="true" />}
          action={mayCreate ? create : undefined}
        >
          People and agents talk here in one place. An agent answers when it is mentioned, it reads what was
          said, and each answer is a turn that you can open, fork and explain.
        </Empty>
      ) : null}
      {conversations.length > 0 ? (
        <>
          <ul className="talk-list" ref={list} aria-label="Conversations">
            {conversations.map((one) => (
              <li key={one.id}>
                <Row conversation={one} unread={unreadIn.get(one.id) ?? 0} />
              </li>
            ))}
          </ul>
          <p className="sessions-command">
            <Command line="turntree conversation list" />
          </p>
        </>
      ) : null}
      {isCreating ? (
        <CreateDialog
          close={() => setCreating(false)}
          created={(made) => {
            setCreating(false);
            void navigate({ to: "/c/$conversation", params: { conversation: made.name } });
          }}
        />
      ) : null}
    </Page>
  );
}

function Row({ conversation, unread }: { conversation: ConversationDocument; unread: number }) {
  return (
    <Link
      to="/c/$conversation"
      params={{ conversation: conversation.name }}
      className={unread > 0 ? "talk-row unread" : "talk-row"}
      data-row=""
    >
      <span className="talk-row-name">
        <bdi className="talk-row-title clip">{visible(conversation.title)}</bdi>
        <span className="talk-row-about clip">
          <span className="mono clip">{visible(conversation.name)}</span>
          {conversation.visibility === "private" ? <Chip>private</Chip> : null}
          {conversation.state === "active" ? null : <Chip kind="warn">{conversation.state}</Chip>}
          {conversation.parent ? <Chip>fork</Chip> : null}
          {conversation.is_participant ? null : <Chip>not joined</Chip>}
        </span>
      </span>
      {unread > 0 ? (
        <span className="talk-unread">
          {unread}
          <span className="visually-hidden"> unread</span>
        </span>
      ) : (
        <span />
      )}
      <span className="talk-row-figures">
        {count(conversation.posts, "post")}, {count(conversation.participants, "participant")}
      </span>
      <span className="end faint">
        {conversation.posted_at ? <Time at={conversation.posted_at} /> : "new"}
      </span>
    </Link>
  );
}
