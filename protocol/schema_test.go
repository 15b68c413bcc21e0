package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hived/hived/internal/testenv"
	"github.com/hived/hived/protocol"
)

func compileSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(protocol.Schema()))
	testenv.Must(tb, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	testenv.Must(tb, c.AddResource("urn:hived:message:1", doc))
	s, err := c.Compile("urn:hived:message:1")
	testenv.Must(tb, err)
	return s
}

// verdict is whether decoder and schema accept a document.
type verdict int

const (
	valid       verdict = iota // both accept it
	invalid                    // both refuse it
	schemaBlind                // the decoder refuses it for what a schema cannot express
)

// documents returns messages and what is almost one. The decoder's tests use them
// as well, and the fuzz targets start from them.
func documents() []struct {
	raw  string
	want verdict
} {
	type d = struct {
		raw  string
		want verdict
	}
	list := []d{
		{`{"to":"bob","subject":"s"}`, valid},
		{`{"to":"bob","body":"b"}`, valid},
		{`{"to":"bob","body":null}`, valid},
		{`{"to":"bob","body":[{"deep":[1,2.5,-3e9,"x",null,true]}]}`, valid},
		{`{"to":"bob","subject":""}`, valid},
		{`{"to":"bob","subject":"\ud83d\ude00 \u0000 \u2028"}`, valid},
		{" \t\r\n{\"to\" : \"bob\" ,\n\"subject\" : \"s\"}\r\n", valid},
		{`{"to":"hive","event":"continue"}`, valid},
		{`{"to":"hive","event":"agent-add","data":{"agent":"x"},"epoch":0,"task":"t"}`, valid},
		{`{"to":"hive","event":""}`, invalid},
		{`{"to":"hive","event":null,"subject":"s"}`, invalid},
		{`{"to":"hive","event":"` + strings.Repeat("e", 64) + `"}`, valid},
		{`{"to":"hive","event":"` + strings.Repeat("e", 65) + `"}`, invalid},

		{`{}`, invalid},
		{`{"to":"bob"}`, invalid},
		{`{"subject":"s"}`, invalid},
		{`{"TO":"bob","subject":"s"}`, invalid},
		{`{"to":"bob","Subject":"s"}`, invalid},
		{`null`, invalid},
		{`[]`, invalid},
		{`"to"`, invalid},
		{`7`, invalid},
		{`true`, invalid},
		{`[{"to":"bob","subject":"s"}]`, invalid},

		{`{"to":["bob"],"subject":"s"}`, valid},
		{`{"to":["bob","@builder","broadcast","lead","god","human","hive"],"subject":"s"}`, valid},
		{`{"to":["bob","bob"],"subject":"s"}`, valid},
		{`{"to":[],"subject":"s"}`, invalid},
		{`{"to":"","subject":"s"}`, invalid},
		{`{"to":[""],"subject":"s"}`, invalid},
		{`{"to":null,"subject":"s"}`, invalid},
		{`{"to":[null],"subject":"s"}`, invalid},
		{`{"to":[["bob"]],"subject":"s"}`, invalid},
		{`{"to":{"id":"bob"},"subject":"s"}`, invalid},
		{`{"to":7,"subject":"s"}`, invalid},
		{`{"to":"../bob","subject":"s"}`, invalid},
		{`{"to":"a/b","subject":"s"}`, invalid},
		{`{"to":"bob\u0000","subject":"s"}`, invalid},
		{`{"to":"bob\n","subject":"s"}`, invalid},
		{`{"to":"-rf","subject":"s"}`, invalid},
		{`{"to":".git","subject":"s"}`, invalid},
		{`{"to":"@","subject":"s"}`, invalid},
		{`{"to":"@@bob","subject":"s"}`, invalid},
		{`{"to":"bób","subject":"s"}`, invalid},
		{`{"to":"bob, alice","subject":"s"}`, invalid},
		{`{"to":"` + strings.Repeat("a", 64) + `","subject":"s"}`, valid},
		{`{"to":"` + strings.Repeat("a", 65) + `","subject":"s"}`, invalid},
		{`{"to":"@` + strings.Repeat("a", 64) + `","subject":"s"}`, valid},

		{`{"to":"bob","subject":null}`, invalid},
		{`{"to":"bob","subject":["s"]}`, invalid},
		{`{"to":"bob","subject":"s","from":"whoever I like"}`, valid},
		{`{"to":"bob","subject":"s","from":7}`, invalid},

		{`{"to":"bob","subject":"s","id":"2026-05-30T14-03-11-123Z-a1b2"}`, valid},
		{`{"to":"bob","subject":"s","id":"` + strings.Repeat("a", 128) + `"}`, valid},
		{`{"to":"bob","subject":"s","id":"` + strings.Repeat("a", 129) + `"}`, invalid},
		{`{"to":"bob","subject":"s","id":""}`, invalid},
		{`{"to":"bob","subject":"s","id":null}`, invalid},
		{`{"to":"bob","subject":"s","id":7}`, invalid},
		{`{"to":"bob","subject":"s","id":"a/../b"}`, invalid},
		{`{"to":"bob","subject":"s","id":".a"}`, invalid},
		{`{"to":"bob","subject":"s","id":"a\n"}`, invalid},
		{`{"to":"bob","subject":"s","in_reply_to":null}`, valid},
		{`{"to":"bob","subject":"s","in_reply_to":"x"}`, valid},
		{`{"to":"bob","subject":"s","in_reply_to":""}`, invalid},
		{`{"to":"bob","subject":"s","in_reply_to":false}`, invalid},
		{`{"to":"bob","subject":"s","conversation":"any text, of any kind"}`, valid},
		{`{"to":"bob","subject":"s","conversation":""}`, invalid},
		{`{"to":"bob","subject":"s","conversation":null}`, invalid},
		{`{"to":"bob","subject":"s","conversation":"` + strings.Repeat("c", 256) + `"}`, valid},
		{`{"to":"bob","subject":"s","conversation":"` + strings.Repeat("c", 257) + `"}`, invalid},
		{`{"to":"bob","subject":"s","conversation":"` + strings.Repeat("é", 129) + `"}`, schemaBlind},

		{`{"to":"bob","subject":"s","act":"Request"}`, invalid},
		{`{"to":"bob","subject":"s","act":"ask"}`, invalid},
		{`{"to":"bob","subject":"s","act":""}`, invalid},
		{`{"to":"bob","subject":"s","act":null}`, invalid},

		{`{"to":"bob","subject":"s","hops":0}`, valid},
		{`{"to":"bob","subject":"s","hops":2147483647}`, valid},
		{`{"to":"bob","subject":"s","hops":2147483648}`, invalid},
		{`{"to":"bob","subject":"s","hops":18446744073709551616}`, invalid},
		{`{"to":"bob","subject":"s","hops":-1}`, invalid},
		{`{"to":"bob","subject":"s","hops":1.5}`, invalid},
		{`{"to":"bob","subject":"s","hops":"1"}`, invalid},
		{`{"to":"bob","subject":"s","hops":null}`, invalid},
		{`{"to":"bob","subject":"s","hops":-0}`, schemaBlind},
		{`{"to":"bob","subject":"s","hops":1e2}`, schemaBlind},
		{`{"to":"bob","subject":"s","hops":1.0}`, schemaBlind},
		{`{"to":"hive","event":"e","epoch":9007199254740992}`, valid},
		{`{"to":"hive","event":"e","epoch":9007199254740993}`, invalid},
		{`{"to":"hive","event":"e","task":""}`, invalid},
		{`{"to":"hive","event":"e","task":"` + strings.Repeat("t", 129) + `"}`, invalid},

		{`{"to":"bob","subject":"s","requires_reply":false,"needs_human":true}`, valid},
		{`{"to":"bob","subject":"s","requires_reply":"true"}`, invalid},
		{`{"to":"bob","subject":"s","requires_reply":1}`, invalid},
		{`{"to":"bob","subject":"s","needs_human":null}`, invalid},

		{`{"to":"bob","subject":"s","created_at":"2026-11-21T09:00:00Z"}`, valid},
		{`{"to":"bob","subject":"s","created_at":"2024-02-29T23:59:59.123456789+05:30"}`, valid},
		{`{"to":"bob","subject":"s","expires_at":"9999-12-31T23:59:59-23:59"}`, valid},
		{`{"to":"bob","subject":"s","created_at":"2025-02-29T00:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T09:00:00"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21 09:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21t09:00:00z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T9:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T09:00:00,5Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T09:00:00.Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T24:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"2026-11-21T09:00:00+24:00"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"0000-01-01T00:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":"12026-11-21T09:00:00Z"}`, invalid},
		{`{"to":"bob","subject":"s","created_at":1795251600}`, invalid},
		{`{"to":"bob","subject":"s","expires_at":""}`, invalid},
		{`{"to":"bob","subject":"s","expires_at":null}`, invalid},
		{`{"to":"bob","subject":"s","expires_at":"2016-12-31T23:59:60Z"}`, invalid},
		{`{"to":"bob","subject":"s","expires_at":"0001-01-01T00:00:00Z"}`, schemaBlind},

		{`{"to":"bob","subject":"s","seq":"mine","received_at":7,"x":{"y":[]},"FROM":7,"ｔo":1}`, valid},
		{`{"to":"bob","subject":"s","data":null}`, valid},

		{``, schemaBlind},
		{" \n", schemaBlind},
		{"\xef\xbb\xbf" + `{"to":"bob","subject":"s"}`, schemaBlind},
		{`{"to":"bob","subject":"s"`, schemaBlind},
		{`{"to":"bob","subject":"s"}}`, schemaBlind},
		{`{"to":"bob","subject":"s"}{"to":"bob","subject":"s"}`, schemaBlind},
		{`{"to":"bob","subject":"s"} thanks`, schemaBlind},
		{`{"to":"bob","subject":"s",}`, schemaBlind},
		{`{"to":"bob" "subject":"s"}`, schemaBlind},
		{`{to:"bob","subject":"s"}`, schemaBlind},
		{`{'to':'bob','subject':'s'}`, schemaBlind},
		{`{"to":"bob","subject":"s"/* note */}`, schemaBlind},
		{"{\"to\":\"bob\",\"subject\":\"two\nlines\"}", schemaBlind},
		{`{"to":"bob","subject":"s","hops":01}`, schemaBlind},
		{`{"to":"bob","subject":"s","body":NaN}`, schemaBlind},
		{`{"to":"bob","subject":"s","to":"alice"}`, schemaBlind},
		{`{"to":"bob","subject":"s","\u0074o":"alice"}`, schemaBlind},
		{`{"to":"bob","body":{"a":{"b":1,"b":1}}}`, schemaBlind},
		{"{\"to\":\"bob\",\"subject\":\"\xff\"}", schemaBlind},
		{"{\"to\":\"bob\",\"subject\":\"s\",\"\xc3\x28\":1}", schemaBlind},
		{`{"to":"bob","subject":"\ud800"}`, schemaBlind},
		{`{"to":"bob","subject":"\udc00\ud800"}`, schemaBlind},
		{`{"to":"bob","subject":"\x41"}`, schemaBlind},
		{`{"to":"bob","body":` + nested(63) + `}`, valid},
		{`{"to":"bob","body":` + nested(64) + `}`, schemaBlind},
		{`{"to":"bob","body":` + nested(10_001) + `}`, schemaBlind},
		{`{"to":"bob","body":"` + strings.Repeat("[", 100) + `\"{"}`, valid},
	}
	for _, act := range protocol.Acts() {
		list = append(list, d{fmt.Sprintf(`{"to":"bob","subject":"s","act":%q}`, act), valid})
	}
	return list
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestSchemaAgreesWithDecoder checks that the published schema and the decoder
// agree (spec §2).
func TestSchemaAgreesWithDecoder(t *testing.T) {
	s := compileSchema(t)
	for _, d := range documents() {
		name := d.raw[:min(len(d.raw), 100)]
		_, err := protocol.DecodeMessage([]byte(d.raw))
		if (err == nil) != (d.want == valid) {
			t.Errorf("decoder: %v for %q", err, name)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(d.raw))
		if err != nil {
			if d.want != schemaBlind {
				t.Errorf("%q is not JSON that a schema could check: %v", name, err)
			}
			continue
		}
		if err := s.Validate(doc); (err == nil) == (d.want == invalid) {
			t.Errorf("schema: %v for %q", err, name)
		}
	}
}

// TestRefusalsTeach checks that each refusal says where a message is wrong and how
// to mend it.
func TestRefusalsTeach(t *testing.T) {
	for _, d := range documents() {
		m, err := protocol.DecodeMessage([]byte(d.raw))
		if d.want == valid {
			continue
		}
		var bad *protocol.Malformed
		switch {
		case m != nil || !errors.As(err, &bad) || !errors.Is(err, protocol.ErrMalformed):
			t.Errorf("%v, %v for %q", m, err, d.raw[:min(len(d.raw), 100)])
		case bad.Reason == "" || bad.Remedy == "" || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000:
			t.Errorf("%q lacks a reason or a remedy, or is not one short line", err)
		}
	}
}

// FuzzSchemaTakesWhatDecodes checks that the schema never refuses what the decoder
// accepts: an agent may check with it.
func FuzzSchemaTakesWhatDecodes(f *testing.F) {
	s := compileSchema(f)
	for _, d := range documents() {
		f.Add([]byte(d.raw))
	}
	bad, err := filepath.Glob("testdata/bad/*.json")
	if err != nil || len(bad) == 0 {
		f.Fatalf("read the bad texts: %v", err)
	}
	for _, name := range bad {
		raw, err := os.ReadFile(name)
		testenv.Must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := protocol.DecodeMessage(raw); err != nil {
			return
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("it is not JSON: %v", err)
		}
		testenv.Must(t, s.Validate(doc))
	})
}
