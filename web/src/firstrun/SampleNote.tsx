import { useMutation } from "@tanstack/react-query";
import { write } from "../api/client.ts";
import { useMe } from "../api/me.ts";
import { Button } from "../parts/Button.tsx";
import "./sample.css";

/** Says that this is sample data, and leads back to the user's own. */
export function SampleNote() {
  const me = useMe();
  const leave = useMutation({
    mutationFn: () => write("/demo", { leaves: true }),
    onSuccess: () => location.assign("/welcome"),
  });
  if (!me?.sample) return null;
  return (
    <p className="sample-note">
      <span>This is sample data, in a workspace of its own.</span>
      <Button kind="quiet" onClick={() => leave.mutate()} disabled={leave.isPending}>
        Back to my own history
      </Button>
    </p>
  );
}
