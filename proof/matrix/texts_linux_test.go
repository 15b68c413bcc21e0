package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hived/hived/protocol"
)

// bad returns a row whose text is in protocol/testdata/bad.
func bad(name, given, says string) row {
	return row{name: name, given: given, answer: "set aside as `malformed`, “" + says + "”; its author is told", run: func(h *hive) {
		text, err := os.ReadFile(filepath.Join("..", "..", "protocol", "testdata", "bad", name+".json"))
		h.must(err)
		h.malformed(string(text), says)
	}}
}

// malformed has alice send a text that is no message.
func (h *hive) malformed(text, says string) {
	h.t.Helper()
	h.write(h.outbox(h.alice)+"/m.json", text)
	h.others()
	q := h.setAside("m.json", protocol.CodeMalformed, says)
	if string(q.Content.Bytes()) != text {
		h.t.Errorf("the log holds %q", q.Content.Bytes())
	}
}

// setAside checks that alice's file is set aside and alice is told, and that what
// else she sends, and nothing more, is delivered to bob.
func (h *hive) setAside(name string, code protocol.Code, says string) *protocol.QuarantineEvent {
	h.t.Helper()
	as := protocol.ShortName(protocol.SafeName("bad-" + name))
	q := h.quarantined(h.alice, as, code)
	notice := h.told(h.alice, code)
	if !strings.Contains(q.Detail, says) || !strings.Contains(notice.Raw, `"file":"`) {
		h.t.Errorf("the event has the detail %q, the notice is %s", q.Detail, notice.Raw)
	}
	if h.exists(h.outbox(h.alice) + "/" + name) {
		h.t.Error("the file is still in the outbox")
	}
	if !h.exists(q.Path) {
		h.t.Errorf("the file is not at %s", q.Path)
	}
	if q.Content != nil && h.read(q.Path) != string(q.Content.Bytes()) {
		h.t.Errorf("%s holds %q", q.Path, h.read(q.Path))
	}
	h.stillSends()
	return q
}

// stillSends has alice send bob a message, and counts those that he has.
func (h *hive) stillSends() {
	h.t.Helper()
	h.sibling++
	id := fmt.Sprintf("sibling-%d", h.sibling)
	h.send(h.alice, id+".json", `{"id":"`+id+`","to":"`+h.bob+`","body":"sound"}`)
	h.message(h.alice, id)
	h.eventually("each sound message in bob's inbox, once", func() bool {
		n := 0
		for _, text := range h.arrived(h.bob, h.alice) {
			if strings.Contains(text, `"id": "sibling-`) {
				n++
			}
		}
		return n == h.sibling
	})
}

var texts = []row{
	bad("empty-file", "a file of no bytes", "the file is empty"),
	bad("white-space-only", "a file of blanks and line breaks", "the file is empty"),
	bad("half-a-message", "the first half of a message, its writer gone", "the JSON ends too early"),
	{
		name: "truncated-at-every-byte", given: "one message cut off after each of its bytes, each piece in a file of its own, and the whole",
		answer: "each piece is set aside as `malformed`, the whole is delivered once",
		run: func(h *hive) {
			text := `{"id":"whole","to":["` + h.bob + `"],"subject":"\u00e9","body":{"a":[1,-2e3,true,null]},"hops":0}`
			for i := range len(text) + 1 {
				h.write(fmt.Sprintf("%s/%03d.json", h.outbox(h.alice), i), text[:i])
			}
			h.others()
			for i := range len(text) {
				h.quarantined(h.alice, fmt.Sprintf("bad-%03d.json", i), protocol.CodeMalformed)
			}
			h.message(h.alice, "whole")
			if n := len(h.arrived(h.bob, h.alice)); n != 1 {
				h.t.Errorf("bob has %d messages", n)
			}
		},
	},
	bad("two-objects", "two messages in one file", "something follows the object"),
	bad("text-behind-the-object", "words behind the message", "something follows the object"),
	bad("duplicate-keys", "`to` stands twice", "a name stands twice in one object"),
	bad("duplicate-keys-escaped", "`to` stands twice, once spelled with an escape", "a name stands twice in one object"),
	bad("duplicate-keys-deep", "a name stands twice, deep in the body", "a name stands twice in one object"),
	bad("invalid-utf8", "text in Latin-1", "the text is not valid UTF-8"),
	bad("overlong-utf8", "a slash hidden in an overlong form", "the text is not valid UTF-8"),
	bad("lone-surrogate", "half of a surrogate pair, escaped", "invalid surrogate pair"),
	bad("byte-order-mark", "UTF-8 behind a byte order mark", "the file begins with a byte order mark"),
	bad("utf-16", "the whole message in UTF-16", "the text is not valid UTF-8"),
	bad("null-as-message", "`null`", "a message is a JSON object, not null"),
	bad("list-as-message", "a list of messages", "a message is a JSON object, not an array"),
	bad("string-as-message", "a string", "a message is a JSON object, not a string"),
	bad("single-quotes", "single quotes, as Python prints a dict", "not JSON"),
	bad("comment", "a comment", "not JSON"),
	bad("trailing-comma", "a comma behind the last field", "not JSON"),
	bad("no-comma", "no comma between two fields", "not JSON"),
	bad("line-break-in-a-string", "a bare line break within a string", "not JSON"),
	bad("not-a-number", "`NaN`", "not JSON"),
	bad("leading-zero", "a number with a zero before it", "not JSON"),
	bad("no-recipient", "no `to`", "the message has no `to`"),
	bad("no-words", "a recipient and nothing else", "the message has neither `subject` nor `body`"),
	bad("recipients-empty", "`to` is an empty list", "is an empty list"),
	bad("recipient-null", "`to` holds a null", "`to` names null"),
	bad("recipient-number", "`to` is a number", "`to` names a number"),
	bad("recipient-dot-dot", "`to` is `..`", "which cannot be an address"),
	bad("recipient-path", "`to` is a path that leads elsewhere", "which cannot be an address"),
	bad("recipient-nul", "`to` holds a NUL", "which cannot be an address"),
	bad("recipient-line-break", "`to` ends with a line break", "which cannot be an address"),
	bad("recipient-of-65-letters", "`to` is one letter longer than an id may be", "which cannot be an address"),
	bad("recipient-look-alike", "`to` has a Cyrillic letter that looks like a Latin one", "which cannot be an address"),
	bad("id-dot-dot", "`id` begins with `../`", "`id` is"),
	bad("id-line-break", "`id` holds a line break", "`id` is"),
	bad("id-nul", "`id` holds a NUL", "`id` is"),
	bad("id-of-129-letters", "`id` is one letter too long", "`id` is"),
	bad("id-a-number", "`id` is a number", "`id` is a number"),
	bad("conversation-empty", "`conversation` is empty", "`conversation` has 0 bytes"),
	bad("conversation-of-257-bytes", "`conversation` is one byte too long", "`conversation` has 257 bytes"),
	bad("reply-to-a-path", "`in_reply_to` is a path", "`in_reply_to` is"),
	bad("act-unknown", "an act that does not exist", "`act` is"),
	bad("subject-a-list", "`subject` is a list", "`subject` is an array"),
	bad("hops-exponent", "`hops` is `1e2`", "`hops` is"),
	bad("hops-negative", "`hops` is `-1`", "`hops` is"),
	bad("hops-fraction", "`hops` is `1.0`", "`hops` is"),
	bad("hops-two-to-the-64", "`hops` is 2 to the power of 64", "`hops` is"),
	bad("hops-a-string", "`hops` is a string", "`hops` is"),
	bad("epoch-over-two-to-the-53", "`epoch` is larger than a float can count to", "`epoch` is"),
	bad("yes-as-boolean", "`needs_human` is `\"yes\"`", "`needs_human` is a string"),
	bad("time-without-zone", "a time without its zone", "`expires_at` is"),
	bad("time-in-words", "a time in words", "`expires_at` is"),
	bad("time-of-the-30th-of-february", "the 30th of February", "`created_at` is"),
	bad("task-of-129-bytes", "`task` is one byte too long", "`task` has 129 bytes"),
	bad("command-of-65-bytes", "a command is one byte too long", "`event` has 65 bytes"),
	bad("nested-65-deep", "lists nested one level deeper than allowed", "nested deeper than 64"),
	{
		name: "nested-10001-deep", given: "lists nested 10,001 deep, which decoders that recurse do not survive", answer: "set aside as `malformed`, “nested deeper than 64”; its author is told",
		run: func(h *hive) {
			h.malformed(`{"to":"`+h.bob+`","body":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+"}", "nested deeper than 64")
		},
	},
	{
		name: "never-closed", given: "400,000 opening brackets and nothing else", answer: "set aside as `malformed`, “nested deeper than 64”; its author is told",
		run: func(h *hive) { h.malformed(strings.Repeat("[", 400_000), "nested deeper than 64") },
	},
	{
		name: "zeros", given: "4,096 bytes of zero, as a file system leaves them after a power cut", answer: "set aside as `malformed`; its author is told",
		run: func(h *hive) { h.malformed(strings.Repeat("\x00", 4096), "not JSON") },
	},
}
