#!/bin/bash
# Makes OCI images of the programs under upstream's names, in the storage of a registry:
#   images.sh PROGRAMS STORAGE RELEASE…          (inside build/kubernetes/root; make.sh calls it)
# PROGRAMS has a line "<folder> <folder of the results>" for each folder of programs.list. STORAGE is a folder that
# docker-registry serves; the name of an image there is without its registry, as nodes ask a mirror for it. An image is
# one uncompressed layer with files of 1970 that are root's: the same programs give the same digests.
set -euo pipefail
umask 022
programs=$1 storage=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
say() { printf 'kubernetes: %s\n' "$*" >&2; }
built() { awk -v folder="$1" '$1 == folder { print $2 }' "$programs"; }

# --- a tree of files ------------------------------------------------------------------------------------------------
tree=$work/tree
new_tree() {
  rm -rf "$tree"
  mkdir -p "$tree"/{etc,proc,dev,sys,run,tmp,root,var/lib,var/log,usr/bin,usr/sbin,usr/lib,usr/lib64}
  chmod 1777 "$tree/tmp"
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$tree/$link"; done
  ln -s ../run "$tree/var/run"
  printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$tree/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$tree/etc/group"
  printf 'hosts: files dns\n' >"$tree/etc/nsswitch.conf"
}
put() { install -D -m 0755 "$1" "$tree$2"; }
authorities() { install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"; }
# Programs and plugins of this root with the libraries that they need, where they are here.
with_libraries() {
  local file target
  for file in "$@"; do
    target=$(readlink -f "$file")
    [ -e "$tree$target" ] || install -D -m 0755 "$target" "$tree$target"
    [ "$target" = "$(realpath -s "$file")" ] || [ -e "$tree$file" ] || ln -s "$target" "$tree$file"
    ldd "$target" 2>/dev/null | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
      case $library in /lib/*|/lib64/*) library=/usr$library ;; esac
      [ -e "$tree$library" ] || install -D -m 0755 "$library" "$tree$library"
    done
  done
}
# The programs that write rules of the kernel: iptables by way of nftables, as Debian's is.
packet_filter() {
  local name
  with_libraries /usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/sbin/conntrack /usr/sbin/ipset /usr/bin/kmod /usr/bin/ip \
    /usr/lib/x86_64-linux-gnu/xtables/*.so
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$tree/usr/sbin/$name"
  done
  ln -s ../bin/kmod "$tree/usr/sbin/modprobe"
  install -D -m 0644 /etc/protocols "$tree/etc/protocols" 2>/dev/null || true
}
# Programs that the kubelet calls for volumes on servers: mount.nfs, and iscsiadm, whose iscsid is the one of the node's network
# (docs/storage.md). mount.nfs reads from netconfig which transports there are.
network_volumes() {
  local name
  with_libraries /usr/sbin/mount.nfs /usr/sbin/iscsiadm
  install -D -m 0600 /etc/iscsi/iscsid.conf "$tree/etc/iscsi/iscsid.conf"
  mkdir -p "$tree/var/lib/iscsi"
  for name in mount.nfs4 umount.nfs umount.nfs4; do ln -s mount.nfs "$tree/usr/sbin/$name"; done
  install -D -m 0644 /etc/netconfig "$tree/etc/netconfig"
}
busybox() {
  local name
  put /usr/bin/busybox /usr/bin/busybox
  for name in "$@"; do ln -s busybox "$tree/usr/bin/$name"; done
}

# --- an image of it, into the registry ----------------------------------------------------------------------------
registry=127.0.0.1:5999
blob() { install -D -m 0644 "$1" "$work/image/blobs/sha256/$(sha256sum <"$1" | cut -d' ' -f1)"; }
sum() { printf 'sha256:%s' "$(sha256sum <"$1" | cut -d' ' -f1)"; }
image() {  # NAME ENTRYPOINT…: of the tree; its arguments are COMMAND, if any
  local name=$1 media=application/vnd.oci.image
  shift
  rm -rf "$work/image"
  mkdir -p "$work/image"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$tree" -cf "$work/layer" .
  jq -nc --arg layer "$(sum "$work/layer")" --arg command "${COMMAND:-}" '{architecture: "amd64", os: "linux", rootfs: {type: "layers", diff_ids: [$layer]},
    config: {Entrypoint: $ARGS.positional, Cmd: ($command | if . == "" then null else [.] end), Env: ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}}' --args "$@" >"$work/config"
  jq -nc --arg m $media --arg layer "$(sum "$work/layer")" --arg config "$(sum "$work/config")" \
    --argjson layers "$(stat -c %s "$work/layer")" --argjson configs "$(stat -c %s "$work/config")" '{schemaVersion: 2,
    mediaType: ($m + ".manifest.v1+json"), config: {mediaType: ($m + ".config.v1+json"), digest: $config, size: $configs},
    layers: [{mediaType: ($m + ".layer.v1.tar"), digest: $layer, size: $layers}]}' >"$work/manifest"
  blob "$work/layer"
  blob "$work/config"
  blob "$work/manifest"
  jq -nc --arg m $media --arg manifest "$(sum "$work/manifest")" --argjson size "$(stat -c %s "$work/manifest")" '{schemaVersion: 2,
    manifests: [{mediaType: ($m + ".manifest.v1+json"), digest: $manifest, size: $size}]}' >"$work/image/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
  skopeo copy -q --insecure-policy --dest-tls-verify=false "oci:$work/image" "docker://$registry/$name"
  say "$name: $(($(stat -c %s "$work/layer") / 1048576)) MiB"
}

# Nobody else's port: the network of this script is its own (make.sh).
printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "%s"}\nlog: {level: error, accesslog: {disabled: true}}\n' \
  "$storage" $registry >"$work/registry.yml"
docker-registry serve "$work/registry.yml" 2>"$work/registry.log" &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$work"' EXIT
answers=
for _ in $(seq 100); do
  if (exec 3<>/dev/tcp/127.0.0.1/5999) 2>/dev/null; then answers=1; break; fi
  kill -0 $server || { cat "$work/registry.log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$answers" ] || { echo "images: docker-registry does not listen within 10 s" >&2; exit 1; }

for name in pause go-runner shell; do gcc -Os -static -s -o "$work/$name" "$here/$name.c"; done

for release in "$@"; do
  bin=$(built "kubernetes-$release")
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    new_tree
    put "$bin/$name" "/usr/local/bin/$name"
    put "$work/go-runner" /go-runner
    authorities
    image "$name:v$release" "/usr/local/bin/$name"
  done
  new_tree
  put "$bin/kubectl" /bin/kubectl
  image "kubectl:v$release" /bin/kubectl
  new_tree
  put "$bin/kube-proxy" /usr/local/bin/kube-proxy
  packet_filter
  image "kube-proxy:v$release" /usr/local/bin/kube-proxy
  new_tree
  put "$bin/kubelet" /usr/local/bin/kubelet
  packet_filter
  authorities
  with_libraries /usr/bin/mount /usr/bin/umount /usr/bin/nsenter /usr/bin/findmnt /usr/sbin/blkid /usr/sbin/mkfs.ext4 \
    /usr/sbin/e2fsck /usr/sbin/mkfs.xfs
  network_volumes
  mkdir -p "$tree"/{etc/kubernetes,etc/cni,usr/libexec/kubernetes,lib/modules,var/lib/kubelet,var/lib/containerd,var/log/pods}
  touch "$tree/etc/os-release" "$tree/etc/hosts" "$tree/etc/resolv.conf"
  case $release in 1.19.*|1.20.*) image "talos-systems/kubelet:v$release" /usr/local/bin/kubelet ;;   # its name then
  *) image "siderolabs/kubelet:v$release" /usr/local/bin/kubelet ;; esac
done
new_tree
put "$work/pause" /pause
image pause:3.10 /pause
coredns() {  # FOLDER VERSION
  new_tree
  put "$(built "$1")/coredns" /coredns
  authorities
  image "coredns/coredns:$2" /coredns
}
coredns coredns 1.12.1
[ -z "$(built coredns-1.8.0)" ] || coredns coredns-1.8.0 1.8.0
if [ -n "$(built metrics-server)" ]; then
  new_tree
  put "$(built metrics-server)/metrics-server" /metrics-server
  image metrics-server/metrics-server:v0.8.0 /metrics-server
fi
new_tree
put "$(built flannel)/flanneld" /opt/bin/flanneld
packet_filter
busybox sh cp mv rm ls cat sleep
image flannel-io/flannel:v0.28.4 /opt/bin/flanneld
new_tree
for name in bandwidth bridge firewall host-local loopback portmap; do put "/usr/lib/cni/$name" "/opt/cni/bin/$name"; done
put "$(built flannel-cni)/flannel" /opt/cni/bin/flannel
put "$here/install-cni.sh" /install-cni.sh
busybox sh cp mv
with_libraries /usr/lib/cni/bridge
rm "$tree/usr/lib/cni" -r
image siderolabs/install-cni:v1.9.0 /install-cni.sh
# The pods of docs/storage.md that make a node an initiator of iSCSI: iscsid, and udev's links of the disks. And the tests' CSI
# driver.
storage() {
  new_tree
  mkdir -p "$tree/usr/lib/systemd"
  with_libraries /usr/sbin/iscsid /usr/sbin/iscsiadm /usr/sbin/iscsi-iname /usr/bin/kmod /usr/lib/systemd/systemd-udevd /usr/bin/udevadm
  install -D -m 0600 /etc/iscsi/iscsid.conf "$tree/etc/iscsi/iscsid.conf"
  install -D -m 0644 /usr/lib/udev/rules.d/60-persistent-storage.rules "$tree/usr/lib/udev/rules.d/60-persistent-storage.rules"
  put /usr/lib/udev/scsi_id /usr/lib/udev/scsi_id
  mkdir -p "$tree/var/lib/iscsi" "$tree/lib/modules"
  busybox sh mkdir cat ls sleep
  image library/open-iscsi:2.1.11 /usr/sbin/iscsid
  new_tree
  put "$(built csi-driver)/csi-driver" /csi-driver
  image library/csi-driver:1 /csi-driver
}
[ -z "$(built csi-driver)" ] || storage
new_tree
busybox sh httpd wget nslookup sleep cat ls ip ping hostname id env
image library/busybox:1.37 /usr/bin/busybox

# Programs that upstream's conformance tests run in their pods, under the names that they ask for.
conformance=$(built "conformance-${1}")
[ -n "$conformance" ] || exit 0
new_tree
busybox $(/usr/bin/busybox --list | grep -vx busybox)
with_libraries /usr/bin/bash
rm "$tree/usr/bin/sh"
put "$work/shell" /usr/bin/sh
image e2e-test-images/busybox:1.37.0-1 /usr/bin/sh
# Here a shell that takes programs from PATH: Debian's busybox has its own nc and wget first.
rm "$tree/usr/bin/nc" "$tree/usr/bin/sh"
ln -s bash "$tree/usr/bin/sh"
with_libraries /usr/bin/dig /usr/bin/curl /usr/bin/nc.openbsd /usr/bin/getent
ln -s nc.openbsd "$tree/usr/bin/nc"
image e2e-test-images/jessie-dnsutils:1.7 /usr/bin/sleep 3600
put "$conformance/agnhost" /agnhost
ln -s agnhost "$tree/agnhost-2"
mkdir -p "$tree/uploads"
printf 'user-defined-in-image:x:1000:1000::/:/bin/sh\n' >>"$tree/etc/passwd"
printf 'user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n' >>"$tree/etc/group"
for name in crt key; do install -m 0644 "$conformance/localhost.$name" "$tree/localhost.$name"; done
COMMAND=pause image e2e-test-images/agnhost:2.56 /agnhost
new_tree
put "$work/pause" /pause
image pause:3.10.1 /pause
