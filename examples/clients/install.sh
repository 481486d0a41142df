#!/usr/bin/env bash
# Installs the packages that examples/clients/SET/package-lock.json pins into .cache/clients/SET. SET is node or
# agents. It needs npm, and the tests of pages need Chromium; as root on Debian it installs both. No package's own scripts
# are run.
set -euo pipefail
set_name=${1:?give the set of packages: node or agents}
from=$(cd "$(dirname "${BASH_SOURCE[0]}")/$set_name" && pwd)
to=$(cd "$from/../../.." && pwd)/.cache/clients/$set_name

fail() {
	echo "make clients: $*" >&2
	exit 1
}

[ "$(uname -sm)" = 'Linux x86_64' ] || fail "the packages of the agents are pinned for Linux on x86-64, and this is $(uname -sm)"

# require PROGRAM PACKAGE... installs Debian's packages where the program is not there.
require() {
	local program=$1
	shift
	if command -v "$program" >/dev/null; then
		return
	fi
	{ command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; } || fail "$program is not installed: install it ($*), and run it again"
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@"; } >/dev/null ||
		fail "installing $program with apt-get has failed: see above, install it ($*), and run it again"
}

require npm nodejs npm
require chromium chromium

mkdir -p "$to"
cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$to/"
# Not npm ci: it refuses a lock without packages that are optional and for other systems, and some registries do
# not have all of those.
(cd "$to" && npm install --no-save --no-progress --loglevel=error --fetch-retries=3 --fetch-retry-maxtimeout=15000 --fetch-timeout=120000 </dev/null) ||
	fail "installing the packages of $set_name has failed: see above. When the registry cannot be reached, set npm_config_registry to one that can"
touch "$to/.installed"
