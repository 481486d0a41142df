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

says 'it is stopped: drained, with status 0'
touch /run/enough
kill "$upstream"
wait || true
systemctl stop fareway.socket fareway.service
[ "$(property Result)/$(property ExecMainStatus)" = success/0 ] || fail "$(property Result)/$(property ExecMainStatus)"
setpriv --reuid fareway --regid fareway --clear-groups fareway gateway ledger verify --data /var/lib/fareway

says 'how open it is'
systemd-analyze security fareway.service --no-pager | tail -1
