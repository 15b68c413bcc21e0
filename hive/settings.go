package hive

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/hived/hived/internal/durable"
	"github.com/hived/hived/protocol"
)

// maxSettings is the largest hive.yaml that is read, in bytes.
const maxSettings = 1 << 20

// ErrInvalid marks a hive.yaml whose content is wrong.
var ErrInvalid = errors.New("not valid settings")

// file is the whole of hive.yaml: the settings of this program, and the sections of
// other parts of the specification, which are only checked.
type file struct {
	protocol.Settings `yaml:",inline"`

	HTTP page `yaml:"http"`
}

type page struct {
	Listen string `yaml:"listen"`
}

func defaults() file {
	return file{
		Settings: protocol.DefaultSettings(),
		HTTP:     page{Listen: "127.0.0.1:7717"},
	}
}

//go:embed hive.yaml
var template []byte

// Template returns a hive.yaml with every key as a comment, at its default.
func Template() []byte { return bytes.Clone(template) }

// Settings reads hive.yaml; a hive without one has the defaults. Where its content
// is wrong, the error is an [ErrInvalid].
func Settings(disk durable.FS) (protocol.Settings, error) {
	f, err := load(disk)
	return f.Settings, err
}

func load(disk durable.FS) (file, error) {
	data, _, err := durable.ReadFile(disk, protocol.PathSettings, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return defaults(), nil
	}
	if err != nil {
		return file{}, fmt.Errorf("read settings: %w", err)
	}
	return parsed(data)
}

// Trust reads from hive.yaml the agents whose shell commands an agent of the hive
// runs, besides those of people and the lead (work.trust, spec §10).
func Trust(disk durable.FS) ([]protocol.AgentID, error) {
	f, err := load(disk)
	return f.Work.Trust, err
}

// ParseSettings reads the text of a hive.yaml.
func ParseSettings(data []byte) (protocol.Settings, error) {
	f, err := parsed(data)
	return f.Settings, err
}

func parsed(data []byte) (file, error) {
	f, err := parse(data)
	if err != nil {
		return file{}, fmt.Errorf("read hive.yaml: %w: %w", ErrInvalid, err)
	}
	return f, nil
}

func parse(data []byte) (file, error) {
	f := defaults()
	var doc yaml.Node
	dec, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return f, err
	}
	switch err := dec.Load(&doc); {
	case errors.Is(err, errNoDocument):
		return f, nil
	case err != nil:
		return f, explainYAML(data, err)
	}
	if err := dec.Load(new(yaml.Node)); !errors.Is(err, errNoDocument) {
		return f, errors.New("a second document follows; write all keys in one")
	}
	said := f
	for _, d := range clocks(&said.Tasks) {
		*d = unset
	}
	if err := fill(&doc, &said); err != nil {
		return f, err
	}
	fillClocks(&said.Tasks, f.Tasks)
	f = said
	if err := f.Validate(); err != nil {
		return f, err
	}
	return f, f.validateSections()
}

// unset marks a duration that hive.yaml does not set. Nobody writes this value.
const unset = time.Duration(math.MinInt64)

// clocks returns the settings of a task's clocks: first those for holders that beat,
// then, in the same order, those for a model's turns.
func clocks(t *protocol.TaskSettings) []*time.Duration {
	return []*time.Duration{&t.HeartbeatTimeout, &t.ProgressTimeout, &t.TurnHeartbeat, &t.TurnProgress}
}

// fillClocks sets the clocks that hive.yaml does not set. Where it sets a clock but
// not the one for a model's turns, the value counts for both (spec §10).
func fillClocks(said *protocol.TaskSettings, defaults protocol.TaskSettings) {
	list, otherwise := clocks(said), clocks(&defaults)
	for i := range 2 {
		if *list[i+2] == unset {
			*list[i+2] = *list[i]
		}
	}
	for i, d := range list {
		if *d == unset {
			*d = *otherwise[i]
		}
	}
}

// validateSections checks the sections that protocol.Settings does not have.
func (f file) validateSections() error {
	if _, _, err := net.SplitHostPort(f.HTTP.Listen); err != nil {
		return fmt.Errorf("settings: http.listen is %s; write host:port, for example 127.0.0.1:7717", protocol.Quote(f.HTTP.Listen))
	}
	return nil
}
