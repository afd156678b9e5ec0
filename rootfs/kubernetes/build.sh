#!/bin/bash
# Compiles Kubernetes' programs:  build.sh CACHE WORK [FOLDER…]      (inside build/kubernetes/root; make.sh calls it)
# Each folder below go/ is a Go module that wants one program of others at one version, or is one of ours, with the
# checksums of all that it is made of. The results are in CACHE/<folder>-<key>, the key being of everything that they are made of; what is there
# is not compiled again. Go's own caches are in WORK, gigabytes that can be removed afterwards.
# The last line of stdout for a folder is "<folder> <folder of the results>".
set -euo pipefail
umask 022
cache=$1 work=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
export PATH=/usr/lib/go-1.26/bin:$PATH CGO_ENABLED=0 GOTOOLCHAIN=local
options="-mod=readonly -buildvcs=false -trimpath"
# Compiled without debug information, which the linker drops in any case (-w): a tenth less work. Not in the keys: nothing that
# runs differs.
export GOFLAGS="${GOFLAGS:-} $options -gcflags=all=-dwarf=false -p=$(nproc)"
export GOPATH=$work/go GOCACHE=$work/cache GOMODCACHE=$work/modules
# Compiler and linker collect garbage only from 2 GiB on: an eighth less work.
export GOGC=off GOMEMLIMIT=2GiB
say() { printf 'kubernetes: %s\n' "$*" >&2; }

before_1_24() {  # FOLDER
  local release=${1#kubernetes-}
  [ "$release" != "$1" ] && [ "$(printf '%s\n' 1.24 "$release" | sort -V | head -1)" = "$release" ]
}

linker_flags() {  # FOLDER: without them a program calls itself v0.0.0-master
  printf '%s' '-s -w -buildid='
  case $1 in kubernetes-*|conformance-*)
    local release=${1#*-} package packages=k8s.io/component-base/version
    local minor=${release#*.}
    # The old API server answers with another library's.
    ! before_1_24 "$1" || packages+=" k8s.io/client-go/pkg/version"
    for package in $packages; do
      printf " -X $package.%s" "gitVersion=v$release" "gitMajor=${release%%.*}" "gitMinor=${minor%%.*}" gitTreeState=clean \
        buildDate=1970-01-01T00:00:00Z
    done ;;
  esac
}

# flanneld's own main without two ways to carry packets that are not wanted: one needs cgo, the other a module that
# the proxy does not have.
flannel_main() {
  go mod download github.com/flannel-io/flannel
  sed -E '/backend\/(tencentvpc|udp)"/d' "$(go list -m -f '{{.Dir}}' github.com/flannel-io/flannel)/main.go" >main.go
}

# CoreDNS's own main without the plugins whose libraries (of clouds, tracers, maps) are a third of what it is compiled of.
# No Corefile here names one of them; CoreDNS refuses a Corefile that does, with the plugin's name.
coredns_main() {
  local source
  go mod download github.com/coredns/coredns
  source=$(go list -m -f '{{.Dir}}' github.com/coredns/coredns)
  sed -E 's/^package plugin$/package main/; /"github.com\/coredns\/coredns\/plugin\/(azure|clouddns|dnssec|etcd|geoip|nomad|route53|sign|trace|view)"$/d' \
    "$source/core/plugin/zplugin.go" >plugins.go
  sed '/"github.com\/coredns\/coredns\/core\/plugin"/d' "$source/coredns.go" >main.go
}

# Releases before 1.24 do not carry a file that their API server is made of: their own generator makes it, of the
# packages that say so, and a copy of the module that has it is compiled.
add_openapi() {  # FOLDER
  local package=pkg/generated/openapi packages
  before_1_24 "$1" || return 0
  packages=$(go list -deps -f '{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}' k8s.io/kubernetes/cmd/kube-apiserver |
    while read -r name folder; do
      case $name in k8s.io/*) ! grep -qs '+k8s:openapi-gen=' "$folder"/*.go || echo "$name" ;; esac
    done | paste -sd,)
  go build -o openapi-gen k8s.io/kube-openapi/cmd/openapi-gen
  : >header
  ./openapi-gen -i "$packages" -p k8s.io/kubernetes/$package -O zz_generated.openapi -o generated -h header -r report
  cp -r "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)" module
  chmod -R u+w module
  cp "generated/k8s.io/kubernetes/$package/"*.go "module/$package/"
  go mod edit -replace k8s.io/kubernetes=./module
}

# go build with a line on stderr for each tenth of the packages; those of an earlier folder are not compiled again.
build() {  # FOLDER OUT PACKAGE…
  local folder=$1 out=$2 total
  shift 2
  total=$(go list -deps "$@" | wc -l)
  go build -v -ldflags "$(linker_flags "$folder")" -o "$out" "$@" 2>&1 |
    awk -v folder="$folder" -v total="$total" '/^[a-z0-9.\/_-]+[A-Za-z0-9.\/_-]*$/ {
        ++done
        if (done * 10 >= total * (shown + 1)) {
          shown = int(done * 10 / total)
          printf "kubernetes: %s: %d of %d packages compiled\n", folder, done, total
          fflush()
        }
        next
      } !/^go: downloading/ { print; fflush() }' >&2
}

compile() {  # FOLDER PACKAGE PROGRAM…
  local folder=$1 package=$2 key out began=$SECONDS
  shift 2
  # Sources of its own only where it is no program of others.
  key=$({ go version; cat "$here/go/$folder"/go.{mod,sum}; find "$here/go/$folder" -name '*.go' | sort | xargs -r cat; echo "$options $(linker_flags "$folder") $package $*"
    ! before_1_24 "$folder" || declare -f add_openapi
    [ "$folder" != coredns ] || declare -f coredns_main; } | sha256sum | cut -c1-16)
  out=$cache/$folder-$key
  if [ ! -e "$out" ]; then
    say "compiling $folder"
    rm -rf "$out.new" "$work/$folder"
    mkdir -p "$out.new" "$work"
    cp -r "$here/go/$folder" "$work/$folder"
    cd "$work/$folder"
    case $folder in
      flannel) flannel_main ;;
      coredns) coredns_main ;;
    esac
    local packages=("$package") program
    if [ $# -gt 0 ]; then
      packages=()
      for program in "$@"; do packages+=("$package$program"); done
    fi
    add_openapi "$folder"
    build "$folder" "$out.new/" "${packages[@]}"
    case $folder in
    conformance-*)   # a test program, and what the other one serves
      go test -vet=off -ldflags "$(linker_flags "$folder")" -c -o "$out.new/e2e.test" k8s.io/kubernetes/test/e2e
      install -m 0644 "$(go list -f '{{.Dir}}' k8s.io/kubernetes/test/images/agnhost)"/porter/localhost.* "$out.new/" ;;
    metrics-server)   # of which the release's components.yaml is made
      cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' sigs.k8s.io/metrics-server)/manifests" "$out.new/" ;;
    esac
    mv "$out.new" "$out"
    say "$folder: $((SECONDS - began)) s"
  fi
  echo "$folder $out"
}

while read -r folder package programs; do
  [ $# -eq 0 ] || case " $* " in *" $folder "*) ;; *) continue ;; esac
  compile "$folder" "$package" $programs
done < <(sed 's/#.*//; /^ *$/d' "$here/programs.list")
