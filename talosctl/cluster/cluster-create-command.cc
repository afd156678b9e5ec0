// talosctl cluster create.
#include "talosctl/cluster/cluster-command.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/image-cache/cache-layout.h"
#include "common/netlink/netlink.h"
#include "common/tls/pki.h"
#include "common/wire/rpc-server.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/config-flags.h"
#include "talosctl/cluster/containers/container-node.h"
#include "talosctl/cluster/containers/host-check.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "talosctl/cluster/disks/node-disks.h"
#include "talosctl/cluster/local-cluster.h"
#include "talosctl/cluster/machines/qemu-arguments.h"
#include "talosctl/cluster/machines/qemu-program.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/network/uplink.h"
#include "talosctl/cluster/nodes/cluster-bootstrap.h"
#include "talosctl/cluster/nodes/cluster-configs.h"
#include "talosctl/cluster/nodes/cluster-context.h"
#include "talosctl/cluster/nodes/cluster-kubernetes.h"
#include "talosctl/cluster/nodes/cluster-nodes.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/nodes/cluster-state.h"
#include "talosctl/cluster/nodes/cluster-tables.h"
#include "talosctl/cluster/nodes/cluster-wait.h"
#include "talosctl/cluster/nodes/launch-supervisor.h"
#include "talosctl/cluster/processes/program-tree.h"
#include "talosctl/cluster/provisioner.h"
#include "talosctl/cluster/report-commands.h"
#include "talosctl/config/patches.h"

namespace talos::talosctl {
namespace {

using cluster::StateDirectory;

unsigned count(Invocation& call, kj::StringPtr flag, int64_t most) {
  auto n = call.number(flag);
  if (n < 0 || n > most) {
    fail(ErrorKind::kInvalidArgument, kj::str("--", flag, ": must be 0 to ", most, ", not ", n));
  }
  return static_cast<unsigned>(n);
}

kj::String artifact(Invocation& call, kj::StringPtr flag, kj::StringPtr name) {
  bool given = call.given(flag);
  auto path = given ? absolute(call.text(flag)) : kj::str(cluster::buildFolder(), "/image/", name);
  if (access(path.cStr(), R_OK) < 0) {
    fail(ErrorKind::kNotFound,
         kj::str("--", flag, ": cannot read ", path, "; run `make image` to build it"));
  }
  if (given) return path;
  // A file that the user has not named is checked, because it runs as root, in a container or as a
  // kernel.
  KJ_IF_MAYBE (error, cluster::pathError(path, cluster::trustedOwners())) {
    fail(ErrorKind::kPermissionDenied, kj::str("--", flag, ": cannot use ", path, ": ", *error,
                                               "; name the file if you trust it"));
  }
  return path;
}

// Checks the host before anything is created.
void checkHost(Invocation& call) {
  KJ_IF_MAYBE (problem, container::missingFeature(container::probeHost())) {
    fail(ErrorKind::kFailedPrecondition, kj::str(*problem, "; or use --provisioner qemu"));
  }
  auto missing = container::ClusterCgroups(container::readCgroups(), "").unlimited();
  if (missing.size() == 0) return;
  call.err(kj::str("NOTE: nodes in containers get no cgroup controller for ",
                   kj::strArray(missing, " and "),
                   " on this host: these resources are not limited\n"));
}

void checkCidr(kj::StringPtr cidr) {
  auto kernel = netlink::openKernel();
  auto links = kernel->links();
  kj::Vector<cluster::HostAddress> addresses;
  for (auto& address : kernel->addresses()) {
    for (auto& link : links) {
      if (link.index == address.link) addresses.add(kj::str(link.name), address.prefix);
    }
  }
  KJ_IF_MAYBE (conflict, cluster::cidrConflict(cluster::parseCidr(cidr), addresses)) {
    fail(ErrorKind::kInvalidArgument, *conflict);
  }
}

// Returns why KVM cannot be used on this host; nullptr if it works. A missing QEMU or kernel counts
// as a reason.
kj::Maybe<kj::String> kvmError(Invocation& call) {
  bool works = false;
  auto failure = kj::runCatchingExceptions([&] {
    works = cluster::kvmWorks(cluster::findQemu(absolute(call.text("qemu-root"))),
                              artifact(call, "vmlinuz-path", "vmlinux"));
  });
  KJ_IF_MAYBE (e, failure) return kj::str(messageOf(*e));
  if (works) return nullptr;
  return kj::str("KVM does not work on this host");
}

// Chooses the kind of nodes and finds the files that they need.
void chooseNodes(Invocation& call, cluster::Request& request) {
  kj::Maybe<bool> kvm;
  auto probe = [&] {
    auto error = kvmError(call);
    kvm = error == nullptr;
    return error;
  };
  auto machines = count(call, "virtual-machines", 200);
  auto flag = cluster::machineFlagOf(call), containerFlag = cluster::containerFlagOf(call);
  bool lacksWireguard = call.given("wireguard-cidr") && !cluster::wireguardWorks();
  if (lacksWireguard && call.text("provisioner") == "auto" && machines == 0 && flag == nullptr &&
      containerFlag == nullptr) {
    flag = "wireguard-cidr"_kj;
  }
  auto chosen = cluster::chooseProvisioner({.flag = call.text("provisioner"),
                                            .virtualMachines = machines,
                                            .machineFlag = flag,
                                            .containerFlag = containerFlag},
                                           probe);
  if (lacksWireguard && chosen.containers) {
    fail(ErrorKind::kFailedPrecondition,
         "--wireguard-cidr: the kernel of this host has no WireGuard, which nodes in containers "
         "need; load the module wireguard, or use --provisioner qemu");
  }
  request.containers = chosen.containers;
  request.virtualMachines = chosen.virtualMachines;
  if (chosen.cause.size() > 0) {
    call.err(kj::str("provisioner: ", chosen.containers ? "container" : "qemu", " (", chosen.cause,
                     ")\n"));
  }
  if (chosen.containers) {
    request.image = artifact(call, "image", "rootfs.sqsh");
    checkHost(call);
  }
  if (!chosen.needsMachines()) return;
  request.kernel = artifact(call, "vmlinuz-path", "vmlinux");
  request.initramfs = artifact(call, "initrd-path", "initramfs");
  request.qemuRoot = absolute(call.text("qemu-root"));
  cluster::findQemu(request.qemuRoot);  // throws if there is no QEMU
  auto wanted = call.text("accelerator");
  if (wanted == "auto") {
    if (kvm == nullptr) probe();
    wanted = KJ_ASSERT_NONNULL(kvm) ? "kvm"_kj : "tcg"_kj;
  }
  request.accelerator = kj::str(wanted);
}

// Handles --iso-path: a volume with a config, ISO 9660 or any other file system.
void chooseMedium(Invocation& call, cluster::Request& request) {
  if (!call.given("iso-path")) return;
  request.isoPath = absolute(call.text("iso-path"));
  if (access(request.isoPath.cStr(), R_OK) < 0) {
    fail(ErrorKind::kNotFound, kj::str("--iso-path: cannot read ", request.isoPath));
  }
  request.isoInDrive = cluster::isIso9660(request.isoPath);
}

// Checks --image-cache before anything is made. Returns an empty path without the flag.
kj::String imageCacheOf(Invocation& call) {
  if (!call.given("image-cache")) return nullptr;
  auto path = absolute(call.text("image-cache"));
  if (access(kj::str(path, "/", imagecache::kManifests).cStr(), R_OK) < 0) {
    fail(ErrorKind::kNotFound,
         kj::str("--image-cache: ", path,
                 " is not a cache of images; make one with `talosctl image cache-create`"));
  }
  return path;
}

void linkImageCache(Invocation& call, const StateDirectory& state) {
  auto path = imageCacheOf(call);
  if (path.size() == 0) return;
  auto link = state.file(cluster::kImageCacheLink);
  KJ_SYSCALL(symlink(path.cStr(), link.cStr()), link);
}

cluster::ConfigOptions configOptions(Invocation& call, const RolePatches& patches) {
  bool installs = call.on("with-bootloader") || call.on("with-uefi");
  cluster::ConfigOptions options{
      .generate = {.installDisk = "/dev/vda",
                   .installImage = call.text("install-image"),
                   .installArguments = installs ? cluster::installedKernelArguments() : nullptr,
                   .dnsDomain = call.text("dns-domain"),
                   .kubernetesVersion = call.text("kubernetes-version"),
                   .registryMirrors = call.list("registry-mirror"),
                   .debug = call.on("with-debug"),
                   .docs = false},
      .nameservers = call.list("nameservers"),
      .patches = patches.all,
      .controlPlanePatches = patches.controlPlane,
      .joinPatches = patches.join};
  cluster::readConfigFlags(call, options);
  options.imageCache = call.given("image-cache");
  return options;
}

cluster::Request requestOf(Invocation& call) {
  cluster::Request request;
  request.name = kj::str(call.text("name"));
  auto masters = call.given("controlplanes") ? "controlplanes"_kj : "masters"_kj;
  request.masters = count(call, masters, 200);
  request.workers = count(call, "workers", 200);
  if (call.given("cpus")) {
    KJ_IF_MAYBE (cpus, call.text("cpus").tryParseAs<double>()) {
      request.cpus = *cpus;
    } else {
      fail(ErrorKind::kInvalidArgument, kj::str("--cpus: \"", call.text("cpus"),
                                                "\" is not a valid number; use for example 2.0"));
    }
  }
  request.memory = count(call, "memory", 1 << 20);
  request.disk = count(call, "disk", 1 << 24);
  request.cidr = kj::str(call.text("cidr"));
  request.ipv4 = call.on("ipv4");
  request.ipv6 = call.on("ipv6");
  if (request.ipv4) checkCidr(request.cidr);
  request.mtu = count(call, "mtu", 65535);
  request.withInitNode = call.on("with-init-node");
  request.withoutConfig = call.on("skip-injecting-config") || call.on("with-apply-config");
  request.extraKernelArguments = kj::str(call.text("extra-boot-kernel-args"));
  request.clock = kj::str(call.text("clock"));
  request.withoutUplink = call.on("no-uplink");
  request.withMetrics = call.on("with-metrics");
  request.withUefi = call.on("with-uefi");
  request.withBootLoader = call.on("with-bootloader") || request.withUefi;
  request.encryptState = call.on("encrypt-state");
  request.diskServer = absolute(call.text("disk-server"));
  for (auto& disk : cluster::parseUserDisks(call.list("user-disk")))
    request.userDisks.add(disk.bytes());
  if (call.on("encrypt-ephemeral") && !request.withBootLoader) {
    failUsage(
        "--encrypt-ephemeral needs --with-bootloader: only an installed node has the partition "
        "EPHEMERAL");
  }
  chooseMedium(call, request);
  chooseNodes(call, request);
  return request;
}

// Sets random UUIDs (RFC 9562, version 4): keys are derived from them, so they must not follow from
// the cluster's name.
void nameMachines(rpc::LocalCluster::Builder cluster) {
  for (auto node : cluster.getNodes()) {
    if (cluster::isContainer(node)) continue;
    auto random = pki::randomBytes(16);
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    auto text = kj::encodeHex(random);
    node.setUuid(kj::str(text.slice(0, 8), "-", text.slice(8, 12), "-", text.slice(12, 16), "-",
                         text.slice(16, 20), "-", text.slice(20)));
  }
}

bool canBind(kj::StringPtr address) {
  return kj::runCatchingExceptions([&] { listenTcp(address, kApidPort); }) == nullptr;
}

// Returns true if port 50000 can be bound on 127.a.b.2 and the following addresses.
bool loopbackFree(unsigned a, unsigned b, unsigned nodes) {
  for (unsigned i = 0; i < nodes; ++i) {
    if (!canBind(kj::str("127.", a, ".", b, ".", 2 + i))) return false;
  }
  return true;
}

void printConfigPaths(Invocation& call, rpc::LocalCluster::Reader cluster,
                      const StateDirectory& state) {
  for (auto node : cluster.getNodes()) {
    call.err(kj::str("created ", state.file(kj::str(node.getName(), ".yaml")), "\n"));
  }
}

// Prints the arguments for `apply-config --insecure`.
void printFingerprints(Invocation& call, rpc::LocalCluster::Reader cluster,
                       kj::ArrayPtr<const kj::String> fingerprints) {
  Table table({"NAME", "ENDPOINT", "FINGERPRINT"});
  for (size_t i = 0; i < fingerprints.size(); ++i) {
    auto node = cluster.getNodes()[i];
    table.add(node.getName(), node.getEndpoint(), fingerprints[i]);
  }
  call.out(table.render());
}

// Waits for maintenance mode, which nodes enter without a config from the supervisor.
kj::Promise<void> awaitMaintenance(Invocation& call, rpc::LocalCluster::Builder cluster,
                                   const StateDirectory& state, bool apply) {
  call.err("waiting for the nodes to enter maintenance mode\n");
  auto fingerprints = co_await cluster::waitForMaintenance(call, cluster, state.path(),
                                                           call.duration("wait-timeout"));
  if (apply) {
    call.err("applying configs\n");
    co_await cluster::applyConfigs(call, cluster, state.path(), fingerprints);
    cluster.setConfigsApplied(true);
    state.save(cluster);
  } else {
    printFingerprints(call, cluster, fingerprints);
  }
}

unsigned workersOf(rpc::LocalCluster::Reader cluster) {
  unsigned workers = 0;
  for (auto node : cluster.getNodes()) workers += node.getType() == "join";
  return workers;
}

// The progress of a new cluster: a cluster whose nodes are up and have etcd is kept even if
// Kubernetes fails.
enum class Stage { kIncomplete, kHasEtcd };

// Returns false without a registry, because no image can be pulled then.
bool waitsForKubernetes(Invocation& call) {
  if (!call.on("wait") || !call.on("bootstrap") || !call.on("wait-kubernetes")) return false;
  if (!call.on("no-uplink") || call.given("image-cache")) return true;
  call.err("NOTE: with --no-uplink the nodes can pull no images: not waiting for Kubernetes\n");
  return false;
}

kj::Promise<void> awaitKubernetes(Invocation& call, rpc::LocalCluster::Reader cluster,
                                  const StateDirectory& state) {
  if (!waitsForKubernetes(call)) co_return;
  bool merge = !call.on("skip-kubeconfig");
  auto path = merge ? cluster::userKubeconfig(call) : kj::String();
  call.err("waiting for Kubernetes\n");
  co_await cluster::waitForKubernetes(call, cluster, state.path(), call.duration("wait-timeout"));
  auto kubeconfig = co_await cluster::keepKubeconfig(call, cluster, state.path());
  if (merge) {
    co_await cluster::mergeUserKubeconfig(call, cluster, kj::mv(kubeconfig), kj::mv(path));
  }
}

// Waits for the control plane first: with a shared address, workers are not up before etcd, which
// elects the address's holder.
kj::Promise<void> awaitNodes(Invocation& call, rpc::LocalCluster::Reader cluster,
                             const StateDirectory& state, Stage& stage) {
  auto limit = call.duration("wait-timeout");
  bool bootstraps = call.on("bootstrap"), workers = workersOf(cluster) > 0;
  bool bySelf = cluster.getNodes()[0].getType() == "init";
  bool first = workers && (bootstraps || (call.on("use-vip") && !bySelf));
  call.err("waiting for API\n");
  co_await cluster::waitUntilUp(call, cluster, state.path(), limit,
                                first ? cluster::Among::kControlPlane : cluster::Among::kAllNodes);
  if (bootstraps) {
    call.err("bootstrapping etcd\n");
    co_await cluster::bootstrapEtcd(call, cluster, state.path(), limit);
    if (workers) call.err("waiting for workers\n");
    if (workers) co_await cluster::waitUntilUp(call, cluster, state.path(), limit);
    stage = Stage::kHasEtcd;
  } else if (first) {
    call.err(
        "NOTE: workers are not waited for: they get their certificates at the shared address, "
        "which no node has before talosctl bootstrap\n");
  }
}

void writeConfigs(Invocation& call, rpc::LocalCluster::Reader cluster,
                  const StateDirectory& state) {
  RolePatches patches(call);
  auto options = configOptions(call, patches);
  kj::Vector<kj::String> warnings;
  options.warnings = &warnings;
  cluster::writeConfigs(cluster, state.path(), options);
  for (auto& warning : warnings) call.err(kj::str("WARNING: ", warning, "\n"));
}

kj::Promise<void> create(Invocation& call, const StateDirectory& state, Stage& stage) {
  call.err("validating CIDR and reserving IPs\n");
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  if (call.on("skip-injecting-config") && call.on("with-apply-config")) {
    failUsage("--skip-injecting-config and --with-apply-config cannot be used together");
  }
  cluster::checkConfigFlags(call);
  imageCacheOf(call);
  cluster::plan(requestOf(call), loopbackFree, cluster);
  nameMachines(cluster);
  if (!cluster.getWithoutUplink()) {
    for (auto& network : cluster::networksOf(cluster)) {
      if (network.address.family() == AF_INET) cluster::uplinkNetwork(network);
    }
    cluster::checkUplinkTools(cluster.getQemuRoot());
  }
  call.err("generating PKI and tokens\n");
  call.err(kj::str("creating state directory in \"", state.path(), "\"\n"));
  state.make();
  state.save(cluster);
  co_await rememberFolder(call);
  linkImageCache(call, state);
  writeConfigs(call, cluster, state);
  cluster::makeStorage(cluster, state.path());
  auto print = [&call](kj::StringPtr step) { call.err(kj::str(step, "\n")); };
  co_await cluster::launchSupervisor(call.deps.lowLevel, call.deps.timer, state.path(), print);
  auto renamed = co_await cluster::addContext(call.deps.timer, state, configPath(call));
  KJ_IF_MAYBE (rename, renamed) call.err(kj::str(renamedText(*rename), "\n"));
  bool wait = call.on("wait"), apply = call.on("with-apply-config");
  if (call.on("skip-injecting-config")) printConfigPaths(call, cluster, state);
  if (apply || (wait && cluster.getWithoutConfig())) {
    co_await awaitMaintenance(call, cluster, state, apply);
  }
  if (wait && (apply || !cluster.getWithoutConfig())) {
    co_await awaitNodes(call, cluster, state, stage);
    co_await awaitKubernetes(call, cluster, state);
  }
  co_await readStates(call, state, cluster);
  call.out(cluster::renderShow(cluster));
  call.err(kj::str("the cluster survives a reboot of this host; start it again with ",
                   state.command("start"), "\n"));
}

void checkMayCreate(const StateDirectory& state) {
  if (geteuid() != 0) {
    fail(ErrorKind::kPermissionDenied,
         "cluster create must run as root: it creates namespaces and network links");
  }
  if (!state.exists()) return;
  bool running = state.supervisor() != nullptr;
  fail(ErrorKind::kConflict,
       kj::str("the cluster already exists", running ? "" : ", but is not running", ": ",
               state.path(), "; remove it with ", state.command("destroy"), ", show it with ",
               state.command("show")));
}

kj::Promise<kj::Maybe<kj::Exception>> failureOf(kj::Promise<void> attempt) {
  return attempt.then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                      [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
}

kj::Promise<int> runCreate(Invocation& call) {
  auto state = stateOf(call);
  checkMayCreate(state);
  bool stopped = false;
  auto interrupted = call.interrupted().then([&stopped]() -> kj::Promise<void> {
    stopped = true;
    return error(ErrorKind::kUnavailable, "interrupted");
  });
  auto stage = Stage::kIncomplete;
  auto failure = co_await failureOf(create(call, state, stage).exclusiveJoin(kj::mv(interrupted)));
  KJ_IF_MAYBE (e, failure) {
    if (call.on("crashdump") && !stopped && state.exists()) {
      co_await dumpLocalCluster(call, state.path()).exclusiveJoin(call.interrupted());
    }
    if (stage == Stage::kHasEtcd) {
      fail(kindOf(*e), kj::str(messageOf(*e), "; the cluster is kept: inspect it with ",
                               "`talosctl health`, remove it with ", state.command("destroy")));
    }
    auto left = co_await failureOf(discard(call, state));
    KJ_IF_MAYBE (error, left) {
      fail(kindOf(*e),
           kj::str(messageOf(*e), "; the cluster was not removed: ", messageOf(*error)));
    }
    if (stopped) fail(kindOf(*e), "interrupted; the incomplete cluster was removed");
    kj::throwFatalException(kj::mv(*e));
  }
  co_return 0;
}

// Adds the flags for the start of the nodes and for the wait.
void addStartFlags(Command& create) {
  create.flag({.name = "with-apply-config",
               .help = "boot the nodes without a config, then apply it through their API"});
  create.flag({.name = "skip-injecting-config",
               .help = "boot the nodes without a config and print where the files are"});
  create.flag({.name = "bootstrap",
               .fallback = "true",
               .help = "make the cluster of etcd when the nodes are up, unless --wait=false"});
  create.flag({.name = "with-init-node", .help = "make the first node one of type init"});
  addWaitFlags(create);
  create.flag({.name = "wait-kubernetes",
               .fallback = "true",
               .help = "wait until Kubernetes is healthy as well, unless --wait=false or "
                       "--bootstrap=false"});
  create.flag({.name = "skip-kubeconfig",
               .help = "do not merge an admin kubeconfig into the first file of $KUBECONFIG, else "
                       "~/.kube/config"});
  create.flag({.name = "crashdump",
               .help = "if the cluster does not come up, print the last lines of all logs"});
}

void addNetworkFlags(Command& create) {
  create.flag({.name = "cidr",
               .kind = FlagKind::kText,
               .fallback = "10.5.0.0/24",
               .help = "IPv4 network of the cluster; the gateway is .1, the nodes start at .2"});
  create.flag({.name = "ipv4", .fallback = "true", .help = "give the nodes IPv4 addresses"});
  create.flag({.name = "ipv6",
               .help =
                   "give the nodes IPv6 addresses, of the network fd74:616c:<the four octets of "
                   "--cidr>::/64"});
  create.flag(
      {.name = "mtu", .kind = FlagKind::kNumber, .fallback = "1500", .help = "MTU of the network"});
}

void addMetricsFlag(Command& create) {
  create.flag({.name = "with-metrics",
               .help = "set machine.metrics in the configs, and forward port 50002 of the "
                       "endpoints there"});
}

void addMachineFlags(Command& create) {
  create.flag({.name = "accelerator",
               .kind = FlagKind::kText,
               .fallback = "auto",
               .help = "CPU virtualization; auto uses KVM if it works on this host",
               .choices = {"auto", "kvm", "tcg"}});
  create.flag({.name = "with-bootloader",
               .help = "install virtual machines on their disk, from where they start then"});
  create.flag({.name = "with-uefi", .help = "the same, with UEFI firmware in the place of a BIOS"});
}

void addCreateFlags(Command& create) {
  auto text = [&](kj::StringPtr name, kj::StringPtr fallback, kj::StringPtr help) {
    create.flag({.name = name, .kind = FlagKind::kText, .fallback = fallback, .help = help});
  };
  auto number = [&](kj::StringPtr name, kj::StringPtr fallback, kj::StringPtr help) {
    create.flag({.name = name, .kind = FlagKind::kNumber, .fallback = fallback, .help = help});
  };
  number("masters", "1", "number of control-plane nodes");
  number("controlplanes", "1", "the same as --masters, which it replaces if both are given");
  number("workers", "1", "number of workers");
  number("virtual-machines", "0",
         "so many of the nodes, the last ones, are virtual machines, the others containers");
  text("image", "", "image of nodes in containers, a squashfs (default: that of this build)");
  text("cpus", "", "CPUs of a node (default 1 in software emulation, else 2)");
  number("memory", "2048", "memory of a node in MiB");
  number("disk", "6144", "disk of a node in MiB; sparse");
  addNetworkFlags(create);
  text("vmlinuz-path", "", "kernel (default: that of this build)");
  text("initrd-path", "", "initramfs (default: that of this build)");
  text("qemu-root", "",
       "tree that holds QEMU and its libraries (default: the build root, else the host)");
  addMachineFlags(create);
  text("iso-path", "",
       "image of a volume that every node gets read-only, such as one with a config");
  text("image-cache", "",
       "folder of talosctl image cache-create from which nodes in containers take images before "
       "registries");
  text("extra-boot-kernel-args", "",
       "additional kernel arguments, such as 'a=b c=d'; they replace those with the same key");
  text("clock", "", "initial clock of the nodes in UTC, such as 2020-12-31T23:59:00");
  text("install-image", "", "installer image (default: that of this version)");
  text("kubernetes-version", config::kDefaultKubernetesText,
       "Kubernetes version of the images in the configs; if empty, the configs name no images and "
       "a node runs the default of its release");
  text("dns-domain", "cluster.local", "DNS domain of the cluster");
  create.flag({.name = "registry-mirror",
               .kind = FlagKind::kList,
               .help = "host=URL: pull the images of this registry from URL"});
  create.flag({.name = "nameservers",
               .kind = FlagKind::kList,
               .help = "name servers of the nodes (default: the gateway, which asks those of this "
                       "host; none with --no-uplink)"});
  create.flag({.name = "no-uplink",
               .help = "shut the nodes in: they reach each other, not this host and its network"});
  create.flag({.name = "with-debug",
               .help = "set debug in the configs: copy the logs of all services to the console"});
  create.flag({.name = "disk-server",
               .kind = FlagKind::kText,
               .help =
                   "Unix socket of an NBD server that has the disks of virtual machines, by the "
                   "paths of their files: for tests that cut their power",
               .hidden = true});
  RolePatches::addFlags(create);
  addMetricsFlag(create);
  addStartFlags(create);
  cluster::addConfigFlags(create);
}

}  // namespace

void addCreateCommand(Command& cluster) {
  auto& create = cluster.add("create", "Create a local cluster and wait until it is up");
  create.details =
      "When Kubernetes is healthy, an admin kubeconfig is merged into the first file of "
      "$KUBECONFIG, as kubectl would, else into ~/.kube/config. stdout has what `cluster show` "
      "prints; progress goes to stderr.";
  addCommonFlags(create);
  addCreateFlags(create);
  create.interrupt = Interrupt::kIsCommands;
  create.run = runCreate;
}

}  // namespace talos::talosctl
