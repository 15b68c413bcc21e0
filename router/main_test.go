package router_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hived/hived/hive"
	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
	"github.com/hived/hived/router"
)

func TestMain(m *testing.M) {
	testenv.Cheap()
	if err := flag.Lookup("rapid.seed").Value.Set("1"); err != nil {
		panic(err)
	}
	router.MakeHive = func(disk durable.FS, settings protocol.Settings, adopt bool, tell func(path, text string)) error {
		return hive.Init(disk, hive.Options{Settings: settings, Template: []byte("# settings\n"), Adopt: adopt, Now: time.Now(), Tell: tell})
	}
	goleak.VerifyTestMain(m)
}
