# The handling of modules, folders and archives that image.sh, and onbuild.sh in an image of an image, share. For a POSIX
# shell: onbuild.sh has busybox's.

module_closure() {  # FOLDER-OF-MODULES NAMES...: paths below it, each after its dependencies
  local modules=$1
  shift
  awk -v wanted="$*" '
    function plain(path) { sub(/.*\//, "", path); sub(/\.ko.*/, "", path); gsub(/-/, "_", path); return path }
    function put(path,   parts, i, n) {
      if (path in done) return
      done[path] = 1
      n = split(needs[path], parts, " ")
      for (i = n; i >= 1; --i) put(parts[i])
      print path
    }
    FILENAME ~ /builtin$/ { builtin[plain($0)] = 1; next }
    { split($0, halves, ":"); needs[halves[1]] = halves[2]; path[plain(halves[1])] = halves[1] }
    END {
      n = split(wanted, names, " ")
      for (i = 1; i <= n; ++i) {
        name = plain(names[i])
        if (name in path) put(path[name])
        else if (!(name in builtin)) { print "image: no module " names[i] " in this kernel" >"/dev/stderr"; exit 1 }
      }
    }' "$modules/modules.builtin" "$modules/modules.dep"
}

rows() { sed 's/#.*//; /^[[:space:]]*$/d' "$1"; }
early_names() { rows "$1" | awk '$2 == "initramfs" { print $1 }'; }   # early_names MODULES.LIST
late_names() {  # late_names MODULES.LIST ARCH: those without an architecture, and those of this one
  rows "$1" | awk -v arch="$2" '
    $2 == "initramfs" { next }
    $2 == "" || $2 == arch { print $1; next }
    $2 !~ /^(amd64|arm64)$/ { print "image: " $1 ": \"" $2 "\" is not an architecture" >"/dev/stderr"; exit 1 }'
}

decompress_modules() {  # FOLDER: those below it
  find "$1" -name '*.ko.xz' -exec unxz {} +
  find "$1" -name '*.ko.gz' -exec gunzip {} +
  find "$1" -name '*.ko.zst' -exec unzstd -q --rm {} +
}

lay_over() {  # FOLDER ROOT: what is in bin, sbin or lib goes to usr if these are links there
  local entry name
  for entry in "$1"/* "$1"/.[!.]*; do
    [ -e "$entry" ] || [ -L "$entry" ] || continue
    name=${entry##*/}
    if [ -L "$2/$name" ] && [ -d "$2/$name" ] && [ -d "$entry" ] && [ ! -L "$entry" ]; then
      cp -a "$entry/." "$2/$name/"
    else
      cp -a "$entry" "$2/"
    fi
  done
}

pack() {  # FOLDER: as an archive; not compressed: the squashfs is, and the rest is small
  find "$1" -depth -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  (cd "$1" && find . -print0 | sort -z | cpio --null --create --format=newc --reproducible --owner=0:0 --quiet)
}

make_squashfs() {  # ROOT OUT LEVEL
  # mksquashfs takes the time from its options and fails if the variable is set too.
  env -u SOURCE_DATE_EPOCH mksquashfs "$1" "$2" -noappend -quiet -no-progress -comp zstd -Xcompression-level "$3" \
    -all-root -no-xattrs -all-time "$SOURCE_DATE_EPOCH" -mkfs-time "$SOURCE_DATE_EPOCH"
}
