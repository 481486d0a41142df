package gateway

import (
	"io"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/caddyserver/caddy/v2/modules/logging"
)

func init() {
	caddy.RegisterModule(FileWriter{})
	caddy.RegisterModule(FileStorage{})
}

// FileWriter is Caddy's writer of log files, whose path in a Caddyfile is relative to the Caddyfile. Rolled files
// are not compressed unless the operator asks for it: that would take its CPU time when there is most to log.
// SIGHUP opens the file anew, so that logrotate can rename it.
type FileWriter struct{ logging.FileWriter }

// CaddyModule returns the Caddy module information.
func (FileWriter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.fareway", New: func() caddy.Module { return new(FileWriter) }}
}

// UnmarshalCaddyfile sets the writer from what `output file` takes.
func (w *FileWriter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	file := fileOf(d)
	if err := w.FileWriter.UnmarshalCaddyfile(d); err != nil {
		return err
	}
	w.Filename = Beside(file, w.Filename)
	return nil
}

// Provision sets up the writer.
func (w *FileWriter) Provision(ctx caddy.Context) error {
	if w.RollCompression == "" && w.RollCompress == nil {
		w.RollCompression = "none"
	}
	return w.FileWriter.Provision(ctx)
}

// OpenWriter opens the file.
func (w *FileWriter) OpenWriter() (io.WriteCloser, error) {
	return openFiles.open(w.Filename, w.FileWriter.OpenWriter)
}

// FileStorage is Caddy's storage in a folder, whose path in a Caddyfile is relative to the Caddyfile.
type FileStorage struct{ filestorage.FileStorage }

// CaddyModule returns the Caddy module information.
func (FileStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.fareway", New: func() caddy.Module { return new(FileStorage) }}
}

// UnmarshalCaddyfile sets the storage from what `storage file_system` takes.
func (s *FileStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	file := fileOf(d)
	if err := s.FileStorage.UnmarshalCaddyfile(d); err != nil {
		return err
	}
	s.Root = Beside(file, s.Root)
	return nil
}

// fileOf is the file of a segment that has not been looked at.
func fileOf(d *caddyfile.Dispenser) string {
	d.Next()
	defer d.Reset()
	return d.File()
}

var (
	_ caddy.WriterOpener     = (*FileWriter)(nil)
	_ caddy.Provisioner      = (*FileWriter)(nil)
	_ caddy.StorageConverter = (*FileStorage)(nil)
	_ caddyfile.Unmarshaler  = (*FileWriter)(nil)
	_ caddyfile.Unmarshaler  = (*FileStorage)(nil)
)
