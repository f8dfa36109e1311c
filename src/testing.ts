/**
 * What tests of your own agents import: the scripted model, which plays what a test wrote, and the gates that hold it in
 * mid-turn until the test says so.
 */
export * from "./models/scripted.ts";
