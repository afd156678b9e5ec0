// Examples of the commands, as help and man pages show them: lines that a shell takes. Each is
// parsed by a test with the command's own flags.
#include <kj/debug.h>

#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

struct Example {
  kj::StringPtr command;  // path without "talosctl"
  kj::StringPtr lines;
};

constexpr Example kExamples[] = {
    {"apply"_kj, "talosctl -n 10.0.0.2 apply -f worker.yaml"_kj},
    {"apply-config"_kj,
     "talosctl -n 10.0.0.2 apply-config --insecure -f controlplane.yaml\n"
     "talosctl -n 10.0.0.2 apply-config -f controlplane.yaml --mode try"_kj},
    {"bootstrap"_kj,
     "talosctl -n 10.0.0.2 bootstrap\n"
     "talosctl -n 10.0.0.2 bootstrap --recover-from etcd.snapshot"_kj},
    {"cgroups"_kj, "talosctl -n 10.0.0.2 cgroups --preset memory"_kj},
    {"cluster console"_kj, "talosctl cluster console talos-default-worker-1 -f"_kj},
    {"cluster create"_kj, "talosctl cluster create --controlplanes 3 --workers 2"_kj},
    {"cluster destroy"_kj, "talosctl cluster destroy --name talos-default"_kj},
    {"cluster list"_kj, "talosctl cluster list"_kj},
    {"cluster node kill"_kj, "talosctl cluster node kill talos-default-worker-1"_kj},
    {"cluster node pause"_kj, "talosctl cluster node pause talos-default-worker-1"_kj},
    {"cluster node reset"_kj, "talosctl cluster node reset talos-default-worker-1"_kj},
    {"cluster node resume"_kj, "talosctl cluster node resume talos-default-worker-1"_kj},
    {"cluster node start"_kj, "talosctl cluster node start talos-default-worker-1"_kj},
    {"cluster node stop"_kj, "talosctl cluster node stop talos-default-worker-1"_kj},
    {"cluster recover"_kj,
     "talosctl -n 10.0.0.2,10.0.0.3,10.0.0.4 cluster recover etcd.snapshot --dry-run"_kj},
    {"cluster show"_kj, "talosctl cluster show -o json"_kj},
    {"cluster start"_kj, "talosctl cluster start"_kj},
    {"cluster stop"_kj, "talosctl cluster stop"_kj},
    {"completion"_kj, "talosctl completion bash >/etc/bash_completion.d/talosctl"_kj},
    {"config add"_kj, "talosctl config add site2 --ca ca.crt --crt admin.crt --key admin.key"_kj},
    {"config context"_kj, "talosctl config context site2"_kj},
    {"config contexts"_kj, "talosctl config contexts"_kj},
    {"config endpoint"_kj, "talosctl config endpoint 10.0.0.2 10.0.0.3 10.0.0.4"_kj},
    {"config info"_kj, "talosctl config info"_kj},
    {"config merge"_kj, "talosctl config merge ./talosconfig"_kj},
    {"config new"_kj, "talosctl config new reader.yaml --roles os:reader --crt-ttl 24h"_kj},
    {"config node"_kj, "talosctl config node 10.0.0.2"_kj},
    {"config remove"_kj,
     "talosctl config remove old-site\n"
     "talosctl config remove 'test-*' --dry-run"_kj},
    {"config rename"_kj, "talosctl config rename admin@site site"_kj},
    {"config renew"_kj, "talosctl config renew"_kj},
    {"confirm-upgrade"_kj, "talosctl -n 10.0.0.2 confirm-upgrade"_kj},
    {"containers"_kj, "talosctl -n 10.0.0.2 containers -k"_kj},
    {"convert-k8s"_kj, "talosctl -n 10.0.0.2 convert-k8s"_kj},
    {"copy"_kj,
     "talosctl -n 10.0.0.2 copy /var/log/pods ./pods\n"
     "talosctl -n 10.0.0.2 copy /etc - | tar tz"_kj},
    {"cordon"_kj, "talosctl -n 10.0.0.5 cordon"_kj},
    {"crashdump"_kj,
     "talosctl crashdump --control-plane-nodes 10.0.0.2 --worker-nodes 10.0.0.5"_kj},
    {"crashes"_kj,
     "talosctl -n 10.0.0.2 crashes\n"
     "talosctl -n 10.0.0.2 crashes apid-20260301T120000Z"_kj},
    {"dashboard"_kj,
     "talosctl dashboard\n"
     "talosctl dashboard --web\n"
     "talosctl -n 10.0.0.2 dashboard --once"_kj},
    {"debug call"_kj, "talosctl debug call /proc/1234/root/run/talos/machined.sock node"_kj},
    {"debug cores"_kj, "talosctl -n 10.0.0.2 debug cores apid on"_kj},
    {"debug log-level"_kj, "talosctl -n 10.0.0.2 debug log-level apid debug"_kj},
    {"debug profile"_kj, "talosctl -n 10.0.0.2 debug profile apid --length 30s"_kj},
    {"debug replace"_kj, "talosctl -n 10.0.0.2 debug replace apid build/out/apid"_kj},
    {"debug stack"_kj, "talosctl -n 10.0.0.2 debug stack apid"_kj},
    {"diagnose"_kj, "talosctl diagnose"_kj},
    {"disks"_kj, "talosctl -n 10.0.0.2 disks --insecure"_kj},
    {"dmesg"_kj,
     "talosctl -n 10.0.0.2 dmesg -f --tail\n"
     "talosctl -n 10.0.0.2 dmesg -f --grep oom"_kj},
    {"docs"_kj, "talosctl docs ./man"_kj},
    {"drain"_kj, "talosctl -n 10.0.0.5 drain --ignore-daemonsets"_kj},
    {"edit"_kj, "talosctl -n 10.0.0.2 edit machineconfig"_kj},
    {"encryption recovery-key"_kj, "talosctl -n 10.0.0.2 encryption recovery-key STATE 7"_kj},
    {"etcd alarm disarm"_kj, "talosctl -n 10.0.0.2 etcd alarm disarm"_kj},
    {"etcd alarm list"_kj, "talosctl -n 10.0.0.2 etcd alarm list"_kj},
    {"etcd defrag"_kj, "talosctl -n 10.0.0.2 etcd defrag"_kj},
    {"etcd forfeit-leadership"_kj, "talosctl -n 10.0.0.2 etcd forfeit-leadership"_kj},
    {"etcd leave"_kj, "talosctl -n 10.0.0.4 etcd leave"_kj},
    {"etcd members"_kj, "talosctl -n 10.0.0.2 etcd members"_kj},
    {"etcd remove-member"_kj, "talosctl -n 10.0.0.2 etcd remove-member cp-3"_kj},
    {"etcd snapshot"_kj,
     "talosctl -n 10.0.0.2 etcd snapshot etcd.snapshot\n"
     "talosctl -n 10.0.0.2 etcd snapshot ./backups --every 1h --keep 48"_kj},
    {"etcd status"_kj, "talosctl -n 10.0.0.2,10.0.0.3,10.0.0.4 etcd status"_kj},
    {"events"_kj,
     "talosctl -n 10.0.0.2 events --tail 20\n"
     "talosctl -n 10.0.0.2 events --duration 1h --once"_kj},
    {"gen ca"_kj, "talosctl gen ca --organization example"_kj},
    {"gen config"_kj,
     "talosctl gen config site1 https://10.0.0.10:6443\n"
     "talosctl gen config site1 https://10.0.0.10:6443 --config-patch @patch.yaml"_kj},
    {"gen crt"_kj, "talosctl gen crt --ca example --csr admin.csr --name admin"_kj},
    {"gen csr"_kj, "talosctl gen csr --key admin.key --ip 127.0.0.1"_kj},
    {"gen key"_kj, "talosctl gen key --name admin"_kj},
    {"gen keypair"_kj, "talosctl gen keypair --organization example --ip 10.0.0.10"_kj},
    {"gen secrets"_kj, "talosctl gen secrets -o secrets.yaml"_kj},
    {"get"_kj,
     "talosctl -n 10.0.0.2 get members\n"
     "talosctl -n 10.0.0.2 get services kubelet -o yaml\n"
     "talosctl -n 10.0.0.2 get links -w"_kj},
    {"health"_kj, "talosctl -n 10.0.0.2 health --wait-timeout 10m"_kj},
    {"help"_kj, "talosctl help etcd snapshot"_kj},
    {"image default"_kj, "talosctl image default"_kj},
    {"image list"_kj, "talosctl -n 10.0.0.2 image list"_kj},
    {"image pull"_kj, "talosctl -n 10.0.0.2 image pull registry.k8s.io/pause:3.10"_kj},
    {"images"_kj, "talosctl images"_kj},
    {"inject serviceaccount"_kj,
     "talosctl inject serviceaccount -f pod.yaml --roles os:reader | kubectl apply -f -"_kj},
    {"inspect dependencies"_kj,
     "talosctl -n 10.0.0.2 inspect dependencies --with-resources | dot -Tsvg >resources.svg"_kj},
    {"interfaces"_kj, "talosctl -n 10.0.0.2 interfaces"_kj},
    {"kubeconfig"_kj,
     "talosctl -n 10.0.0.2 kubeconfig\n"
     "talosctl -n 10.0.0.2 kubeconfig ./kubeconfig --merge=false"_kj},
    {"list"_kj, "talosctl -n 10.0.0.2 list -l /var/log"_kj},
    {"logs"_kj,
     "talosctl -n 10.0.0.2 logs kubelet --tail 100\n"
     "talosctl -n 10.0.0.2 logs etcd -f\n"
     "talosctl -n 10.0.0.2 logs -k kube-system/kube-proxy-x7k2p:kube-proxy"_kj},
    {"machineconfig gen"_kj, "talosctl machineconfig gen site1 https://10.0.0.10:6443"_kj},
    {"machineconfig patch"_kj,
     "talosctl machineconfig patch worker.yaml -p @patch.yaml -o patched.yaml"_kj},
    {"memory"_kj, "talosctl -n 10.0.0.2,10.0.0.3 memory"_kj},
    {"meta delete"_kj, "talosctl -n 10.0.0.2 meta delete 10"_kj},
    {"meta read"_kj, "talosctl -n 10.0.0.2 meta read"_kj},
    {"meta write"_kj, "talosctl -n 10.0.0.2 meta write 10 text"_kj},
    {"mounts"_kj, "talosctl -n 10.0.0.2 mounts"_kj},
    {"netstat"_kj, "talosctl -n 10.0.0.2 netstat -l -t -p"_kj},
    {"patch"_kj,
     "talosctl -n 10.0.0.2 patch mc -p @patch.yaml\n"
     "talosctl -n 10.0.0.2 patch mc -p '{\"debug\":true}' --dry-run"_kj},
    {"pcap"_kj, "talosctl -n 10.0.0.2 pcap -i eth0 --duration 30s -o packets.pcap"_kj},
    {"processes"_kj, "talosctl -n 10.0.0.2 processes --sort cpu -w"_kj},
    {"read"_kj, "talosctl -n 10.0.0.2 read /etc/resolv.conf"_kj},
    {"reboot"_kj, "talosctl -n 10.0.0.2 reboot"_kj},
    {"reset"_kj, "talosctl -n 10.0.0.5 reset --remove-node --reboot"_kj},
    {"restart"_kj, "talosctl -n 10.0.0.2 restart -k kube-system/kube-proxy-x7k2p:kube-proxy"_kj},
    {"rollback"_kj, "talosctl -n 10.0.0.2 rollback"_kj},
    {"rotate-ca"_kj, "talosctl rotate-ca --dry-run"_kj},
    {"routes"_kj, "talosctl -n 10.0.0.2 routes"_kj},
    {"service"_kj,
     "talosctl -n 10.0.0.2 service\n"
     "talosctl -n 10.0.0.2 service kubelet restart"_kj},
    {"shutdown"_kj, "talosctl -n 10.0.0.5 shutdown"_kj},
    {"stats"_kj, "talosctl -n 10.0.0.2 stats -k"_kj},
    {"status"_kj, "talosctl -n 10.0.0.2 status"_kj},
    {"support"_kj, "talosctl -n 10.0.0.2,10.0.0.5 support"_kj},
    {"time"_kj, "talosctl -n 10.0.0.2 time"_kj},
    {"token create"_kj, "talosctl -n 10.0.0.2 token create --ttl 24h --hostname worker-3"_kj},
    {"token list"_kj, "talosctl -n 10.0.0.2 token list"_kj},
    {"token revoke"_kj, "talosctl -n 10.0.0.2 token revoke abcdef"_kj},
    {"uncordon"_kj, "talosctl -n 10.0.0.5 uncordon"_kj},
    {"upgrade"_kj,
     "talosctl -n 10.0.0.2 upgrade --image registry.example.com/talos/installer:v1.2.0 --preserve\n"
     "talosctl -n 10.0.0.2 upgrade --image ./installer.tar --preserve"_kj},
    {"upgrade-cluster"_kj,
     "talosctl upgrade-cluster --image registry.example.com/talos/installer:v1.2.0 --dry-run"_kj},
    {"upgrade-k8s"_kj, "talosctl -n 10.0.0.2 upgrade-k8s --to 1.34.4 --dry-run"_kj},
    {"usage"_kj, "talosctl -n 10.0.0.2 usage -H -d 2 /var"_kj},
    {"validate"_kj, "talosctl validate -c controlplane.yaml -m metal"_kj},
    {"version"_kj, "talosctl -n 10.0.0.2 version"_kj},
    {"wipe disk"_kj, "talosctl -n 10.0.0.5 wipe disk vdb"_kj},
};

}  // namespace

void addExamples(Command& root) {
  for (auto& example : kExamples) {
    KJ_IF_MAYBE (command, commandAt(root, example.command)) command->examples = example.lines;
  }
}

}  // namespace talos::talosctl
