import { Alert, Loader } from "@mantine/core";
import { useEffect, useState } from "react";
import { type ApiKey, useApiKeys } from "../data/api_keys.ts";
import { type Usage, useKeyUsage } from "../data/log_usage.ts";
import {
  count,
  DAY_MS,
  dayOf,
  formatRelative,
  formatTime,
  lastDays,
  secondsSince,
} from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";

/** After so long without a request, something may be wrong on the other side. */
const PATIENCE_SECONDS = 30;

/** Says whether the application that has a key reads entries. Only entries that are read are good news. */
export function ReadingNews({ apiKeyId }: { apiKeyId: string }) {
  const apiKey = useApiKeys().data?.find(({ id }) => id === apiKeyId);
  const { usage, refetch } = useKeyUsage({ id: apiKeyId });
  const isInvalid = useIsInvalid(usage?.at(-1));
  // What was read belongs to the last request.
  const usedAt = apiKey?.last_used_at ?? null;
  useEffect(() => {
    if (usedAt) void refetch();
  }, [usedAt]);
  if (!apiKey) return null;
  const { text, colour } = judge(apiKey, usage, isInvalid);
  const isFirstKnown = dayOf(apiKey.created_at) >= lastDays(30).start;
  const first = isFirstKnown && usage?.map(({ first_at }) => first_at).sort()[0];
  return (
    <Alert
      color={colour}
      role="status"
      p="xs"
      icon={colour === "green"
        ? <Icon name="check" />
        : colour === "gray" && !usedAt && <Loader size={14} color="dimmed" aria-hidden />}
    >
      {text}
      {first && ` The first request came at ${formatTime(first).slice(0, 19)} UTC.`}
    </Alert>
  );
}

/** Whether all requests since the last look were invalid (400): since the day began, at the first look. */
function useIsInvalid(latest: Usage | undefined): boolean {
  const [seen, setSeen] = useState({ day: "", requests: 0, invalid: 0, isInvalid: false });
  if (!latest) return false;
  const { day, requests, invalid_requests: invalid } = latest;
  const before = seen.day === day ? seen : { requests: 0, invalid: 0 };
  if (requests === before.requests) return seen.isInvalid;
  const isInvalid = requests - before.requests === invalid - before.invalid;
  setSeen({ day, requests, invalid, isInvalid });
  return isInvalid;
}

function judge(apiKey: ApiKey, usage: Usage[] | undefined, isInvalid: boolean) {
  const { hint, last_used_at, created_at } = apiKey;
  const isSilent = secondsSince(last_used_at ?? created_at) > PATIENCE_SECONDS;
  const advice = `If the application gets 401, it sends another token: this key's is ${hint}. ` +
    "If it gets no answer, compare the address.";
  if (!last_used_at) {
    return isSilent
      ? { colour: "yellow", text: `No request yet. ${advice}` }
      : { colour: "gray", text: "Waiting for the first request …" };
  }
  const ago = formatRelative(last_used_at);
  // Earlier days come first.
  const latest = usage?.at(-1);
  if (!usage || !latest) return { colour: "gray", text: `Last request ${ago}.` };
  const invalid = latest.invalid_requests;
  if (isInvalid) {
    const text = `${
      count(invalid, "request")
    } refused with 400: the answer says what to correct. Last ${ago}.`;
    return { colour: "yellow", text };
  }
  const sum = (of: "requests" | "entries") => usage.reduce((total, row) => total + row[of], 0);
  const entries = count(sum("entries"), "entry", "entries");
  if (sum("entries") === 0) {
    const text =
      `${count(sum("requests"), "request")} and 0 entries read, last ${ago}. Are there ` +
      "entries on the days that the application asks for?";
    return { colour: "yellow", text };
  }
  if (secondsSince(last_used_at) > DAY_MS / 1000) {
    return { colour: "yellow", text: `Silent: the last request came ${ago}. ${advice}` };
  }
  if (isSilent) {
    return { colour: "gray", text: `${entries} read in 30 days, last ${ago}. ${advice}` };
  }
  const but = invalid > 0 ? ` ${count(invalid, "request")} of today refused with 400.` : "";
  return { colour: "green", text: `Reading: ${entries} in 30 days, last ${ago}.${but}` };
}
