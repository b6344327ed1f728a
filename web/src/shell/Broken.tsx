import { useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useIsCutOff } from "../api/stream.ts";
import { Failure } from "../parts/States.tsx";

/** A page that threw: the rest of the shell stays. */
export function Broken(props: { error: unknown; reset?: () => void }) {
  const router = useRouter();
  const isCutOff = useIsCutOff();
  const wasCutOff = useRef(isCutOff);
  const retry = () => {
    props.reset?.();
    void router.invalidate();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: only that the server is back tries again by itself.
  useEffect(() => {
    if (wasCutOff.current && !isCutOff) retry();
    wasCutOff.current = isCutOff;
  }, [isCutOff]);
  return (
    <div className="page">
      <h1 className="visually-hidden">Something went wrong</h1>
      <Failure error={props.error} retry={retry} />
    </div>
  );
}
