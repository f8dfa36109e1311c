/** How the calls of a tool are approved. */
export interface ApprovalPolicy {
  type: "required" | "audit";
  /** Milliseconds after which nobody's decision counts any more; absent: never. */
  expiresInMs?: number;
  /** What happens then: the call is rejected, or its run cancelled. */
  onExpiry: "reject" | "cancel";
  /** How many different people must approve. */
  approvers: number;
  /** Whether the person whose run it is may approve it. */
  requesterMayApprove: boolean;
}

export type ApprovalOptions =
  | "required"
  | "audit"
  | {
      /** Default `"required"`. */
      type?: "required" | "audit";
      /** Seconds. Default: never. */
      expiresIn?: number;
      /** Default `"reject"`. */
      onExpiry?: "reject" | "cancel";
      /** Default 1. */
      approvers?: number;
      /** Default `true`. */
      requesterMayApprove?: boolean;
    };

/** @throws RangeError when an option can not work. */
export function approvalPolicy(tool: string, options: ApprovalOptions | undefined): ApprovalPolicy | undefined {
  if (options === undefined) return undefined;
  const { type = "required", expiresIn, onExpiry = "reject", approvers = 1, requesterMayApprove = true } = typeof options === "string" ? { type: options } : options;
  if (type !== "required" && type !== "audit") throw new RangeError(`Tool "${tool}": approval must be "required" or "audit", not "${String(type)}".`);
  if (onExpiry !== "reject" && onExpiry !== "cancel") throw new RangeError(`Tool "${tool}": approval.onExpiry must be "reject" or "cancel", not "${String(onExpiry)}".`);
  if (expiresIn !== undefined && !(Number.isFinite(expiresIn) && expiresIn > 0)) throw new RangeError(`Tool "${tool}": approval.expiresIn must be more than 0 seconds.`);
  if (!Number.isInteger(approvers) || approvers < 1) throw new RangeError(`Tool "${tool}": approval.approvers must be a whole number from 1 on.`);
  return Object.freeze({ type, ...(expiresIn === undefined ? {} : { expiresInMs: expiresIn * 1_000 }), onExpiry, approvers, requesterMayApprove });
}
