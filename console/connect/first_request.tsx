import { useApiKeys } from "../keys/data.ts";
import { formatRelative } from "../shared/days.ts";
import { State } from "../shared/parts.tsx";

const POLL_MS = 3_000;

/** Tells when the application has made its first request with a key. */
export function FirstRequest({ apiKeyId }: { apiKeyId: string }) {
  const { data } = useApiKeys(POLL_MS);
  const usedAt = data?.find(({ id }) => id === apiKeyId)?.last_used_at;
  return (
    <div role="status">
      {usedAt
        ? <State colour="var(--good)">Connected: last request {formatRelative(usedAt)}</State>
        : <State colour="var(--waiting)">Waiting for the first request …</State>}
    </div>
  );
}
