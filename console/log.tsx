import { type CalendarDate, parseDate } from "@internationalized/date";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Fragment, useEffect, useState } from "react";
import {
  Button,
  CalendarCell,
  CalendarGrid,
  DateInput,
  DateRangePicker,
  DateSegment,
  Dialog,
  FieldError,
  Group,
  Heading,
  Input,
  Label,
  NumberField,
  Popover,
  RangeCalendar,
} from "react-aria-components";
import {
  ACTIONS,
  AUDIT_LOG_URL,
  type AuditEntry,
  type LogQuery,
  type Organization,
  readLog,
} from "./data.ts";
import { daysAgo } from "./days.ts";
import { Choice, Copyable, Failure, Loading, Time, TIME_ZONE } from "./ui.tsx";

const PAGE_SIZE = 50;
const ACTION_CHOICES = [
  { id: "all", name: "All actions" },
  ...ACTIONS.map((action) => ({ id: action, name: action })),
];

export function Log({ organization }: { organization: Organization }) {
  const [query, setQuery] = useState<LogQuery>(() => ({
    organizationId: organization.id,
    start: daysAgo(6),
    end: daysAgo(0),
    action: null,
    limit: PAGE_SIZE,
    offset: 0,
  }));
  const [showsCurl, setShowsCurl] = useState(false);
  const page = useQuery({
    queryKey: ["log", query],
    queryFn: () => readLog(query),
    placeholderData: keepPreviousData,
  });
  // Another range or action starts at its first page.
  const change = (changes: Partial<LogQuery>) => setQuery({ ...query, offset: 0, ...changes });

  return (
    <>
      <div className="view-head">
        <h1>Log</h1>
        <Button className="button" onPress={() => page.refetch()}>
          {page.isFetching ? "Loading …" : "Refresh"}
        </Button>
      </div>
      <div className="filters">
        <DayRange query={query} onChange={change} />
        <Choice
          label="Action"
          choices={ACTION_CHOICES}
          chosen={query.action ?? "all"}
          onChange={(id) => change({ action: ACTIONS.find((action) => action === id) ?? null })}
        />
        <Button
          className="button link"
          aria-expanded={showsCurl}
          onPress={() => setShowsCurl(!showsCurl)}
        >
          {showsCurl ? "Hide curl" : "Show as curl"}
        </Button>
      </div>
      {showsCurl && (
        <Copyable
          label="The same page through the API, with the token in AUDIT_LOG_API_KEY"
          text={curl(query)}
        />
      )}
      {page.isError && <Failure error={page.error} onRetry={page.refetch} />}
      {page.isPending && <Loading what="entries" />}
      {page.data && (
        <div aria-busy={page.isPlaceholderData} className={page.isPlaceholderData ? "stale" : ""}>
          <p role="status" className="total">{totalText(page.data.total)}</p>
          {page.data.items.length > 0 && <EntryTable entries={page.data.items} />}
          <Pages
            query={query}
            total={page.data.total}
            onChange={(offset) =>
              change({ offset })}
          />
        </div>
      )}
    </>
  );
}

function totalText(total: number): string {
  if (total === 0) return "No entries in these days. Choose others, or another action.";
  return total === 1 ? "1 entry" : `${total.toLocaleString("en")} entries, newest first`;
}

function curl({ start, end, action, limit, offset }: LogQuery): string {
  const parameters = new URLSearchParams({
    start,
    end,
    ...action ? { action } : {},
    limit: String(limit),
    offset: String(offset),
    order: "desc",
  });
  return `curl "${AUDIT_LOG_URL}?${parameters}" \\\n  -H "Authorization: Bearer $AUDIT_LOG_API_KEY"`;
}

interface DayRangeProps {
  query: LogQuery;
  onChange: (days: { start: string; end: string }) => void;
}

/** How long one may pause within a date. */
const TYPING_MS = 500;

function DayRange({ query, onChange }: DayRangeProps) {
  // What is typed, which on the way may be no range at all.
  const [days, setDays] = useState<{ start: CalendarDate; end: CalendarDate } | null>({
    start: parseDate(query.start),
    end: parseDate(query.end),
  });
  const error = explainDays(days);
  const [start, end] = [days?.start.toString() ?? "", days?.end.toString() ?? ""];
  const isNew = start !== query.start || end !== query.end;
  useEffect(() => {
    if (error || !isNew) return;
    const timer = setTimeout(() => onChange({ start, end }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [start, end]);
  return (
    <DateRangePicker
      className="field"
      value={days}
      onChange={setDays}
      isInvalid={error !== ""}
      validationBehavior="aria"
      minValue={parseDate("0001-01-01")}
      maxValue={parseDate("9999-12-31")}
      shouldForceLeadingZeros
    >
      <Label>Days (UTC, both inclusive)</Label>
      <Group className="date-group">
        <DateInput slot="start">{(segment) => <DateSegment segment={segment} />}</DateInput>
        <span aria-hidden="true">–</span>
        <DateInput slot="end">{(segment) => <DateSegment segment={segment} />}</DateInput>
        <Button className="button small">▾</Button>
      </Group>
      <FieldError className="field-error">{error}</FieldError>
      <Popover className="popover">
        <Dialog>
          <RangeCalendar firstDayOfWeek="mon">
            <div className="calendar-head">
              <Button slot="previous" className="button small">‹</Button>
              <Heading />
              <Button slot="next" className="button small">›</Button>
            </div>
            <CalendarGrid>{(date) => <CalendarCell date={date} />}</CalendarGrid>
          </RangeCalendar>
        </Dialog>
      </Popover>
    </DateRangePicker>
  );
}

function explainDays(days: { start: CalendarDate; end: CalendarDate } | null): string {
  if (!days) return "Both days are needed. Below are the entries of the last range.";
  return days.start.compare(days.end) > 0
    ? "The first day is after the last. Below are the entries of the last range."
    : "";
}

function EntryTable({ entries }: { entries: AuditEntry[] }) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  function toggle(id: string) {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    setOpen(next);
  }
  // The roles say again what the elements are: shown as cards on a narrow screen, they lose it.
  return (
    <table className="cards" role="table" aria-label="Entries">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader">Time ({TIME_ZONE})</th>
          <th role="columnheader">Action</th>
          <th role="columnheader">User</th>
          <th role="columnheader">Agent</th>
          <th role="columnheader">Data</th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {entries.map((entry) => (
          <Fragment key={entry.id}>
            <tr role="row">
              <td role="cell" data-label="Time">
                <Time value={entry.created_at} isExact />
              </td>
              <td role="cell" data-label="Action">
                <code>{entry.action}</code>
              </td>
              <td role="cell" data-label="User">{entry.user_email}</td>
              <td role="cell" data-label="Agent">{entry.agent_name}</td>
              <td role="cell" data-label="Data">
                <Button
                  className="button small"
                  aria-expanded={open.has(entry.id)}
                  aria-label={`${
                    open.has(entry.id) ? "Hide" : "Show"
                  } data of ${entry.action}, ${entry.created_at}`}
                  onPress={() => toggle(entry.id)}
                >
                  {open.has(entry.id) ? "Hide" : "Show"}
                </Button>
              </td>
            </tr>
            {open.has(entry.id) && (
              <tr role="row" className="details">
                <td role="cell" colSpan={5}>
                  <dl>
                    <dt>id</dt>
                    <dd>
                      <code>{entry.id}</code>
                    </dd>
                    <dt>UTC</dt>
                    <dd>
                      <code>{entry.created_at}</code>
                    </dd>
                  </dl>
                  <pre
                    tabIndex={0}
                    role="group"
                    aria-label="Data"
                  ><code>{JSON.stringify(entry.data, null, 2)}</code></pre>
                </td>
              </tr>
            )}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

interface PagesProps {
  query: LogQuery;
  total: number;
  onChange: (offset: number) => void;
}

function Pages({ query: { offset, limit }, total, onChange }: PagesProps) {
  const last = Math.max(1, Math.ceil(total / limit));
  const page = Math.min(last, Math.floor(offset / limit) + 1);
  if (last === 1) return null;
  const go = (to: number) => onChange((Math.round(to) - 1) * limit);
  return (
    <nav aria-label="Pages" className="pages">
      <Button className="button" isDisabled={page === 1} onPress={() => go(1)}>First</Button>
      <Button className="button" isDisabled={page === 1} onPress={() => go(page - 1)}>Newer</Button>
      <NumberField
        className="page-number"
        value={page}
        minValue={1}
        maxValue={last}
        step={1}
        formatOptions={{ useGrouping: false, maximumFractionDigits: 0 }}
        onChange={(to) => !Number.isNaN(to) && go(to)}
      >
        <Label>Page</Label>
        <Input />
        <span>of {last}</span>
      </NumberField>
      <Button className="button" isDisabled={page === last} onPress={() => go(page + 1)}>
        Older
      </Button>
      <Button className="button" isDisabled={page === last} onPress={() => go(last)}>Last</Button>
    </nav>
  );
}
