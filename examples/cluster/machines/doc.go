// Package machines gives a program some machines: network namespaces on one bridge, in which it starts, kills and
// pauses programs, and whose links it cuts and slows down. It is for examples/cluster and its tests, on Linux, as
// root.
//
// Enter puts the program into namespaces of its own first (processes, mounts, network): nothing that it starts
// outlives it, however it ends, nothing of it can be seen on the network outside, and several can run at once.
package machines
