package gateway

import (
	"log/slog"
	"sync/atomic"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/files"
)

// adapted is the Caddyfile with the option fareway that this process has read last, nil for none.
var adapted atomic.Pointer[string]

// warnOfOthers says at each load which files of the configuration others can change: they decide what the gateway runs
// and where its keys go. It is not refused, as a plugin is: folders that are mounted into containers, and groups of
// operators, are common.
func (a *App) warnOfOthers(cfg *config.Config) { warnOfOthers(a.log, filesOf(cfg, adapted.Load())) }

// filesOf are the files of a configuration, with the Caddyfile, nil for none.
func filesOf(cfg *config.Config, caddyfile *string) (paths []string) {
	if caddyfile != nil {
		paths = append(paths, *caddyfile)
	}
	for _, f := range cfg.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

func warnOfOthers(log *slog.Logger, paths []string) {
	for _, path := range paths {
		if who := files.WhoElse(path); who != "" {
			log.Warn("others can change the configuration, and so what the gateway does and where its keys go: take that right "+
				"from them (chmod go-w, chown)", "file", path, "why", who)
		}
	}
}
