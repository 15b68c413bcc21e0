// Package agenda knows which agents are due for what: scans of their directories,
// polls, and their turn in a scrub. It looks at nothing itself, and has no clock: the
// loop of a daemon takes from it what is due, and notes there what it heard and what
// it saw. What that costs goes by what is due, and not by how many agents there are;
// only a rescan and the last step go over all of them.
package agenda
