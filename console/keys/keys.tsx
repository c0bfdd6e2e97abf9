import { Alert, Button, Group, NativeSelect, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import * as z from "zod/mini";
import { useReads } from "../access/data.ts";
import { presetDays } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Answer, Empty, Failure, Head, Lead } from "../shared/parts.tsx";
import { SORTING } from "../shared/table.tsx";
import { useOrganization } from "../shell/organization.tsx";
import { CreateKey } from "./create_key.tsx";
import { type ApiKey, useApiKeys } from "./data.ts";
import { STATES } from "./key_state.tsx";
import { KeyTable } from "./key_table.tsx";
import { RevokeKey } from "./revoke_key.tsx";
import { RotateKey } from "./rotate_key.tsx";
import { TokenAndConnect } from "./token_and_connect.tsx";

const STATE_CHOICES = [
  { value: "", label: "All states" },
  ...Object.entries(STATES).map(([value, { name }]) => ({ value, label: name })),
];

export const KEYS_ADDRESS = z.object({
  ...SORTING.shape,
  search: z.catch(z.optional(z.coerce.string()), undefined),
  state: z.catch(z.optional(z.enum(Object.keys(STATES) as ApiKey["state"][])), undefined),
  page: z.catch(z.optional(z.int().check(z.gte(1))), undefined),
});
export type KeysAddress = z.infer<typeof KEYS_ADDRESS>;

const route = getRouteApi("/$organizationId/keys");

export type Opened = { what: "create" } | { what: "rotate" | "revoke" | "connect"; apiKey: ApiKey };

export function Keys() {
  const organization = useOrganization();
  const address = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<Opened | null>(null);
  const [news, setNews] = useState("");
  const keys = useApiKeys();
  const reads = useReads(presetDays("30d"));
  const readsOf = (key: ApiKey) => reads.data?.filter(({ api_key_id }) => api_key_id === key.id);
  const change = (changes: Partial<KeysAddress>, replace = false) =>
    navigate({ search: (before) => ({ ...before, page: undefined, ...changes }), replace });
  const open = (opened: Opened) => {
    setNews("");
    setOpened(opened);
  };
  const onClose = () => setOpened(null);

  return (
    <>
      <Head title="API keys">
        <Button
          variant="filled"
          leftSection={<Icon name="plus" />}
          onClick={() => open({ what: "create" })}
        >
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
        <SearchField search={address.search} onChange={(search) => change({ search }, true)} />
        <NativeSelect
          aria-label="State"
          data={STATE_CHOICES}
          value={address.state ?? ""}
          onChange={({ currentTarget: { value } }) =>
            change({ state: z.parse(KEYS_ADDRESS, { state: value }).state })}
        />
      </Group>
      <Failure error={keys.error ? null : reads.error} onRetry={reads.refetch} />
      <Answer query={keys} what="API keys">
        {(all) => {
          if (all.length === 0) {
            return (
              <Empty title="No keys yet">
                <p>Create one for each application that reads the log.</p>
              </Empty>
            );
          }
          const found = select(all, address);
          if (found.length === 0) {
            return (
              <Empty title="No such key">
                <p>Search for something else, or in all states.</p>
                <Button onClick={() => change({ search: undefined, state: undefined })}>
                  Show all keys
                </Button>
              </Empty>
            );
          }
          return (
            <KeyTable
              all={all}
              keys={found}
              readsOf={readsOf}
              address={address}
              onChange={change}
              onOpen={open}
            />
          );
        }}
      </Answer>
      {opened?.what === "create" && <CreateKey keys={keys.data ?? []} onClose={onClose} />}
      {opened?.what === "rotate" && <RotateKey apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.what === "connect" && <TokenAndConnect apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.what === "revoke" && (
        <RevokeKey
          apiKey={opened.apiKey}
          reads={readsOf(opened.apiKey)}
          onRevoked={() => {
            setOpened(null);
            const { name, hint } = opened.apiKey;
            setNews(`“${name}” (${hint}) is revoked. Every request with it now gets 401.`);
          }}
          onClose={onClose}
        />
      )}
    </>
  );
}

/** The address follows the field. If the field waited for the address, its caret would jump. */
function SearchField(
  { search, onChange }: { search?: string | undefined; onChange: (search?: string) => void },
) {
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (ref.current && ref.current !== document.activeElement) ref.current.value = search ?? "";
  }, [search]);
  return (
    <TextInput
      ref={ref}
      aria-label="Search keys"
      placeholder="Name, pck_… or person"
      type="search"
      maw={240}
      flex="1 1 160px"
      leftSection={<Icon name="search" />}
      defaultValue={search}
      onChange={({ currentTarget: { value } }) => onChange(value || undefined)}
    />
  );
}

/** The keys that the address asks for, in the database's order. */
function select(keys: ApiKey[], { search, state }: KeysAddress): ApiKey[] {
  const text = search?.trim().toLowerCase() ?? "";
  return keys.filter((key) =>
    (!state || key.state === state) &&
    [key.name, key.hint, key.created_by_email, key.revoked_by_email]
      .some((field) => field?.toLowerCase().includes(text))
  );
}
