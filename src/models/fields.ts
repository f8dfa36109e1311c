import { isJsonObject } from "../lib/json.ts";
import type { JsonObject } from "../lib/json.ts";

// Frames come from servers that only claim to speak a vendor's wire: a field may be missing, null or of another type.
// Reading one through these never throws.

export const stringOf = (value: unknown): string => (typeof value === "string" ? value : "");

export const numberOf = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

export const objectOf = (value: unknown): JsonObject => (isJsonObject(value) ? value : {});

export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
