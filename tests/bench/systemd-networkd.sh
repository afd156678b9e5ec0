#!/bin/bash
# The peer of networkd: systemd-networkd in namespaces of its own, without udev and D-Bus.
#   systemd-networkd.sh links [COUNT]   bridges with an address each:
#                                       {"count":N,"wallMs":…,"processorMs":…}
#   systemd-networkd.sh dhcp [RUNS]     from carrier to address, dnsmasq at the other end:
#                                       {"runs":N,"p50ms":…,"p99ms":…}
# From the start of the program (links) or of the carrier (dhcp) to the last address in the kernel.
# Its files are on a tmpfs and its processes in a pid namespace, which end with it. Needs root.
set -euo pipefail
if [ "${INSIDE:-}" != 1 ]; then
  exec env INSIDE=1 unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private "$0" "$@"
fi

what=$1 count=${2:-}
# A sysfs of this network namespace; one that is read-only tells systemd that there is no udev.
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs -o mode=755 tmpfs /run
for folder in /etc/systemd/network /usr/lib/systemd/network; do
  mkdir -p "$folder"
  mount -t tmpfs -o mode=755 tmpfs "$folder"
done
replace() { cat >"/run/${1##*/}"; [ -e "$1" ] || : >"$1"; mount --bind "/run/${1##*/}" "$1"; }
if ! grep -q '^systemd-network:' /etc/passwd; then
  { cat /etc/passwd; echo 'systemd-network:x:998:998::/:/usr/sbin/nologin'; } | replace /etc/passwd
  { cat /etc/group; echo 'systemd-network:x:998:'; } | replace /etc/group
fi
echo 0123456789abcdef0123456789abcdef | replace /etc/machine-id  # the MAC addresses come of it
config=/etc/systemd/network
for folder in links leases lldp; do
  install -d -o systemd-network -g systemd-network "/run/systemd/netif/$folder"
done
chown systemd-network: /run/systemd/netif
ip link set lo up

now() { echo "${EPOCHREALTIME/[.,]/}"; }  # microseconds
fail() { echo "systemd-networkd.sh: $1" >&2; cat /run/log >&2 || true; exit 1; }

pid=
begin() {
  SYSTEMD_LOG_TARGET=console /usr/lib/systemd/systemd-networkd >/run/log 2>&1 &
  pid=$!
}
end() { kill "$pid"; wait "$pid" || true; }

# The kernel's messages about addresses, on descriptor 4, from here on: ip listens when it prints
# one that was added for this.
exec 4< <(exec ip -o -4 monitor address)
listening=
for try in $(seq 100); do
  ip address add "127.1.0.$try/8" dev lo
  if read -r -t 0.1 -u 4 _; then listening=1; break; fi
done
[ -n "$listening" ] || fail "ip monitor does not listen"

waitFor() {  # waitFor N PATTERN: N lines of addresses that are added, in 120 s
  local seen=0 line
  while [ "$seen" -lt "$1" ]; do
    read -r -t 120 -u 4 line || fail "$seen of $1 addresses after 120 s"
    case $line in Deleted*) ;; *"inet $2"*) seen=$((seen + 1)) ;; esac
  done
}

links() {
  local i file
  for ((i = 0; i < count; ++i)); do
    file=$config/10-net$i
    printf '[NetDev]\nName=net%s\nKind=bridge\n' "$i" >"$file.netdev"
    printf '[Match]\nName=net%s\n[Network]\nAddress=10.%s.%s.1/24\n%s\n' "$i" $((i / 250)) $((i % 250)) \
      $'ConfigureWithoutCarrier=yes\nLinkLocalAddressing=no\nIPv6AcceptRA=no' >"$file.network"
  done
  local from to ticks
  from=$(now)
  begin
  waitFor "$count" 10.
  to=$(now)
  ticks=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
  end
  awk -v n="$count" -v us=$((to - from)) -v ms=$((ticks * 1000 / $(getconf CLK_TCK))) \
    'BEGIN { printf "{\"count\":%d,\"wallMs\":%.1f,\"processorMs\":%d}\n", n, us / 1000, ms }'
}

# A new process for each, so that nothing is known of a lease before.
onePlug() {
  ip -n there link set peer down
  begin
  local index tries=0 from to
  index=$(cat /sys/class/net/net0/ifindex)
  until grep -qs '^OPER_STATE=no-carrier' "/run/systemd/netif/links/$index"; do
    [ $((++tries)) -lt 1000 ] || fail "net0 is not without carrier"
    read -r -t 0.02 -u 5 _ || true
  done
  from=$(now)
  ip -n there link set peer up
  waitFor 1 10.7.0.100
  to=$(now)
  end
  rm -f "/run/systemd/netif/links/$index"
  ip address flush dev net0
  echo $((to - from))
}

dhcp() {
  exec 5<> <(:)  # never says anything: a pause that starts no process
  ip netns add there
  ip link add net0 type veth peer name peer netns there
  ip -n there address add 10.7.0.1/24 dev peer
  ip -n there link set lo up
  printf '[Match]\nName=net0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' >"$config/10-net0.network"
  ip netns exec there dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --interface=peer --bind-dynamic \
    --no-ping --user=root --pid-file= --dhcp-leasefile=/run/leases --dhcp-authoritative \
    --dhcp-range=10.7.0.100,10.7.0.100,255.255.255.0,2m >/run/dnsmasq 2>&1 &
  local server=$! i
  for ((i = 0; i < count; ++i)); do onePlug; done | sort -n |
    awk '{ t[NR] = $1 / 1000 } END { if (NR == 0) exit 1
      printf "{\"runs\":%d,\"p50ms\":%.1f,\"p99ms\":%.1f}\n", NR, t[int((NR + 1) / 2)], t[int((NR - 1) * 0.99) + 1] }'
  kill "$server"
}

case $what in
  links) count=${count:-1000}; links ;;
  dhcp) count=${count:-20}; dhcp ;;
  *) echo "systemd-networkd.sh: '$what' is neither links nor dhcp" >&2; exit 2 ;;
esac
