import { ActionIcon, Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Reads } from "../access/data.ts";
import { dayOf, type Days, formatRelative } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Hint, State, Time } from "../shared/parts.tsx";
import { type Column, type Sorting, Table } from "../shared/table.tsx";
import { STATE_COLOURS, STATES } from "./address.ts";
import { type ApiKey, isLive } from "./data.ts";
import { keepsUp } from "./keeps_up.ts";
import type { Opened } from "./keys.tsx";
import { UseChart } from "./use_chart.tsx";

export interface KeyTableProps {
  /** Every key of the organization, among them the successors of others. */
  all: ApiKey[];
  keys: ApiKey[];
  /** Undefined while it has not been read. */
  readsOf: (key: ApiKey) => Reads[] | undefined;
  days: Days;
  sorting: Sorting;
  onOpen: (opened: Opened) => void;
}

export function KeyTable({ all, keys, readsOf, days, sorting, onOpen }: KeyTableProps) {
  const columns: Column<ApiKey>[] = [
    {
      name: "Name",
      width: "minmax(0, 1.7fr)",
      sort: "name",
      isRowHeader: true,
      cell: ({ name, hint }) => (
        <>
          <bdi title={name}>{name}</bdi>
          <Hint>
            <code>{hint}</code>
          </Hint>
        </>
      ),
    },
    { name: "State", width: "150px", cell: (key) => <KeyState apiKey={key} all={all} /> },
    {
      name: "Created",
      width: "minmax(0, 1fr)",
      sort: "created",
      cell: ({ created_at, created_by_email }) => (
        <>
          <Time value={created_at}>{dayOf(created_at)}</Time>
          {created_by_email && <Hint>by {created_by_email}</Hint>}
        </>
      ),
    },
    {
      name: "Expires",
      width: "96px",
      sort: "expires",
      cell: ({ expires_at, state }) =>
        expires_at
          ? (
            <>
              <Time value={expires_at}>{dayOf(expires_at)}</Time>
              {state !== "revoked" && <Hint>{formatRelative(expires_at)}</Hint>}
            </>
          )
          : "never",
    },
    {
      name: "Last used",
      width: "148px",
      sort: "used",
      cell: ({ last_used_at, requests_last_minute, quota }) => (
        <>
          {last_used_at
            ? <Time value={last_used_at}>{formatRelative(last_used_at)}</Time>
            : "never"}
          {requests_last_minute > 0 && (
            <Hint>{requests_last_minute} of {quota} in the last minute</Hint>
          )}
        </>
      ),
    },
    {
      name: "Last 30 days",
      width: "136px",
      cell: (key) => <UseChart reads={readsOf(key)} days={days} />,
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
      rows={keys}
      idOf={({ id }) => id}
      sorting={sorting}
    />
  );
}

function KeyState({ apiKey, all }: { apiKey: ApiKey; all: ApiKey[] }) {
  const { state, revoked_at, revoked_by_email, successor_id } = apiKey;
  const successor = all.find(({ id }) => id === successor_id);
  return (
    <>
      <State colour={STATE_COLOURS[state]}>{STATES[state]}</State>
      {revoked_at && (
        <Hint>
          <Time value={revoked_at}>{dayOf(revoked_at)}</Time>
          {revoked_by_email && ` by ${revoked_by_email}`}
        </Hint>
      )}
      {isLive(apiKey) && !successor && apiKey.last_used_at && <Hint>{keepsUp(apiKey)[0]}</Hint>}
      {successor && !revoked_at && (
        <Hint>
          rotated to{" "}
          <Link
            from="/$organizationId/keys"
            to="."
            search={{ search: successor.hint }}
            title="Show its successor"
          >
            {successor.hint}
          </Link>
        </Hint>
      )}
    </>
  );
}

interface ActionsProps {
  apiKey: ApiKey;
  onOpen: (opened: Opened) => void;
}

function Actions({ apiKey, onOpen }: ActionsProps) {
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`Actions for ${apiKey.name}, ${apiKey.hint}`}
        >
          <Icon name="dots" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onOpen({ what: "connect", apiKey })}>Connect …</Menu.Item>
        {!apiKey.successor_id && (
          <Menu.Item onClick={() => onOpen({ what: "rotate", apiKey })}>Rotate …</Menu.Item>
        )}
        <Menu.Item onClick={() => onOpen({ what: "revoke", apiKey })}>
          Revoke …
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
