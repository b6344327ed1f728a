import { ShieldAlert, ShieldCheck } from "lucide-react";
import { bytes } from "../../core/format.ts";
import { Failure, Skeleton } from "../../parts/States.tsx";
import { CodeText, CopyButton } from "../code/Code.tsx";
import { visible } from "../text.ts";
import type { Turn } from "../wire.ts";
import { useAbout } from "./useAbout.ts";

/** The bytes of the turn, hashed again while you look, and the records that it was made from. */
export function RawTab({ turn }: { turn: Turn }) {
  const raw = useAbout("/turns/{revision}/raw", { revision: turn.id });
  if (raw.isPending) return <Skeleton rows={6} label="Hashing the turn again" />;
  if (raw.isError) return <Failure error={raw.error} retry={() => void raw.refetch()} compact />;
  const { data } = raw;
  return (
    <>
      <p className={data.verified ? "proof ok" : "proof bad"}>
        {data.verified ? <ShieldCheck aria-hidden="true" /> : <ShieldAlert aria-hidden="true" />}
        {data.verified
          ? "Hashed again just now: the bytes match the digest."
          : "The bytes do not match the digest."}
      </p>
      {data.findings.map((finding) => (
        <p key={finding} className="proof bad">
          {visible(finding)}
        </p>
      ))}
      <dl className="digests">
        <dt>Digest</dt>
        <dd>
          <code>{data.digest}</code>
          <CopyButton text={data.digest} label="Copy the digest" />
        </dd>
        <dt>Parent</dt>
        <dd>
          <code>{data.parent_digest ?? "none: it begins its tree"}</code>
        </dd>
      </dl>
      <h3>
        Canonical bytes <span>{bytes(data.bytes)}</span>
      </h3>
      <CodeText text={data.canonical} language="json" isWrapped label="The canonical bytes of the turn" />
      {data.is_cut ? <p className="note">This is only the beginning.</p> : null}
      {data.records.map((record, index) => (
        <details key={index} className="model-call">
          <summary>
            <span className="clip">{visible(record.source)}</span>
            <span className="faint">{bytes(record.bytes)}</span>
          </summary>
          <CodeText
            text={record.text}
            language="json"
            isWrapped
            label={`A record of ${visible(record.source)}`}
          />
        </details>
      ))}
    </>
  );
}
