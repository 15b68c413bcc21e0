package main

import (
	"context"
	"errors"

	"github.com/hived/hived/internal/durable"
)

var errNoAudit = errors.New("this build has no audit")

func (a *app) verify(context.Context, *durable.Disk) error              { return errNoAudit }
func (a *app) repair(context.Context, *durable.Disk) error              { return errNoAudit }
func (a *app) doctor(context.Context, *durable.Disk) error              { return errNoAudit }
func (a *app) replay(context.Context, *durable.Disk, replayFlags) error { return errNoAudit }
func (t *trace) commits(durable.FS) error                               { return nil }
