package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/hived/hived/eventlog"
	"github.com/hived/hived/gitcommit"
	"github.com/hived/hived/internal/durable"
)

// pass is one reading of the whole log, which feeds the log's own check, the fold,
// and the comparison with git.
type pass struct {
	disk   durable.FS
	fold   *fold
	begun  bool
	damage []*eventlog.Damage
	err    error // why it could not be finished
}

var errDamagedLog = errors.New("the log is damaged")

// events reads the log to its end, even where its caller stops taking events, and
// yields those before the first damage.
func (p *pass) events(ctx context.Context) func(yield func(gitcommit.Event, error) bool) {
	return func(yield func(gitcommit.Event, error) bool) {
		p.begun = true
		taken := true
		_, p.err = eventlog.Check(p.disk, checkedChangesOf, func(rec eventlog.Record) error {
			err := effectOf(rec).err
			if err == nil {
				err = p.fold.add(rec)
			}
			if err != nil {
				return fmt.Errorf("read the log: %w", err)
			}
			ev := gitEvent(rec)
			ev.Views = p.fold.render
			taken = taken && yield(ev, nil)
			if rec.Event.Seq%256 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return nil
		}, func(d *eventlog.Damage) { p.damage = append(p.damage, d) })
		err := p.err
		if len(p.damage) > 0 {
			err = errors.Join(errDamagedLog, err)
		}
		if err != nil && taken {
			yield(gitcommit.Event{}, err)
		}
	}
}
