import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import { type AuditEntry, useActions } from "../data/entries.ts";
import { formatTime } from "../shared/days.ts";
import { Hint, TextButton } from "../shared/parts.tsx";
import { visible } from "../../supabase/functions/_shared/visible.ts";
import styles from "./entry.module.css";
import { AGENT_LABEL } from "./entry_table.tsx";
import {
  type Change,
  changesOf,
  factsOf,
  isShort,
  targetOf,
  written,
  writtenChange,
} from "./facts.ts";
import { ALL_TIME, type Filter, NO_FILTER } from "../shared/search_params.ts";
import { useLogSearch } from "./use_log_search.ts";

/** More names than this make no sentence. */
const NAMES_IN_SENTENCE = 3;

/** Who did what, on what, from where. A change whose values have no room here is only named. */
export function Sentence({ entry }: { entry: AuditEntry }) {
  const { data: catalogue = [] } = useActions();
  const description = catalogue.find(({ code }) => code === entry.action)?.description;
  const target = targetOf(entry, catalogue);
  const changes = changesOf(entry);
  const address = factsOf(entry).find(([name]) => name === "caller.address")?.[1];
  return (
    <Text component="p" fz={15} my="md">
      <strong>
        <bdi>{visible(entry.user_email)}</bdi>
      </strong>
      {changes.length === 0 ? ": " : " changed "}
      <bdi>{changes.length === 0 ? description || entry.action : whatChanged(changes)}</bdi>
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

function whatChanged(changes: Change[]): string {
  if (isShort(changes)) return changes.map(writtenChange).join();
  const names = changes.map(({ name }) => visible(name));
  const more = names.splice(NAMES_IN_SENTENCE).length;
  return new Intl.ListFormat("en").format(more ? [...names, `${more} more`] : names);
}

export function EntryFields({ entry }: { entry: AuditEntry }) {
  const { change } = useLogSearch();
  const { action, user_email } = entry;
  const changes = changesOf(entry);
  return (
    <>
      {changes.length > 0 && !isShort(changes) && <Changes changes={changes} />}
      <dl className={styles.fields}>
        <Field name="Time">{formatTime(entry.created_at)} UTC</Field>
        <Field name="Action">
          <TextButton title="Only this action" onClick={() => change({ action })}>
            <code>{action}</code>
          </TextButton>
        </Field>
        <Field name="Person">
          <All filter={{ user_email }}>
            <bdi>{visible(user_email)}</bdi>
          </All>
          {user_email === "unknown@invalid" && (
            <Hint>Nobody's address: nothing says who it was.</Hint>
          )}
        </Field>
        {AGENT_LABEL && (
          <Field name={AGENT_LABEL}>
            <bdi>{visible(entry.agent_name)}</bdi>
          </Field>
        )}
        {factsOf(entry).map(([name, value]) => (
          <Field key={name} name={<code>{visible(name)}</code>}>
            {typeof value === "string" && value !== "" && value === entry.data[name]
              ? (
                <All filter={{ object: value }}>
                  <Value value={value} />
                </All>
              )
              : <Value value={value} />}
          </Field>
        ))}
        <Field name="Entry id">
          <code>{entry.id}</code>
        </Field>
      </dl>
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

/** Old beside new, below the name of what changed. */
function Changes({ changes }: { changes: Change[] }) {
  return (
    <table className={styles.changes}>
      <thead>
        <tr>
          <th scope="col">Old</th>
          <th scope="col">New</th>
        </tr>
      </thead>
      {changes.map(({ name, before, after }) => (
        <tbody key={name}>
          <tr>
            <th scope="rowgroup" colSpan={2}>
              <code>{visible(name)}</code>
            </th>
          </tr>
          <tr>
            <td>
              <Value value={before} />
            </td>
            <td>
              <Value value={after} />
            </td>
          </tr>
        </tbody>
      ))}
    </table>
  );
}

/** Text stands as it is; all else is JSON, in another type. */
function Value({ value }: { value: unknown }) {
  const text = written(value);
  return typeof value === "string" && text === visible(value)
    ? <bdi>{text}</bdi>
    : <code>{text}</code>;
}

function Field({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <Text component="dt" inherit c="dimmed">{name}</Text>
      <dd>{children}</dd>
    </>
  );
}
