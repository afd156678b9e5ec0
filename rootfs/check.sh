#!/bin/bash
# Checks what the image promises:  check.sh ROOT OUT IMAGE   (inside the build root, after image.sh)
#   no shell, no package manager, no interpreter; every program of ours that is not DYNAMIC in cmake is one static file,
#   and the others are those of packages/runtime.list; the libraries are those that these need; nothing is setuid or writable by others; the list of contents names every file; built again from nothing, it is the same.
set -euo pipefail
export LC_ALL=C
root=$1 out=$2 image=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/arch.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
wrong() { printf 'check: %s\n' "$*" >&2; failures=$((failures + 1)); }

unsquashfs -quiet -no-progress -d "$work/tree" "$image/rootfs.sqsh" >/dev/null
mkdir "$work/ramfs"
(cd "$work/ramfs" && for _ in early root; do cpio --extract --quiet --no-absolute-filenames; done) <"$image/initramfs"   # two archives
cmp "$work/ramfs/rootfs.sqsh" "$image/rootfs.sqsh" || wrong "the root image in the initramfs differs from rootfs.sqsh"
rm "$work/ramfs/rootfs.sqsh"

# --- programs ---------------------------------------------------------------------------------------------
forbidden='sh|bash|dash|ash|zsh|ksh|csh|tcsh|fish|busybox|toybox|perl.*|python.*|lua.*|ruby.*|awk|gawk|mawk|tclsh.*|apt.*|dpkg.*|rpm|dnf|yum|apk|pacman|opkg|snap|sshd?|dropbear|telnetd?|su|sudo|login|getty|agetty'
while read -r path; do
  name=$(basename "$path")
  [[ ! $name =~ ^($forbidden)$ ]] || wrong "$path: must not be in the image"
done < <(cd "$work" && find tree ramfs \( -type f -o -type l \) -printf '%p\n')

# The container runtime, the makers of file systems and what is DYNAMIC in cmake are the only ones that are not static:
# what they need is there, and nothing else.
rows() { sed 's/#.*//; /^[[:space:]]*$/d' "$1"; }
runtime=$(runtime_rows "$here/packages/runtime.list" | awk '$2 !~ /\/$/ { for (i = 2; i <= NF; ++i) print "tree" $i }')
plugins=$(cd "$work" && runtime_rows "$here/packages/runtime.list" | awk '$2 ~ /\/$/ { print "tree" $2 }' | while read -r folder; do find "$folder" -type f; done)
needed() { (cd "$work" && needed_names "$@"); }   # FILES
libraries=$(cd "$work" && image_libraries tree | grep -vxF -f <(echo "$plugins"))
# grep reads to the end: a readelf that is cut off by SIGPIPE would count as no program at all (pipefail).
ours=$(rows "$out/programs.list" | while read -r name path _; do
  if llvm-readelf-19 --program-headers "$out/$name" | grep INTERP >/dev/null; then echo "tree$path"; fi
done)
diff <(needed $runtime $ours $libraries $plugins) <(for path in $libraries; do basename "$path"; done | sort -u) >&2 ||
  wrong "the libraries of the image are not those that its programs need (above)"

programs=0
while read -r path; do
  head=$(head -c 4 "$work/$path" | od -An -tx1 | tr -d ' \n')
  [[ $'\n'$libraries$'\n'$plugins$'\n' != *$'\n'$path$'\n'* ]] || continue
  if [[ $'\n'$runtime$'\n'$ours$'\n' == *$'\n'$path$'\n'* ]]; then programs=$((programs + 1)); continue; fi
  case $path in */lib/modules/*) [ "$head" = 7f454c46 ] || case $path in *.ko) wrong "$path: not a module" ;; esac; continue ;; esac
  if [ "$head" = 7f454c46 ]; then
    programs=$((programs + 1))
    headers=$(llvm-readelf-19 --program-headers --dynamic-table "$work/$path" 2>/dev/null)
    ! grep -q INTERP <<<"$headers" || wrong "$path: needs a dynamic linker"
    ! grep -q NEEDED <<<"$headers" || wrong "$path: needs shared libraries"
  elif [ "${head:0:4}" = 2321 ]; then
    wrong "$path: a script, but the image has no interpreter"
  elif [ -x "$work/$path" ]; then
    wrong "$path: executable, but not a program"
  fi
done < <(cd "$work" && find tree ramfs -type f -printf '%p\n')
expected=$(($(sed 's/#.*//; /^[[:space:]]*$/d; s/^[^ ]* *//' "$out/programs.list" | wc -w) + $(wc -w <<<"$runtime") + 1))   # and /init
[ "$programs" = "$expected" ] || wrong "$programs programs in the image, expected $expected"

while read -r path; do wrong "$path: setuid or setgid"; done < <(cd "$work" && find tree ramfs -type f -perm /6000)
while read -r path; do wrong "$path: writable by everyone"; done < <(cd "$work" && find tree ramfs \( -type f -o -type d \) -perm /002)
while read -r path; do wrong "$path: not owned by root"; done < <(cd "$work" && find tree ramfs \( ! -uid 0 -o ! -gid 0 \))

# --- list of contents -------------------------------------------------------------------------------------
diff <(cd "$work/tree" && find . -type f ! -path ./usr/share/sbom.spdx.json | while read -r f; do echo "$(sha256sum <"$f" | cut -d' ' -f1) $f"; done | sort) \
  <(jq -r '.files[] | "\(.checksums[] | select(.algorithm == "SHA256").checksumValue) \(.fileName)"' "$image/sbom.spdx.json" | sort) \
  >&2 || wrong "the list of contents and the image differ (above)"
jq -e '.spdxVersion == "SPDX-2.3" and (.packages | length) > 0 and ([.packages[].SPDXID, .files[].SPDXID] | length == (unique | length))' \
  "$image/sbom.spdx.json" >/dev/null || wrong "the list of contents is not valid SPDX 2.3"

# --- reproducible ---------------------------------------------------------------------------------------
# Builds the image again, later and in another folder. The unpacked kernel is an input and shared.
"$here/image.sh" "$root" "$out" "$work/again" >/dev/null
for file in vmlinux initramfs rootfs.sqsh sbom.spdx.json; do
  cmp "$image/$file" "$work/again/$file" >&2 || wrong "$file: differs when it is built again"
done

[ $failures = 0 ] || { echo "check: $failures checks failed" >&2; exit 1; }
echo "check: $programs programs ($(wc -w <<<"$runtime") of them as Debian has them), no shell, no package manager, no interpreter; reproducible"
