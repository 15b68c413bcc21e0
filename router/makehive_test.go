package router

import (
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// MakeHive makes a hive with package hive, which imports this one: package
// router_test, which may import both, sets it.
var MakeHive func(disk durable.FS, settings protocol.Settings, adopt bool, tell func(path, text string)) error
