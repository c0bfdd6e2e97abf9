import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { type ApiKey, useApiKeys } from "../data/api_keys.ts";
import { useOrganization } from "../data/organizations.ts";
import { Icon } from "../shared/icons.tsx";
import { Answer, Empty, Head, Lead } from "../shared/parts.tsx";
import type { KeysSearch } from "../shared/search_params.ts";
import { AccessTabs } from "../usage/access_tabs.tsx";
import { CreateKey } from "./create_key.tsx";
import { isLive, sortByNeed, stateOf, unusedSuccessorOf } from "./key_state.ts";
import { type KeyAction, KeyTable } from "./key_table.tsx";
import { RevokeKey } from "./revoke_key.tsx";
import { RotateKey } from "./rotate_key.tsx";
import { TryKey } from "./token.tsx";

const route = getRouteApi("/$organizationId/keys");

const ACTIVE = "Active";
const ALL = "All";

type Opened = { action: "create" } | { action: KeyAction; apiKey: ApiKey };

export function Keys() {
  const organization = useOrganization();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<Opened | null>(null);
  const keys = useApiKeys();
  const onClose = () => setOpened(null);

  return (
    <>
      <Head title="Access">
        {keys.data?.length !== 0 && (
          <>
            {/* Anew where "Show all keys" takes the text away. Otherwise the field keeps its caret. */}
            <TextInput
              key={String(search.all)}
              aria-label="Search keys"
              placeholder="Search"
              type="search"
              flex="1 1 100px"
              maw={300}
              leftSection={<Icon name="search" />}
              defaultValue={search.text}
              onChange={({ currentTarget: { value } }) =>
                navigate({ search: { ...search, text: value || undefined }, replace: true })}
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
          onClick={() => setOpened({ action: "create" })}
        >
          Create key
        </Button>
      </Head>
      <AccessTabs />
      <Lead>
        With a key, an application reads the whole log of <bdi>{organization.name}</bdi>.
      </Lead>
      <Answer query={keys} what="API keys">
        {(all) => {
          if (all.length === 0) {
            return (
              <Empty title="No keys yet">
                Create one for each application that reads the log.
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
              onOpen={(action, apiKey) => setOpened({ action, apiKey })}
            />
          );
        }}
      </Answer>
      <TryKey />
      {opened?.action === "create" && <CreateKey onClose={onClose} />}
      {opened?.action === "rotate" && <RotateKey apiKey={opened.apiKey} onClose={onClose} />}
      {opened?.action === "revoke" && <RevokeKey apiKey={opened.apiKey} onClose={onClose} />}
    </>
  );
}

function select(keys: ApiKey[], { text = "", all }: KeysSearch): ApiKey[] {
  const sought = text.trim().toLowerCase();
  return sortByNeed(keys).filter((key) =>
    (all || isLive(key) || unusedSuccessorOf(key, keys)) &&
    [
      key.name,
      key.hint,
      key.created_by_email,
      key.revoked_by_email,
      stateOf(key, keys).name,
    ].some((field) => field?.toLowerCase().includes(sought))
  );
}
