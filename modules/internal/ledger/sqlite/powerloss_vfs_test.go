package sqlite

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// watched are the folders whose databases are recorded, or spared their syncs. SQLite finds its file system by
// name in a table of the process, so there is one for all tests.
var watched struct {
	sync.Mutex
	disks map[string]*disk // by folder
	files map[uintptr]*openFile
}

// openFile is an open file of a watched folder. SQLite knows it by the address of its sqlite3_file.
type openFile struct {
	disk    *disk
	name    string // without its folder
	methods *lib.Tsqlite3_io_methods
	// newName: its first sync is one of the folder, too. SQLite does that for journals and logs.
	newName bool
}

// watch makes the disk see what SQLite does in a folder from now on, until the test is over.
func watch(dir string, d *disk) (unwatch func()) {
	watched.Lock()
	defer watched.Unlock()
	watched.disks[dir] = d
	return func() {
		watched.Lock()
		defer watched.Unlock()
		delete(watched.disks, dir)
	}
}

// system is SQLite's own file system, which ours hands on to. It has several tables of calls on open files,
// for files with locks and without; recorded are copies of them with our calls in their places.
var system struct {
	vfs      *lib.Tsqlite3_vfs
	recorded map[uintptr]uintptr // under the lock of watched
}

type (
	openCall     func(tls *libc.TLS, vfs, path, file uintptr, flags int32, outFlags uintptr) int32
	deleteCall   func(tls *libc.TLS, vfs, path uintptr, syncDir int32) int32
	closeCall    func(tls *libc.TLS, file uintptr) int32
	writeCall    func(tls *libc.TLS, file, from uintptr, n int32, offset int64) int32
	truncateCall func(tls *libc.TLS, file uintptr, size int64) int32
	syncCall     func(tls *libc.TLS, file uintptr, flags int32) int32
)

// installVFS puts our file system in front of SQLite's default one, for all connections that are opened later.
// Of files in folders that nobody watches it sees the opening only.
func installVFS() error {
	conn, err := sqlite.OpenConn(":memory:") // initialises the library
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return err
	}
	watched.disks, watched.files = map[string]*disk{}, map[uintptr]*openFile{}
	tls := libc.NewTLS() // lives as long as the process
	def := lib.Xsqlite3_vfs_find(tls, 0)
	name, err := libc.CString("fareway-powerloss")
	if err != nil {
		return err
	}
	system.vfs = at[lib.Tsqlite3_vfs](def)
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*system.vfs)))
	system.recorded = map[uintptr]uintptr{}
	if ours == 0 {
		return errors.New("no memory for a file system")
	}
	vfs := at[lib.Tsqlite3_vfs](ours)
	*vfs = *system.vfs
	vfs.FzName = name
	vfs.FxOpen = pointer[openCall](openFileCall)
	vfs.FxDelete = pointer[deleteCall](deleteFile)
	if rc := lib.Xsqlite3_vfs_register(tls, ours, 1); rc != lib.SQLITE_OK {
		return sqlite.ResultCode(rc).ToError()
	}
	return nil
}

// at is the value at an address of C's memory, which the garbage collector neither moves nor frees.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// pointer is a function in the form that the translated C code calls, call is the way back.
func pointer[F any](f F) uintptr { return **(**uintptr)(unsafe.Pointer(&struct{ f *F }{&f})) }

func call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

func openFileCall(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	rc := call[openCall](system.vfs.FxOpen)(tls, addressOf(system.vfs), path, file, flags, outFlags)
	if rc != lib.SQLITE_OK || path == 0 {
		return rc
	}
	full := libc.GoString(path)
	watched.Lock()
	defer watched.Unlock()
	d := watched.disks[filepath.Dir(full)]
	if d == nil {
		return rc
	}
	methods := &at[lib.Tsqlite3_file](file).FpMethods
	f := &openFile{disk: d, name: filepath.Base(full), methods: at[lib.Tsqlite3_io_methods](*methods)}
	f.newName = flags&lib.SQLITE_OPEN_CREATE != 0 &&
		flags&(lib.SQLITE_OPEN_MAIN_JOURNAL|lib.SQLITE_OPEN_SUPER_JOURNAL|lib.SQLITE_OPEN_WAL) != 0
	recorded, ok := system.recorded[*methods]
	if !ok {
		if recorded = recordingMethods(tls, f.methods); recorded == 0 {
			return lib.SQLITE_NOMEM
		}
		system.recorded[*methods] = recorded
	}
	*methods = recorded
	watched.files[file] = f
	d.record(event{kind: created, file: f.name})
	return rc
}

func recordingMethods(tls *libc.TLS, original *lib.Tsqlite3_io_methods) uintptr {
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*original)))
	if p != 0 {
		m := at[lib.Tsqlite3_io_methods](p)
		*m = *original
		m.FxClose = pointer[closeCall](closeFile)
		m.FxWrite = pointer[writeCall](writeFile)
		m.FxTruncate = pointer[truncateCall](truncateFile)
		m.FxSync = pointer[syncCall](syncFile)
	}
	return p
}

func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func deleteFile(tls *libc.TLS, _, path uintptr, syncDir int32) int32 {
	rc := call[deleteCall](system.vfs.FxDelete)(tls, addressOf(system.vfs), path, syncDir)
	full := libc.GoString(path)
	watched.Lock()
	d := watched.disks[filepath.Dir(full)]
	watched.Unlock()
	if d != nil && rc == lib.SQLITE_OK {
		d.record(event{kind: deleted, file: filepath.Base(full)})
		if syncDir != 0 {
			d.record(event{kind: syncedFolder})
		}
	}
	return rc
}

func (d *disk) fail(kind eventKind, file string) int32 {
	fault := d.fault.Load()
	if fault == nil {
		return lib.SQLITE_OK
	}
	return (*fault)(kind, file)
}

func find(file uintptr) *openFile {
	watched.Lock()
	defer watched.Unlock()
	return watched.files[file]
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	watched.Lock()
	f := watched.files[file]
	delete(watched.files, file)
	watched.Unlock()
	return call[closeCall](f.methods.FxClose)(tls, file)
}

func writeFile(tls *libc.TLS, file, from uintptr, n int32, offset int64) int32 {
	f := find(file)
	if rc := f.disk.fail(written, f.name); rc != lib.SQLITE_OK {
		return rc
	}
	rc := call[writeCall](f.methods.FxWrite)(tls, file, from, n, offset)
	if rc == lib.SQLITE_OK {
		f.disk.record(event{kind: written, file: f.name, offset: offset, data: bytes.Clone(libc.GoBytes(from, int(n)))})
	}
	return rc
}

func truncateFile(tls *libc.TLS, file uintptr, size int64) int32 {
	f := find(file)
	rc := call[truncateCall](f.methods.FxTruncate)(tls, file, size)
	if rc == lib.SQLITE_OK {
		f.disk.record(event{kind: truncated, file: f.name, offset: size})
	}
	return rc
}

func syncFile(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := find(file)
	if rc := f.disk.fail(synced, f.name); rc != lib.SQLITE_OK {
		return rc
	}
	if f.disk.volatile {
		return lib.SQLITE_OK
	}
	rc := call[syncCall](f.methods.FxSync)(tls, file, flags)
	if rc == lib.SQLITE_OK {
		f.disk.record(event{kind: synced, file: f.name})
		if f.newName {
			f.newName = false
			f.disk.record(event{kind: syncedFolder})
		}
	}
	return rc
}
