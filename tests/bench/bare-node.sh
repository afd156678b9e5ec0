#!/bin/bash
# Process 1 of a bare node:  bare-node.sh ROOT FOLDER NAME ADDRESS GATEWAY [ETCD-MEMBERS]
# kubernetes-bare.sh starts it in namespaces of its own, the network is there. The node's root is an overlay of ROOT, with
# FOLDER/etc laid over it; /var is FOLDER/var, on the host's disk. It runs containerd, the kubelet and, with ETCD-MEMBERS,
# etcd, by hand, and ends when one of them does. All of it ends with this process.
set -euo pipefail
root=$1 folder=$2 name=$3 address=$4 gateway=$5 members=${6:-}
exec >"$folder/console.log" 2>&1
hostname "$name"
tree=$folder/tree
mkdir -p "$folder"/{upper,work,tree,var/lib,var/log,var/tmp}
mount -t overlay overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" "$tree"
mount --bind "$folder/var" "$tree/var"
cd "$tree"
mkdir -p proc sys dev run tmp old etc/kubernetes etc/containerd etc/cni/net.d opt/cni/bin usr/local/bin lib/modules
ln -sfn /run var/run
cp -r "$folder/etc/." etc/
mount -t proc proc proc
mount -t sysfs sysfs sys
# This process is in a group of its own of each hierarchy, which the namespace makes their root.
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
  mkdir sys/fs/cgroup/init   # where there are groups below, a group has no processes
  echo $$ >sys/fs/cgroup/init/cgroup.procs
else
  mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
  while IFS=: read -r _ controllers _; do
    case $controllers in "") continue ;; name=*) options=none,$controllers ;; *) options=$controllers ;; esac
    mkdir "sys/fs/cgroup/${controllers#name=}"
    mount -t cgroup -o "$options" cgroup "sys/fs/cgroup/${controllers#name=}"
  done </proc/self/cgroup
fi
mount -t tmpfs -o mode=755 dev dev
for device in null zero full random urandom tty kmsg fuse; do
  [ -e /dev/$device ] || continue
  touch dev/$device
  mount --bind /dev/$device dev/$device
done
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs shm dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 run run
mount -t tmpfs tmp tmp
# The kubelet sets parameters of the whole machine; here it finds them as it wants them, and the host keeps its own.
for parameter in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 \
  kernel/keys/root_maxbytes=25000000; do
  file=run/parameters/${parameter%=*}
  mkdir -p "${file%/*}"
  echo "${parameter#*=}" >"$file"
  mount --bind "$file" "proc/sys/${parameter%=*}"
done
echo 1 >proc/sys/net/ipv4/ip_forward
[ ! -e proc/sys/net/bridge/bridge-nf-call-iptables ] || echo 1 >proc/sys/net/bridge/bridge-nf-call-iptables
rm -f etc/resolv.conf
echo "nameserver $gateway" >etc/resolv.conf
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$name" >etc/hosts
touch usr/local/bin/kubelet
mount --bind "$folder/kubelet" usr/local/bin/kubelet
pivot_root . old
cd /
umount -l /old
mount --make-rshared /
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

containerd >/var/log/containerd.log 2>&1 &
if [ -n "$members" ]; then
  etcd --name "$name" --data-dir /var/lib/etcd --initial-cluster "$members" \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls "http://$address:2380" --initial-advertise-peer-urls "http://$address:2380" >/var/log/etcd.log 2>&1 &
fi
until [ -S /run/containerd/containerd.sock ]; do sleep 0.02; done
kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig --hostname-override="$name" \
  --node-ip="$address" >/var/log/kubelet.log 2>&1 &
wait -n
echo "one of the node's programs has ended"
