import { Table as MantineTable, VisuallyHidden } from "@mantine/core";
import { memo, type MouseEvent, type ReactNode } from "react";
import { Hint } from "./parts.tsx";
import styles from "./table.module.css";
import { visible } from "../../supabase/functions/_shared/visible.ts";

export interface Column<T> {
  name: string;
  /** Columns without one share what is left. */
  width?: string;
  value?: (row: T) => number | string;
  cell?: (row: T) => ReactNode;
  hint?: (row: T) => ReactNode;
  isRowHeader?: boolean;
  isNumber?: boolean;
  isNameHidden?: boolean;
  /**
   * On a phone, a row is a card. The column has a line of its own there, or its name before it. Or it is left out, also
   * where other columns would have little room.
   */
  onPhone?: "line" | "named" | "left out";
}

interface TableProps<T> {
  label: string;
  /** The table draws a row again only when the row or these columns change. */
  columns: Column<T>[];
  rows: T[];
  idOf: (row: T) => string;
  onPress?: (row: T, event: MouseEvent<HTMLElement>) => void;
}

/** The console's one table. It knows nothing of what is open: drawing a thousand rows again would take long. */
export function Table<T>({ label, columns, rows, idOf, onPress }: TableProps<T>) {
  return (
    <MantineTable
      aria-label={label}
      className={styles.table ?? ""}
      layout="fixed"
      stickyHeader
      highlightOnHover
      data-pressable={onPress !== undefined || undefined}
      style={{
        "--columns": widthsOf(columns),
        "--few-columns": widthsOf(columns.filter(({ onPhone }) => onPhone !== "left out")),
      }}
      onClick={onPress && ((event) => {
        const row = event.target instanceof Element && event.target.closest("tr");
        const pressed = row ? rows[row.rowIndex - 1] : undefined;
        if (pressed) onPress(pressed, event);
      })}
    >
      <MantineTable.Thead>
        <MantineTable.Tr>
          {columns.map(({ name, width, isNumber, isNameHidden, onPhone }) => (
            <MantineTable.Th
              key={name}
              scope="col"
              w={onPress ? undefined : width}
              ta={isNumber ? "right" : "left"}
              data-phone={onPhone}
            >
              {isNameHidden ? <VisuallyHidden>{name}</VisuallyHidden> : name}
            </MantineTable.Th>
          ))}
        </MantineTable.Tr>
      </MantineTable.Thead>
      {groupsOf(rows).map((rows, n) => (
        <MantineTable.Tbody
          key={n}
          style={{ containIntrinsicHeight: `auto ${rows.length * ROW_HEIGHT}px` }}
        >
          {rows.map((row) => <Row key={idOf(row)} row={row} columns={columns} />)}
        </MantineTable.Tbody>
      ))}
    </MantineTable>
  );
}

function widthsOf(columns: { width?: string }[]): string {
  return columns.map(({ width = "minmax(0, 1fr)" }) => width).join(" ");
}

/** As much as a browser draws or leaves out at once. */
const GROUP_SIZE = 50;
const ROW_HEIGHT = 36;

function groupsOf<T>(rows: T[]): T[][] {
  return Array.from(
    { length: Math.ceil(rows.length / GROUP_SIZE) },
    (_, n) => rows.slice(n * GROUP_SIZE, (n + 1) * GROUP_SIZE),
  );
}

type RowProps<T> = { row: T; columns: Column<T>[] };

const Row = memo(function Row<T,>({ row, columns }: RowProps<T>) {
  return (
    <MantineTable.Tr>
      {columns.map(({ name, isRowHeader, isNumber, onPhone, value, cell, hint }) => {
        const Cell = isRowHeader ? MantineTable.Th : MantineTable.Td;
        const small = hint?.(row);
        return (
          <Cell key={name} ta={isNumber ? "right" : "left"} data-phone={onPhone} data-name={name}>
            {cell ? cell(row) : visible(value?.(row).toLocaleString("en") ?? "")}
            {small && <Hint>{small}</Hint>}
          </Cell>
        );
      })}
    </MantineTable.Tr>
  );
}) as <T>(props: RowProps<T>) => ReactNode;
