package profiles

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/hived/hived/internal/testenv"
)

// TestProfiles checks that profiles are served to this machine, and to no other.
func TestProfiles(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	url, stop, err := Serve(t.Context(), "127.0.0.1:0", log)
	testenv.Must(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for page, want := range map[string]string{"": "allocs", "goroutine?debug=1": "TestProfiles", "cmdline": "test"} {
		res, err := client.Get(url + page)
		testenv.Must(t, err)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d, error %v, no %q in %.200q", page, res.StatusCode, err, want, body)
		}
	}
	stop()
	if res, err := client.Get(url); err == nil {
		res.Body.Close()
		t.Error("profiles are served after the stop")
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:6060", "[::1]:6060"} {
		if err := Check(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:6060", "example.org:6060", "6060"} {
		if err := Check(addr); err == nil || !strings.Contains(err.Error(), "127.0.0.1:6060") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
