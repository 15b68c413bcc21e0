package main

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// TestProfiles: profiles are served to this machine, and to no other.
func TestProfiles(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	url, stop, err := profiles(t.Context(), "127.0.0.1:0", log)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for page, want := range map[string]string{"": "allocs", "goroutine?debug=1": "TestProfiles", "cmdline": "test"} {
		res, err := client.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
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
	for _, addr := range []string{"0.0.0.0:0", ":0", "192.0.2.1:6060", "example.org:6060", "6060"} {
		if _, _, err := profiles(t.Context(), addr, log); exitStatus(err) != exitUsage || !strings.Contains(err.Error(), "127.0.0.1:6060") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
