import { useContext, useEffect, useRef, useState } from "react";
import { EmailContext } from "../shell/shell.tsx";
import { STORAGE_KEY } from "../shared/transport.ts";

/** What somebody had typed when their session ended, by person and field. Only in this tab's memory. */
const TYPED = new Map<string, unknown>();

/** A state that outlasts the end of a session, and is there when the same person has signed in again. */
export function useTyped<T>(field: string, initial: T) {
  const key = `${useContext(EmailContext)} ${field}`;
  const state = useState<T>(() => TYPED.has(key) ? TYPED.get(key) as T : initial);
  const latest = useRef(state[0]);
  latest.current = state[0];
  useEffect(() => () => {
    if (localStorage.getItem(STORAGE_KEY) === null) TYPED.set(key, latest.current);
    else TYPED.delete(key);
  }, [key]);
  return state;
}
