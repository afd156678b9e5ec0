#include "talosctl/cluster/cluster-command.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/netlink/netlink.h"
#include "common/tls/pki.h"
#include "common/wire/rpc-server.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-configs.h"
#include "talosctl/cluster/cluster-context.h"
#include "talosctl/cluster/cluster-control.h"
#include "talosctl/cluster/cluster-plan.h"
#include "talosctl/cluster/cluster-show.h"
#include "talosctl/cluster/cluster-state.h"
#include "talosctl/cluster/cluster-wait.h"
#include "talosctl/cluster/config-flags.h"
#include "talosctl/cluster/launch-supervisor.h"
#include "talosctl/cluster/node-disks.h"
#include "talosctl/cluster/provisioner.h"
#include "talosctl/cluster/report-commands.h"
#include "talosctl/config/patches.h"
#include "talosctl/container/host-check.h"
#include "talosctl/container/node-cgroups.h"
#include "talosctl/network/host-probe.h"
#include "talosctl/network/uplink.h"

namespace talos::talosctl {
namespace {

using cluster::StateDirectory;

// Paths in a cluster's state are absolute: the next command may run in another folder.
kj::String absolute(kj::StringPtr path) {
  if (path.startsWith("/") || path.size() == 0) return kj::str(path);
  char here[4096];
  KJ_REQUIRE(getcwd(here, sizeof here) != nullptr);
  return kj::str(here, "/", path);
}

// A word of a command line, as a shell reads it.
kj::String shellWord(kj::StringPtr text) {
  bool plain = text.size() > 0;
  for (char c : text) {
    plain = plain && (('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                      strchr("/._-+@:", c) != nullptr);
  }
  if (plain) return kj::str(text);
  kj::Vector<char> quoted;
  for (char c : text) {
    if (c == '\'') quoted.addAll("'\\'"_kj);
    quoted.add(c);
  }
  return kj::str("'", quoted, "'");
}

// What names the same cluster to another command.
kj::String flagsOf(Invocation& call, kj::StringPtr name) {
  bool usual = name == "talos-default";
  return kj::str(usual ? kj::str() : kj::str(" --name ", name),
                 call.given("state") ? kj::str(" --state ", shellWord(absolute(call.text("state"))))
                                     : kj::str());
}

}  // namespace

StateDirectory stateOf(Invocation& call) {
  return stateOf(call, call.text("name"));
}

StateDirectory stateOf(Invocation& call, kj::StringPtr name) {
  cluster::checkName(name);  // it becomes part of a path that may be removed
  kj::String base;
  if (call.given("state")) {
    base = kj::str(call.text("state"));
  } else {
    KJ_IF_MAYBE (home, call.deps.environment("HOME")) {
      base = kj::str(*home, "/.talos/clusters");
    } else {
      fail(ErrorKind::kInvalidArgument,
           "HOME is not set; use --state to name the folder of the clusters");
    }
  }
  return StateDirectory(absolute(base), name, flagsOf(call, name));
}

namespace {

unsigned count(Invocation& call, kj::StringPtr flag, int64_t most) {
  auto n = call.number(flag);
  if (n < 0 || n > most) {
    fail(ErrorKind::kInvalidArgument, kj::str("--", flag, ": must be 0 to ", most, ", not ", n));
  }
  return static_cast<unsigned>(n);
}

kj::String artifact(Invocation& call, kj::StringPtr flag, kj::StringPtr name) {
  auto path = call.given(flag) ? absolute(call.text(flag))
                               : kj::str(cluster::buildFolder(), "/image/", name);
  if (access(path.cStr(), R_OK) < 0) {
    fail(ErrorKind::kNotFound,
         kj::str("--", flag, ": cannot read ", path, "; run `make image` to build it"));
  }
  return path;
}

// Before anything is made.
void checkHost(Invocation& call) {
  KJ_IF_MAYBE (why, container::whyNoContainers(container::probeHost())) {
    fail(ErrorKind::kFailedPrecondition, kj::str(*why, "; or use --provisioner qemu"));
  }
  auto missing = container::ClusterCgroups(container::readCgroups(), "").unlimited();
  if (missing.size() == 0) return;
  call.err(kj::str("NOTE: this host has no cgroup controller for ", kj::strArray(missing, " and "),
                   ": nodes in containers are not limited\n"));
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
  KJ_IF_MAYBE (why, cluster::cidrConflict(cluster::parseCidr(cidr), addresses)) {
    fail(ErrorKind::kInvalidArgument, *why);
  }
}

// Why KVM is not used here; a host without QEMU or a kernel cannot tell, and does not have to.
kj::Maybe<kj::String> whyNoKvm(Invocation& call) {
  bool works = false;
  auto failure = kj::runCatchingExceptions([&] {
    works = cluster::kvmWorks(cluster::findQemu(absolute(call.text("qemu-root"))),
                              artifact(call, "vmlinuz-path", "vmlinux"));
  });
  KJ_IF_MAYBE (e, failure) return kj::str(messageOf(*e));
  if (works) return nullptr;
  return kj::str("KVM does not work on this host");
}

// Of what the nodes are made, with what that needs.
void chooseNodes(Invocation& call, cluster::Request& request) {
  kj::Maybe<bool> kvm;
  auto asked = [&] {
    auto why = whyNoKvm(call);
    kvm = why == nullptr;
    return why;
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
                                           asked);
  if (lacksWireguard && chosen.containers) {
    fail(ErrorKind::kFailedPrecondition,
         "--wireguard-cidr: the kernel of this host has no WireGuard, which nodes in containers "
         "need; load the module wireguard, or use --provisioner qemu");
  }
  request.containers = chosen.containers;
  request.virtualMachines = chosen.virtualMachines;
  if (chosen.why.size() > 0) {
    call.err(kj::str("provisioner: ", chosen.containers ? "container" : "qemu", " (", chosen.why,
                     ")\n"));
  }
  if (chosen.containers) {
    request.image = artifact(call, "image", "rootfs.sqsh");
    checkHost(call);
  }
  if (!chosen.needsMachines()) return;
  request.kernel = artifact(call, "vmlinuz-path", "vmlinux");
  request.initramfs = artifact(call, "initrd-path", "initramfs");
  request.qemuRoot = cluster::findQemu(absolute(call.text("qemu-root"))).root;
  auto wanted = call.text("accelerator");
  if (wanted == "auto") {
    if (kvm == nullptr) asked();
    wanted = KJ_ASSERT_NONNULL(kvm) ? "kvm"_kj : "tcg"_kj;
  }
  request.accelerator = kj::str(wanted);
}

// A volume with a config: ISO 9660 or any other file system.
void chooseMedium(Invocation& call, cluster::Request& request) {
  if (!call.given("iso-path")) return;
  request.isoPath = absolute(call.text("iso-path"));
  if (access(request.isoPath.cStr(), R_OK) < 0) {
    fail(ErrorKind::kNotFound, kj::str("--iso-path: cannot read ", request.isoPath));
  }
  request.isoInDrive = cluster::isIso9660(request.isoPath);
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
  return options;
}

cluster::Request requestOf(Invocation& call) {
  cluster::Request request;
  request.name = kj::str(call.text("name"));
  request.masters = count(call, "masters", 200);
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
  checkCidr(request.cidr);
  request.mtu = count(call, "mtu", 65535);
  request.withInitNode = call.on("with-init-node");
  request.withoutConfig = call.on("skip-injecting-config") || call.on("with-apply-config");
  request.extraKernelArguments = kj::str(call.text("extra-boot-kernel-args"));
  request.clock = kj::str(call.text("clock"));
  request.withoutUplink = call.on("no-uplink");
  request.withUefi = call.on("with-uefi");
  request.withBootLoader = call.on("with-bootloader") || request.withUefi;
  request.encryptState = call.on("encrypt-state");
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

// Version 4 of RFC 9562: what keys are made of must not be known from the cluster's name.
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

// Whether port 50000 can be bound on 127.a.b.2 and the following addresses.
bool loopbackFree(unsigned a, unsigned b, unsigned nodes) {
  for (unsigned i = 0; i < nodes; ++i) {
    if (!canBind(kj::str("127.", a, ".", b, ".", 2 + i))) return false;
  }
  return true;
}

void discard(Invocation& call, const StateDirectory& state) {
  state.stopSupervisor();
  // A supervisor that was killed has left them.
  container::ClusterCgroups(container::readCgroups(),
                            cluster::cgroupName(call.text("name"), state.path()))
      .remove();
  // An unreadable talosconfig, of the cluster or of the user, must not stop the rest.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { cluster::removeContext(state, configPath(call)); })) {
    call.err(kj::str("WARNING: cannot remove the cluster's context from the talosconfig: ",
                     messageOf(*e), "\n"));
  }
  removeTree(state.path());
}

void sayWhereConfigsAre(Invocation& call, rpc::LocalCluster::Reader cluster,
                        const StateDirectory& state) {
  for (auto node : cluster.getNodes()) {
    call.out(kj::str("created ", state.file(kj::str(node.getName(), ".yaml")), "\n"));
  }
}

// What the user needs for `apply-config --insecure`.
void sayHowToApply(Invocation& call, rpc::LocalCluster::Reader cluster,
                   kj::ArrayPtr<const kj::String> fingerprints) {
  Table table({"NAME", "ENDPOINT", "FINGERPRINT"});
  for (size_t i = 0; i < fingerprints.size(); ++i) {
    auto node = cluster.getNodes()[i];
    table.add(node.getName(), node.getEndpoint(), fingerprints[i]);
  }
  call.out(kj::str("\n", table.render()));
}

// Without a config from the supervisor the nodes enter maintenance mode.
kj::Promise<void> meetInMaintenance(Invocation& call, rpc::LocalCluster::Builder cluster,
                                    const StateDirectory& state, bool apply) {
  call.out("waiting for the nodes to enter maintenance mode\n");
  auto fingerprints = co_await cluster::waitForMaintenance(call, cluster, state.path(),
                                                           call.duration("wait-timeout"));
  if (apply) {
    call.out("applying configs\n");
    co_await cluster::applyConfigs(call, cluster, state.path(), fingerprints);
    cluster.setConfigsApplied(true);
    state.save(cluster);
  } else {
    sayHowToApply(call, cluster, fingerprints);
  }
}

void sayWhatIsMade(Invocation& call, rpc::LocalCluster::Reader cluster) {
  unsigned workers = 0;
  for (auto node : cluster.getNodes()) workers += node.getType() == "join";
  auto accelerator = cluster::hasVirtualMachines(cluster)
                         ? kj::str(", accelerator ", cluster.getAccelerator())
                         : kj::str();
  call.err(
      kj::str("creating master nodes (", cluster.getNodes().size() - workers, accelerator, ")\n"));
  if (workers > 0) call.err(kj::str("creating worker nodes (", workers, ")\n"));
}

// What each node is doing now, for `show`. Where nobody answers, nothing runs, or nobody knows.
kj::Promise<void> readStates(Invocation& call, const StateDirectory& state,
                             rpc::LocalCluster::Builder cluster) {
  bool running = state.supervisor() != nullptr;
  for (auto node : cluster.getNodes()) node.setState(running ? "unknown" : "off");
  if (!running) {
    call.err(kj::str("this cluster is not running; start it with ", state.command("start"), "\n"));
    co_return;
  }
  try {
    auto control =
        co_await cluster::ControlClient::connect(call.deps.lowLevel, call.deps.timer, state.path());
    auto answer = co_await control->states();
    auto states = answer.getNodes();
    for (auto i : kj::range(0u, kj::min(states.size(), cluster.getNodes().size()))) {
      cluster.getNodes()[i].setState(states[i].getState());
      cluster.getNodes()[i].setError(states[i].getError());
    }
  } catch (const kj::Exception& e) {
    call.err(kj::str("WARNING: cannot ask the cluster's supervisor: ", messageOf(e), "\n"));
  }
}

kj::Promise<void> create(Invocation& call, const StateDirectory& state) {
  call.out("validating CIDR and reserving IPs\n");
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  if (call.on("skip-injecting-config") && call.on("with-apply-config")) {
    failUsage("--skip-injecting-config and --with-apply-config cannot be used together");
  }
  cluster::checkConfigFlags(call);
  cluster::plan(requestOf(call), loopbackFree, cluster);
  nameMachines(cluster);
  if (!cluster.getWithoutUplink()) {
    cluster::uplinkNetwork(cluster::parseCidr(cluster.getCidr()));
    cluster::checkUplinkTools(cluster.getQemuRoot());
  }
  call.out("generating PKI and tokens\n");
  call.err(kj::str("creating state directory in \"", state.path(), "\"\n"));
  makeDirectories(state.path(), 0700);
  state.save(cluster);
  cluster::writeConfigs(cluster, state.path(), configOptions(call, RolePatches(call)));
  cluster::makeDisks(cluster, state.path());
  call.err(kj::str("creating network ", cluster.getNetworkName(), "\n"));
  sayWhatIsMade(call, cluster);
  co_await cluster::launchSupervisor(call.deps.lowLevel, call.deps.timer, state.path());
  KJ_IF_MAYBE (rename, cluster::addContext(state, configPath(call))) {
    call.out(
        kj::str("renamed talosconfig context \"", rename->from, "\" -> \"", rename->to, "\"\n"));
  }
  bool wait = call.on("wait"), apply = call.on("with-apply-config");
  if (call.on("skip-injecting-config")) sayWhereConfigsAre(call, cluster, state);
  if (apply || (wait && cluster.getWithoutConfig())) {
    co_await meetInMaintenance(call, cluster, state, apply);
  }
  if (wait && (apply || !cluster.getWithoutConfig())) {
    call.out("waiting for API\n");
    co_await cluster::waitUntilUp(call, cluster, state.path(), call.duration("wait-timeout"));
  }
  co_await readStates(call, state, cluster);
  call.out(kj::str("\n", cluster::renderShow(cluster)));
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

kj::Promise<int> runCreate(Invocation& call) {
  auto state = stateOf(call);
  checkMayCreate(state);
  bool stopped = false;
  auto interrupted = call.interrupted().then([&stopped]() -> kj::Promise<void> {
    stopped = true;
    return error(ErrorKind::kUnavailable, "interrupted; the incomplete cluster was removed");
  });
  auto made = create(call, state).exclusiveJoin(kj::mv(interrupted));
  auto failure =
      co_await made.then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                         [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (call.on("crashdump") && !stopped && state.exists()) {
      co_await dumpLocalCluster(call, state.path()).exclusiveJoin(call.interrupted());
    }
    discard(call, state);
    kj::throwFatalException(kj::mv(*e));
  }
  co_return 0;
}

// The flag chooses nothing in a cluster that is there; a wrong one means that it is another cluster.
void checkProvisioner(Invocation& call, rpc::LocalCluster::Reader cluster) {
  kj::StringPtr wanted = call.text("provisioner");
  if (wanted == "auto") return;
  if (wanted == "docker") wanted = "container";
  if (wanted == cluster.getProvisioner()) return;
  fail(ErrorKind::kInvalidArgument,
       kj::str("--provisioner: the nodes of this cluster are of ", cluster.getProvisioner()));
}

kj::Promise<int> runShow(Invocation& call) {
  auto state = stateOf(call);
  auto message = state.load();
  auto cluster = message->getRoot<rpc::LocalCluster>();
  checkProvisioner(call, cluster);
  co_await readStates(call, state, cluster);
  if (call.text("output") == "json") {
    call.out(kj::str(codec::writeJson(cluster.asReader()), "\n"));
  } else if (call.text("output") == "yaml") {
    call.out(codec::writeYaml(cluster.asReader()));
  } else {
    call.out(cluster::renderShow(cluster));
  }
  co_return 0;
}

kj::Promise<int> runDestroy(Invocation& call) {
  auto state = stateOf(call);
  if (!state.exists()) {
    fail(ErrorKind::kNotFound, kj::str("no cluster in ", state.path()));
  }
  if (call.given("provisioner")) {
    checkProvisioner(call, state.load()->getRoot<rpc::LocalCluster>());
  }
  call.err("destroying nodes and network\n");
  discard(call, state);
  call.err("removed the state directory\n");
  co_return 0;
}

}  // namespace

void addStateFlags(Command& command) {
  command.flag({.name = "name",
                .kind = FlagKind::kText,
                .fallback = "talos-default",
                .help = "name of the cluster"});
  command.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the clusters (default ~/.talos/clusters)"});
}

void addWaitFlags(Command& command) {
  command.flag(
      {.name = "wait", .fallback = "true", .help = "wait until every node's services are up"});
  command.flag({.name = "wait-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "20m",
                .help = "how long to wait"});
}

namespace {

void addCommonFlags(Command& command) {
  addStateFlags(command);
  command.flag({.name = "provisioner",
                .kind = FlagKind::kText,
                .fallback = "auto",
                .help =
                    "backend that runs the nodes; auto is qemu where KVM works, else container; "
                    "docker means container, and no Docker is needed",
                .choices = {"auto", "qemu", "container", "docker"}});
}

void addCreateFlags(Command& create) {
  auto text = [&](kj::StringPtr name, kj::StringPtr fallback, kj::StringPtr help) {
    create.flag({.name = name, .kind = FlagKind::kText, .fallback = fallback, .help = help});
  };
  auto number = [&](kj::StringPtr name, kj::StringPtr fallback, kj::StringPtr help) {
    create.flag({.name = name, .kind = FlagKind::kNumber, .fallback = fallback, .help = help});
  };
  number("masters", "1", "number of control-plane nodes");
  number("workers", "1", "number of workers");
  number("virtual-machines", "0",
         "so many of the nodes, the last ones, are virtual machines, the others containers");
  text("image", "", "image of nodes in containers, a squashfs (default: that of this build)");
  text("cpus", "", "CPUs of a node (default 1 in software emulation, else 2)");
  number("memory", "2048", "memory of a node in MiB");
  number("disk", "6144", "disk of a node in MiB; sparse");
  text("cidr", "10.5.0.0/24",
       "IPv4 network of the cluster; the gateway is .1, the nodes start at .2");
  number("mtu", "1500", "MTU of the network");
  text("vmlinuz-path", "", "kernel (default: that of this build)");
  text("initrd-path", "", "initramfs (default: that of this build)");
  text("qemu-root", "",
       "tree that holds QEMU and its libraries (default: the build root, else the host)");
  create.flag({.name = "accelerator",
               .kind = FlagKind::kText,
               .fallback = "auto",
               .help = "CPU virtualization; auto uses KVM if it works on this host",
               .choices = {"auto", "kvm", "tcg"}});
  create.flag({.name = "with-bootloader",
               .help = "install virtual machines on their disk, from where they start then"});
  create.flag({.name = "with-uefi", .help = "the same, with UEFI firmware in the place of a BIOS"});
  text("iso-path", "",
       "image of a volume that every node gets read-only, such as one with a config");
  text("extra-boot-kernel-args", "",
       "additional kernel arguments, such as 'a=b c=d'; they replace those with the same key");
  text("clock", "", "initial clock of the nodes in UTC, such as 2020-12-31T23:59:00");
  text("install-image", "", "installer image (default: that of this version)");
  text("kubernetes-version", "", "Kubernetes version of the images, such as 1.20.6");
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
  RolePatches::addFlags(create);
  create.flag({.name = "with-apply-config",
               .help = "boot the nodes without a config, then apply it through their API"});
  create.flag({.name = "skip-injecting-config",
               .help = "boot the nodes without a config and print where the files are"});
  create.flag({.name = "with-init-node", .help = "make the first node one of type init"});
  addWaitFlags(create);
  create.flag({.name = "crashdump",
               .help = "if the cluster does not come up, print the last lines of all logs"});
  cluster::addConfigFlags(create);
}

}  // namespace

void addClusterCommands(Command& root) {
  auto& group = root.add("cluster", "Manage local clusters of virtual machines and containers");
  auto& create = group.add("create", "Create a local cluster and wait until it is up");
  addCommonFlags(create);
  addCreateFlags(create);
  create.interrupt = Interrupt::kIsCommands;
  create.run = runCreate;
  auto& show = group.add("show", "Show a local cluster");
  addCommonFlags(show);
  show.flag({.name = "output",
             .letter = "o",
             .kind = FlagKind::kText,
             .fallback = "table",
             .choices = {"table", "json", "yaml"}});
  show.run = runShow;
  auto& destroy = group.add("destroy", "Destroy a local cluster and remove its files");
  addCommonFlags(destroy);
  destroy.run = runDestroy;
  addPowerCommands(group);
  addReportCommands(root);
}

}  // namespace talos::talosctl
