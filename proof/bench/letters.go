package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// messageBytes is about the size of a message.
const messageBytes = 1024

// letters writes messages as `hived send` would, no two of them with the same
// text: words of random letters, which a compressor halves and no more.
type letters struct {
	random *rand.Rand
	n      int
}

func newLetters(seed uint64) *letters { return &letters{random: rand.New(rand.NewPCG(seed, 7))} } //nolint:gosec // figures must be repeatable, not secret

// next gives the name of a file and what it holds. The id is the sender's own,
// because that is what costs hived most: it is remembered.
func (l *letters) next(to int) (name string, data []byte) {
	l.n++
	data = make([]byte, 0, messageBytes+64)
	data = fmt.Appendf(data, `{"id":"m-%08d","to":"%s","act":"inform","subject":"number %d","body":"`, l.n, nameOf(to), l.n)
	for len(data) < messageBytes-2 {
		data = append(data, "word-"...)
		data = strconv.AppendUint(data, uint64(l.random.Uint32N(1<<20)), 16)
		data = append(data, ' ')
	}
	data = append(data[:messageBytes-2], `"}`...)
	return fmt.Sprintf("%08d.json", l.n), data
}

// recipient spreads messages over the agents. Between two of them they go one
// way only, so that none are taken for an endless exchange (spec §4.3).
func recipient(message, from, agents int) int {
	if agents < 3 {
		return (from + 1) % agents
	}
	half := (agents - 1) / 2
	return (from + 1 + message/agents%half) % agents
}
