import { Alert, Button, Group, NativeSelect, Pagination, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type Reads, useReads } from "../access/data.ts";
import { Connect } from "../connect/connect.tsx";
import { count, presetDays } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { useOrganization } from "../shell/organization.ts";
import { Empty, Failure, Head, Lead, Loading } from "../shared/parts.tsx";
import { useSearchField } from "./search_field.ts";
import { type KeysAddress, readKeysAddress, select, STATES } from "./address.ts";
import { CreateKey } from "./create_key.tsx";
import { type ApiKey, useApiKeys } from "./data.ts";
import { KeyTable } from "./key_table.tsx";
import { RevokeKey } from "./revoke_key.tsx";
import { RotateKey } from "./rotate_key.tsx";

const PAGE_SIZE = 25;
const STATE_CHOICES = [
  { value: "", label: "All states" },
  ...Object.entries(STATES).map(([value, label]) => ({ value, label })),
];

const route = getRouteApi("/$organizationId/keys");

/** A dialog about a key, or about one to be made. */
export type Opened = { what: "create" } | { what: "rotate" | "revoke" | "connect"; apiKey: ApiKey };

export function Keys() {
  const organization = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<Opened | null>(null);
  const [news, setNews] = useState("");
  const keys = useApiKeys();
  const days = presetDays("30d");
  const reads = useReads(days);
  const readsByKey = useMemo(
    () => reads.data && Map.groupBy(reads.data, ({ api_key_id }) => api_key_id),
    [reads.data],
  );
  const readsOf = (key: ApiKey): Reads[] | undefined =>
    readsByKey && (readsByKey.get(key.id) ?? []);
  const chosen = useMemo(() => select(keys.data ?? [], address), [keys.data, address]);
  const last = Math.max(1, Math.ceil(chosen.length / PAGE_SIZE));
  const page = Math.min(address.page ?? 1, last);
  const change = (changes: Partial<KeysAddress>, replace = false) =>
    navigate({ search: (before) => ({ ...before, page: undefined, ...changes }), replace });
  const search = useSearchField(address.search, (search) => change({ search }, true));
  const open = (opened: Opened) => {
    setNews("");
    setOpened(opened);
  };
  const onClose = () => setOpened(null);

  return (
    <>
      <Head title="API keys">
        <Button leftSection={<Icon name="plus" />} onClick={() => open({ what: "create" })}>
          Create key
        </Button>
      </Head>
      <div role="status">
        <Lead>
          With a key, an application reads the whole log of{" "}
          <bdi>{organization.name}</bdi>. Days are UTC.
        </Lead>
        {news && (
          <Alert
            color="green"
            withCloseButton
            closeButtonLabel="Dismiss"
            onClose={() => setNews("")}
          >
            {news}
          </Alert>
        )}
      </div>
      <Group gap="xs">
        <TextInput
          aria-label="Search keys"
          placeholder="Name, key or person"
          type="search"
          maw={240}
          flex="1 1 160px"
          leftSection={<Icon name="search" />}
          {...search}
        />
        <NativeSelect
          aria-label="State"
          data={STATE_CHOICES}
          value={address.state ?? ""}
          onChange={({ currentTarget: { value } }) =>
            change({ state: readKeysAddress({ state: value }).state })}
        />
      </Group>
      <Failure
        error={keys.error ?? reads.error}
        onRetry={() => (keys.refetch(), reads.refetch())}
      />
      {keys.isPending && <Loading what="API keys" />}
      {keys.data && chosen.length === 0 && (keys.data.length === 0
        ? (
          <Empty title="No keys yet">
            <p>Create one for each application that reads the log.</p>
          </Empty>
        )
        : (
          <Empty title="No such key">
            <p>Search for something else, or in all states.</p>
            <Button
              variant="default"
              onClick={() => change({ search: undefined, state: undefined })}
            >
              Show all keys
            </Button>
          </Empty>
        ))}
      {keys.data && chosen.length > 0 && (
        <>
          <KeyTable
            all={keys.data}
            keys={chosen.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE)}
            readsOf={readsOf}
            days={days}
            sorting={{
              by: address.sort,
              isDescending: address.descending === true,
              onSort: (by) =>
                change({
                  sort: readKeysAddress({ sort: by }).sort,
                  descending: address.sort === by && !address.descending ? true : undefined,
                }),
            }}
            onOpen={open}
          />
          <Group justify="space-between">
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
          </Group>
        </>
      )}
      {opened?.what === "create" && <CreateKey keys={keys.data ?? []} onClose={onClose} />}
      {opened?.what === "rotate" && <RotateKey apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.what === "connect" && <Connect apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.what === "revoke" && (
        <RevokeKey
          apiKey={opened.apiKey}
          reads={readsOf(opened.apiKey)}
          onRevoked={() => {
            setOpened(null);
            setNews(`“${opened.apiKey.name}” is revoked: every request with it now gets 401.`);
          }}
          onClose={onClose}
        />
      )}
    </>
  );
}
