#!/bin/bash
# Compiles the clients in Go that tests/clients calls a node with:  make.sh CHECKOUT      (on the host, as root)
# In the build root, from its own compiler and the modules that go.sum names, each with its checksum; they come from where
# this host's go environment says (GOPROXY, GOSUMDB …). The last line of stdout is the program's path in the build root.
# It stays in build/cache/clients by what it is made of, and what is there is not compiled again.
set -euo pipefail
umask 022
cd "$1"
here=tests/clients
go=/usr/lib/go-1.24/bin/go
key=$(cat $here/*.go $here/*.txt $here/go.mod $here/go.sum "$0" | sha256sum | cut -c1-16)
folder=build/cache/clients/$key
if [ ! -e "$folder/clients" ]; then
  passed=()
  for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [ -z "${!name+x}" ] || passed+=("$name=${!name}")
  done
  # The authorities that this host trusts.
  if [ -n "${SSL_CERT_FILE:-}" ]; then
    cp "$SSL_CERT_FILE" build/authorities.pem
    passed+=(SSL_CERT_FILE=/build/authorities.pem)
  fi
  work=/build/clients
  mkdir -p build/clients build/cache/clients
  rootfs/enter.sh build/root "$PWD" env "${passed[@]}" CGO_ENABLED=0 GOTOOLCHAIN=local GOPATH=$work/go \
    GOCACHE=$work/cache GOFLAGS="-mod=readonly -buildvcs=false -trimpath -p=2" \
    bash -euc "cd /src/$here && $go test -c -ldflags '-s -w -buildid=' -o $work/clients ." >&2
  mkdir -p "$folder.new"
  mv build/clients/clients "$folder.new/"
  mv -T "$folder.new" "$folder"
  chmod -R u+w build/clients
  rm -rf build/clients
  find build/cache/clients -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
fi
touch "$folder"
echo "/cache/clients/$key/clients"
