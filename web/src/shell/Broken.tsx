import { useRouter } from "@tanstack/react-router";
import { Failure } from "../parts/States.tsx";

/** A page that threw: the rest of the shell stays. */
export function Broken(props: { error: unknown; reset?: () => void }) {
  const router = useRouter();
  return (
    <div className="page">
      <h1 className="visually-hidden">Something went wrong</h1>
      <Failure
        error={props.error}
        retry={() => {
          props.reset?.();
          void router.invalidate();
        }}
      />
    </div>
  );
}
