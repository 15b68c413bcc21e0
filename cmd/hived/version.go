package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hived/hived/protocol"
)

// release is set by the linker in released binaries.
var release string

// version returns the release, else the version that the Go toolchain put into the
// build.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints the version",
		Args:  argCount(0, 0),
		RunE: func(*cobra.Command, []string) error {
			out := struct {
				Version   string `json:"version"`
				Go        string `json:"go"`
				Platform  string `json:"platform"`
				LogFormat int    `json:"log_format"`
			}{version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, protocol.LogFormat}
			return a.answer(out, func(p *printer) {
				p.line("hived %s (%s, %s, log format %d)", out.Version, out.Go, out.Platform, out.LogFormat)
			})
		},
	}
}

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Writes the man pages into a directory",
		Args:  argCount(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return fmt.Errorf("write the man pages: %w", err)
			}
			// A fixed date: the same source gives the same pages.
			header := doc.GenManHeader{Section: "1", Source: "hived", Manual: "hived", Date: &time.Time{}}
			c.Root().DisableAutoGenTag = true
			if err := doc.GenManTree(c.Root(), &header, args[0]); err != nil {
				return fmt.Errorf("write the man pages: %w", err)
			}
			return nil
		},
	}
}
