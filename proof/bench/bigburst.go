package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var bigBurstRow = row{
	name: "burst-50k",
	what: func(s sizes) string {
		return fmt.Sprintf("The same burst of %s and %d agents in a hive whose agents have handled mail before: %s at first, and more with each round. Baseline (a) is sampled with %d messages a round in a repository of as many files.", count(s.burst, "messages"), s.agents, count(s.bigFiles, "files"), s.loopBig)
	},
	behind: "As for burst. A larger hive costs hived larger tree objects of .sent/ and .done/, and nothing else; the loop checks every file for every commit.",
	needs:  git,
	brief:  12 * time.Second, full: 75 * time.Second,
	disk: func(s sizes) int64 { return int64(s.bigFiles)*2*fileDisk + perMessage(s.bigFiles/2+s.rounds*s.burst) },
	measure: func(ctx context.Context, b *bench) (outcome, error) {
		s := b.sizes
		b.tell(0, "a hive of %s files grows", grouped(int64(s.bigFiles)))
		h, err := b.agedHive(ctx, s.bigFiles, func(share float64) { b.tell(share/4, "a hive of %s files grows", grouped(int64(s.bigFiles))) })
		if err != nil {
			return outcome{}, err
		}
		out, err := b.bigBurst(ctx, h)
		return out, errors.Join(err, h.close())
	},
}

// agedHive makes a hive whose agents have sent and handled messages that leave this
// many files. No daemon runs when it returns.
func (b *bench) agedHive(ctx context.Context, files int, tell func(share float64)) (*testbed, error) {
	agents := max(agentsFor(files), b.sizes.agents)
	h, err := b.newHive(ctx, agents, "")
	if err != nil {
		return nil, err
	}
	err = h.up(ctx, workloadSettings())
	if err == nil {
		t := newTraffic(h.dir, agents, h.generator)
		err = t.run(ctx, files/2, func(taken int) { tell(float64(taken) / float64(files/2)) })
	}
	if err == nil {
		err = h.until(ctx, "the agents' handling to be seen", func() bool { return h.handled >= files/2 })
	}
	if err == nil {
		err = h.down()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (b *bench) bigBurst(ctx context.Context, h *testbed) (outcome, error) {
	s := b.sizes
	b.tell(0.25, "a repository of %s files for the loop", grouped(int64(s.bigFiles)))
	l, err := b.newLoop(ctx, max(agentsFor(s.bigFiles), s.agents), s.bigFiles)
	if err != nil {
		return outcome{}, err
	}
	var m burstSamples
	for round := range s.rounds {
		b.tell(0.5+float64(round)/float64(2*s.rounds), "round %d of %d", round+1, s.rounds)
		if err := h.burst(ctx, s.agents, s.burst, &m); err != nil {
			return outcome{}, err
		}
		if err := h.takeMail(ctx, s.agents, s.burst); err != nil {
			return outcome{}, err
		}
		if err := h.down(); err != nil {
			return outcome{}, err
		}
		rate, err := l.burst(ctx, s.agents, s.loopBig, eachMessage)
		if err != nil {
			return outcome{}, err
		}
		m.each = append(m.each, rate)
	}
	return outcome{parts: []Part{
		compared("in inboxes, against (a)", "messages/s", m.each, m.placed).timesAtLeast(1000),
		compared("committed, against (a)", "messages/s", m.each, m.landed).timesAtLeast(1000),
	}}, nil
}
