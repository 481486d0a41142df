#!/usr/bin/env bash
# Installs, upgrades, removes and purges the package with the real dpkg, on a copy of this machine's system that nothing of
# stays: `make check-release`. systemctl is a stand-in that notes what it is asked, and starts and stops the real program;
# what systemd itself makes of the units is tested elsewhere. As root on Debian:
#
#	unshare --mount --pid --fork debian/test.sh FOLDER PACKAGE
set -euo pipefail

work=$1 package=$2
root=$work/root
mkdir -p "$root"
mount --make-rprivate /
mount -t tmpfs -o size=2g tmpfs "$work"
mkdir "$work/upper" "$work/work" "$root"
cp "$package" "$work/"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root/run/systemd/system"
ip link set lo up

rm -rf "$root"/{etc,var/lib,var/backups}/fareway # of this machine's own, if it has one
rm -f "$root/usr/sbin/policy-rc.d" # by which machines like this one have packages start nothing
inside() { DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
says() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
is() { [ "$1" = "$2" ] || fail "$3: $1, and not $2"; }

cat >"$root/usr/local/bin/systemctl" <<'TEXT'
#!/bin/sh
echo "$*" >>/run/asked
case "$*" in
*is-active*) [ -s /run/fareway.pid ] && kill -0 "$(cat /run/fareway.pid)" ;;
stop*fareway.service*) [ ! -s /run/fareway.pid ] || kill "$(cat /run/fareway.pid)" ;;
esac
TEXT
chmod 755 "$root/usr/local/bin/systemctl"
for real in /usr/bin/systemctl /bin/systemctl; do
	[ ! -e "$root$real" ] || [ "$(readlink -f "$root$real")" = "$root/usr/local/bin/systemctl" ] ||
		cp "$root/usr/local/bin/systemctl" "$root$real"
done

says 'a new installation starts nothing'
cp "$work/$(basename "$package")" "$root/tmp/one.deb"
# What the package depends on is not what is tested.
inside dpkg -i --force-depends /tmp/one.deb
for file in Caddyfile gateway.hcl environment backup; do
	is "$(inside stat -c '%U:%G %a' /etc/fareway/$file)" 'root:fareway 640' "$file"
done
for folder in /var/lib/fareway /var/backups/fareway; do
	is "$(inside stat -c '%U:%G %a' $folder)" 'fareway:fareway 700' "$folder"
done
is "$(inside getent passwd fareway | cut -d: -f6,7)" '/var/lib/fareway:/usr/sbin/nologin' 'the user'
! grep -q 'start' "$root/run/asked" || fail "it was started: $(cat "$root/run/asked")"

says 'it serves as its user, with the files that the operator has changed'
cat >"$root/etc/fareway/gateway.hcl" <<'TEXT'
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
}
TEXT
sed -i 's/^api.example.com {/http:\/\/:18484 {/; s/^http:\/\/ {/http:\/\/:18480 {/; s/127.0.0.1:9180/127.0.0.1:19180/' \
	"$root/etc/fareway/Caddyfile"
serve() {
	inside setpriv --reuid fareway --regid fareway --clear-groups --no-new-privs --bounding-set=-all \
		env HOME=/var/lib/fareway /usr/bin/fareway run --config /etc/fareway/Caddyfile >"$work/log" 2>&1 &
	echo $! >"$root/run/fareway.pid"
	wait_for curl -sf --unix-socket "$root/var/lib/fareway/health.sock" http://health/readyz
}
wait_for() {
	for _ in $(seq 600); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	cat "$work/log" >&2
	fail "waited for: $*"
}
operate() { inside fareway gateway "$@" --config /etc/fareway/Caddyfile; }
ask() {
	curl -sS --max-time 60 http://127.0.0.1:18484/v1/chat/completions -H "Authorization: Bearer $key" \
		-d '{"model":"service/auto","messages":[{"role":"user","content":"hello"}]}' | grep -q '"chat.completion"' ||
		fail 'a request was not served'
}
serve
operate account create acme --plan starter >/dev/null
operate credit add --account acme 500 >/dev/null
key=$(operate key create --account acme --name laptop --json | sed -n 's/.*"key": "\(.*\)".*/\1/p')
ask

says 'the commands of the backup units, as their user'
run_unit() { # the unit's own command, with the options of /etc/fareway/backup
	local line
	line=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/$1.service")
	inside setpriv --reuid fareway --regid fareway --clear-groups env HOME=/var/lib/fareway sh -c \
		". /etc/fareway/backup; exec $line"
}
operate status | grep 'backup .*NEVER MADE' || fail 'a missing backup is not in status'
run_unit fareway-backup
run_unit fareway-restore-test
operate status | grep -E '^backup ' | grep -v MISSED || fail 'the backup is not in status'

says 'an upgrade asks nothing, changes no setting, and the service serves on'
mkdir "$work/two"
dpkg-deb -R "$root/tmp/one.deb" "$work/two"
sed -i 's/^Version: .*/Version: 999.0.0/' "$work/two/DEBIAN/control"
dpkg-deb --root-owner-group -Znone -b "$work/two" "$root/tmp/two.deb" >/dev/null
: >"$root/run/asked"
before=$(sha256sum "$root"/etc/fareway/*)
pid=$(operate status --json | sed -n 's/^  "pid": \(.*\),/\1/p')
inside dpkg -i --force-depends /tmp/two.deb </dev/null 2>&1 | tee "$work/upgraded"
is "$(sha256sum "$root"/etc/fareway/*)" "$before" 'settings'
! grep -Eq '^(stop|restart|try-restart)( |.* )fareway.service' "$root/run/asked" || fail 'the service was stopped for it'
ask
now=$(operate status --json | sed -n 's/^  "pid": \(.*\),/\1/p')
if inside fareway gateway help upgrade >/dev/null 2>&1; then
	[ "$now" != "$pid" ] || fail 'the new program has not taken over'
else
	is "$now" "$pid" 'the process, of a program that cannot be taken over'
fi
echo "$now" >"$root/run/fareway.pid" # as systemd is told
operate ledger verify

says 'a removal stops it, and leaves settings and data'
: >"$root/run/asked"
inside dpkg -r --force-depends fareway
grep -q 'stop.*fareway.service' "$root/run/asked" || fail 'it was not stopped'
[ -e "$root/etc/fareway/Caddyfile" ] && [ -e "$root/var/lib/fareway/fareway.db" ] || fail 'settings or data are gone'
[ ! -e "$root/usr/bin/fareway" ] && [ ! -e "$root/usr/lib/systemd/system/fareway.service" ] || fail 'the program is there'
ended() { ! find "$root/proc" -maxdepth 1 -name '[0-9]*' -uid "$(inside id -u fareway)" | grep -q .; }
wait_for ended # the process before it, too, which drains
rm "$root/run/fareway.pid"

says 'installed again it is as before'
inside dpkg -i --force-depends /tmp/two.deb
is "$(sha256sum "$root"/etc/fareway/*)" "$before" 'settings'
for unit in fareway.service fareway-backup.timer; do
	[ "$(readlink "$root/etc/systemd/system/$unit")" != /dev/null ] || fail "$unit is masked"
done

says 'a purge asks nothing, and keeps ledger and backups'
echo secret >"$root/etc/fareway/backup-identity"
inside dpkg -P --force-depends fareway </dev/null 2>&1 | tee "$work/purged"
is "$(ls -A "$root/etc/fareway")" backup-identity 'what stays of the settings'
grep -q 'kept in /etc/fareway: backup-identity' "$work/purged" || fail 'nobody was told of the key'
rm -r "$root/etc/fareway"
[ -e "$root/var/lib/fareway/fareway.db" ] && ls "$root"/var/backups/fareway/fareway-*.tar || fail 'the ledger is gone'
grep -q 'are kept' "$work/purged" || fail 'nobody was told'
inside getent passwd fareway >/dev/null || fail 'the user is gone, and the ledger nobody'"'"'s'

says 'a purge of what was never used leaves nothing'
rm -rf "$root/var/lib/fareway" "$root/var/backups/fareway"
inside dpkg -i --force-depends /tmp/one.deb >/dev/null
inside dpkg -P --force-depends fareway >/dev/null
for path in /etc/fareway /etc/needrestart/conf.d/fareway.conf /var/lib/fareway /var/backups/fareway \
	/usr/share/doc/fareway; do
	[ ! -e "$root$path" ] || fail "$path is there"
done
! inside getent passwd fareway || fail 'the user is there'
says 'all is as it should be'
