import { ExternalLink, Image } from "lucide-react";
import { Fragment, memo, type ReactNode, useMemo } from "react";
import { Code } from "../code/Code.tsx";
import { piecesOf, visible } from "../text.ts";
import { type Block, type Inline, parseMarkdown, plainOf } from "./blocks.ts";
import { MentionBadge } from "./Mention.tsx";

/** What a person, a model or a tool wrote, as prose. Its headings stand below the page's own. */
export const Markdown = memo(function Markdown(props: { text: string }) {
  const blocks = useMemo(() => parseMarkdown(visible(props.text)), [props.text]);
  return (
    <div className="prose" dir="auto">
      {blocks.map(blockElement)}
    </div>
  );
});

function blockElement(block: Block, key: number): ReactNode {
  switch (block.is) {
    case "paragraph":
      return <p key={key}>{inlineElements(block.of)}</p>;
    case "heading": {
      // The page has the first two levels: its own title, and the question of the turn.
      const Heading = block.level <= 1 ? "h3" : block.level === 2 ? "h4" : "h5";
      return <Heading key={key}>{inlineElements(block.of)}</Heading>;
    }
    case "code":
      return <Code key={key} text={block.text} lang={block.lang} />;
    case "quote":
      return <blockquote key={key}>{block.of.map(blockElement)}</blockquote>;
    case "list": {
      const items = block.items.map((item, index) => (
        <li key={index} className={item.done === null ? undefined : "task"}>
          {item.done === null ? null : <span className="box">{item.done ? "☑" : "☐"}</span>}
          {item.of.length === 1 && item.of[0]?.is === "paragraph"
            ? inlineElements(item.of[0].of)
            : item.of.map(blockElement)}
        </li>
      ));
      return block.start === null ? (
        <ul key={key}>{items}</ul>
      ) : (
        <ol key={key} start={block.start}>
          {items}
        </ol>
      );
    }
    case "table":
      return (
        <div key={key} className="table" role="group" aria-label="Table" tabIndex={0}>
          <table>
            <thead>
              <tr>
                {block.head.map((cell, index) =>
                  cell.of.length === 0 ? (
                    <td key={index} />
                  ) : (
                    <th key={index} scope="col" className={cell.align ?? undefined}>
                      {inlineElements(cell.of)}
                    </th>
                  ),
                )}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row, number) => (
                <tr key={number}>
                  {row.map((cell, index) => (
                    <td key={index} className={cell.align ?? undefined}>
                      {inlineElements(cell.of)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "rule":
      return <hr key={key} />;
    case "plain":
      return <PlainText key={key} text={block.text} />;
  }
}

/** Text as it is. A long one is laid out piece by piece as it comes into view. */
export function PlainText(props: { text: string }) {
  return (
    <p className="plain">
      {piecesOf(props.text).map((piece, index) => (
        <span key={index} className="piece">
          {piece}
        </span>
      ))}
    </p>
  );
}

function inlineElements(inlines: Inline[]): ReactNode[] {
  return inlines.map((inline, key) => {
    switch (inline.is) {
      case "text":
        return <Fragment key={key}>{inline.text}</Fragment>;
      case "code":
        return <code key={key}>{inline.text}</code>;
      case "break":
        return <br key={key} />;
      case "mention":
        return <MentionBadge key={key} mention={inline.mention} />;
      case "link":
        return (
          <WebLink key={key} href={inline.href} host={inline.host} words={inline.of.map(plainOf).join("")}>
            {inlineElements(inline.of)}
          </WebLink>
        );
      case "image":
        return (
          <WebLink key={key} href={inline.href} host={inline.host} words={inline.text}>
            <Image aria-hidden="true" /> {inline.text || "image"}
          </WebLink>
        );
      default: {
        const Mark = inline.is;
        return <Mark key={key}>{inlineElements(inline.of)}</Mark>;
      }
    }
  });
}

/** A link that says where it leads: its words are chosen by others. */
export function WebLink(props: { href: string; host: string; words: string; children: ReactNode }) {
  const words = props.words.trim();
  const saysSo = words === props.href || words === props.host || `${words}/` === props.href;
  return (
    <a
      className="web"
      href={props.href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      title={props.href}
    >
      {props.children}
      {saysSo ? null : <small> {props.host}</small>}
      <ExternalLink aria-label="opens in a new tab" role="img" />
    </a>
  );
}
