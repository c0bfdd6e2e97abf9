import { ActionIcon, Menu } from "@mantine/core";
import { type ApiKey, isLive } from "../data/api_keys.ts";
import type { Usage } from "../data/log_usage.ts";
import { Bars } from "../shared/bars.tsx";
import { addDays, count, dayOf, formatRelative, today } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Hint, State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { explainState, labelsOf, needsSomebody } from "./key_state.tsx";

/** What a person can do with a live key. */
export type KeyAction = "connect" | "rotate" | "revoke";

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
      width: "minmax(150px, 1.4fr)",
      isRowHeader: true,
      onPhone: "line",
      cell: ({ name }) => <bdi title={name}>{name}</bdi>,
      hint: ({ hint }) => <code>{hint}</code>,
    },
    {
      name: "State",
      width: "minmax(190px, 2.4fr)",
      onPhone: "line",
      cell: (key) =>
        labelsOf(key, all).map(({ name, colour }) => (
          <div key={name}>
            <State name={name} colour={colour} />
          </div>
        )),
      hint: (key) => explainState(key, all),
    },
    {
      name: "Last used",
      width: "minmax(96px, 148px)",
      onPhone: "left out",
      cell: ({ last_used_at }) =>
        last_used_at ? <Time value={last_used_at}>{formatRelative(last_used_at)}</Time> : "never",
      hint: ({ requests_last_minute, quota }) =>
        requests_last_minute > 0 && `${requests_last_minute} of ${quota} in the last minute`,
    },
    {
      name: "Last 30 days",
      width: "minmax(90px, 136px)",
      onPhone: "left out",
      cell: (key) => <Chart usage={usageOf(key)} />,
    },
    {
      name: "Created",
      width: "minmax(84px, 1fr)",
      onPhone: "left out",
      cell: ({ created_at }) => <Time value={created_at}>{dayOf(created_at)}</Time>,
      hint: ({ created_by_email }) => created_by_email,
    },
    {
      name: "Actions",
      width: "32px",
      isNameHidden: true,
      cell: (key) => isLive(key) && <Actions apiKey={key} onOpen={onOpen} />,
    },
  ];
  const needing = keys.filter((key) => needsSomebody(key, all)).length;
  return (
    <>
      <Table label="API keys" columns={columns} rows={keys} idOf={({ id }) => id} />
      <span role="status">
        {count(keys.length, "key")}
        {needing > 0 && `, ${needing} of them ${needing === 1 ? "needs" : "need"} somebody`}
      </span>
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
        <Menu.Divider />
        <Menu.Item c="var(--mantine-color-error)" onClick={() => onOpen("revoke", apiKey)}>
          Revoke …
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
