CREATE TABLE `approvals` (
	`approval_id` text PRIMARY KEY NOT NULL,
	`run_id` text NOT NULL,
	`session_id` text NOT NULL,
	`user_id` text,
	`component_kind` text NOT NULL,
	`component_id` text NOT NULL,
	`status` text NOT NULL,
	`type` text NOT NULL,
	`pause_type` text NOT NULL,
	`schedule_id` text,
	`version` integer NOT NULL,
	`session_version` integer NOT NULL,
	`document` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `approvals_pending` ON `approvals` (`user_id`,`approval_id`) WHERE status = 'pending';--> statement-breakpoint
CREATE INDEX `approvals_by_owner` ON `approvals` (`user_id`,`approval_id`);--> statement-breakpoint
CREATE INDEX `approvals_by_run` ON `approvals` (`run_id`,`approval_id`);--> statement-breakpoint
CREATE INDEX `approvals_by_session` ON `approvals` (`session_id`);--> statement-breakpoint
CREATE TABLE `cancel_wishes` (
	`run_id` text NOT NULL,
	`wisher` text NOT NULL,
	`expires_at` integer NOT NULL,
	PRIMARY KEY(`run_id`, `wisher`)
);
--> statement-breakpoint
CREATE INDEX `cancel_wishes_by_expiry` ON `cancel_wishes` (`expires_at`);--> statement-breakpoint
CREATE TABLE `deleted_approvals` (
	`approval_id` text PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE `deleted_sessions` (
	`session_id` text PRIMARY KEY NOT NULL,
	`version` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `parked_projections` (
	`session_id` text NOT NULL,
	`entity` text NOT NULL,
	`reason` text NOT NULL,
	`release` text NOT NULL,
	`parked_at` integer NOT NULL,
	`session_version` integer NOT NULL,
	PRIMARY KEY(`session_id`, `entity`)
);
--> statement-breakpoint
CREATE INDEX `parked_projections_by_release` ON `parked_projections` (`release`);--> statement-breakpoint
CREATE TABLE `runs` (
	`run_id` text PRIMARY KEY NOT NULL,
	`session_id` text NOT NULL,
	`ordinal` integer NOT NULL,
	`parent_run_id` text,
	`user_id` text,
	`component_kind` text NOT NULL,
	`component_id` text NOT NULL,
	`status` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`version` integer NOT NULL,
	`session_version` integer NOT NULL,
	`archive_key` text,
	`document` text
);
--> statement-breakpoint
CREATE INDEX `runs_by_session` ON `runs` (`session_id`,`ordinal`);--> statement-breakpoint
CREATE INDEX `runs_unfinished` ON `runs` (`updated_at`) WHERE status IN ('pending', 'running');--> statement-breakpoint
CREATE TABLE `sessions` (
	`session_id` text PRIMARY KEY NOT NULL,
	`user_id` text,
	`component_kind` text,
	`component_id` text,
	`title` text NOT NULL,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	`version` integer NOT NULL,
	`document` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `sessions_by_owner` ON `sessions` (`user_id`,`created_at`,`session_id`,`component_kind`,`component_id`);--> statement-breakpoint
CREATE INDEX `sessions_by_component` ON `sessions` (`component_id`,`created_at`,`session_id`,`component_kind`);--> statement-breakpoint
CREATE INDEX `sessions_by_creation` ON `sessions` (`created_at`,`session_id`,`component_kind`);--> statement-breakpoint
CREATE INDEX `sessions_by_update` ON `sessions` (`updated_at`,`session_id`);