// The screens of seals, in one script that is loaded when it is asked for. The library for ZIP comes even later.

export { CheckPack } from "./check_pack.tsx";
export { ProvePeriod } from "./prove_period.tsx";
export { Seals } from "./seals.tsx";
