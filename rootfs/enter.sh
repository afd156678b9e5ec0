#!/bin/bash
# Runs a command inside the build root:  enter.sh ROOT CHECKOUT COMMAND...
# Inside, the checkout is /src, its build folder /build and what is kept between builds /cache, wherever they are
# outside. So the programs under test, which run as users of their own, reach what they need even below a private
# home; no path is too long; and checkouts share a compiler cache when their build/cache links to one folder.
# All mounts are in a mount namespace of this call and end with it; network and processes are the host's
# (the machine tests need both).
# An ordinary user is root of a user namespace with the user and group numbers of /etc/subuid and /etc/subgid: enough to build
# and for unit tests, not for what needs the host's network, cgroups or devices. Such a call has a network of its own.
# Options that only make an error of a warning change no object of the compiler cache.
set -euo pipefail
umask 022
root=$1 checkout=$2
shift 2
if [ "$(id -u)" != 0 ]; then
  command -v newuidmap >/dev/null || { echo "enter: install uidmap (newuidmap, newgidmap), or run as root" >&2; exit 1; }
  exec unshare --user --map-auto --map-root-user --net env OWN_NETWORK=1 "$0" "$root" "$checkout" "$@"
fi
mkdir -p "$checkout/build/cache"
chmod 0755 "$checkout/build"   # whatever umask it was created with
ROOT=$(realpath "$root") CHECKOUT=$checkout CACHE=$(realpath "$checkout/build/cache")
export ROOT CHECKOUT CACHE
exec unshare --mount --propagation private /bin/bash -c '
  set -e
  mount --bind "$ROOT" "$ROOT"
  mount -t proc proc "$ROOT/proc" 2>/dev/null || mount --rbind /proc "$ROOT/proc"
  mount --rbind /dev "$ROOT/dev"
  mount --rbind /sys "$ROOT/sys"
  mkdir -p "$ROOT/src" "$ROOT/build" "$ROOT/cache"
  mount --bind "$CHECKOUT" "$ROOT/src"
  mount --bind "$CHECKOUT/build" "$ROOT/build"
  mount --bind "$CACHE" "$ROOT/cache"
  mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"   # last: the checkout may be below it
  [ -z "${OWN_NETWORK:-}" ] || chroot "$ROOT" ip link set lo up
  exec chroot "$ROOT" /usr/bin/env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/cache/ccache CI="${CI:-}" CCACHE_IGNOREOPTIONS=-Werror=reorder-init-list \
    CCACHE_SLOPPINESS=pch_defines,time_macros \
    /bin/bash -c "cd /src && exec \"\$@\"" enter "$@"
' enter "$@"
