#!/bin/bash
# Registries for the nodes of a local cluster, on this host's loopback, which nodes reach at their gateway's address:
#   registries.sh start CHECKOUT FOLDER NAME=SOURCE…   NAME is a registry's (`*`: all of them); SOURCE is a folder of images
#                                                      (make.sh), or the URL of a registry, whose images are then kept
#   registries.sh stop CHECKOUT FOLDER
# FOLDER keeps their configurations, logs and process ids. The n-th listens on port 5159 + n: a node's config names the
# port, so a registry that is started again has the one that it had. Pulled images are in build/cache/registries.
# stdout of start: a line NAME=http://ADDRESS for each. Fails when one does not listen within 20 s, with the end of its log.
set -euo pipefail
umask 022
action=$1 checkout=$2 folder=$3
shift 3
root=$checkout/build/root
die() { printf 'registries: %s\n' "$*" >&2; exit 1; }

# A number that is some other process's by now is not ended.
running() { [ -e "$1" ] && grep -qa docker-registry "/proc/$(cat "$1")/cmdline" 2>/dev/null; }

stop() {
  local file pid
  for file in "$folder"/*.pid; do
    if running "$file"; then
      pid=$(cat "$file")
      kill "$pid"
      for _ in $(seq 100); do [ -e "/proc/$pid" ] || break; sleep 0.05; done
    fi
    rm -f "$file"
  done
}

start() {  # NAME SOURCE PORT
  local name=$1 source=$2 port=$3 own proxy='' pid
  own=$folder/$port
  case $source in
    http://*|https://*)
      proxy="proxy: {remoteurl: '$source'}"
      mkdir -p "$checkout/build/cache/registries/$name"
      source=/cache/registries/$name ;;
    *) source=/cache${source#build/cache} ;;   # as the build root has it
  esac
  printf '%s\n' 'version: 0.1' "storage: {filesystem: {rootdirectory: '$source'}}" \
    "http: {addr: '127.0.0.1:$port'}" 'log: {level: warn, accesslog: {disabled: true}}' "$proxy" >"$own.yml"
  if running "$own.pid"; then return; fi
  ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || die "port $port of 127.0.0.1 is in use by another program"
  local passed=()
  for variable in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [ -z "${!variable+x}" ] || passed+=("$variable=${!variable}")
  done
  if [ -n "${SSL_CERT_FILE:-}" ]; then
    cp "$SSL_CERT_FILE" "$folder/authorities.pem"
    passed+=("SSL_CERT_FILE=/build${folder#"$checkout/build"}/authorities.pem")
  fi
  setsid "$checkout/rootfs/enter.sh" "$root" "$checkout" env "${passed[@]}" OTEL_TRACES_EXPORTER=none \
    docker-registry serve "/build${own#"$checkout/build"}.yml" </dev/null >"$own.log" 2>&1 &
  pid=$!
  echo $pid >"$own.pid"   # enter.sh becomes the registry
  for _ in $(seq 400); do
    ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 0
    [ -e "/proc/$pid" ] || break
    sleep 0.05
  done
  tail -n 3 "$own.log" >&2
  rm -f "$own.pid"
  die "the registry for $name does not listen on 127.0.0.1:$port"
}

mkdir -p "$folder"
case $action in
  stop) stop ;;
  start)
    port=5159
    for pair in "$@"; do
      port=$((port + 1))
      start "${pair%%=*}" "${pair#*=}" $port
      echo "${pair%%=*}=http://127.0.0.1:$port"
    done ;;
  *) die "say start or stop" ;;
esac
