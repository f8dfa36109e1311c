/** Where compatible servers put what a model thinks aloud. OpenAI's own API shows none on this wire. */
export const REASONING_FIELDS = ["reasoning_content", "reasoning"] as const;
export type ReasoningField = (typeof REASONING_FIELDS)[number];

export const isReasoningField = (name: unknown): name is ReasoningField => REASONING_FIELDS.includes(name as ReasoningField);
