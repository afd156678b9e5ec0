#include "talosctl/cluster/config-flags.h"

#include "common/base/error.h"

namespace talos::cluster {
namespace {

using talosctl::FlagKind;

struct Absent {
  kj::StringPtr name;
  FlagKind kind;
  kj::StringPtr fallback;  // default behaviour, which is accepted; empty: no value is
  kj::StringPtr reason;    // reason for refusing other values
};

constexpr kj::StringPtr kNoPlugins =
    "a local cluster's network is made without CNI plugins on the host; leave this flag out"_kj;
constexpr kj::StringPtr kNoPorts =
    "nodes publish no ports on this host: reach their APIs through the endpoints that `talosctl "
    "cluster show` lists, and leave this flag out"_kj;

const Absent kAbsent[] = {
    {"arch", FlagKind::kText, "amd64",
     "nodes of local clusters are for amd64; `make image ARCH=arm64` makes an image for machines"},
    {"cni-bin-path", FlagKind::kText, "", kNoPlugins},
    {"cni-bundle-url", FlagKind::kText, "", kNoPlugins},
    {"cni-cache-dir", FlagKind::kText, "", kNoPlugins},
    {"cni-conf-dir", FlagKind::kText, "", kNoPlugins},
    {"disk-image-path", FlagKind::kText, "", "starting from a disk image is not supported"},
    {"docker-host-ip", FlagKind::kText, "", kNoPorts},
    {"exposed-ports", FlagKind::kText, "", kNoPorts},
};

kj::StringPtr letterOf(kj::StringPtr name) {
  return name == "exposed-ports" ? "p"_kj : ""_kj;
}

// Flags that are not allowed with --input-dir, because an existing config has these settings.
constexpr kj::StringPtr kOfNewConfigs[] = {"install-image"_kj,      "dns-domain"_kj,
                                           "kubernetes-version"_kj, "talos-version"_kj,
                                           "registry-mirror"_kj,    "with-debug"_kj};

void addAbsentFlags(talosctl::Command& create) {
  for (auto& absent : kAbsent) {
    create.flag({.name = absent.name,
                 .letter = letterOf(absent.name),
                 .kind = absent.kind,
                 .fallback = absent.kind == FlagKind::kList ? "" : absent.fallback,
                 .help = absent.reason,
                 .hidden = true});
  }
}

void refuseAbsentFlags(const talosctl::Invocation& call) {
  for (auto& absent : kAbsent) {
    if (!call.given(absent.name)) continue;
    bool same = false;
    if (absent.kind == FlagKind::kBool) {
      same = call.on(absent.name) == (absent.fallback == "true");
    } else if (absent.kind == FlagKind::kText) {
      same = absent.fallback.size() > 0 && call.text(absent.name) == absent.fallback;
    }
    if (!same) fail(ErrorKind::kUnimplemented, kj::str("--", absent.name, ": ", absent.reason));
  }
}

}  // namespace

void addConfigFlags(talosctl::Command& create) {
  auto text = [&](kj::StringPtr name, kj::StringPtr help) {
    create.flag({.name = name, .kind = FlagKind::kText, .help = help});
  };
  create.flag({.name = "input-dir",
               .letter = "i",
               .kind = FlagKind::kText,
               .help = "folder with the configs of the cluster, as written by gen config: "
                       "controlplane.yaml, worker.yaml or join.yaml, talosconfig (default: new "
                       "ones)"});
  text("talos-version", "generate configs that this version understands, such as v0.8");
  text("wireguard-cidr", "network of a WireGuard tunnel between the nodes, such as 10.1.0.0/24");
  create.flag({.name = "registry-insecure-skip-verify",
               .kind = FlagKind::kList,
               .help = "host of a registry whose certificate is not verified"});
  text("custom-cni-url", "URL of the manifest of a network plugin (CNI), instead of flannel");
  text("endpoint", "endpoint in the talosconfig (default: one for each control-plane node)");
  create.flag({.name = "init-node-as-endpoint",
               .help = "make the first node the only endpoint in the talosconfig"});
  create.flag({.name = "use-vip",
               .help = "make an address that the control-plane nodes share, the 50th of the "
                       "network, the endpoint of Kubernetes"});
  create.flag({.name = "encrypt-state",
               .help = "encrypt the partition STATE with a key made of the machine's UUID"});
  create.flag({.name = "encrypt-ephemeral",
               .help = "encrypt the partition EPHEMERAL with a key made of the machine's UUID"});
  create.flag(
      {.name = "user-disk",
       .kind = FlagKind::kList,
       .help =
           "another disk of each virtual machine: mount point and size of its partitions, such as "
           "/var/lib/a:1GB:/var/lib/b:2GB"});
  addAbsentFlags(create);
}

void checkConfigFlags(const talosctl::Invocation& call) {
  refuseAbsentFlags(call);
  (void)parseUserDisks(call.list("user-disk"));
  if (call.given("endpoint") && call.on("init-node-as-endpoint")) {
    talosctl::failUsage("--endpoint and --init-node-as-endpoint cannot be used together");
  }
  if (!call.given("input-dir")) return;
  for (auto name : kOfNewConfigs) {
    if (call.given(name)) {
      talosctl::failUsage(kj::str("--", name,
                                  " and --input-dir cannot be used together: the "
                                  "configs exist already; use --config-patch"));
    }
  }
}

void readConfigFlags(const talosctl::Invocation& call, ConfigOptions& options) {
  options.generate.talosVersion = call.text("talos-version");
  options.inputFolder = call.text("input-dir");
  options.wireguardCidr = call.text("wireguard-cidr");
  options.insecureRegistries = call.list("registry-insecure-skip-verify");
  options.customCniUrl = call.text("custom-cni-url");
  options.endpoint = call.text("endpoint");
  options.firstNodeIsEndpoint = call.on("init-node-as-endpoint");
  options.useVip = call.on("use-vip");
  options.encryptState = call.on("encrypt-state");
  options.encryptEphemeral = call.on("encrypt-ephemeral");
  options.userDisks = parseUserDisks(call.list("user-disk"));
}

}  // namespace talos::cluster
