// Package cluster runs Fareway as its README shows it: three gateways on one ledger and one set of limits, with
// PostgreSQL under Patroni and etcd, Redis under Sentinel, and HAProxy in front, each on a machine of its own (package
// machines). The command in cmd/cluster shows it, and the tests in nemesis break it.
//
// The files beside it (patroni.yml, haproxy.cfg, gateway.hcl, Caddyfile, redis.conf, sentinel.conf) are what an
// operator would have; the environment has what differs between machines.
package cluster
