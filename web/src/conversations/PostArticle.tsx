import { Link } from "@tanstack/react-router";
import { Eraser, GitFork, Info, Link2 } from "lucide-react";
import { memo } from "react";
import { actStore } from "../act/acts.ts";
import { useOffered } from "../act/offers.ts";
import type { Post } from "../api/conversations.ts";
import { joinWords, shortId } from "../core/format.ts";
import { Time } from "../parts/Figures.tsx";
import { Markdown } from "../thread/markdown/Markdown.tsx";
import { visible } from "../thread/text.ts";
import { Avatar } from "./Avatar.tsx";
import { personOf } from "./people.ts";

interface Props {
  post: Post;
  names: ReadonlyMap<string, string>;
  /** Whether it calls the reader. */
  isForReader: boolean;
  /** Whether a link led here. */
  isMarked: boolean;
  mayErase: boolean;
  mayFork: boolean;
  act: (kind: "fork" | "erase" | "link", post: number) => void;
}

/** What a participant said, or the system; an answer with the turn that it is. */
export const PostArticle = memo(function PostArticle(props: Props) {
  const { post, names } = props;
  const author = post.author === null ? null : personOf(post.author, names);
  const classes = [
    "post",
    author === null ? "by-system" : `by-${author.kind}`,
    ...(props.isForReader ? ["for-reader"] : []),
    ...(props.isMarked ? ["marked"] : []),
  ];
  const name = author === null ? "Turntree" : visible(author.name);
  return (
    <article
      id={`post-${post.seq}`}
      className={classes.join(" ")}
      data-post={post.seq}
      data-row=""
      tabIndex={-1}
      aria-label={`Post ${post.seq} by ${name}`}
    >
      {author === null ? (
        <i className="avatar of-system" aria-hidden="true">
          <Info />
        </i>
      ) : (
        <Avatar person={author} />
      )}
      <div className="post-body">
        <header className="post-head">
          <b>
            <bdi>{name}</bdi>
          </b>
          {author?.kind === "agent" ? <span className="post-kind">agent</span> : null}
          <Time at={post.at} as="moment" />
          <span className="post-acts">
            <button
              type="button"
              className="icon-button"
              title="Copy a link to this post"
              aria-label={`Copy a link to post ${post.seq}`}
              onClick={() => props.act("link", post.seq)}
            >
              <Link2 aria-hidden="true" />
            </button>
            {props.mayFork ? (
              <button
                type="button"
                className="icon-button"
                title="Fork the conversation here"
                aria-label={`Fork the conversation at post ${post.seq}`}
                onClick={() => props.act("fork", post.seq)}
              >
                <GitFork aria-hidden="true" />
              </button>
            ) : null}
            {props.mayErase && post.content !== null ? (
              <button
                type="button"
                className="icon-button"
                title="Erase this post"
                aria-label={`Erase post ${post.seq}`}
                onClick={() => props.act("erase", post.seq)}
              >
                <Eraser aria-hidden="true" />
              </button>
            ) : null}
          </span>
        </header>
        {post.content === null ? (
          <p className="post-erased" title={post.digest}>
            This post was erased. Its place and its digest stay.
          </p>
        ) : (
          <Markdown text={post.content} />
        )}
        <PostTurn post={post} />
        <Decision post={post} names={names} />
      </div>
    </article>
  );
});

/** The turn of an answer, also of one that was not given: to open it, see why it is there, or go on from it. */
function PostTurn({ post }: { post: Post }) {
  const offered = useOffered();
  const { turn, turn_digest: digest } = post;
  if (turn === null) return null;
  const title = visible(post.content ?? "").slice(0, 80);
  const id = shortId(digest ?? turn);
  return (
    <p className="post-turn">
      <Link to="/t/$turn" params={{ turn }} aria-label={`Open the turn ${id} of post ${post.seq}`}>
        turn <span className="mono">{id}</span>
      </Link>
      <Link
        to="/t/$turn"
        params={{ turn }}
        search={{ tab: "why" }}
        aria-label={`Why post ${post.seq} is there`}
      >
        why
      </Link>
      {digest !== null && offered("fork") ? (
        <button
          type="button"
          className="link"
          aria-label={`Fork the session at the turn of post ${post.seq}`}
          onClick={() => actStore.open({ kind: "fork", target: { turn: { id: turn, digest, title } } })}
        >
          fork
        </button>
      ) : null}
    </p>
  );
}

const BY: Record<string, string> = {
  rules: "by rules",
  rank: "by what agents answered before",
  model: "by a model",
};

/** Who was chosen to answer a post without a mention, and why. */
function Decision({ post, names }: { post: Post; names: ReadonlyMap<string, string> }) {
  if (post.decision_pending) return <p className="post-decision">Deciding who answers…</p>;
  const { decision } = post;
  if (!decision) return null;
  const agents = decision.agents.map((agent) => {
    const principal = agent.startsWith("agent:") ? agent : `agent:${agent}`;
    return visible(personOf(principal, names).name);
  });
  return (
    <p className="post-decision">
      <b>{agents.length > 0 ? `Sent to ${joinWords(agents)}` : "Left for people"}</b>
      {decision.reason ? `: ${visible(decision.reason)}` : ""}{" "}
      <span className="faint">({BY[decision.by] ?? visible(decision.by)})</span>{" "}
      {decision.turn ? (
        <Link
          to="/t/$turn"
          params={{ turn: decision.turn }}
          aria-label={`Open the decision about post ${post.seq}`}
        >
          decision
        </Link>
      ) : null}
    </p>
  );
}
