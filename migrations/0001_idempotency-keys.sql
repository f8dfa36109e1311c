CREATE TABLE `idempotency_keys` (
	`owner` text NOT NULL,
	`target` text NOT NULL,
	`key` text NOT NULL,
	`fingerprint` text NOT NULL,
	`run_id` text,
	`session_id` text NOT NULL,
	`askers` integer NOT NULL,
	`created_at` integer NOT NULL,
	PRIMARY KEY(`owner`, `target`, `key`)
);
--> statement-breakpoint
CREATE INDEX `idempotency_keys_by_session` ON `idempotency_keys` (`session_id`);--> statement-breakpoint
CREATE INDEX `idempotency_keys_by_creation` ON `idempotency_keys` (`created_at`);