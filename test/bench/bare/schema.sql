CREATE TABLE sessions (session_id TEXT PRIMARY KEY NOT NULL, updated_at INTEGER NOT NULL, document TEXT NOT NULL);
--> statement-breakpoint
CREATE TABLE runs (run_id TEXT PRIMARY KEY NOT NULL, session_id TEXT NOT NULL, status TEXT NOT NULL, document TEXT NOT NULL);
