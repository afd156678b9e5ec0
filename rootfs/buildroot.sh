#!/bin/bash
# Creates the hermetic build root: a Debian trixie tree in which everything is compiled, packed and tested.
#   buildroot.sh ROOT CACHE [LIST]
# ROOT is created again when the package lists or this script have changed; otherwise nothing happens.
# LIST names the package list (default: packages/build.list). The mirror is the one that this host's apt
# uses; MIRROR= (and SECURITY_MIRROR=) override it. Cap'n Proto and runc come from forky (packages/forky.list);
# the downloaded packages stay in CACHE, so a root can be created again when forky has newer versions.
# An ordinary user needs mmdebstrap, debian-archive-keyring and uidmap on the host; the tree's owners are the numbers that
# /etc/subuid and /etc/subgid give to that user (enter.sh).
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
root=$1 cache=$2 list=${3:-$here/packages/build.list}

user=$(id -u)
as_owner() { if [ "$user" = 0 ]; then "$@"; else unshare --user --map-auto --map-root-user "$@"; fi; }
say() { printf 'buildroot: %s\n' "$*"; }
die() { printf 'buildroot: %s\n' "$*" >&2; exit 1; }
names() { sed 's/#.*//' "$@" | tr -s ' \t\n' '\n' | sed '/^$/d' | sort -u; }

stamp=$(cat "$0" "$list" "$here/packages/forky.list" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$root/.stamp" 2>/dev/null || true)" = "$stamp" ]; then
  as_owner rm -rf --one-file-system "$root.new"
  exec "$here/replace-root.sh" "$root"
fi
if [ "$user" != 0 ]; then
  for program in mmdebstrap newuidmap; do
    command -v $program >/dev/null || die "without root it needs mmdebstrap, debian-archive-keyring and uidmap on this host, and $program is not there: install them, or run as root"
  done
fi

host_mirror() {  # the URI from which this host's apt takes a suite whose codename ends in $1
  . /etc/os-release
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: ${VERSION_CODENAME:-none}$1" | sed -n 1p   # head would end the pipe early
}
# apt shows only sources whose lists it has; a new machine has none yet.
if [ -z "${MIRROR:-}" ] && [ "$user" = 0 ] && [ -z "$(host_mirror '')" ]; then
  say "updating this host's package lists"
  apt-get update -qq -oAcquire::Retries=5
fi
mirror=${MIRROR:-$(host_mirror '')}
security=${SECURITY_MIRROR:-$(host_mirror -security)}
[ -n "$mirror" ] || die "apt on this host has no Debian mirror; use make MIRROR=http://<mirror>/debian"

if ! command -v mmdebstrap >/dev/null || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
  say "installing on this host: mmdebstrap debian-archive-keyring"
  apt-get update -qq -oAcquire::Retries=5
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -oAcquire::Retries=5 --no-install-recommends mmdebstrap debian-archive-keyring >/dev/null
fi

kernel=linux-image-cloud-amd64   # the guest's kernel: kept as a package in ROOT/opt/kernel, unpacked by the image
fetch_kernel='chroot "$1" sh -c "set -e; mkdir -p /opt/kernel; cd /opt/kernel; apt-get -q download \$(apt-cache depends '$kernel' | sed -n \"s/.*Depends: //p\" | grep ^linux-image-)"'
# Of containerd's interface only the schemas: the package's dependencies are a gigabyte of Go.
fetch_schemas='chroot "$1" sh -c "set -e; mkdir -p /opt/containerd-api; cd /opt/containerd-api; apt-get -q download golang-github-containerd-containerd-dev; dpkg-deb --fsys-tarfile *.deb | tar -x --wildcards \"*.proto\"; mv usr/share/gocode/src/* .; rm -r usr *.deb"'
# Of the TPM's headers only those of the libraries in build.list: libtss2-dev depends on all others, and on curl and Kerberos.
fetch_headers='chroot "$1" sh -c "set -e; cd /opt; apt-get -q download libtss2-dev; dpkg-deb --fsys-tarfile libtss2-dev_*.deb | tar -x -C / --keep-directory-symlink --wildcards ./usr/include/tss2 \"./usr/lib/*/libtss2-esys.so\" \"./usr/lib/*/libtss2-mu.so\" \"./usr/lib/*/libtss2-tcti-device.so\" \"./usr/lib/*/libtss2-tcti-swtpm.so\"; rm libtss2-dev_*.deb"'
pinned=$(names "$here/packages/forky.list" | tr '\n' ' ')
pin="Package: *\nPin: release n=forky\nPin-Priority: -1\n\nPackage: $pinned\nPin: release n=forky\nPin-Priority: 990\n"
sources=("deb $mirror trixie main" "deb $mirror trixie-updates main" "deb $mirror forky main")
[ -z "$security" ] || sources+=("deb $security trixie-security main")

started=$SECONDS
say "creating $root from $mirror (about 800 MiB, half a minute on a fast mirror)"
mkdir -p "$cache/debs" "$(dirname "$root")"
options=(--quiet --variant=minbase
  --keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Retries "5"'
  --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*'
  --dpkgopt='path-exclude=/usr/share/locale/*'
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
  --setup-hook='mkdir -p "$1/etc/apt/preferences.d"; printf "'"$pin"'" >"$1/etc/apt/preferences.d/forky"'
  --setup-hook="mkdir -p \"\$1/var/cache/apt/archives\"; cp -n '$cache'/debs/*.deb \"\$1/var/cache/apt/archives/\" 2>/dev/null || true"
  --skip=cleanup/apt/cache --customize-hook="$fetch_kernel" --customize-hook="$fetch_schemas" --customize-hook="$fetch_headers"
  --include="$(names "$list" | paste -sd,)")
# In a mount namespace: what mmdebstrap mounts there (/proc, /sys, devices) is gone with it, however it ends, so that removing
# the folder never reaches the host's. Without root it makes no device files; enter.sh binds the host's.
create() {
  if [ "$user" = 0 ]; then
    unshare --mount --propagation private mmdebstrap "${options[@]}" --mode=root trixie "$root.new" "${sources[@]}"
  else
    mkdir -p "$root.new"
    mmdebstrap "${options[@]}" --mode=unshare --format=tar trixie - "${sources[@]}" |
      as_owner tar -xp --exclude='./dev/*' -C "$root.new"
  fi
}
# A mirror that is being updated, or a name server that is away for a moment, must not fail a build of 40 minutes.
tries=4
for ((try = 1; ; try++)); do
  as_owner rm -rf --one-file-system "$root.new"
  create && break
  as_owner rm -rf --one-file-system "$root.new"
  [ "$try" -lt "$tries" ] || die "mmdebstrap failed $tries times (see its output above). If it could not find one of ${pinned% }, forky has a newer version:
  put the packages of Cap'n Proto 1.5 and runc 1.3 into $cache/debs, or raise the version in rootfs/packages/forky.list"
  say "mmdebstrap failed (see its output above); trying again in $((try * 20)) s, $((tries - try)) more times at most"
  sleep $((try * 20))
done
for name in $pinned; do cp -n "$root.new/var/cache/apt/archives/${name}_"*.deb "$cache/debs/" 2>/dev/null || true; done
as_owner rm -rf "$root.new"/var/cache/apt/archives/*.deb
as_owner tee "$root.new/.stamp" <<<"$stamp" >/dev/null
"$here/replace-root.sh" "$root"
say "done in $((SECONDS - started)) s"
