// Package profiles serves the profiles of a process (net/http/pprof) to its own
// machine and to nobody else: a profile shows what is in memory.
package profiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// Check returns an error for an address at which profiles must not be served.
func Check(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("serve profiles at %q: %w; give an address such as 127.0.0.1:6060", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("serve profiles at %q: they show what is in memory, so only an address of this machine is taken, such as 127.0.0.1:6060", addr)
	}
	return nil
}

// Serve serves the profiles at an address that [Check] accepts, until the function
// that it returns is called.
func Serve(ctx context.Context, addr string, log *slog.Logger) (url string, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("serve profiles at %s: %w", addr, err)
	}
	runtime.MemProfileRate = 512 << 10 // Go's default, which the program turned off
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.WarnContext(ctx, "no more profiles are served", slog.String("error", err.Error()))
		}
	}()
	return "http://" + listener.Addr().String() + "/debug/pprof/", func() {
		_ = server.Close() // a profile that is being made is lost
		<-done
	}, nil
}
