// Package sockets has the addresses that a process listens at, on Linux. Each is one socket for as long as somebody
// uses it: the configurations of a reload share it, and so does the process that takes this one's place, or the
// service manager that gave it. A connection that waits in its queue is therefore taken by whoever comes next; one in
// the queue of a socket that is closed is reset, which SO_REUSEPORT alone does not spare it.
//
// It knows nothing of what is said over the connections.
package sockets
