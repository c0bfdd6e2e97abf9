import { ActionIcon, Menu } from "@mantine/core";
import { type ApiKey, isLive } from "../data/api_keys.ts";
import type { Usage } from "../data/log_usage.ts";
import { Bars } from "../shared/bars.tsx";
import { addDays, count, dayOf, formatRelative, today } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Hint, State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { explainState, STATES } from "./key_state.tsx";

/** What a person can do with a live key. */
export type KeyAction = "connect" | "rotate" | "confirm" | "revoke";

export interface KeyTableProps {
  /** All keys of the organization, to find the successors of those that are shown. */
  all: ApiKey[];
  keys: ApiKey[];
  /** Returns undefined until it is read. */
  usageOf: (key: ApiKey) => Usage[] | undefined;
  onOpen: (action: KeyAction, apiKey: ApiKey) => void;
}

export function KeyTable({ all, keys, usageOf, onOpen }: KeyTableProps) {
  const columns: Column<ApiKey>[] = [
    {
      name: "Name",
      width: "minmax(150px, 1.7fr)",
      isRowHeader: true,
      cell: ({ name }) => <bdi title={name}>{name}</bdi>,
      hint: ({ hint }) => <code>{hint}</code>,
    },
    {
      name: "State",
      width: "minmax(104px, 150px)",
      cell: ({ state }) => <State {...STATES[state]} />,
      hint: (key) => explainState(key, all),
    },
    {
      name: "Created",
      width: "minmax(84px, 1fr)",
      cell: ({ created_at }) => <Time value={created_at}>{dayOf(created_at)}</Time>,
      hint: ({ created_by_email, confirmed_by_email, maker_left_at }) => {
        if (maker_left_at) {
          return <State name={`maker left ${dayOf(maker_left_at)}`} colour="var(--soon)" />;
        }
        return confirmed_by_email ? `confirmed by ${confirmed_by_email}` : created_by_email;
      },
    },
    {
      name: "Expires",
      width: "minmax(80px, 96px)",
      cell: ({ expires_at }) =>
        expires_at ? <Time value={expires_at}>{dayOf(expires_at)}</Time> : "never",
      hint: ({ expires_at, state }) =>
        expires_at && state !== "revoked" && formatRelative(expires_at),
    },
    {
      name: "Last used",
      width: "minmax(96px, 148px)",
      cell: ({ last_used_at }) =>
        last_used_at ? <Time value={last_used_at}>{formatRelative(last_used_at)}</Time> : "never",
      hint: ({ requests_last_minute, quota }) =>
        requests_last_minute > 0 && `${requests_last_minute} of ${quota} in the last minute`,
    },
    {
      name: "Last 30 days",
      width: "minmax(90px, 136px)",
      cell: (key) => <Chart usage={usageOf(key)} />,
    },
    {
      name: "Actions",
      width: "32px",
      isNameHidden: true,
      cell: (key) => isLive(key) && <Actions apiKey={key} onOpen={onOpen} />,
    },
  ];
  return (
    <>
      <Table
        label="API keys"
        columns={columns}
        rows={keys}
        idOf={({ id }) => id}
      />
      <span role="status">{count(keys.length, "key")}</span>
    </>
  );
}

function Chart({ usage }: { usage: Usage[] | undefined }) {
  if (!usage) return <Hint>…</Hint>;
  const byDay = new Map(usage.map(({ day, requests }) => [day, requests]));
  const total = usage.reduce((sum, { requests }) => sum + requests, 0);
  if (total === 0) return <Hint>none</Hint>;
  const bars = Array.from({ length: 30 }, (_, n) => byDay.get(addDays(today(), n - 29)) ?? 0);
  const ofToday = (byDay.get(today()) ?? 0).toLocaleString("en");
  return (
    <>
      <Bars label={`Requests by day: ${bars.join(" ")}`} bars={bars.map((value) => ({ value }))} />
      <Hint>{`${count(total, "request")}, ${ofToday} today`}</Hint>
    </>
  );
}

function Actions({ apiKey, onOpen }: { apiKey: ApiKey; onOpen: KeyTableProps["onOpen"] }) {
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon aria-label={`Actions for ${apiKey.name}, ${apiKey.hint}`}>
          <Icon name="dots" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onOpen("connect", apiKey)}>Connect …</Menu.Item>
        {!apiKey.successor_id && (
          <Menu.Item onClick={() => onOpen("rotate", apiKey)}>Rotate …</Menu.Item>
        )}
        {apiKey.maker_left_at && (
          <Menu.Item onClick={() => onOpen("confirm", apiKey)}>Confirm</Menu.Item>
        )}
        <Menu.Item onClick={() => onOpen("revoke", apiKey)}>Revoke …</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
