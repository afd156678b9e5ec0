# The peer of tests/bench/kubernetes.sh: Kubernetes started by hand with the fewest flags, as nobody would run it: no rights
# of users, no TLS towards etcd, certificates that exist before the start, no joining. Sourced with $root, $checkout, $scratch
# and $programs set, in a network and mount namespace of the script. A node is namespaces with a root of an overlay of
# the build root (bare-node.sh), whose containerd, runc and etcd are those of a node's image; kubelet, images and
# manifests are those that our nodes have, too.

ip() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/ip" "$@"; }
ssl() { "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/openssl" "$@"; }

bare_address() { echo "10.5.0.$(($1 + 1))"; }   # of the node with that number, from 1; control planes first
bare_name() { [ "$1" -gt "$bare_masters" ] && echo "bare-worker-$(($1 - bare_masters))" || echo "bare-master-$1"; }

bare_signed() {  # bare_signed FILE SUBJECT NAMES: FILE.key and FILE.crt of the CA
  ssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
  ssl req -new -key "$1.key" -subj "$2" -addext "subjectAltName=$3" -out "$1.csr"
  ssl x509 -req -in "$1.csr" -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 2 -copy_extensions copy -out "$1.crt"
}
bare_kubeconfig() {  # bare_kubeconfig FILE SERVER CERTIFICATE
  jq -n --arg server "https://$2:6443" --arg ca "$(base64 -w0 <"$pki/ca.crt")" --arg crt "$(base64 -w0 <"$3.crt")" \
    --arg key "$(base64 -w0 <"$3.key")" '{apiVersion: "v1", kind: "Config", "current-context": "bare",
      clusters: [{name: "bare", cluster: {server: $server, "certificate-authority-data": $ca}}],
      users: [{name: "bare", user: {"client-certificate-data": $crt, "client-key-data": $key}}],
      contexts: [{name: "bare", context: {cluster: "bare", user: "bare"}}]}' >"$1"
}
bare_pod() {  # bare_pod FOLDER NAME ARGUMENTS…: a static pod
  jq -n --arg name "$2" --arg image "registry.k8s.io/$2:v$release" '{apiVersion: "v1", kind: "Pod",
    metadata: {name: $name, namespace: "kube-system"}, spec: {hostNetwork: true, priorityClassName: "system-node-critical",
      containers: [{name: $name, image: $image, command: (["/usr/local/bin/" + $name] + $ARGS.positional),
        volumeMounts: [{name: "files", mountPath: "/etc/kubernetes", readOnly: true}]}],
      volumes: [{name: "files", hostPath: {path: "/etc/kubernetes"}}]}}' --args -- "${@:3}" >"$1/$2.yaml"
}
bare_files() {  # bare_files NUMBER: what the node finds below /etc
  local name address etc server
  name=$(bare_name "$1") address=$(bare_address "$1")
  etc=$bare/$name/etc
  mkdir -p "$etc/kubernetes/manifests" "$etc/containerd/certs.d/_default"
  ln -s "$programs/kubelet" "$bare/$name/kubelet"
  printf '[host."http://10.5.0.1:5000"]\ncapabilities = ["pull", "resolve"]\n' >"$etc/containerd/certs.d/_default/hosts.toml"
  cat >"$etc/containerd/config.toml" <<'END'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d"
END
  cp "$pki/ca.crt" "$etc/kubernetes/ca.crt"
  jq -n '{apiVersion: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration", staticPodPath: "/etc/kubernetes/manifests",
    authentication: {x509: {clientCAFile: "/etc/kubernetes/ca.crt"}}, clusterDomain: "cluster.local", clusterDNS: ["10.96.0.10"],
    cgroupDriver: "cgroupfs", serializeImagePulls: false, failSwapOn: false, failCgroupV1: false, evictionHard: {"memory.available": "100Mi"},
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock"}' >"$etc/kubernetes/kubelet.yaml"
  bare_signed "$pki/$name" "/O=system:nodes/CN=system:node:$name" "DNS:$name" 2>>"$scratch/openssl.log"
  server=$(bare_address 1)
  [ "$1" -gt "$bare_masters" ] || server=$address
  bare_kubeconfig "$etc/kubernetes/kubelet.kubeconfig" "$server" "$pki/$name"
  [ "$1" -le "$bare_masters" ] || return 0
  cp "$pki"/{apiserver,sa}.key "$pki/apiserver.crt" "$pki/sa.pub" "$etc/kubernetes/"
  bare_kubeconfig "$etc/kubernetes/admin.kubeconfig" "$address" "$pki/admin"
  local at=/etc/kubernetes
  bare_pod "$etc/kubernetes/manifests" kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address="$address" \
    --allow-privileged=true --authorization-mode=Node,RBAC --client-ca-file=$at/ca.crt --service-cluster-ip-range=10.96.0.0/12 \
    --tls-cert-file=$at/apiserver.crt --tls-private-key-file=$at/apiserver.key --service-account-issuer=https://bare \
    --service-account-key-file=$at/sa.pub --service-account-signing-key-file=$at/sa.key
  bare_pod "$etc/kubernetes/manifests" kube-controller-manager --kubeconfig=$at/admin.kubeconfig --allocate-node-cidrs=true \
    --cluster-cidr=10.244.0.0/16 --service-account-private-key-file=$at/sa.key --root-ca-file=$at/ca.crt
  bare_pod "$etc/kubernetes/manifests" kube-scheduler --kubeconfig=$at/admin.kubeconfig
}

# The work before the start, which is timed: certificates, files, manifests. $bare/kubeconfig is the client's.
bare_prepare() {  # bare_prepare MASTERS WORKERS
  bare_masters=$1 bare_nodes=$(($1 + $2)) bare=$scratch/bare pki=$scratch/bare/pki
  rm -rf "$bare"
  mkdir -p "$pki"
  local i names="DNS:kubernetes.default.svc,IP:10.96.0.1,IP:127.0.0.1"
  bare_members=
  for i in $(seq "$1"); do
    names+=,IP:$(bare_address "$i")
    bare_members+=${bare_members:+,}$(bare_name "$i")=http://$(bare_address "$i"):2380
  done
  {
    ssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=bare -days 2 -keyout "$pki/ca.key" -out "$pki/ca.crt" &&
      bare_signed "$pki/apiserver" /CN=kube-apiserver "$names" &&
      bare_signed "$pki/admin" /O=system:masters/CN=admin DNS:admin &&
      ssl genrsa -out "$pki/sa.key" 2048 &&
      ssl rsa -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
  } >"$scratch/openssl.log" 2>&1 || { cat "$scratch/openssl.log" >&2; return 1; }
  bare_kubeconfig "$bare/kubeconfig" "$(bare_address 1)" "$pki/admin"
  # Network of pods, kube-proxy and CoreDNS as our nodes begin with them; a list in the place of each object.
  awk '/^# 05-/ { wanted = 1 } wanted' "$checkout/machined/kubernetes/manifests/testdata/1.34.yaml" |
    sed -e 's/^- /---\n/' -e 's/^  //' -e "s/10\.5\.0\.1\(:6443\|\$\)/$(bare_address 1)\1/" -e "s/1\.34\.4/$release/" >"$bare/manifests.yaml"
  for i in $(seq "$bare_nodes"); do bare_files "$i"; done
  ip link add segment address 02:00:0a:05:00:01 type bridge
  ip address add 10.5.0.1/24 dev segment
  ip link set segment up
}

bare_groups() {  # the node's group in each hierarchy of cgroups that this host has
  if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
    echo "/sys/fs/cgroup/bare-$$-$1"
  else
    local controllers
    while IFS=: read -r _ controllers _; do
      [ -z "$controllers" ] || echo "/sys/fs/cgroup/${controllers#name=}/bare-$$-$1"
    done </proc/self/cgroup
  fi
}

bare_start() {  # the node with that number
  local name address members=
  name=$(bare_name "$1") address=$(bare_address "$1")
  [ "$1" -gt "$bare_masters" ] || members=$bare_members
  ip netns add "$name"
  ip link add "v$1" type veth peer name eth0 netns "$name"
  ip link set "v$1" master segment up
  ip -n "$name" link set lo up
  ip -n "$name" address add "$address/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" route add default via 10.5.0.1
  (
    for group in $(bare_groups "$name"); do
      mkdir -p "$group"
      for file in cpuset.cpus cpuset.mems; do
        [ ! -e "$group/$file" ] || [ -n "$(<"$group/$file")" ] || cat "$group/../$file" >"$group/$file"
      done
      echo "$BASHPID" >"$group/cgroup.procs"
    done
    exec nsenter --net="/run/netns/$name" unshare --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
      "$checkout/tests/bench/bare-node.sh" "$root" "$bare/$name" "$name" "$address" 10.5.0.1 $members
  ) &
  echo $! >"$bare/$name/pid"
}
bare_namespace() { echo "/run/netns/$(bare_name "$bare_nodes")"; }   # of the last node's network

bare_destroy() {
  [ -n "${bare_nodes:-}" ] || return 0
  local i name pid group
  for i in $(seq "$bare_nodes"); do
    name=$(bare_name "$i")
    if pid=$(cat "$bare/$name/pid" 2>/dev/null); then
      kill -9 "$pid" 2>/dev/null || true
      wait "$pid" 2>/dev/null || true
    fi
    for group in $(bare_groups "$name"); do
      # Processes that were killed are gone from it a moment later.
      for _ in $(seq 100); do
        [ -e "$group" ] || break
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
      done
    done
    ip netns del "$name" 2>/dev/null || true
    # It goes with the namespace, but only when the last process that is stuck in it has gone.
    ip link del "v$i" 2>/dev/null || true
  done
  ip link del segment 2>/dev/null || true
  bare_nodes=
  rm -rf "$bare"
}
