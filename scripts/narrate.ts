/** A tool call as the wire shows it. */
interface WireTool {
  tool_name: string;
  tool_args: Record<string, unknown>;
  result?: unknown;
}

/** Tells the events of a run in words: what the agent says as it says it, what it does in lines of their own. */
export function narrator(write: (text: string) => void) {
  let ending: string | undefined;
  let isInLine = false;
  let events = 0;

  const endLine = () => {
    if (isInLine) write("\n");
    isInLine = false;
  };
  const line = (text: string) => {
    endLine();
    write(`${text}\n`);
  };
  /** Goes on with the line of what is said or thought, under a heading when it begins. */
  const goOn = (heading: string, text: string) => {
    const begun = isInLine ? text : text.trimStart();
    if (begun === "") return;
    if (!isInLine) write(heading);
    write(begun.replaceAll(/\n+/g, " "));
    isInLine = true;
  };

  function tell(event: Record<string, unknown>): void {
    if (event.event_index !== events) throw new Error(`Event ${String(event.event_index)} came where event ${events} was due.`);
    events += 1;
    const tool = event.tool as WireTool | undefined;
    switch (event.event) {
      case "RunStarted":
        return line(`  · run ${event.run_id} has the session's line`);
      case "ReasoningContentDelta":
        return goOn("  thinks   ", String(event.reasoning_content));
      case "RunContent":
        return goOn("  says     ", String(event.content));
      case "ReasoningCompleted":
      case "ModelRequestCompleted":
      case "RunContentCompleted":
        return endLine();
      case "ToolCallStarted":
        return line(`  calls    ${tool?.tool_name}(${JSON.stringify(tool?.tool_args)})`);
      case "ToolCallCompleted":
        return line(`  gets     ${String(tool?.result)}`);
      case "ToolCallError":
        return line(`  gets     an error: ${String(event.error)}`);
      case "RunCompleted":
        ending = "RunCompleted";
        return line(`  · completed: ${events} events, none missing`);
      case "RunError":
      case "RunCancelled":
        ending = String(event.event);
        return line(`  · ${event.event}: ${String(event.content ?? event.reason)}`);
    }
  }

  return {
    tell,
    /** The run's terminal event, once it was told. */
    get ending() {
      return ending;
    },
  };
}
