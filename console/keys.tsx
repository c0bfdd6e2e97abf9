import { Button, Menu, Pagination, Select, TextInput, VisuallyHidden } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import * as z from "zod/mini";
import { type ApiKey, listApiKeys, listUse, type Use } from "./data.ts";
import { addDays, count, dayOf, type Days, formatRelative, presetDays, today } from "./days.ts";
import { CreateKey, RevokeKey, RotateKey } from "./key_dialogs.tsx";
import { Empty, Failure, Head, Loading, Time, useOrganization } from "./parts.tsx";

const REFRESH_INTERVAL_MS = 10_000;
const PAGE_SIZE = 25;
const STATES = {
  active: "Active",
  expiring: "Expires soon",
  expired: "Expired",
  revoked: "Revoked",
} as const;
const STATE_CHOICES = [
  { value: "", label: "All states" },
  ...Object.entries(STATES).map(([value, label]) => ({ value, label })),
];

/** What a column is sorted by: a key that never expires comes last, one that was never used first. */
const SORTS = {
  name: (a: ApiKey, b: ApiKey) => a.name.localeCompare(b.name),
  created: (a: ApiKey, b: ApiKey) => time(a.created_at) - time(b.created_at),
  expires: (a: ApiKey, b: ApiKey) => time(a.expires_at, NEVER) - time(b.expires_at, NEVER),
  used: (a: ApiKey, b: ApiKey) => time(a.last_used_at) - time(b.last_used_at),
};
type Sort = keyof typeof SORTS;

const NEVER = Number.MAX_SAFE_INTEGER;

function time(value: string | null, ifNull = 0): number {
  return value ? Date.parse(value) : ifNull;
}

const ADDRESS = z.object({
  search: z.catch(z.optional(z.coerce.string()), undefined),
  state: z.catch(z.optional(z.enum(["active", "expiring", "expired", "revoked"])), undefined),
  sort: z.catch(z.optional(z.enum(["name", "created", "expires", "used"])), undefined),
  descending: z.catch(z.optional(z.literal(true)), undefined),
  page: z.catch(z.optional(z.int().check(z.gte(1))), undefined),
});
type Address = z.infer<typeof ADDRESS>;

export function readKeysAddress(search: unknown): Address {
  return z.parse(ADDRESS, search);
}

const route = getRouteApi("/$organizationId/keys");

type Opened = { what: "create" } | { what: "rotate" | "revoke"; apiKey: ApiKey };

export function Keys() {
  const organization = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const queryClient = useQueryClient();
  const [opened, setOpened] = useState<Opened | null>(null);
  const [news, setNews] = useState("");
  const keys = useQuery({
    queryKey: ["keys", organization.id],
    queryFn: () => listApiKeys(organization.id),
    // Paused while the tab is hidden.
    refetchInterval: REFRESH_INTERVAL_MS,
    // Also when the answer is the same: "2 minutes ago" has become wrong.
    notifyOnChangeProps: "all",
  });
  const days = presetDays("30d");
  const use = useQuery({
    queryKey: ["keys", organization.id, "use", days],
    queryFn: () => listUse(organization.id, days),
    refetchInterval: 6 * REFRESH_INTERVAL_MS,
  });
  const useByKey = useMemo(
    () => use.data && Map.groupBy(use.data, ({ api_key_id }) => api_key_id),
    [use.data],
  );
  // The address follows what is typed. If the field waited for the address, its caret would jump.
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!field.current || field.current === document.activeElement) return;
    field.current.value = address.search ?? "";
  }, [address.search]);
  const useOf = ({ id }: ApiKey) => useByKey && (useByKey.get(id) ?? []);
  const chosen = useMemo(() => select(keys.data ?? [], address), [keys.data, address]);
  const last = Math.max(1, Math.ceil(chosen.length / PAGE_SIZE));
  const page = Math.min(address.page ?? 1, last);
  const change = (changes: Partial<Address>, replace = false) =>
    navigate({ search: (before) => ({ ...before, page: undefined, ...changes }), replace });
  const open = (opened: Opened) => {
    setNews("");
    setOpened(opened);
  };
  const dialog = {
    organization,
    // What has become of a request that got no answer shows in the list, too.
    onChange: () => queryClient.invalidateQueries({ queryKey: ["keys", organization.id] }),
    onClose: () => setOpened(null),
  };

  return (
    <>
      <Head title="API keys">
        <Button size="xs" onClick={() => open({ what: "create" })}>Create key</Button>
      </Head>
      <div>
        <p className="lead">
          With a key, an application reads the whole log of{" "}
          <bdi>{organization.name}</bdi>. Days are UTC.
        </p>
        <p role="status" className="news">{news}</p>
      </div>
      <div className="row filters">
        <TextInput
          aria-label="Search keys"
          placeholder="Name, key or person"
          size="xs"
          type="search"
          w={240}
          ref={field}
          defaultValue={address.search}
          onChange={({ currentTarget: { value } }) => change({ search: value || undefined }, true)}
        />
        <Select
          aria-label="State"
          size="xs"
          w={150}
          data={STATE_CHOICES}
          value={address.state ?? ""}
          onChange={(state) => change({ state: readKeysAddress({ state }).state })}
        />
      </div>
      <Failure error={keys.error ?? use.error} onRetry={dialog.onChange} />
      {keys.isPending && <Loading what="API keys" />}
      {keys.data && chosen.length === 0 && (keys.data.length === 0
        ? <Empty title="No keys yet">Create one for each application that reads the log.</Empty>
        : <Empty title="No such key">Search for something else, or in all states.</Empty>)}
      {chosen.length > 0 && (
        <KeyTable
          keys={chosen.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)}
          useOf={useOf}
          days={days}
          address={address}
          onSort={(sort) =>
            change({
              sort,
              descending: address.sort === sort && !address.descending ? true : undefined,
            })}
          onOpen={open}
        />
      )}
      {chosen.length > 0 && (
        <div className="row between">
          <span role="status">
            {count(chosen.length, "key")}
            {last > 1 && `, page ${page} of ${last}`}
          </span>
          {last > 1 && (
            <Pagination
              size="sm"
              total={last}
              value={page}
              onChange={(page) => change({ page: page === 1 ? undefined : page })}
              getItemProps={(page) => ({ "aria-label": `Page ${page}` })}
              getControlProps={(control) => ({ "aria-label": `${control} page` })}
            />
          )}
        </div>
      )}
      {opened?.what === "create" && <CreateKey {...dialog} />}
      {opened?.what === "rotate" && <RotateKey {...dialog} apiKey={opened.apiKey} />}
      {opened?.what === "revoke" && (
        <RevokeKey
          {...dialog}
          apiKey={opened.apiKey}
          use={useOf(opened.apiKey)}
          onRevoked={() => {
            setOpened(null);
            setNews(`“${opened.apiKey.name}” is revoked: every request with it now gets 401.`);
          }}
        />
      )}
    </>
  );
}

/** The keys that the address asks for, in its order; without one, as the database has them. */
function select(keys: ApiKey[], { search, state, sort, descending }: Address): ApiKey[] {
  const text = search?.trim().toLowerCase() ?? "";
  const chosen = keys.filter((key) =>
    (!state || key.state === state) &&
    [key.name, key.hint, key.created_by_email, key.revoked_by_email]
      .some((field) => field?.toLowerCase().includes(text))
  );
  if (!sort) return chosen;
  return chosen.sort((a, b) => descending ? SORTS[sort](b, a) : SORTS[sort](a, b));
}

interface KeyTableProps {
  keys: ApiKey[];
  /** Undefined while it has not been read. */
  useOf: (key: ApiKey) => Use[] | undefined;
  days: Days;
  address: Address;
  onSort: (sort: Sort) => void;
  onOpen: (opened: Opened) => void;
}

function KeyTable({ keys, useOf, days, address, onSort, onOpen }: KeyTableProps) {
  const heading = (sort: Sort, name: string, className = "") => (
    <th
      scope="col"
      className={className}
      aria-sort={address.sort !== sort ? "none" : address.descending ? "descending" : "ascending"}
    >
      <button type="button" onClick={() => onSort(sort)}>{name}</button>
    </th>
  );
  return (
    <table aria-label="API keys" className="table">
      <thead>
        <tr>
          {heading("name", "Name")}
          <th scope="col">State</th>
          {heading("created", "Created", "wide")}
          {heading("expires", "Expires", "wide")}
          {heading("used", "Last used")}
          <th scope="col" className="wide">Last 30 days</th>
          <th scope="col">
            <VisuallyHidden>Actions</VisuallyHidden>
          </th>
        </tr>
      </thead>
      <tbody>
        {keys.map((key) => (
          <tr key={key.id}>
            <th scope="row">
              <bdi>{key.name}</bdi>
              <div className="hint">
                <code>{key.hint}</code>
              </div>
            </th>
            <td>
              <span className="state" data-state={key.state}>{STATES[key.state]}</span>
              {key.revoked_at && <By time={key.revoked_at} person={key.revoked_by_email} />}
              {key.successor_id && !key.revoked_at && <div className="hint">rotated</div>}
            </td>
            <td className="wide">
              <Time value={key.created_at}>{dayOf(key.created_at)}</Time>
              {key.created_by_email && <div className="hint">by {key.created_by_email}</div>}
            </td>
            <td className="wide">
              {key.expires_at
                ? (
                  <>
                    <Time value={key.expires_at}>{dayOf(key.expires_at)}</Time>
                    {key.state !== "revoked" && (
                      <div className="hint">{formatRelative(key.expires_at)}</div>
                    )}
                  </>
                )
                : "never"}
            </td>
            <td>
              {key.last_used_at
                ? <Time value={key.last_used_at}>{formatRelative(key.last_used_at)}</Time>
                : "never"}
              {key.requests_last_minute > 0 && (
                <div className="hint">
                  {key.requests_last_minute} of {key.quota} in the last minute
                </div>
              )}
            </td>
            <td className="wide">
              <UseChart use={useOf(key)} days={days} />
            </td>
            <td className="actions">
              {(key.state === "active" || key.state === "expiring") && (
                <Menu>
                  <Menu.Target>
                    <Button
                      size="compact-sm"
                      variant="subtle"
                      color="gray"
                      aria-label={`Actions for ${key.name}, ${key.hint}`}
                    >
                      •••
                    </Button>
                  </Menu.Target>
                  <Menu.Dropdown>
                    {!key.successor_id && (
                      <Menu.Item onClick={() => onOpen({ what: "rotate", apiKey: key })}>
                        Rotate …
                      </Menu.Item>
                    )}
                    <Menu.Item
                      onClick={() => onOpen({ what: "revoke", apiKey: key })}
                    >
                      Revoke …
                    </Menu.Item>
                  </Menu.Dropdown>
                </Menu>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function By({ time, person }: { time: string; person: string | null }) {
  return (
    <div className="hint">
      <Time value={time}>{dayOf(time)}</Time>
      {person && ` by ${person}`}
    </div>
  );
}

/** Requests by day. */
function UseChart({ use, days }: { use: Use[] | undefined; days: Days }) {
  if (!use) return <span className="hint">…</span>;
  const byDay = new Map(use.map(({ day, requests }) => [day, requests]));
  const total = use.reduce((sum, { requests }) => sum + requests, 0);
  if (total === 0) return <span className="hint">none</span>;
  const bars: number[] = [];
  for (let day = days.start; day <= days.end; day = addDays(day, 1)) bars.push(byDay.get(day) ?? 0);
  const highest = Math.max(...bars);
  const text = `${count(total, "request")}, ${
    (byDay.get(today()) ?? 0).toLocaleString("en")
  } today`;
  return (
    <div className="use">
      <svg
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
      <div className="hint">{text}</div>
    </div>
  );
}
