import { Alert, Button, SegmentedControl, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { type ApiKey, useApiKeys } from "../data/api_keys.ts";
import { useOrganization } from "../data/organizations.ts";
import { useUsage } from "../data/log_usage.ts";
import { formatRelative, formatTime, lastDays } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Answer, Empty, Failure, Head, Lead } from "../shared/parts.tsx";
import type { KeysSearch } from "../shared/search_params.ts";
import { AccessTabs } from "../usage/access_tabs.tsx";
import { Connect } from "./connect.tsx";
import { CreateKey } from "./create_key.tsx";
import { isLive, sortByNeed, stateOf, unusedSuccessorOf } from "./key_state.ts";
import { type KeyAction, KeyTable } from "./key_table.tsx";
import { RevokeKey } from "./revoke_key.tsx";
import { RotateKey } from "./rotate_key.tsx";

const route = getRouteApi("/$organizationId/keys");

const ACTIVE = "Active";
const ALL = "All";

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
      <Head title="Access">
        {keys.data?.length !== 0 && (
          <>
            <SearchField
              text={search.text}
              onChange={(text) => navigate({ search: { ...search, text }, replace: true })}
            />
            <SegmentedControl
              aria-label="Keys"
              size="xs"
              data={[ACTIVE, ALL]}
              value={search.all ? ALL : ACTIVE}
              onChange={(chosen) =>
                navigate({ search: { ...search, all: chosen === ALL || undefined } })}
            />
          </>
        )}
        <Button
          variant="filled"
          leftSection={<Icon name="plus" />}
          onClick={() => open({ action: "create" })}
        >
          Create key
        </Button>
      </Head>
      <AccessTabs />
      <div role="status">
        <Lead>
          With a key, an application reads the whole log of <bdi>{organization.name}</bdi>.
        </Lead>
        {news && <Alert color="green">{news}</Alert>}
      </div>
      <StoppingKeys all={keys.data ?? []} />
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
                <p>
                  {search.all
                    ? "Search for something else."
                    : "It may be among the revoked and expired keys."}
                </p>
                <Button onClick={() => navigate({ search: { all: true } })}>Show all keys</Button>
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
      {opened?.action === "connect" && <Connect apiKey={opened.apiKey} onClose={onClose} />}
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
      placeholder="Name, pck_…, person or state"
      type="search"
      flex="1 1 100px"
      maw={300}
      leftSection={<Icon name="search" />}
      defaultValue={text}
      onChange={({ currentTarget: { value } }) => onChange(value || undefined)}
    />
  );
}

/** Warns of keys that were rotated, and whose applications never got the new token. */
function StoppingKeys({ all }: { all: ApiKey[] }) {
  return all.map((apiKey) => {
    const successor = unusedSuccessorOf(apiKey, all);
    const { id, name, hint, expires_at } = apiKey;
    if (!successor || !expires_at) return null;
    const isOver = !isLive(apiKey);
    return (
      <Alert key={id} color="red" role="alert">
        “<bdi>{name}</bdi>” <code>{hint}</code> {isOver ? "expired" : "expires"}{" "}
        {formatRelative(expires_at)}, at {formatTime(expires_at).slice(0, 16)} UTC. Its successor
        {" "}
        <code>{successor.hint}</code> has never been used: data{" "}
        {isOver ? "has stopped" : "will stop"}. Give the application the successor's token. If
        nobody has it, rotate the successor.
      </Alert>
    );
  });
}

/** Finds keys by their texts in the list. What needs somebody comes first. */
function select(keys: ApiKey[], { text = "", all }: KeysSearch): ApiKey[] {
  const sought = text.trim().toLowerCase();
  return sortByNeed(keys).filter((key) =>
    (all || isLive(key)) &&
    [
      key.name,
      key.hint,
      key.created_by_email,
      key.revoked_by_email,
      stateOf(key, keys).name,
    ].some((field) => field?.toLowerCase().includes(sought))
  );
}
