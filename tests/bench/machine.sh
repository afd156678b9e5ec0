# A virtual machine for figures; sourced after figure.sh, with $out set. Emulated, with one CPU and 1 GiB, it is gone with the script.

scratch=$(mktemp -d)
config=$scratch/clusters/bench/talosconfig
talosctl() { HOME=$scratch "$out/talosctl" --talosconfig "$config" --timeout 60s "$@"; }
cluster() { HOME=$scratch "$out/talosctl" cluster "$1" --state "$scratch/clusters" --name bench "${@:2}"; }
node() { HOME=$scratch "$out/talosctl" cluster node "$1" --state "$scratch/clusters" --name bench "${@:2}" bench-master-1; }
destroy() { [ ! -e "$scratch/clusters/bench" ] || quietly cluster destroy; }
trap 'destroy || true; rm -rf "$scratch"' EXIT

create() {  # create FLAGS...: on, and not waited for
  quietly timeout 120 bash -c 'HOME=$0 exec "$@"' "$scratch" "$out/talosctl" cluster create --state "$scratch/clusters" \
    --name bench --cidr 10.5.0.0/24 --masters 1 --workers 0 --memory 1024 --cpus 1 --provisioner qemu --accelerator tcg --qemu-root "$root" \
    --wait=false "$@"
}
# The first process whose command line has these words, of the one cluster in our scratch folder.
qemu_pid() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    if { tr '\0' ' ' <"$file"; } 2>/dev/null | grep -q -e "qemu-system-x86_64.*$scratch/"; then
      file=${file#/proc/}
      echo "${file%/cmdline}"
      return
    fi
  done
  echo "machine.sh: no QEMU runs for $scratch" >&2
  return 1
}
start_time() { sed 's/.*) //' | awk '{ printf "%.2f", $20 / 100 }'; }   # of /proc/<pid>/stat, in seconds since boot
