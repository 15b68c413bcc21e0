package testenv

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Packed is one file or directory of a stored hive.
type Packed struct {
	Name    string // below the hive, with slashes
	Mode    fs.FileMode
	ModTime time.Time
	Data    []byte
}

// Pack stores files and directories, each directory before what it holds. The same
// list gives the same bytes.
func Pack(file string, list []Packed) (err error) {
	out, err := os.Create(file) //nolint:forbidigo,gosec // the file that a test was told to write
	if err != nil {
		return fmt.Errorf("pack a hive: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	small, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("pack a hive: %w", err)
	}
	w := tar.NewWriter(small)
	for _, x := range list {
		h := &tar.Header{Name: x.Name, Mode: int64(x.Mode.Perm()), ModTime: x.ModTime, Typeflag: tar.TypeReg, Size: int64(len(x.Data)), Format: tar.FormatPAX}
		if x.Mode.IsDir() {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", x.Name, err)
		}
		if _, err := w.Write(x.Data); err != nil {
			return fmt.Errorf("pack %s: %w", x.Name, err)
		}
	}
	return errors.Join(w.Close(), small.Close())
}

// Unpack writes a stored hive into a directory, with the modes and times that its
// files had.
func Unpack(file, dir string) error {
	f, err := os.Open(file) //nolint:gosec // test data
	if err != nil {
		return fmt.Errorf("unpack a hive: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	small, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", file, err)
	}
	for r := tar.NewReader(small); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpack(r, h, filepath.Join(dir, filepath.FromSlash(h.Name)))
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", file, err)
		}
	}
}

func unpack(r io.Reader, h *tar.Header, to string) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(to, 0o755) //nolint:gosec // as every hive has them
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, to)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	mode := h.FileInfo().Mode().Perm()
	return errors.Join(os.WriteFile(to, data, mode|0o200), os.Chmod(to, mode), os.Chtimes(to, time.Time{}, h.ModTime)) //nolint:forbidigo // test data
}
