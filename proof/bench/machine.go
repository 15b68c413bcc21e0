package bench

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes the machine of a run, without a host name or a directory.
type Machine struct {
	Cores      int    `json:"cores"`
	MemoryMiB  int64  `json:"memory_mib"`  // 0 if unknown
	FileSystem string `json:"file_system"` // of the files of the run; empty if unknown
	System     string `json:"system"`      // with the release of the kernel
	Go         string `json:"go"`
	Git        string `json:"git"` // empty if there is none
	// Load is the load average of the minute before the run; 0 also if unknown.
	Load float64 `json:"load"`
}

// MachineAt describes this machine and the disk of a directory. An empty name is the
// directory in which [Run] works by default.
func MachineAt(dir string) Machine {
	if dir == "" {
		dir = os.TempDir()
	}
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, FileSystem: fileSystem(dir)}
	if data, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release, _, _ := strings.Cut(strings.TrimSpace(string(data)), "-")
		m.System = "Linux " + release + ", " + runtime.GOARCH
	}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64) // zero means unknown
			m.MemoryMiB = kib >> 10
		}
	}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(data), " ")
		m.Load, _ = strconv.ParseFloat(first, 64) // zero means unknown
	}
	if p, err := gitProgram(); err == nil {
		if out, err := exec.Command(p, "version").Output(); err == nil { //nolint:gosec,noctx // prints a line and ends
			m.Git = strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
		}
	}
	return m
}

// String returns one line for people.
func (m Machine) String() string {
	parts := []string{strconv.Itoa(m.Cores) + " cores"}
	if m.MemoryMiB > 0 {
		parts = append(parts, strconv.FormatInt((m.MemoryMiB+512)>>10, 10)+" GiB of memory")
	}
	if m.FileSystem != "" {
		parts = append(parts, m.FileSystem)
	}
	parts = append(parts, m.System, m.Go)
	if m.Git == "" {
		parts = append(parts, "no git")
	} else {
		parts = append(parts, "git "+m.Git)
	}
	if m.Load > float64(m.Cores)/2 {
		parts = append(parts, "busy with other things (load average "+figure(m.Load)+")")
	}
	return strings.Join(parts, ", ")
}

// fileSystem returns the type of the file system of a directory: that of the longest
// mount point above it.
func fileSystem(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return ""
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return ""
	}
	defer mounts.Close() //nolint:errcheck // only read
	kind, longest := "", -1
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 3 || len(f[1]) < longest {
			continue
		}
		if under := strings.TrimSuffix(f[1], "/") + "/"; strings.HasPrefix(real+"/", under) {
			kind, longest = f[2], len(f[1])
		}
	}
	return kind
}
