package gitcommit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hived/hived/internal/testenv"
)

// Where git is installed, it reads each row too.
func TestParseConfig(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"case":                {"[Core]\n\tIgnoreCase = TRUE\n[Branch \"Main\"]\n\tRemote = Origin\n", []string{"core.ignorecase=TRUE", "branch.Main.remote=Origin"}},
		"after the header":    {"[core] bare = true\n[a][b]x=1", []string{"core.bare=true", "b.x=1"}},
		"no value":            {"[core]\n\tbare\n\tfilemode =\n", []string{"core.bare", "core.filemode="}},
		"comments":            {"# a\n[core] ; b\n\tx = 1 # c\n\ty = 2;d\n; e\n\tz = \"#3;\"\n", []string{"core.x=1", "core.y=2", "core.z=#3;"}},
		"continued":           {"[a]\n\tx = 1 \\\n 2\n\ty = \"p\\\nq\"\n\tz = 3\\", []string{"a.x=1  2", "a.y=pq", "a.z=3"}},
		"quoted":              {"[a]\n\tx = \" p\"q\" r \" # c\n\ty = \\t\\\"\\\\\\n\n", []string{"a.x= pq r ", "a.y=\t\"\\\n"}},
		"inner space":         {"[a]\n\tx =   p   q  \n", []string{"a.x=p   q"}},
		"subsections":         {"[a \"b]\\\"\\c\"]\n\tx = 1\n[A.B]\n\ty = 2\n[a \"\"]\n\tz = 3\n[A.B \"C\"]w=4", []string{"a.b]\"c.x=1", "a.b.y=2", "a..z=3", "a.b.C.w=4"}},
		"mark of byte order":  {"\ufeff[a]\n\tx = 1\n", []string{"a.x=1"}},
		"ends of DOS":         {"[a]\r\n\tx = 1\r\n\ty = \"2\"\r\n\tz\r\n", []string{"a.x=1", "a.y=2", "a.z"}},
		"Latin-1":             {"[user]\n\tname = Jos\xe9\n", []string{"user.name=Jos\xe9"}},
		"includes":            {"[include]\n\tpath = other\n", []string{"include.path=other"}},
		"without section":     {"x = 1\n", []string{"x=1"}},
		"section of a number": {"[9-a]\n\tx-1 = 1\n", []string{"9-a.x-1=1"}},
		"empty":               {"", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range parseConfig(tt.text) {
				if s.noValue {
					got = append(got, s.name)
				} else {
					got = append(got, s.name+"="+s.value)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if git, ok := gitSettings(t, tt.text); ok && !slices.Equal(git, got) {
				t.Errorf("git reads %q", git)
			}
		})
	}
}

// A branch may have a name with characters that are not printed, and quotes. Where
// git is installed, it reads each value too.
func TestQuoteConfig(t *testing.T) {
	for _, value := range []string{"main", "soft\u00adhyphen", "\ufeffmark", "zero\u200bwidth", `"quoted"`, `back\slash`, "#no;comment", "  spaces  ", "two\nlines\ttab", "ünï"} {
		text := "[a]\n\tx = " + quoteConfig(value) + "\n"
		want := []setting{{name: "a.x", value: value}}
		if got := parseConfig(text); !slices.Equal(got, want) {
			t.Errorf("%q is read as %+v", text, got)
		}
		if git, ok := gitSettings(t, text); ok && !slices.Equal(git, []string{"a.x=" + value}) {
			t.Errorf("git reads %q in %q", git, text)
		}
	}
}

// gitSettings returns the settings that git reads in a config, false without git.
func gitSettings(t *testing.T, text string) ([]string, bool) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return nil, false
	}
	file := filepath.Join(t.TempDir(), "config")
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.Command("git", "config", "--file", file, "--null", "--list").Output()
	if err != nil {
		t.Fatalf("git refuses it: %v", err)
	}
	var all []string
	for s := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if s != "" {
			all = append(all, strings.Replace(s, "\n", "=", 1))
		}
	}
	return all, true
}

// git refuses such a file as a whole.
func TestParseConfigDropsBrokenLines(t *testing.T) {
	for _, line := range []string{
		"[a", "[a_b]", "[ a ]", "[]", "[a \"b]", "[a \"b\" ]", "[a\"b\"]", "[a \"b\\",
		"x_y = 1", "-x = 1", "x 1", "é = 1", "x = \"1", "x = \\q", "x = \"1\\q\"", "=", "\x00",
	} {
		m, err := parseMarker(markerText(marker{branch: "main"}) + line + "\n[core]\n\tbare = true\n")
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("after %q: %+v, %v", line, m, err)
		}
		m, err = parseMarker(line + "\n" + markerText(marker{branch: "main"}))
		if err != nil || m.branch != "main" {
			t.Errorf("%q and the marker: %+v, %v", line, m, err)
		}
	}
}

func TestMarkerAmongOtherSettings(t *testing.T) {
	ours := markerText(marker{branch: "main"})
	tests := map[string]struct {
		config string
		want   error
	}{
		"a comment behind the format": {"[hived]\n\tformat = 1 # by hand\n\tbranch = main ; too\n", nil},
		"the last holds":              {"[hived]\n\tformat = 9\n[core]\n\tbare = true\n" + ours + "[core]\n\tbare = false\n", nil},
		"not bare":                    {"[core]\n\tbare =\n" + ours, nil},
		"sha1, with a comment":        {"[extensions]\n\tobjectformat = sha1 ; the default\n" + ours, nil},
		"bare without a value":        {"[core]\n\tbare\n" + ours, ErrUnsupported},
		"bare, with a comment":        {"[core]\n\tbare = true # why not\n" + ours, ErrUnsupported},
		"bare beside the header":      {"[core] bare = 1\n" + ours, ErrUnsupported},
		"a format without a value":    {"[hived]\n\tformat\n\tbranch = main\n", ErrUnsupported},
		"a subsection of that name":   {"[hived \"x\"]\n\tformat = 1\n\tbranch = main\n", ErrForeign},
		"in a comment":                {"# " + strings.ReplaceAll(ours, "\n", "\n# "), ErrForeign},
		"behind a broken header":      {ours + "[a_b]\n\tformat = 9\n", nil},
		"a branch cut short":          {"[hived]\n\tformat = 1\n\tbranch = \"main\n", errBadRef},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if m, err := parseMarker(tt.config); !errors.Is(err, tt.want) {
				t.Errorf("got %+v, %v, want %v", m, err, tt.want)
			}
		})
	}
}
