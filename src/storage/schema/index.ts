export { cancelWishes } from "./cancel-wishes.ts";
export { runs } from "./runs.ts";
export { deletedSessions, sessions } from "./sessions.ts";
