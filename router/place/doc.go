// Package place makes the disk agree with events that are in the log: for the
// first time, again after a crash, and again where somebody or a power cut took
// files away.
//
// Nothing in this package survives a crash: a [Placer] keeps in memory what the disk
// refused, and a restart works that out anew from the log ([Placer.Redo]). Doing
// anything twice is harmless, because bytes are compared, not existence. No decision
// is made here: what has to be logged before it is done goes to the [Loop].
package place
