#!/usr/bin/env bash
# Boots a real systemd on a copy of this machine's system, of which nothing stays, with the gateway's units and a program
# installed, and runs a script in it. As root on Debian:
#
#	unshare --mount --pid --fork --net --uts --ipc --cgroup boot.sh FOLDER PROGRAM SCRIPT
set -euo pipefail

work=$1 program=$(readlink -f "$2") script=$(readlink -f "$3") units=$(dirname "$(readlink -f "$0")")
mkdir -p "$work"
mount --make-rprivate /
mount -t tmpfs -o size=2g tmpfs "$work"
root=$work/root
mkdir "$work/upper" "$work/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$root"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/systemd"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
mount -t cgroup -o none,name=systemd systemd "$root/sys/fs/cgroup/systemd"
ip link set lo up

rm -rf "$root"/{etc,var/lib,var/backups}/fareway
rm -rf "$root"/etc/systemd/system/* "$root"/var/log/journal
install -D -m 755 "$program" "$root/usr/bin/fareway"
install -D -m 755 "$script" "$root/usr/local/sbin/trial"
cp "$units"/*.service "$units"/*.socket "$units"/*.timer "$root/usr/lib/systemd/system/"
install -D -m 644 "$units/../backup" "$root/etc/fareway/backup"
chroot "$root" getent passwd fareway >/dev/null || chroot "$root" useradd --system --user-group --no-create-home fareway
chroot "$root" install -d -o fareway -g fareway -m 700 /var/backups/fareway
# What is about the whole machine is none of ours.
for unit in systemd-sysctl systemd-binfmt systemd-modules-load systemd-udevd systemd-random-seed; do
	ln -s /dev/null "$root/etc/systemd/system/$unit.service"
done
cat >"$root/etc/systemd/system/trial.service" <<'TEXT'
[Unit]
DefaultDependencies=no
After=dbus.service systemd-journald.service systemd-sysusers.service
Wants=systemd-journald.service dbus.service

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/trial
StandardOutput=file:/trial.log
StandardError=inherit
ExecStopPost=/bin/sh -c 'journalctl -b --no-pager >/trial.journal; echo "$EXIT_STATUS" >/trial.status'
TEXT
env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare --pid --fork --kill-child \
	chroot "$root" /bin/sh -c 'mount -t proc proc /proc && exec /lib/systemd/systemd --system --unit=trial.service \
	--show-status=no --log-target=console' &
for _ in $(seq "${TRIAL_SECONDS:-300}"); do
	[ ! -s "$root/trial.status" ] || break
	sleep 1
done
kill -KILL $!
cat "$root/trial.log" || true
if [ "$(cat "$root/trial.status" 2>/dev/null)" != 0 ]; then
	grep -v '"level":"info"' "$root/trial.journal" | tail -100 >&2 || true
	exit 1
fi
