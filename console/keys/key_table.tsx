import { ActionIcon, Menu } from "@mantine/core";
import type { Reads } from "../access/data.ts";
import { addDays, count, dayOf, type Days, formatRelative, today } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Hint, State, Time } from "../shared/parts.tsx";
import styles from "../shared/table.module.css";
import { type Column, sorted, Table } from "../shared/table.tsx";
import { compareNames } from "../shell/organization.ts";
import { type ApiKey, isLive } from "./data.ts";
import { explainState, STATES } from "./key_state.tsx";
import type { KeysAddress, Opened } from "./keys.tsx";

/** Keys on a page. */
export const PAGE_SIZE = 25;

export interface KeyTableProps {
  /** Every key of the organization, among them the successors of others. */
  all: ApiKey[];
  keys: ApiKey[];
  page: number;
  /** Undefined until they are read. */
  readsOf: (key: ApiKey) => Reads[] | undefined;
  days: Days;
  address: KeysAddress;
  onChange: (changes: Partial<KeysAddress>) => void;
  onOpen: (opened: Opened) => void;
}

export function KeyTable(props: KeyTableProps) {
  const { all, keys, page, readsOf, days, address, onChange, onOpen } = props;
  const columns: Column<ApiKey>[] = [
    {
      name: "Name",
      width: "minmax(0, 1.7fr)",
      sort: { by: "name", compare: (a, b) => compareNames(a.name, b.name) },
      isRowHeader: true,
      cell: ({ name }) => <bdi title={name}>{name}</bdi>,
      hint: ({ hint }) => <code>{hint}</code>,
    },
    {
      name: "State",
      width: "150px",
      cell: ({ state }) => <State colour={STATES[state].colour}>{STATES[state].name}</State>,
      hint: (key) => explainState(key, all),
    },
    {
      name: "Created",
      width: "minmax(0, 1fr)",
      sort: { by: "created", compare: (a, b) => time(a.created_at) - time(b.created_at) },
      cell: ({ created_at }) => <Time value={created_at}>{dayOf(created_at)}</Time>,
      hint: ({ created_by_email }) => created_by_email && `by ${created_by_email}`,
    },
    {
      name: "Expires",
      width: "96px",
      sort: {
        by: "expires",
        compare: (a, b) => time(a.expires_at, NEVER) - time(b.expires_at, NEVER),
      },
      cell: ({ expires_at }) =>
        expires_at ? <Time value={expires_at}>{dayOf(expires_at)}</Time> : "never",
      hint: ({ expires_at, state }) =>
        expires_at && state !== "revoked" && formatRelative(expires_at),
    },
    {
      name: "Last used",
      width: "148px",
      sort: { by: "used", compare: (a, b) => time(a.last_used_at) - time(b.last_used_at) },
      cell: ({ last_used_at }) =>
        last_used_at ? <Time value={last_used_at}>{formatRelative(last_used_at)}</Time> : "never",
      hint: ({ requests_last_minute, quota }) =>
        requests_last_minute > 0 && `${requests_last_minute} of ${quota} in the last minute`,
    },
    {
      name: "Last 30 days",
      width: "136px",
      cell: (key) => <Usage reads={readsOf(key)} days={days} />,
    },
    {
      name: "Actions",
      width: "32px",
      isNameHidden: true,
      cell: (key) => isLive(key) && <Actions apiKey={key} onOpen={onOpen} />,
    },
  ];
  return (
    <Table
      label="API keys"
      columns={columns}
      rows={sorted(keys, columns, address).slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)}
      idOf={({ id }) => id}
      sorting={address}
      onSort={onChange}
    />
  );
}

const NEVER = Number.MAX_SAFE_INTEGER;

function time(value: string | null, ifNull = 0): number {
  return value ? Date.parse(value) : ifNull;
}

/** The requests of a key, by day. */
function Usage({ reads, days }: { reads: Reads[] | undefined; days: Days }) {
  if (!reads) return <Hint>…</Hint>;
  const byDay = new Map(reads.map(({ day, requests }) => [day, requests]));
  const total = reads.reduce((sum, { requests }) => sum + requests, 0);
  if (total === 0) return <Hint>none</Hint>;
  const bars: number[] = [];
  for (let day = days.start; day <= days.end; day = addDays(day, 1)) bars.push(byDay.get(day) ?? 0);
  const highest = Math.max(...bars);
  const ofToday = (byDay.get(today()) ?? 0).toLocaleString("en");
  return (
    <>
      <svg
        className={styles.usage}
        viewBox={`0 0 ${bars.length * 3} 20`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Requests by day: ${bars.join(" ")}`}
      >
        {bars.map((requests, index) => {
          const height = requests ? Math.max(1, requests / highest * 20) : 0;
          return <rect key={index} x={index * 3} y={20 - height} width={2} height={height} />;
        })}
      </svg>
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
        <Menu.Item onClick={() => onOpen({ what: "connect", apiKey })}>Connect …</Menu.Item>
        {!apiKey.successor_id && (
          <Menu.Item onClick={() => onOpen({ what: "rotate", apiKey })}>Rotate …</Menu.Item>
        )}
        <Menu.Item onClick={() => onOpen({ what: "revoke", apiKey })}>Revoke …</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
