// Package mailbox reads and writes one agent's directories: what is in its outbox,
// what became of its inbox, which of its own files changed, and the placing of
// files in them (spec §3.1 to §3.3, §3.6, §4.7).
//
// It promises that no link is followed and nothing but a regular file is read;
// that a file is returned as soon as it is a whole message, and given up only
// when nobody is writing it any more; that the file that is moved is the one that
// was read; and that every placing can be repeated, because it compares bytes and
// not existence. It never deletes what nobody has read.
//
// Nothing here is synced: after a power cut the files are made again from the
// log. What a file means, who is told about it and when it is logged is left
// to the router, which calls a Boxes from one goroutine. Only a Watcher has a
// goroutine of its own, and it sends nothing but hints.
package mailbox
