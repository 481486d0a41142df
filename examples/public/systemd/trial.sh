#!/bin/bash
# What systemd makes of the units: started, replaced, restarted, hung and stopped, while requests come. boot.sh runs it.
set -euo pipefail
export HOME=/root

says() { printf '\n== %s\n' "$*"; }
fail() {
	printf 'FAILED: %s\n' "$*"
	exit 1
}
property() { systemctl show fareway.service --value --property "$1"; }
operate() { fareway gateway "$@" --config /etc/fareway/Caddyfile; }

mkdir -p /etc/fareway /etc/systemd/system/fareway.service.d
cat >/etc/fareway/gateway.hcl <<'TEXT'
provider "echo" {
  plugin = "echo"
}
route "echo" {
  provider       = "echo"
  model          = "small"
  context_window = 32768
  max_output     = 8192
  quality        = 0.5
  price {
    input  = 1
    output = 1
  }
}
plan "starter" {
  monthly_credits = 0
  requests_per_minute {
    key     = 0
    account = 0
    address = 0
  }
  concurrent_requests = 0
}
TEXT
cat >/etc/fareway/Caddyfile <<'TEXT'
{
	skip_install_trust
	persist_config off
	grace_period 6m
	auto_https disable_redirects
	fareway {
		config gateway.hcl
		data /var/lib/fareway
	}
}
http:// {
	fareway
}
https://localhost {
	tls internal
	fareway
}
TEXT
printf '[Service]\nWatchdogSec=3\n' >/etc/systemd/system/fareway.service.d/trial.conf
systemctl daemon-reload

says 'it starts, as its user, at the sockets of systemd'
systemctl start fareway.socket fareway.service
[ "$(property ActiveState)" = active ] || fail 'it does not run'
main=$(property MainPID)
[ "$(stat -c %U "/proc/$main")" = fareway ] || fail 'it runs as another user'
operate status
operate account create acme --plan starter >/dev/null
operate credit add --account acme 5000 >/dev/null
key=$(operate key create --account acme --name laptop --json | sed -n 's/.*"key": "\(.*\)".*/\1/p')
ask() {
	curl -ksS --max-time 60 -o /dev/null -w '%{http_code} %{http_version} %{time_total}\n' "$1/v1/chat/completions" \
		-H "Authorization: Bearer $key" -d '{"model":"service/auto","messages":[{"role":"user","content":"hello"}]}' 2>&1 ||
		true
}
for url in http://localhost https://localhost; do
	for _ in $(seq 50); do # until the certificate is there
		answer=$(ask $url)
		[ "${answer%% *}" != 200 ] || break
		sleep 0.2
	done
	echo "$url: $answer"
	[ "${answer%% *}" = 200 ] || fail "$url"
done
ss -ltnup

# Requests come from here on.
rm -f /run/enough
for url in http://localhost https://localhost; do
	while [ ! -e /run/enough ]; do ask $url; done >>"/run/answers-${url%%:*}" &
done
look() {
	for file in /run/answers-*; do
		awk -v name="${file#/run/answers-}" '{n++; if ($1 != 200) {bad++; print "  " $0}; if ($3 > most) most = $3}
			END {printf "%s: %d answers, %d others than 200, the slowest %.3f s\n", name, n, bad, most; exit bad > 0}' "$file" ||
			fail 'a request was not served'
		: >"$file"
	done
}
sleep 1
look

says 'a new program takes over: the service has another main process, and is no other service'
began=$(property ActiveEnterTimestampMonotonic)
operate upgrade
[ "$(property MainPID)" != "$main" ] || fail 'the main process is the old one'
[ "$(property ActiveState)/$(property NRestarts)" = active/0 ] || fail 'systemd has restarted it'
[ "$(property ActiveEnterTimestampMonotonic)" = "$began" ] || fail 'it is another service'
for _ in $(seq 100); do [ -d "/proc/$main" ] || break; sleep 0.2; done
[ ! -d "/proc/$main" ] || fail 'the old process does not end'
[ "$(property ActiveState)" = active ] || fail 'the service has ended with its old process'
sleep 1
look

says 'the watchdog is fed by the new main process'
sleep 7
[ "$(property NRestarts)" = 0 ] || fail 'the watchdog bit'

says 'a reload'
systemctl reload fareway.service
sleep 0.5
look

says 'a restart refuses nothing'
systemctl restart fareway.service
sleep 1
look

says 'a stop of the service alone, as packages do it: the next connection starts it again (systemd #26647)'
systemctl stop fareway.service
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
[ "$(property ActiveState)" = active ] || fail 'a connection does not start it'
sleep 1
look

says 'a process that hangs is started again'
kill -STOP "$(property MainPID)"
for _ in $(seq 100); do [ "$(property NRestarts)" = 0 ] || break; sleep 0.2; done
[ "$(property NRestarts)" -ge 1 ] || fail 'it is not'
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
sleep 1
# What was in the process is lost; what waits is not.
cat /run/answers-* | sort | cut -d' ' -f1 | uniq -c
for file in /run/answers-*; do : >"$file"; done
sleep 1
look

says 'it is stopped: drained, with status 0'
touch /run/enough
wait
systemctl stop fareway.socket fareway.service
[ "$(property Result)/$(property ExecMainStatus)" = success/0 ] || fail "$(property Result)/$(property ExecMainStatus)"
setpriv --reuid fareway --regid fareway --clear-groups fareway gateway ledger verify --data /var/lib/fareway

says 'how open it is'
systemd-analyze security fareway.service --no-pager | tail -1
