import { Alert } from "@mantine/core";
import { useEffect } from "react";
import type { ApiKey } from "../data/api_keys.ts";
import { useKeyUsage } from "../data/log_usage.ts";
import { count, formatRelative, today } from "../shared/days.ts";

/** Says who would miss a key. */
export function LastUse({ apiKey }: { apiKey: ApiKey }) {
  const { usage, refetch } = useKeyUsage(apiKey);
  // "0 requests today" of a minute ago would mislead.
  useEffect(() => void refetch(), []);
  const { last_used_at } = apiKey;
  if (!last_used_at) return <Alert color="gray">This key has never been used.</Alert>;
  const requests = usage?.find(({ day }) => day === today())?.requests ?? 0;
  const ip = usage?.findLast(({ last_address }) => last_address)?.last_address;
  const known = [
    `Last used ${formatRelative(last_used_at)}`,
    usage && `${count(requests, "request")} today`,
    ip && `last from ${ip}`,
  ];
  return <Alert color="yellow">{known.filter(Boolean).join(", ")}.</Alert>;
}
