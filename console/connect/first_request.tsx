import { Alert, Loader } from "@mantine/core";
import { useApiKeys } from "../keys/data.ts";
import { formatRelative } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";

const POLL_MS = 3_000;

/** Tells when the application has made its first request with a key. */
export function FirstRequest({ apiKeyId }: { apiKeyId: string }) {
  const { data } = useApiKeys(POLL_MS);
  const usedAt = data?.find(({ id }) => id === apiKeyId)?.last_used_at;
  return (
    <Alert
      color={usedAt ? "green" : "gray"}
      role="status"
      p="xs"
      icon={usedAt ? <Icon name="check" /> : <Loader size={14} color="gray" aria-hidden />}
    >
      {usedAt
        ? `Connected: last request ${formatRelative(usedAt)}`
        : "Waiting for the first request …"}
    </Alert>
  );
}
