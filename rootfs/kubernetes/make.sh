#!/bin/bash
# Kubernetes of the releases that the tests run, from its Go modules to images in a registry's storage:
#   make.sh CHECKOUT [RELEASE…]     (make e2e calls it; as root)
# The build root is build/kubernetes/root; what was compiled and the images stay in build/cache/kubernetes by what they are
# made of. stdout has the lines "kubectl FILE" (of the first release), "images FOLDER", the storage, and, with CONFORMANCE in
# the environment, "conformance FILE", the program of that release's conformance tests. With STORAGE there are the images that
# tests of volumes need, too; with METRICS_SERVER that of metrics-server, and "metrics-server FOLDER", its published manifests.
# The Go modules come from where this host's go environment says (GOPROXY, GOSUMDB …), each with its checksum in go.sum.
set -euo pipefail
umask 022
checkout=$1
shift
releases=("${@:-1.34.4}")
cd "$checkout"
here=rootfs/kubernetes
build=build/kubernetes
mkdir -p $build build/cache/kubernetes
rootfs/buildroot.sh "$checkout/$build/root" "$checkout/build/cache" rootfs/packages/kubernetes.list >&2

passed=()
for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOFLAGS HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
  [ -z "${!name+x}" ] || passed+=("$name=${!name}")
done
# The authorities that this host trusts.
if [ -n "${SSL_CERT_FILE:-}" ]; then
  cp "$SSL_CERT_FILE" $build/authorities.pem
  passed+=(SSL_CERT_FILE=/$build/authorities.pem)
fi
in_root() { rootfs/enter.sh "$checkout/$build/root" "$checkout" env "${passed[@]}" "$@"; }

folders=(coredns flannel flannel-cni)
[ -z "${STORAGE:-}" ] || folders+=(csi-driver)
[ -z "${METRICS_SERVER:-}" ] || folders+=(metrics-server)
for release in "${releases[@]}"; do
  folders+=("kubernetes-$release")
  case $release in 1.19.*|1.20.*) folders+=(coredns-1.8.0) ;; esac   # before EndpointSlices (common/config/kubernetes/kubernetes-images.h)
done
[ -z "${CONFORMANCE:-}" ] || folders+=("conformance-${releases[0]}")
in_root $here/build.sh /cache/kubernetes /$build/work "${folders[@]}" >$build/programs || {
  echo "kubernetes: not compiled, for the reason above. If a module could not be fetched: it comes from GOPROXY" \
    "($(in_root /usr/lib/go-1.26/bin/go env GOPROXY)); set GOPROXY (and SSL_CERT_FILE, if the proxy's authority is the site's)" \
    "to one that this host reaches, or copy build/cache/kubernetes of a checkout that has compiled the same" >&2
  [ -z "${SUDO_USER:-}" ] || echo "kubernetes: sudo drops GOPROXY, SSL_CERT_FILE and the like; if Go needs them: sudo -E" >&2
  exit 1
}
rm -rf $build/work   # Go's caches; module files are read-only
key=$(cat $build/programs $here/images.sh $here/*.c $here/install-cni.sh $build/root/.stamp | sha256sum | cut -c1-16)
storage=build/cache/kubernetes/images-$key
if [ ! -e $storage ]; then
  rm -rf $storage.new
  mkdir $storage.new
  # In a network of its own: the registry there meets nobody else's.
  unshare --net bash -euc 'ip link set lo up; exec "$@"' images rootfs/enter.sh "$checkout/$build/root" "$checkout" \
    $here/images.sh /$build/programs /cache/kubernetes/images-$key.new "${releases[@]}" >&2
  mv $storage.new $storage
fi
# Nothing is kept that no run has used for a month.
touch $storage $(awk '{ sub("/cache/kubernetes", "build/cache/kubernetes", $2); print $2 }' $build/programs)
find build/cache/kubernetes -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
awk -v cache=build/cache/kubernetes -v release="${releases[0]}" '{ sub("/cache/kubernetes", cache, $2) }
  $1 == "kubernetes-" release { print "kubectl " $2 "/kubectl" }
  $1 == "conformance-" release { print "conformance " $2 "/e2e.test" }
  $1 == "metrics-server" { print "metrics-server " $2 "/manifests" }' $build/programs
echo "images $storage"
