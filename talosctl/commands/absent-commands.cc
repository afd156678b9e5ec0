// Commands of the documents that this program lacks. Each reports that it is missing and what to
// use instead; it is neither an unknown word nor a half-done command. They are hidden from help and
// completion.
//
// Flags of Talos' clients, of 0.9 and of today, that have no meaning in this system. Each
// is refused with its reason; it is neither unknown nor ignored. A value that requests nothing
// (false, an empty value, Talos' default) is accepted, because scripts pass it.
#include <kj/debug.h>

#include "common/base/error.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

struct Absent {
  kj::StringPtr name, instead;
};

constexpr Absent kAbsent[] = {
    {"conformance"_kj, "run Hydrophone or Sonobuoy with the kubeconfig"_kj},
    {"gen secureboot"_kj, "no image is signed for secure boot"_kj},
    {"image source-bundle"_kj, "use \"image default\" and a tool that copies images"_kj},
    {"image k8s-bundle"_kj, "use \"image default\" and a tool that copies images"_kj},
    {"recover"_kj, "use \"bootstrap --recover-from\""_kj},
};

kj::Promise<int> runAbsent(Invocation& call) {
  for (auto& absent : kAbsent) {
    if (!kj::str(call.command.path(), " ").endsWith(kj::str(" ", absent.name, " "))) continue;
    fail(ErrorKind::kUnimplemented,
         kj::str("\"", call.command.path(),
                 "\" is not available in this version of talosctl: ", absent.instead));
  }
  KJ_UNREACHABLE;
}

struct RefusedFlag {
  kj::StringPtr name, letter;
  FlagKind kind;
  kj::StringPtr fallback;  // Talos' default
  kj::StringPtr reason;
};

struct RefusedFlags {
  kj::StringPtr command;  // path of the command; empty: every command
  kj::ArrayPtr<const RefusedFlag> flags;
};

constexpr auto kSwitch = FlagKind::kBool;
constexpr auto kText = FlagKind::kText;
constexpr auto kList = FlagKind::kList;

constexpr kj::StringPtr kConsole = "follow the kernel's log with \"dmesg -f\""_kj;
constexpr kj::StringPtr kRepository =
    "an image keeps the repository that the machine configs name, and gets another tag; change it "
    "with \"patch mc\""_kj;
constexpr kj::StringPtr kWithoutConfig =
    "a node without a config answers version, status, disks, interfaces, gen config and "
    "apply-config only"_kj;
constexpr kj::StringPtr kDiscovery =
    "there is no discovery service; nodes find each other by etcd and Kubernetes"_kj;
constexpr kj::StringPtr kChaos =
    "the network of a cluster is not disturbed by this program; use tc(8) in its network namespace"_kj;
constexpr kj::StringPtr kInteractive =
    "generate a config with \"gen config --insecure\" and edit it"_kj;
constexpr kj::StringPtr kComments = "a config keeps the comments that it has"_kj;

constexpr RefusedFlag kOfEveryCommand[] = {
    {"cluster"_kj, ""_kj, kText, ""_kj,
     "an endpoint is a node of its cluster, not a proxy of several; use --context"_kj},
};
constexpr RefusedFlag kOfApplyConfig[] = {
    {"interactive"_kj, ""_kj, kSwitch, ""_kj, kInteractive},
};
constexpr RefusedFlag kOfCgroups[] = {
    {"schema-file"_kj, ""_kj, kText, ""_kj,
     "columns are chosen by --preset; -o json has every figure"_kj},
};
constexpr RefusedFlag kOfClusterCreate[] = {
    {"bad-rtc"_kj, ""_kj, kSwitch, ""_kj,
     "use --clock, which sets the clock that the nodes start with"_kj},
    {"config-injection-method"_kj, ""_kj, kText, ""_kj,
     "a node gets its config from the server of the cluster, as it would from its platform"_kj},
    {"control-plane-port"_kj, ""_kj, kText, "6443"_kj, "the API server listens on 6443"_kj},
    {"cpus-workers"_kj, ""_kj, kText, "2.0"_kj, "all nodes have the same --cpus"_kj},
    {"disable-dhcp-hostname"_kj, ""_kj, kSwitch, ""_kj, "names of nodes are in their configs"_kj},
    {"disk-block-size"_kj, ""_kj, kText, "512"_kj,
     "disks of virtual machines have blocks of 512 bytes"_kj},
    {"disk-encryption-key-types"_kj, ""_kj, kList, "uuid"_kj,
     "--encrypt-state and --encrypt-ephemeral use the node id; set other keys with --config-patch"_kj},
    {"disk-preallocate"_kj, ""_kj, kSwitch, ""_kj, "disks are sparse files"_kj},
    {"docker-disable-ipv6"_kj, ""_kj, kSwitch, ""_kj, "nodes in containers need no Docker"_kj},
    {"extra-disks"_kj, ""_kj, kText, "0"_kj, "use --user-disk for another partition of a node"_kj},
    {"extra-disks-drivers"_kj, ""_kj, kList, ""_kj,
     "use --user-disk for another partition of a node"_kj},
    {"extra-disks-size"_kj, ""_kj, kText, "5120"_kj,
     "use --user-disk for another partition of a node"_kj},
    {"extra-uefi-search-paths"_kj, ""_kj, kList, ""_kj,
     "the firmware is that of the build; see --qemu-root"_kj},
    {"ipxe-boot-script"_kj, ""_kj, kText, ""_kj,
     "virtual machines start from --vmlinuz-path, --iso-path or their disk"_kj},
    {"kubeprism-port"_kj, ""_kj, kText, "7445"_kj,
     "set machine.features.kubePrism with --config-patch"_kj},
    {"memory-workers"_kj, ""_kj, kText, "2048"_kj, "all nodes have the same --memory"_kj},
    {"mount"_kj, ""_kj, kText, ""_kj, "nodes share no folder with this host"_kj},
    {"no-masquerade-cidrs"_kj, ""_kj, kList, ""_kj,
     "the network of a cluster is left through a program, not by rules of this host"_kj},
    {"skip-k8s-node-readiness-check"_kj, ""_kj, kSwitch, ""_kj,
     "leave it out: nodes of Kubernetes are waited for only with --wait-kubernetes"_kj},
    {"usb-path"_kj, ""_kj, kText, ""_kj, "use --iso-path"_kj},
    {"with-cluster-discovery"_kj, ""_kj, kSwitch, ""_kj, kDiscovery},
    {"with-firewall"_kj, ""_kj, kText, ""_kj,
     "apply configs with the documents NetworkDefaultActionConfig and NetworkRuleConfig"_kj},
    {"with-json-logs"_kj, ""_kj, kSwitch, ""_kj,
     "set machine.logging with --config-patch, or use \"logs -f\""_kj},
    {"with-kubespan"_kj, ""_kj, kSwitch, ""_kj, "use --wireguard-cidr"_kj},
    {"with-network-bandwidth"_kj, ""_kj, kText, "0"_kj, kChaos},
    {"with-network-chaos"_kj, ""_kj, kSwitch, ""_kj, kChaos},
    {"with-network-jitter"_kj, ""_kj, kText, ""_kj, kChaos},
    {"with-network-latency"_kj, ""_kj, kText, ""_kj, kChaos},
    {"with-network-packet-corrupt"_kj, ""_kj, kText, ""_kj, kChaos},
    {"with-network-packet-loss"_kj, ""_kj, kText, ""_kj, kChaos},
    {"with-network-packet-reorder"_kj, ""_kj, kText, ""_kj, kChaos},
    {"with-siderolink"_kj, ""_kj, kText, "none"_kj, "nodes do not know SideroLink"_kj},
    {"with-tpm2"_kj, ""_kj, kSwitch, ""_kj, "virtual machines have no TPM"_kj},
    {"with-uuid-hostnames"_kj, ""_kj, kSwitch, ""_kj, "names of nodes are in their configs"_kj},
};
constexpr RefusedFlag kOfClusterDestroy[] = {
    {"force"_kj, "f"_kj, kSwitch, ""_kj, "what is left of a cluster is always removed"_kj},
    {"save-cluster-logs-archive-path"_kj, ""_kj, kText, ""_kj,
     "\"support\" makes an archive with the consoles of a local cluster"_kj},
    {"save-support-archive-path"_kj, ""_kj, kText, ""_kj, "use \"support\" before"_kj},
};
constexpr RefusedFlag kOfEvents[] = {
    {"actor-id"_kj, ""_kj, kText, ""_kj, "events here have no actor"_kj},
};
constexpr RefusedFlag kOfGenConfig[] = {
    {"with-cluster-discovery"_kj, ""_kj, kSwitch, ""_kj, kDiscovery},
    {"with-kubespan"_kj, ""_kj, kSwitch, ""_kj,
     "nodes have no KubeSpan; set WireGuard links in machine.network"_kj},
};
constexpr RefusedFlag kOfImageCache[] = {
    {"cosign-signatures"_kj, ""_kj, kSwitch, "true"_kj,
     "signatures of images are not kept in a cache; nodes verify the installer image only"_kj},
    {"image-layer-cache-path"_kj, ""_kj, kText, ""_kj,
     "blobs that are in the folder are not fetched again"_kj},
};
constexpr RefusedFlag kOfImagePull[] = {
    {"namespace"_kj, ""_kj, kText, "cri"_kj,
     "a node has one store for all images, that of the CRI"_kj},
};
constexpr RefusedFlag kOfGet[] = {
    {"insecure"_kj, "i"_kj, kSwitch, ""_kj, kWithoutConfig},
};
constexpr RefusedFlag kOfNetstat[] = {
    {"timers"_kj, ""_kj, kSwitch, ""_kj, "nodes do not report timers of sockets"_kj},
    {"verbose"_kj, "v"_kj, kSwitch, ""_kj, "-o json has every field of a socket"_kj},
};
constexpr RefusedFlag kOfReboot[] = {
    {"debug"_kj, ""_kj, kSwitch, ""_kj, kConsole},
};
constexpr RefusedFlag kOfReset[] = {
    {"debug"_kj, ""_kj, kSwitch, ""_kj, kConsole},
    {"insecure"_kj, ""_kj, kSwitch, ""_kj, kWithoutConfig},
    {"user-disks-to-wipe"_kj, ""_kj, kList, ""_kj, "a reset erases the system disk only"_kj},
};
constexpr RefusedFlag kOfSupport[] = {
    {"verbose"_kj, "v"_kj, kSwitch, ""_kj,
     "each step is a line on stderr as it is, where that is not a terminal"_kj},
};
constexpr RefusedFlag kOfUpgrade[] = {
    {"debug"_kj, ""_kj, kSwitch, ""_kj, kConsole},
    {"insecure"_kj, ""_kj, kSwitch, ""_kj,
     "a node without a config is installed by \"apply-config --insecure\""_kj},
};
constexpr RefusedFlag kOfUpgradeK8s[] = {
    {"apiserver-image"_kj, ""_kj, kText, "registry.k8s.io/kube-apiserver"_kj, kRepository},
    {"controller-manager-image"_kj, ""_kj, kText, "registry.k8s.io/kube-controller-manager"_kj,
     kRepository},
    {"scheduler-image"_kj, ""_kj, kText, "registry.k8s.io/kube-scheduler"_kj, kRepository},
    {"proxy-image"_kj, ""_kj, kText, "registry.k8s.io/kube-proxy"_kj, kRepository},
    {"kubelet-image"_kj, ""_kj, kText, "ghcr.io/siderolabs/kubelet"_kj, kRepository},
    {"pre-pull-images"_kj, ""_kj, kSwitch, "true"_kj,
     "images are always pulled before anything is changed"_kj},
    {"with-docs"_kj, ""_kj, kSwitch, "true"_kj, kComments},
    {"with-examples"_kj, ""_kj, kSwitch, "true"_kj, kComments},
};

constexpr RefusedFlag kOfRotateCa[] = {
    {"k8s-endpoint"_kj, ""_kj, kText, ""_kj, "the nodes ask their own API servers"_kj},
    {"with-docs"_kj, ""_kj, kSwitch, "true"_kj, kComments},
    {"with-examples"_kj, ""_kj, kSwitch, "true"_kj, kComments},
};

constexpr kj::StringPtr kChecked =
    "what uses a device is always checked; end its use, or remove it from the config"_kj;
constexpr RefusedFlag kOfWipeDisk[] = {
    {"drop-partition"_kj, ""_kj, kSwitch, ""_kj, "wipe the disk to remove its partitions"_kj},
    {"insecure"_kj, "i"_kj, kSwitch, ""_kj,
     "a node without a config wipes no disk; set machine.install.wipe"_kj},
    {"skip-secondary-check"_kj, ""_kj, kSwitch, ""_kj, kChecked},
    {"skip-volume-check"_kj, ""_kj, kSwitch, ""_kj, kChecked},
};

constexpr RefusedFlags kRefused[] = {
    {""_kj, kOfEveryCommand},
    {"apply-config"_kj, kOfApplyConfig},
    {"apply"_kj, kOfApplyConfig},
    {"cgroups"_kj, kOfCgroups},
    {"cluster create"_kj, kOfClusterCreate},
    {"cluster destroy"_kj, kOfClusterDestroy},
    {"events"_kj, kOfEvents},
    {"gen config"_kj, kOfGenConfig},
    {"machineconfig gen"_kj, kOfGenConfig},
    {"image cache-create"_kj, kOfImageCache},
    {"image pull"_kj, kOfImagePull},
    {"get"_kj, kOfGet},
    {"meta"_kj, kOfGet},
    {"netstat"_kj, kOfNetstat},
    {"reboot"_kj, kOfReboot},
    {"shutdown"_kj, kOfReboot},
    {"reset"_kj, kOfReset},
    {"rotate-ca"_kj, kOfRotateCa},
    {"support"_kj, kOfSupport},
    {"upgrade"_kj, kOfUpgrade},
    {"upgrade-k8s"_kj, kOfUpgradeK8s},
    {"wipe disk"_kj, kOfWipeDisk},
};

void refuseFlags(Command& root) {
  for (auto& group : kRefused) {
    KJ_IF_MAYBE (command, commandAt(root, group.command)) {
      for (auto& flag : group.flags) {
        command->flag({.name = flag.name,
                       .letter = flag.letter,
                       .kind = flag.kind,
                       .fallback = flag.fallback,
                       .help = "not available",
                       .refused = flag.reason});
      }
    }
  }
}

}  // namespace

void addAbsentCommands(Command& root) {
  refuseFlags(root);
  for (auto& absent : kAbsent) {
    auto blank = absent.name.findLast(' ');
    auto group = kj::heapString(absent.name.slice(0, blank.orDefault(0)));
    auto name = blank == nullptr ? absent.name : absent.name.slice(KJ_ASSERT_NONNULL(blank) + 1);
    KJ_IF_MAYBE (parent, commandAt(root, group)) {
      if (parent->child(name) != nullptr) continue;
      auto& command = parent->add(name, "Not available in this version");
      command.hidden = command.anyFlags = true;
      command.most = kj::maxValue;
      command.run = runAbsent;
    }
  }
}

}  // namespace talos::talosctl
