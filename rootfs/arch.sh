# The differences between the architectures that images are made for; ARCH= says which (default: amd64, the build root's own).
# To be sourced by the scripts of this folder, inside the build root. It sets
#   arch, triplet     as Debian names them
#   sysroot           the tree with the libraries and programs of that architecture; empty: the build root's own (sysroot.sh)
#   loader            of shared libraries: its path in the image
#   top_link          its folder at the top, if it has one
#   efi_program efi_format bios   the boot loader: its name for UEFI, GRUB's name of its format, and whether a BIOS can start it
#   emulator          in front of a program that was built for that architecture
#   compiler          the options for it
# and has functions that ask for packages and libraries of it.
arch=${ARCH:-amd64}
case $arch in
  amd64)
    triplet=x86_64-linux-gnu sysroot='' loader=/usr/lib64/ld-linux-x86-64.so.2 top_link=lib64
    efi_program=BOOTX64.EFI efi_format=x86_64-efi bios=yes emulator=() compiler=()
    loader_packages=(grub-pc-bin grub-efi-amd64-bin) ;;
  arm64)
    triplet=aarch64-linux-gnu sysroot=/build/root-arm64 loader=/usr/lib/ld-linux-aarch64.so.1 top_link=''
    efi_program=BOOTAA64.EFI efi_format=arm64-efi bios='' emulator=("$sysroot/opt/emulators/usr/bin/qemu-aarch64")
    compiler=(--target="$triplet" --sysroot="$sysroot") loader_packages=(grub-efi-arm64-bin) ;;
  *) printf 'ARCH is "%s"; amd64 and arm64 are known\n' "$arch" >&2; exit 1 ;;
esac

runtime_rows() {  # LIST: the rows of runtime.list, with the folder of this architecture's libraries
  sed "s/#.*//; /^[[:space:]]*\$/d; s/@triplet@/$triplet/g" "$1"
}

needed_names() {  # FILES: the names of libraries and loaders that they need themselves
  llvm-readelf-19 --program-headers --dynamic-table "$@" |
    sed -n 's/.*NEEDED.*\[\(.*\)\].*/\1/p; s/.*Requesting program interpreter: .*\/\(.*\)\].*/\1/p' | sort -u
}

# The libraries that these files need, and all that those need: paths in the image. No program is run for it, and none is
# found that is not where the loader looks without further settings.
needed_libraries() {  # FILES
  local -A found=()
  local name path next=("$@")
  while [ ${#next[@]} -gt 0 ]; do
    mapfile -t names < <(needed_names "${next[@]}")
    next=()
    for name in "${names[@]}"; do
      [ -z "${found[$name]:-}" ] || continue
      path=/usr/lib/$triplet/$name
      [ "$name" != "$(basename "$loader")" ] || path=$loader
      [ -e "$sysroot$path" ] || { printf 'image: no library %s for %s in %s/usr/lib\n' "$name" "$arch" "$sysroot" >&2; return 1; }
      found[$name]=$path
      next+=("$sysroot$path")
      printf '%s\n' "$path"
    done
  done
}

image_libraries() {  # TREE: those that it has, and the loader, below it
  find "$1/usr/lib/$triplet" "$1$loader" -type f
}

package_of() {  # PATH in the tree of this architecture: the package that it is from
  local path=${1#"$sysroot"}
  if [ -z "$sysroot" ]; then
    for path in "$path" "${path#/usr}"; do dpkg -S "$path" 2>/dev/null && break; done | cut -d: -f1
  else
    awk -F'\t' -v path="$path" '$1 == path { print $2; exit }' "$sysroot/opt/packages"
  fi
}
package_facts() {  # PACKAGE: version, source package, its version, with | between them
  if [ -z "$sysroot" ]; then
    dpkg-query -W -f '${Version}|${source:Package}|${source:Version}\n' "$1" | head -n 1
  else
    awk -F'\t' -v OFS='|' -v name="$1" '$2 == name { print $3, $4, $5; exit }' "$sysroot/opt/packages"
  fi
}
package_sources() {  # PACKAGE: the sources that are compiled into it, as its fields Built-Using have them
  local version file
  if [ -z "$sysroot" ]; then
    dpkg-query -W -f '${Built-Using}, ${Static-Built-Using}\n' "$1"
  else
    version=$(package_facts "$1" | cut -d'|' -f1)
    file=$(echo "/cache/$arch/${1}_${version//:/%3a}"_*.deb)
    [ -e "$file" ] || { printf 'sbom: %s is missing; remove %s and run make to create it again\n' "$file" "$sysroot" >&2; return 1; }
    printf '%s, %s\n' "$(dpkg-deb -f "$file" Built-Using)" "$(dpkg-deb -f "$file" Static-Built-Using)"
  fi
}
