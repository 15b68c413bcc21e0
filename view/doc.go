// Package view is all that a face of hived may know: the command line today, a
// page or another program later. A face asks here what became of something and
// shows it in its own words; it folds no events itself.
//
// It promises that every answer follows from the log alone, so that two faces
// give the same one; that answers are values, identifiers and codes, with the
// words that the log itself has (the detail of a refusal, the reason of a
// drop) and no others; and that it writes nothing. Reading costs what the
// question needs: a [Folder] sees each event once, from whatever place in the
// log the caller begins at, and keeps what belongs to its answer. A [Feed] decodes
// what is appended once for all readers. A [Source] answers what the state is, which
// may be that of a running daemon: [Ask] copies out of it what a page shows, and
// [Shared] keeps many askers from delaying it.
//
// The caller decides from where to read and how long. What a code means to a reader,
// which command to run next, and in which language, is left to the faces.
package view
