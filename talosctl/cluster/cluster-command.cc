#include "talosctl/cluster/cluster-command.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/config/talosconfig.h"
#include "common/wire/rpc-server.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/cluster/cluster-configs.h"
#include "talosctl/cluster/cluster-plan.h"
#include "talosctl/cluster/cluster-show.h"
#include "talosctl/cluster/cluster-state.h"
#include "talosctl/cluster/cluster-wait.h"
#include "talosctl/cluster/host-probe.h"
#include "talosctl/cluster/launch-supervisor.h"
#include "talosctl/cluster/node-disks.h"
#include "talosctl/config/patches.h"

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

StateDirectory stateOf(Invocation& call) {
  cluster::checkName(call.text("name"));  // it becomes part of a path that may be removed
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
  return StateDirectory(absolute(base), call.text("name"));
}

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

kj::String chooseAccelerator(Invocation& call, const cluster::Qemu& qemu, kj::StringPtr kernel) {
  auto wanted = call.text("accelerator");
  if (wanted != "auto") return kj::str(wanted);
  return kj::str(cluster::kvmWorks(qemu, kernel) ? "kvm" : "tcg");
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
  return {.generate = {.installDisk = "/dev/vda",
                       .installImage = call.text("install-image"),
                       .dnsDomain = call.text("dns-domain"),
                       .kubernetesVersion = call.text("kubernetes-version"),
                       .registryMirrors = call.list("registry-mirror"),
                       .debug = call.on("with-debug"),
                       .docs = false},
          .nameservers = call.list("nameservers"),
          .patches = patches.all,
          .controlPlanePatches = patches.controlPlane,
          .joinPatches = patches.join};
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
  request.mtu = count(call, "mtu", 65535);
  request.withInitNode = call.on("with-init-node");
  request.withoutConfig = call.on("skip-injecting-config") || call.on("with-apply-config");
  request.extraKernelArguments = kj::str(call.text("extra-boot-kernel-args"));
  request.clock = kj::str(call.text("clock"));
  chooseMedium(call, request);
  request.kernel = artifact(call, "vmlinuz-path", "vmlinux");
  request.initramfs = artifact(call, "initrd-path", "initramfs");
  auto qemu = cluster::findQemu(absolute(call.text("qemu-root")));
  request.accelerator = chooseAccelerator(call, qemu, request.kernel);
  request.qemuRoot = kj::mv(qemu.root);
  return request;
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

// The new context becomes the current one of the user's own configuration.
void mergeContext(Invocation& call, kj::StringPtr made) {
  auto path = configPath(call);
  auto mine = Talosconfig::load(path);
  for (auto& rename : mine.merge(Talosconfig::load(made))) {
    call.out(kj::str("renamed talosconfig context \"", rename.from, "\" -> \"", rename.to, "\"\n"));
  }
  mine.save(path);
}

// Removes the contexts of a destroyed cluster: those with its CA.
void removeContext(Invocation& call, const StateDirectory& state) {
  auto path = configPath(call);
  auto gone = Talosconfig::load(state.file("talosconfig"));
  auto mine = Talosconfig::load(path);
  bool changed = false;
  for (auto& context : gone.contexts())
    changed = mine.removeByAuthority(context.value.ca) || changed;
  if (changed) mine.save(path);
}

void discard(Invocation& call, const StateDirectory& state) {
  state.stopSupervisor();
  // An unreadable talosconfig, of the cluster or of the user, must not stop the rest.
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { removeContext(call, state); })) {
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
kj::Promise<void> meetInMaintenance(Invocation& call, rpc::LocalCluster::Reader cluster,
                                    const StateDirectory& state, bool apply) {
  call.out("waiting for the nodes to enter maintenance mode\n");
  auto fingerprints = co_await cluster::waitForMaintenance(call, cluster, state.path(),
                                                           call.duration("wait-timeout"));
  if (apply) {
    call.out("applying configs\n");
    co_await cluster::applyConfigs(call, cluster, state.path(), fingerprints);
  } else {
    sayHowToApply(call, cluster, fingerprints);
  }
}

void sayWhatIsMade(Invocation& call, rpc::LocalCluster::Reader cluster) {
  unsigned workers = 0;
  for (auto node : cluster.getNodes()) workers += node.getType() == "join";
  call.err(kj::str("creating master nodes (", cluster.getNodes().size() - workers, ", accelerator ",
                   cluster.getAccelerator(), ")\n"));
  if (workers > 0) call.err(kj::str("creating worker nodes (", workers, ")\n"));
}

kj::Promise<void> create(Invocation& call, const StateDirectory& state) {
  call.out("validating CIDR and reserving IPs\n");
  capnp::MallocMessageBuilder message;
  auto cluster = message.initRoot<rpc::LocalCluster>();
  if (call.on("skip-injecting-config") && call.on("with-apply-config")) {
    failUsage("--skip-injecting-config and --with-apply-config cannot be used together");
  }
  cluster::plan(requestOf(call), loopbackFree, cluster);
  call.out("generating PKI and tokens\n");
  call.err(kj::str("creating state directory in \"", state.path(), "\"\n"));
  makeDirectories(state.path(), 0700);
  state.save(cluster);
  auto talosconfig =
      cluster::writeConfigs(cluster, state.path(), configOptions(call, RolePatches(call)));
  cluster::makeDisks(cluster, state.path());
  call.err(kj::str("creating network ", cluster.getNetworkName(), "\n"));
  sayWhatIsMade(call, cluster);
  co_await cluster::launchSupervisor(call.deps.lowLevel, call.deps.timer, state.path());
  mergeContext(call, talosconfig);
  bool wait = call.on("wait"), apply = call.on("with-apply-config");
  if (call.on("skip-injecting-config")) sayWhereConfigsAre(call, cluster, state);
  if (apply || (wait && cluster.getWithoutConfig())) {
    co_await meetInMaintenance(call, cluster, state, apply);
  }
  if (wait && (apply || !cluster.getWithoutConfig())) {
    call.out("waiting for API\n");
    co_await cluster::waitUntilUp(call, cluster, state.path(), call.duration("wait-timeout"));
  }
  call.out(kj::str("\n", cluster::renderShow(cluster)));
}

void checkMayCreate(const StateDirectory& state) {
  if (geteuid() != 0) {
    fail(ErrorKind::kPermissionDenied,
         "cluster create must run as root: it creates a network namespace, a bridge and taps");
  }
  if (!state.exists()) return;
  bool running = state.supervisor() != nullptr;
  fail(ErrorKind::kConflict,
       kj::str(
           "the cluster already exists", running ? "" : ", but is not running", ": ", state.path(),
           "; remove it with `talosctl cluster destroy`, show it with `talosctl cluster show`"));
}

kj::Promise<int> runCreate(Invocation& call) {
  auto state = stateOf(call);
  checkMayCreate(state);
  auto interrupted = call.interrupted().then([]() -> kj::Promise<void> {
    return error(ErrorKind::kUnavailable, "interrupted; the incomplete cluster was removed");
  });
  auto made = create(call, state).exclusiveJoin(kj::mv(interrupted));
  auto failure =
      co_await made.then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                         [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    discard(call, state);
    kj::throwFatalException(kj::mv(*e));
  }
  co_return 0;
}

kj::Promise<int> runShow(Invocation& call) {
  auto state = stateOf(call);
  auto message = state.load();
  auto cluster = message->getRoot<rpc::LocalCluster>().asReader();
  if (call.text("output") == "json") {
    call.out(kj::str(codec::writeJson(cluster), "\n"));
  } else if (call.text("output") == "yaml") {
    call.out(codec::writeYaml(cluster));
  } else {
    call.out(cluster::renderShow(cluster));
  }
  if (state.supervisor() == nullptr) call.err("this cluster is not running\n");
  co_return 0;
}

kj::Promise<int> runDestroy(Invocation& call) {
  auto state = stateOf(call);
  if (!state.exists()) {
    fail(ErrorKind::kNotFound, kj::str("no cluster in ", state.path()));
  }
  call.err("destroying VMs and network\n");
  discard(call, state);
  call.err("removed the state directory\n");
  co_return 0;
}

void addCommonFlags(Command& command) {
  command.flag({.name = "name",
                .kind = FlagKind::kText,
                .fallback = "talos-default",
                .help = "name of the cluster"});
  command.flag({.name = "state",
                .kind = FlagKind::kText,
                .help = "folder of the clusters (default ~/.talos/clusters)"});
  command.flag({.name = "provisioner",
                .kind = FlagKind::kText,
                .fallback = "qemu",
                .help = "backend that runs the nodes",
                .choices = {"qemu"}});
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
  text("cpus", "", "virtual CPUs of a node (default 1 in software emulation, else 2)");
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
               .help = "name servers of the nodes (default: none)"});
  create.flag({.name = "with-debug",
               .help = "set debug in the configs: copy the logs of all services to the console"});
  RolePatches::addFlags(create);
  create.flag({.name = "with-apply-config",
               .help = "boot the nodes without a config, then apply it through their API"});
  create.flag({.name = "skip-injecting-config",
               .help = "boot the nodes without a config and print where the files are"});
  create.flag({.name = "with-init-node", .help = "make the first node one of type init"});
  create.flag(
      {.name = "wait", .fallback = "true", .help = "wait until every node's services are up"});
  create.flag({.name = "wait-timeout",
               .kind = FlagKind::kDuration,
               .fallback = "20m",
               .help = "how long to wait"});
}

}  // namespace

void addClusterCommands(Command& root) {
  auto& group = root.add("cluster", "Manage local clusters of virtual machines");
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
}

}  // namespace talos::talosctl
