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
provider "slow" {
  plugin = "openai"
  config {
    base_url = "http://127.0.0.1:9999/v1"
  }
}
route "slow" {
  provider       = "slow"
  model          = "slow"
  offers         = ["tools"]
  context_window = 32768
  max_output     = 8192
  quality        = 0.1
  price {
    input  = 1
    output = 1
  }
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
once() {
	curl -ksS --max-time 60 -o /dev/null -w '%{http_code} %{http_version} %{time_total}\n' "$1/v1/chat/completions" \
		-H "Authorization: Bearer $key" -d '{"model":"service/auto","messages":[{"role":"user","content":"hello"}]}' 2>&1
}
# Go's server closes an HTTP/2 connection that has just been made, and has had no request, like any idle one when it
# ends (golang.org/issue/39776 is of its kind). Nothing was taken: a client connects once more, and so does this one.
ask() {
	local answer status=0
	answer=$(once "$1") || status=$?
	if [ $status = 16 ]; then
		echo "$answer" >>/run/again
		answer=$(once "$1") || true
	fi
	echo "$answer"
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

# An upstream whose replies take as long as the file /run/hold is there.
perl -MIO::Socket::INET -e '
	$SIG{CHLD} = "IGNORE";
	my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:9999", Listen => 9, ReuseAddr => 1) or die $!;
	while (my $c = $s->accept) {
		next if fork;
		my $length = 0;
		while (<$c>) { $length = $1 if /^content-length: (\d+)/i; last if /^\r?$/ }
		read $c, my $body, $length;
		print $c "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
		$c->flush;
		my $say = sub { print $c "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"slow\",$_[0]}\n\n"; $c->flush };
		do {
			$say->("\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]");
			select undef, undef, undef, 0.2;
		} while (-e "/run/hold");
		$say->("\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]");
		$say->("\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":2,\"total_tokens\":4}");
		print $c "data: [DONE]\n\n";
		exit 0;
	}' &
upstream=$!
stream() { # FILE: begins a stream, and returns when it runs
	touch /run/hold
	curl -ksSN --max-time 120 http://localhost/v1/chat/completions -H "Authorization: Bearer $key" \
		-d '{"model":"service/auto","stream":true,"messages":[{"role":"user","content":"hello"}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}' >"$1" 2>&1 &
	for _ in $(seq 100); do ! grep -q word "$1" || return 0; sleep 0.1; done
	fail "no stream: $(head -c 500 "$1")"
}
ends() { # FILE: lets streams end, and looks whether that one has, whole
	rm -f /run/hold
	for _ in $(seq 100); do ! grep -qF '[DONE]' "$1" || return 0; sleep 0.1; done
	fail "the stream was cut: $(tail -c 300 "$1")"
}

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
	[ ! -s /run/again ] || echo "connected again: $(wc -l </run/again)"
	rm -f /run/again
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

says 'a restart while the process before an upgrade drains: it waits for the streams of that, and none is cut'
stream /run/stream-restart
old=$(property MainPID)
operate upgrade
[ -d "/proc/$old" ] || fail 'the old process has not waited for its stream'
systemctl restart --no-block fareway.service
sleep 3
[ -d "/proc/$old" ] || fail 'the restart has ended the old process'
ends /run/stream-restart
for _ in $(seq 100); do [ ! -d "/proc/$old" ] && [ "$(property ActiveState)" = active ] && break; sleep 0.2; done
[ "$(property ActiveState)" = active ] || fail 'it does not serve again'
sleep 1
look

says 'a new process that crashes while the old one drains: systemd ends that, too, and starts another one at once'
stream /run/stream-crash
old=$(property MainPID)
operate upgrade
restarts=$(property NRestarts)
kill -KILL "$(property MainPID)"
for _ in $(seq 100); do [ "$(property NRestarts)" = "$restarts" ] || break; sleep 0.2; done
[ "$(property NRestarts)" -gt "$restarts" ] || fail 'it is not started again'
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
rm -f /run/hold
[ ! -d "/proc/$old" ] || fail 'the old process goes on: is a stream not cut any more? Then the manual says too little'
! grep -qF '[DONE]' /run/stream-crash || fail 'the stream is whole: the manual says too little'
sleep 2
cat /run/answers-* | cut -d' ' -f1 | sort | uniq -c # what the dead process was answering is lost
for file in /run/answers-*; do : >"$file"; done
sleep 1
look
operate ledger verify

says 'a process that crashes alone is started again'
restarts=$(property NRestarts)
kill -KILL "$(property MainPID)"
for _ in $(seq 100); do [ "$(property NRestarts)" = "$restarts" ] || break; sleep 0.2; done
[ "$(property NRestarts)" -gt "$restarts" ] || fail 'it is not'
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
sleep 2
for file in /run/answers-*; do : >"$file"; done
sleep 1
look

says 'a stop of the service alone, as packages do it: the next connection starts it again (systemd #26647)'
systemctl stop fareway.service
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
[ "$(property ActiveState)" = active ] || fail 'a connection does not start it'
sleep 1
look

says 'a process that hangs is started again'
restarts=$(property NRestarts)
kill -STOP "$(property MainPID)"
for _ in $(seq 100); do [ "$(property NRestarts)" = "$restarts" ] || break; sleep 0.2; done
[ "$(property NRestarts)" -gt "$restarts" ] || fail 'it is not'
for _ in $(seq 100); do [ "$(property ActiveState)" != active ] || break; sleep 0.2; done
sleep 1
# What was in the process is lost; what waits is not.
cat /run/answers-* | sort | cut -d' ' -f1 | uniq -c
for file in /run/answers-*; do : >"$file"; done
sleep 1
look

# Waits until a service that a timer or a person starts has run once more, and says how it ended.
ran() { # UNIT BEFORE
	for _ in $(seq 300); do
		ended=$(systemctl show "$1" --value --property ExecMainExitTimestampMonotonic)
		[ "$ended" = "$2" ] || [ "$(systemctl show "$1" --value --property ActiveState)" = activating ] || break
		sleep 0.2
	done
	[ "$ended" != "$2" ] || fail "$1 has not run"
	echo "$1: $(systemctl show "$1" --value --property Result) $(systemctl show "$1" --value --property ExecMainStatus)"
}

says 'the timers: the first backup comes by itself, while requests do'
operate status | grep 'backup .*NEVER MADE' || fail 'a missing backup is not in status'
mkdir -p /etc/systemd/system/fareway-backup.timer.d
printf '[Timer]\nOnActiveSec=\nOnActiveSec=2s\nRandomizedDelaySec=0\n' >/etc/systemd/system/fareway-backup.timer.d/trial.conf
systemctl daemon-reload
systemctl enable --now fareway-backup.timer fareway-restore-test.timer
systemctl list-timers --no-pager 'fareway-*'
[ "$(systemctl list-timers --no-pager --no-legend 'fareway-*' | wc -l)" = 2 ] || fail 'a timer waits for nothing'
ran fareway-backup.service 0
ls -l /var/backups/fareway
[ "$(systemctl show fareway-backup.service --value --property Result)" = success ] || fail 'the backup has failed'
[ "$(stat -c '%U %a' /var/backups/fareway/*.tar)" = 'fareway 600' ] || fail 'the backup is not for its user alone'

says 'the monthly trial, as its unit runs it'
systemctl start fareway-restore-test.service || fail "$(systemctl status --no-pager fareway-restore-test.service || true)"
journalctl -b --no-pager -o cat -u fareway-restore-test.service | tail -5
ls -lA /var/backups/fareway
[ -z "$(find /var/backups/fareway -mindepth 1 -type d)" ] || fail 'the trial has left something'
operate status | grep -E '^backup ' | grep -Ev 'MISSED|NEVER|NOT' || fail 'the backup or its trial is not in status'
look

says 'a backup that cannot be sent fails, and is seen'
cat >/etc/fareway/send-backup <<'TEXT'
#!/bin/sh
echo "no route to the other place" >&2
exit 1
TEXT
chmod 755 /etc/fareway/send-backup
echo 'BACKUP_OPTIONS="--every 1d --send /etc/fareway/send-backup"' >/etc/fareway/backup
! systemctl start fareway-backup.service || fail 'the unit has not failed'
journalctl -b --no-pager -o cat -u fareway-backup.service | grep 'no route to the other place' || fail 'nobody hears why'
operate status | grep -E '^backup .*FAILED' || fail "it is not in status: $(operate status)"

says 'a timer that missed its time makes up for it at the next start'
systemctl stop fareway-backup.timer
rm /etc/systemd/system/fareway-backup.timer.d/trial.conf
# An empty one takes all times away.
printf '[Timer]\nOnActiveSec=\nOnCalendar=03:15\nRandomizedDelaySec=0\n' >/etc/systemd/system/fareway-backup.timer.d/trial.conf
systemctl daemon-reload
echo 'BACKUP_OPTIONS="--every 1d"' >/etc/fareway/backup
touch -d '3 days ago' /var/lib/systemd/timers/stamp-fareway-backup.timer
before=$(systemctl show fareway-backup.service --value --property ExecMainExitTimestampMonotonic)
systemctl start fareway-backup.timer
ran fareway-backup.service "$before"
operate status | grep -E '^backup ' | grep -Ev 'MISSED|FAILED|NEVER' || fail 'the backup is not in status'
look

says 'it is stopped: drained, with status 0'
touch /run/enough
kill "$upstream"
wait || true
systemctl stop fareway.socket fareway.service
[ "$(property Result)/$(property ExecMainStatus)" = success/0 ] || fail "$(property Result)/$(property ExecMainStatus)"
setpriv --reuid fareway --regid fareway --clear-groups fareway gateway ledger verify --data /var/lib/fareway

says 'how open it is'
systemd-analyze security fareway.service --no-pager | tail -1
