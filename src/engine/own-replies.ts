import type { AssistantMessage, Message } from "../domain/message.ts";

/** The model's replies in a run, without those that were given in the run that it goes on from. */
export const ownReplies = ({ messages, firstStep = 0 }: { messages: readonly Message[]; firstStep?: number | undefined }): AssistantMessage[] =>
  messages.filter((message) => message.role === "assistant").slice(firstStep);
