import { ActionIcon, Group, Menu, Pagination } from "@mantine/core";
import { useState } from "react";
import type { ApiKey } from "../data/api_keys.ts";
import { count, dayOf, formatRelative } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { isLive, stateOf } from "./key_state.ts";

export type KeyAction = "rotate" | "revoke";

export interface KeyTableProps {
  /** All keys of the organization, to find the successors of those that are shown. */
  all: ApiKey[];
  keys: ApiKey[];
  onOpen: (action: KeyAction, apiKey: ApiKey) => void;
}

const PAGE_SIZE = 50;

export function KeyTable({ all, keys, onOpen }: KeyTableProps) {
  const [chosen, setChosen] = useState(1);
  const columns: Column<ApiKey>[] = [
    {
      name: "Name",
      width: "26%",
      isRowHeader: true,
      onPhone: "line",
      cell: ({ name }) => <bdi title={name}>{name}</bdi>,
      hint: ({ hint }) => <code style={{ whiteSpace: "nowrap" }}>{hint}</code>,
    },
    {
      name: "State",
      cell: (key) => <State {...stateOf(key, all)} />,
      hint: (key) => explainState(key, all),
    },
    {
      name: "Last used",
      width: "180px",
      onPhone: "named",
      cell: ({ last_used_at }) =>
        last_used_at ? <Time value={last_used_at}>{formatRelative(last_used_at)}</Time> : "never",
      hint: ({ read_mode, requests_last_minute, quota }) =>
        requests_last_minute > 0
          ? `${requests_last_minute} of ${quota} requests a minute`
          : read_mode === "pages" && "May miss late entries",
    },
    {
      name: "Created",
      width: "170px",
      onPhone: "left out",
      cell: ({ created_at }) => <Time value={created_at}>{dayOf(created_at)}</Time>,
      hint: ({ created_by_email }) => created_by_email,
    },
    {
      name: "Actions",
      width: "48px",
      isNameHidden: true,
      cell: (key) => isLive(key) && <Actions apiKey={key} onOpen={onOpen} />,
    },
  ];
  const pages = Math.ceil(keys.length / PAGE_SIZE);
  const page = Math.min(chosen, pages);
  const first = (page - 1) * PAGE_SIZE;
  return (
    <>
      <Table
        label="API keys"
        columns={columns}
        rows={keys.slice(first, first + PAGE_SIZE)}
        idOf={({ id }) => id}
      />
      <Group justify="space-between">
        <span role="status">{count(keys.length, "key")}</span>
        {pages > 1 && <Pagination total={pages} value={page} onChange={setChosen} />}
      </Group>
    </>
  );
}

function explainState(apiKey: ApiKey, all: ApiKey[]): string {
  const { state, revoked_at, revoked_by_email, expires_at, successor_id } = apiKey;
  if (revoked_at) return `${dayOf(revoked_at)}${revoked_by_email ? ` by ${revoked_by_email}` : ""}`;
  const end = expires_at
    ? `${state === "expired" ? "ended" : "until"} ${dayOf(expires_at)}`
    : "never expires";
  const hint = all.find(({ id }) => id === successor_id)?.hint;
  const { todo = hint && `rotated to ${hint}` } = stateOf(apiKey, all);
  return todo ? `${end}; ${todo}` : end;
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
