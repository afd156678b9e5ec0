#!/bin/bash
# Runs a command inside the build root:  enter.sh ROOT CHECKOUT COMMAND...
# The checkout stands at the same absolute path inside as outside, so that compiler messages, debug
# information and compile_commands.json agree. All mounts live in a mount namespace of this call and
# vanish with it; the network and the processes are the host's (the VM tests need both).
set -euo pipefail
root=$1 checkout=$2
shift 2
[ "$(id -u)" = 0 ] || { echo "enter: must run as root" >&2; exit 1; }
export ROOT=$root CHECKOUT=$checkout
exec unshare --mount --propagation private /bin/bash -c '
  set -e
  mount --bind "$ROOT" "$ROOT"
  mount -t proc proc "$ROOT/proc"
  mount --rbind /dev "$ROOT/dev"
  mount --rbind /sys "$ROOT/sys"
  mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
  mkdir -p "$ROOT$CHECKOUT"   # after /tmp: the checkout may be below it
  mount --bind "$CHECKOUT" "$ROOT$CHECKOUT"
  exec chroot "$ROOT" /usr/bin/env -i HOME="${HOME:-/root}" TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR="$CHECKOUT/build/cache/ccache" CI="${CI:-}" \
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime \
    /bin/bash -c "cd \"\$0\" && exec \"\$@\"" "$CHECKOUT" "$@"
' enter "$@"
