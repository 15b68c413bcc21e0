// Package users keeps the agents of a hive apart: a Unix user for each, and the
// rights that let it write its outbox and take its inbox, and touch nothing else
// in the hive (spec §1.7).
//
// It promises that
//
//   - one table, [Rights], says what belongs to whom; what sets the rights
//     ([SetUp], [Keep], [Maker]) and what checks them ([Differences]) read the same rows;
//   - rights are set on what was opened and checked, so an agent that puts
//     something else in the way meanwhile gains nothing by it;
//   - setting up twice changes nothing the second time.
//
// What agents may say to whom is left to others, and so is what an agent's process does
// outside of the hive. Accounts and rights can be set on Linux only.
package users
