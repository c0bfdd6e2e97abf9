import { Alert, Button, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { type ApiKey, useApiKeys } from "../data/api_keys.ts";
import { useOrganization } from "../data/organizations.ts";
import { useUsage } from "../data/log_usage.ts";
import { lastDays } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Answer, Empty, Failure, Head, Lead } from "../shared/parts.tsx";
import type { KeysSearch } from "../shared/search_params.ts";
import { CreateKey } from "./create_key.tsx";
import { labelsOf, sortByNeed } from "./key_state.tsx";
import { type KeyAction, KeyTable } from "./key_table.tsx";
import { RevokeKey } from "./revoke_key.tsx";
import { RotateKey } from "./rotate_key.tsx";
import { StoppingKeys } from "./stopping_keys.tsx";
import { TokenAndConnect } from "./token_and_connect.tsx";

const route = getRouteApi("/$organizationId/keys");

type Opened = { action: "create" } | { action: KeyAction; apiKey: ApiKey };

export function Keys() {
  const organization = useOrganization();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<Opened | null>(null);
  const [news, setNews] = useState("");
  const keys = useApiKeys();
  const usage = useUsage(lastDays(30));
  const usageOf = (key: ApiKey) => usage.data?.filter(({ api_key_id }) => api_key_id === key.id);
  const open = (opened: Opened) => {
    setNews("");
    setOpened(opened);
  };
  const onClose = () => setOpened(null);
  const onDone = (news: string) => {
    setOpened(null);
    setNews(news);
  };

  return (
    <>
      <Head title="API keys">
        {keys.data?.length !== 0 && (
          <SearchField
            text={search.text}
            onChange={(text) => navigate({ search: { text }, replace: true })}
          />
        )}
        <Button
          variant="filled"
          leftSection={<Icon name="plus" />}
          onClick={() => open({ action: "create" })}
        >
          Create key
        </Button>
      </Head>
      <div role="status">
        <Lead>
          With a key, an application reads the whole log of <bdi>{organization.name}</bdi>.
        </Lead>
        {news && <Alert color="green">{news}</Alert>}
      </div>
      <StoppingKeys
        all={keys.data ?? []}
        onConnect={(apiKey) => open({ action: "connect", apiKey })}
      />
      <Failure error={keys.error ? null : usage.error} onRetry={usage.refetch} />
      <Answer query={keys} what="API keys">
        {(all) => {
          if (all.length === 0) {
            return (
              <Empty title="No keys yet">
                <p>Create one for each application that reads the log.</p>
                <Button onClick={() => open({ action: "create" })}>Create the first key</Button>
              </Empty>
            );
          }
          const found = select(all, search);
          if (found.length === 0) {
            return (
              <Empty title="No such key">
                <p>Search for something else.</p>
                <Button onClick={() => navigate({ search: {} })}>Show all keys</Button>
              </Empty>
            );
          }
          return (
            <KeyTable
              all={all}
              keys={found}
              usageOf={usageOf}
              onOpen={(action, apiKey) => open({ action, apiKey })}
            />
          );
        }}
      </Answer>
      {opened?.action === "create" && <CreateKey onClose={onClose} />}
      {opened?.action === "rotate" && <RotateKey apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.action === "connect" && <TokenAndConnect apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.action === "revoke" && (
        <RevokeKey apiKey={opened.apiKey} onDone={onDone} onClose={onClose} />
      )}
    </>
  );
}

/** The address follows the field. If the field waited for the address, its caret would jump. */
function SearchField(
  { text, onChange }: { text: string | undefined; onChange: (text?: string) => void },
) {
  const ref = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (ref.current && ref.current !== document.activeElement) ref.current.value = text ?? "";
  }, [text]);
  return (
    <TextInput
      ref={ref}
      aria-label="Search keys"
      aria-keyshortcuts="/"
      placeholder="Name, pck_…, person or state"
      type="search"
      flex="1 1 160px"
      maw={300}
      leftSection={<Icon name="search" />}
      defaultValue={text}
      onChange={({ currentTarget: { value } }) => onChange(value || undefined)}
    />
  );
}

/** Finds keys by their texts in the list. What needs somebody comes first. */
function select(all: ApiKey[], { text = "" }: KeysSearch): ApiKey[] {
  const sought = text.trim().toLowerCase();
  return sortByNeed(all).filter((key) =>
    [
      key.name,
      key.hint,
      key.created_by_email,
      key.revoked_by_email,
      ...labelsOf(key, all).map(({ name }) => name),
    ].some((field) => field?.toLowerCase().includes(sought))
  );
}
