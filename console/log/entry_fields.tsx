import { Table, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { type AuditEntry, useActions } from "../data/entries.ts";
import { formatTime } from "../shared/days.ts";
import { Fact, Facts, Hint, TextButton } from "../shared/parts.tsx";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import { AGENT_LABEL } from "./entry_table.tsx";
import { type Change, changesOf, factsOf, targetOf, written } from "./facts.ts";
import { ALL_TIME, type Filter, NO_FILTER } from "../shared/search_params.ts";
import { useLogSearch } from "./use_log_search.ts";

/** Who did what, on what, from where. */
export function Sentence({ entry }: { entry: AuditEntry }) {
  const { data: catalogue = [] } = useActions();
  const description = catalogue.find(({ code }) => code === entry.action)?.description;
  const target = targetOf(entry, catalogue);
  const changed = new Intl.ListFormat("en").format(changesOf(entry).map(({ name }) => name));
  const address = factsOf(entry).find(([name]) => name === "caller.address")?.[1];
  return (
    <Text component="p" fz={15} my="md">
      <strong>
        <bdi>{visible(entry.user_email)}</bdi>
      </strong>
      {changed ? " changed " : ": "}
      <bdi>{visible(changed) || description || entry.action}</bdi>
      {target && (
        <>
          {" "}· <bdi>{visible(target.name)}</bdi>
        </>
      )}
      <Text span inherit fz={13.5} c="dimmed">
        {AGENT_LABEL && (
          <>
            {" "}· on <bdi>{visible(entry.agent_name)}</bdi>
          </>
        )}
        {address !== undefined && ` · from ${written(address)}`}
      </Text>
    </Text>
  );
}

export function EntryFields({ entry }: { entry: AuditEntry }) {
  const { change } = useLogSearch();
  const { action, user_email } = entry;
  const changes = changesOf(entry);
  return (
    <>
      {changes.length > 0 && <Changes changes={changes} />}
      <Facts>
        <Fact name="Time">{formatTime(entry.created_at)} UTC</Fact>
        <Fact name="Action">
          <TextButton title="Only this action" onClick={() => change({ action })}>
            <code>{action}</code>
          </TextButton>
        </Fact>
        <Fact name="Person">
          <All filter={{ user_email }}>
            <bdi>{visible(user_email)}</bdi>
          </All>
          {user_email === "unknown@invalid" && (
            <Hint>Nobody's address: nothing says who it was.</Hint>
          )}
        </Fact>
        {AGENT_LABEL && (
          <Fact name={AGENT_LABEL}>
            <bdi>{visible(entry.agent_name)}</bdi>
          </Fact>
        )}
        {factsOf(entry).map(([name, value]) => (
          <Fact key={name} name={<code>{visible(name)}</code>}>
            {typeof value === "string" && value !== "" && value === entry.data[name]
              ? (
                <All filter={{ object: value }}>
                  <Value value={value} />
                </All>
              )
              : <Value value={value} />}
          </Fact>
        ))}
        <Fact name="Entry id">
          <code>{entry.id}</code>
        </Fact>
      </Facts>
    </>
  );
}

/** Leads to all entries of a person or about a value, at any time. */
function All({ filter, children }: { filter: Filter; children: ReactNode }) {
  const { change } = useLogSearch();
  const what = filter.user_email === undefined ? "All about this" : "All by this person";
  return (
    <TextButton
      title={`${what}, at any time`}
      onClick={() => change({ ...NO_FILTER, ...filter, ...ALL_TIME })}
    >
      {children}
    </TextButton>
  );
}

function Changes({ changes }: { changes: Change[] }) {
  return (
    <Table layout="fixed" my="xs" horizontalSpacing={6} verticalSpacing={4} fz="inherit">
      <Table.Thead>
        <Table.Tr>
          {["Field", "Old", "New"].map((name) => <Table.Th key={name}>{name}</Table.Th>)}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody style={{ overflowWrap: "anywhere", verticalAlign: "top" }}>
        {changes.map(({ name, before, after }) => (
          <Table.Tr key={name}>
            <Table.Th>
              <code>{visible(name)}</code>
            </Table.Th>
            <Table.Td bg="var(--mantine-color-red-light)">
              <Value value={before} />
            </Table.Td>
            <Table.Td bg="var(--mantine-color-green-light)">
              <Value value={after} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** Text stands as it is; all else is JSON, in another type. */
function Value({ value }: { value: unknown }) {
  const text = written(value);
  return typeof value === "string" && text === visible(value)
    ? <bdi>{text}</bdi>
    : <code>{text}</code>;
}
