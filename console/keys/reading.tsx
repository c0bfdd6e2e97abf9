import { Alert, Loader } from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { useEffect, useState } from "react";
import { type ApiKey, useApiKeys } from "../data/api_keys.ts";
import { type Usage, useUsage } from "../data/log_usage.ts";
import { count, DAY_MS, dayOf, formatRelative, formatTime, lastDays, now } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";

/** After so long without a request, something may be wrong on the other side. */
const PATIENCE_MS = 30_000;

/** Says whether the application that has a key reads entries. Only entries that were read are good news. */
export function Reading({ apiKeyId }: { apiKeyId: string }) {
  const apiKey = useApiKeys().data?.find(({ id }) => id === apiKeyId);
  const window = lastDays(30);
  const { data: usage, refetch } = useUsage(window);
  const [isLate, setIsLate] = useState(false);
  useTimeout(() => setIsLate(true), PATIENCE_MS, { autoInvoke: true });
  // What was read belongs to the last request.
  const usedAt = apiKey?.last_used_at ?? null;
  useEffect(() => {
    if (usedAt) void refetch();
  }, [usedAt]);
  if (!apiKey) return null;
  const used = usage?.filter(({ api_key_id }) => api_key_id === apiKeyId);
  const { text, colour } = judge(apiKey, used, isLate);
  const isFirstKnown = dayOf(apiKey.created_at) >= window.start;
  const first = isFirstKnown && used?.map(({ first_at }) => first_at).sort()[0];
  return (
    <Alert
      color={colour}
      role="status"
      p="xs"
      icon={colour === "green"
        ? <Icon name="check" />
        : colour === "gray" && <Loader size={14} color="dimmed" aria-hidden />}
    >
      {text}
      {first && ` The first request came at ${formatTime(first).slice(0, 19)}.`}
    </Alert>
  );
}

function judge({ hint, last_used_at }: ApiKey, usage: Usage[] | undefined, isLate: boolean) {
  const refused = `If the application gets 401, it sends another token: this key's is ${hint}. ` +
    "If it gets no answer, compare the address.";
  if (!last_used_at) {
    const text = "Waiting for the first request …";
    return isLate
      ? { colour: "yellow", text: `No request yet. ${refused}` }
      : { colour: "gray", text };
  }
  const ago = formatRelative(last_used_at);
  if (now() - Date.parse(last_used_at) > DAY_MS) {
    return { colour: "yellow", text: `Silent: the last request came ${ago}. ${refused}` };
  }
  // Earlier days come first.
  const latest = usage?.at(-1);
  if (!usage || !latest) return { colour: "gray", text: `Last request ${ago}.` };
  if (latest.invalid_requests === latest.requests) {
    const requests = count(latest.requests, "request");
    const text = `${requests}, refused with 400: the answer says what to correct. Last ${ago}.`;
    return { colour: "yellow", text };
  }
  const sum = (of: "requests" | "entries") => usage.reduce((total, row) => total + row[of], 0);
  if (sum("entries") > 0) {
    const entries = count(sum("entries"), "entry", "entries");
    return { colour: "green", text: `Reading: ${entries} in 30 days, last ${ago}.` };
  }
  const text = `${count(sum("requests"), "request")} and 0 entries read, last ${ago}. Are there ` +
    "entries on the days that the application asks for?";
  return { colour: "yellow", text };
}
