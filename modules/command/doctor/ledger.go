package doctor

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

var ledgerChecks = []Check{
	{Name: "ledger", About: "books", Worst: Error,
		Looks: "whether the ledger can be read, has all that it had, and is whole as far as a quick look says",
		Why:   "without it no request is charged, and so none is served",
		Next:  "fareway gateway ledger verify",
		run:   checkLedger},
	{Name: "spool", About: "books", Worst: Error,
		Looks: "settlements that wait for the ledger, and those that somebody has to decide about",
		Why:   "what waits is not charged yet",
		Next:  "fareway gateway ledger spool list",
		run:   checkSpool},
	{Name: "backups", About: "books", Worst: Error,
		Looks: "whether backups are made, in time, elsewhere, readable, encrypted before they are sent, and were ever tried",
		Why:   "a disk that breaks takes all accounts and credits with it",
		Next:  "fareway gateway backup run --into /var/backups/fareway --every 1d",
		run:   checkBackups},
	{Name: "durability", About: "books", Worst: Warning, needs: configured,
		Looks: "what a charge survives: a power cut, the loss of a machine",
		Why:   "clients were told of charges that are gone then",
		Next:  "durability = \"power\"   # in the block store",
		run:   checkDurability},
}

// checkEntriesAhead looks for entries of the journal from the future.
func checkEntriesAhead(ctx context.Context, s *Subject, r *result, after time.Time, ahead func(string, time.Time)) {
	s.ask(ctx, r, func(c *admin.Client) error {
		query := url.Values{"since": {after.UTC().Format(time.RFC3339Nano)}}
		return upTo(1, func(each func() error) error {
			return admin.ReadList(ctx, c, "/fareway/ledger/entries", query, func(e admin.Entry) error {
				ahead("an entry of the ledger", e.Created)
				return each()
			})
		})
	})
}

func checkLedger(ctx context.Context, s *Subject, r *result) {
	if s.Status != nil {
		if l := s.Status.Loss; l != nil {
			r.found("a part of the ledger is missing: %s", l).
				because("nothing is served until somebody has decided: a backup may have it").
				then("%s", s.command("ledger verify"))
		}
		return
	}
	if s.OfflineError != nil {
		r.skip("%v", s.OfflineError)
		return
	}
	if !s.Offline.Shared {
		file := stores.File(s.Offline.Ledger)
		if moved, err := file.ReadMove(); err == nil && !moved.Done.IsZero() {
			r.found("this ledger was moved to %s at %s", moved.Target, human.Moment(moved.Done)).as(Warning).
				because("a gateway does not start on this one").then("name the gateway there")
		}
		if err := file.CheckUnlocked(); errors.Is(err, ledger.ErrLocked) {
			r.found("another process has the ledger, and no gateway answers here: %v", err).as(Warning).
				because("it hangs, or has another admin address: nobody else can start on it").
				then("ps -fp $(pgrep -d, fareway)")
		}
		loss, err := file.FindLoss(ctx)
		if err != nil {
			r.found("the ledger cannot be read: %v", err)
			return
		}
		if loss != nil {
			r.found("a part of the ledger is missing: %s", loss).
				because("nothing is served until somebody has decided: a backup may have it")
		}
	}
	err := s.Offline.Read(ctx, func(c *admin.Client) error {
		var p admin.PrunedBefore
		return c.Call(ctx, "GET", "/fareway/ledger/pruned", nil, &p)
	})
	if err != nil {
		r.found("the ledger cannot be read: %v", err)
	}
}

func checkSpool(ctx context.Context, s *Subject, r *result) {
	waits, undecided, aside := int64(0), int64(0), ""
	if s.Status != nil {
		waits, undecided, aside = s.Status.Spool.Waiting, s.Status.Spool.Undecided, s.Status.Spool.Aside
	} else if !s.ask(ctx, r, func(c *admin.Client) error {
		return admin.ReadList(ctx, c, "/fareway/ledger/spool", nil, func(a admin.Aside) error {
			undecided, aside = undecided+1, a.File
			return nil
		})
	}) {
		return
	}
	if waits > 0 && s.Status != nil {
		r.found("%s in the spool for the ledger", human.Count(waits, "settlement")+" wait").
			because("the ledger is away; the gateway charges them when it is back").
			then("%s", s.command("doctor servers books disk-space"))
	}
	if undecided > 0 {
		r.found("%s in %s to be decided about", human.Count(undecided, "item")+" wait", aside).
			because("requests were served and not charged").then("%s", s.command("ledger spool list"))
	}
}

func checkBackups(_ context.Context, s *Subject, r *result) {
	var b chores.Standing
	switch {
	case s.Status != nil && s.Status.Backups != nil:
		b = s.Status.Backups.Standing
		if p := s.Status.Backups.Problem; p != "" {
			r.found("%s", p)
		}
	case s.Status != nil || s.Offline.Shared:
		r.skip("the ledger is in PostgreSQL, and only its own tools (pgBackRest, WAL-G) know of its backups")
		return
	case s.OfflineError != nil:
		r.skip("%v", s.OfflineError)
		return
	default:
		var err error
		if b, err = chores.ReadStanding(s.Offline.Ledger); err != nil {
			r.found("%v", err)
		}
	}
	now := s.Now()
	run := s.command("backup run --into /var/backups/fareway --every 1d") +
		"   # from a timer, as in examples/public/systemd"
	made := b.Backup
	if f := made.Failed; f != nil {
		r.found("the last backup failed at %s: %s", human.Moment(f.At), f.Text).then("%s", run)
	}
	switch {
	case made.Done == nil && made.Failed == nil:
		r.found("no backup was ever made").as(s.unlessPublic(Error)).then("%s", run)
	case made.Done != nil && b.IsMissed(chores.Backup, now):
		r.found("the last backup is of %s, and the next one was due at %s", human.Moment(*made.Done),
			human.Moment(*made.Due)).then("systemctl list-timers fareway-backup.timer; journalctl -u fareway-backup -n 20")
	case made.Done != nil && made.Due == nil && now.Sub(*made.Done) > 8*24*time.Hour:
		r.found("the last backup is of %s, and nobody has said how often there is one", human.Moment(*made.Done)).
			as(Warning).then("%s", run)
	}
	if made.Done != nil && s.Elsewhere == "" {
		checkBackupFile(s, r, made)
	} else if made.Done != nil {
		r.skip("%s", s.Elsewhere)
	}
	if f := b.Trial.Failed; f != nil {
		r.found("restoring a backup on trial failed at %s: %s", human.Moment(f.At), f.Text).
			because("a backup that cannot be restored is none").then("%s", s.command("backup test %s", made.File))
	} else if b.IsMissed(chores.Trial, now) || made.Done != nil && b.Trial.Done == nil && !made.Encrypted {
		r.found("no backup was restored on trial").as(s.unlessPublic(Warning)).
			because("whether one can be restored is not known").then("%s", s.command("backup test %s", made.File))
	}
}

// checkBackupFile looks at where the last backup lies.
func checkBackupFile(s *Subject, r *result, made chores.Record) {
	if made.File == "" {
		return
	}
	info, err := os.Stat(made.File)
	switch {
	case errors.Is(err, os.ErrNotExist) && !made.Sent:
		r.found("the last backup, %s, is not there any more", made.File).
			then("%s", s.command("backup run --into %s --every 1d", filepath.Dir(made.File)))
	case err != nil:
	case info.Size() == 0:
		r.found("the last backup, %s, is empty", made.File)
	case info.Mode().Perm()&0o004 != 0 && !made.Encrypted && isReachable(filepath.Dir(made.File)):
		r.found("every user of this machine can read the backup %s", made.File).as(Warning).
			because("it has all accounts, and hashes of all keys").then("chmod 600 %s", made.File)
	}
	if made.Sent && !made.Encrypted {
		r.found("backups are sent elsewhere without encryption").as(Warning).
			because("who has one has all accounts, and hashes of all keys").
			then("%s", s.command("backup run --into %s --encrypt-to age1...", filepath.Dir(made.File)))
	}
	ours, ourError := s.disk(filepath.Dir(s.Offline.Ledger))
	theirs, theirError := s.disk(filepath.Dir(made.File))
	if ourError == nil && theirError == nil && s.Offline.Ledger != "" && ours.id == theirs.id && !made.Sent {
		r.found("the backups in %s are on the ledger's own disk, and are sent nowhere", filepath.Dir(made.File)).
			as(s.unlessPublic(Warning)).because("the disk that breaks takes both").
			then("%s", s.command("backup run --into %s --send PROGRAM", filepath.Dir(made.File)))
	}
}

func checkDurability(ctx context.Context, s *Subject, r *result) {
	if s.Config.Store.Kind == config.SQLite {
		if s.Config.Store.Durability == config.DurableProcess {
			r.found("durability is \"process\"").as(s.unlessPublic(Warning)).
				because("a power cut takes the charges of the last second")
		}
		return
	}
	server, err := s.inspectLedger(ctx)
	if err != nil {
		r.skip("%v", err)
		return
	}
	judgeServer(s, r, server)
}

// judgeServer looks at what a server of PostgreSQL does with a commit.
func judgeServer(s *Subject, r *result, i stores.Inspection) {
	for name, value := range map[string]string{"synchronous_commit": i.SyncCommit, "fsync": i.Fsync,
		"full_page_writes": i.FullPages} {
		if value == "off" {
			r.found("%s is off on the ledger's server", name).as(Error).
				because("a power cut takes charges that clients were told of, or the whole database").
				then("psql -c \"ALTER SYSTEM SET %s = on\" -c \"SELECT pg_reload_conf()\"", name)
		}
	}
	if i.Standbys == "" && !i.Replica {
		severity := s.unlessPublic(Warning)
		if i.Streaming == 0 {
			severity = s.unlessPublic(Note)
		}
		r.found("commits of the ledger's server wait for no standby (%s connected)", human.Count(i.Streaming, "standby")).
			as(severity).because("with its machine charges are lost that clients were told of").
			then("psql -c \"ALTER SYSTEM SET synchronous_standby_names = '...'\"   # see the manual: Several gateways")
	} else if i.Streaming == 0 && !i.Replica {
		r.found("commits of the ledger's server wait for %s, and no standby is connected", i.Standbys).as(Error).
			because("every charge waits for it").then("psql -c 'TABLE pg_stat_replication'")
	}
	if i.Archiving == "off" {
		r.found("the ledger's server archives no log (archive_mode = off)").as(s.unlessPublic(Note)).
			because("a backup brings back its own moment only").then("see pgBackRest or WAL-G")
	} else if i.ArchiveFailed {
		r.found("the ledger's server cannot archive its log").because("there are no new backups, and its disk fills").
			then("psql -x -c 'TABLE pg_stat_archiver'")
	}
}
