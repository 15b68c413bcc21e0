package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// messageBytes is about the size of a message.
const messageBytes = 1024

// generator makes messages as `hived send` would, no two of them with the same
// text: words of random letters, which compression only halves.
type generator struct {
	random *rand.Rand
	n      int
}

func newGenerator(seed uint64) *generator { return &generator{random: rand.New(rand.NewPCG(seed, 7))} } //nolint:gosec // figures must be repeatable, not secret

// next returns the name and the content of the next message file. The message has
// an id of its sender's, which costs hived most: it is remembered.
func (g *generator) next(to int) (name string, data []byte) {
	g.n++
	data = make([]byte, 0, messageBytes+64)
	data = fmt.Appendf(data, `{"id":"m-%08d","to":"%s","act":"inform","subject":"number %d","body":"`, g.n, nameOf(to), g.n)
	for len(data) < messageBytes-2 {
		data = append(data, "word-"...)
		data = strconv.AppendUint(data, uint64(g.random.Uint32N(1<<20)), 16)
		data = append(data, ' ')
	}
	data = append(data[:messageBytes-2], `"}`...)
	return fmt.Sprintf("%08d.json", g.n), data
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
