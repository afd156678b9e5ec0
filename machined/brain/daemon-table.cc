#include "machined/brain/daemon-table.h"

#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/node-layout.h"
#include "common/crash/service-page.h"
#include "common/image-cache/cache-layout.h"
#include "common/kernel/library-folders.h"
#include "machined/brain/daemon-checks.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/kubernetes/etcd/etcd-run.h"
#include "machined/platforms/platform.h"
#include "machined/services/replaced-program.h"
#include "machined/services/service-container.h"
#include "machined/system/containerd-registries.h"
#include "machined/system/time/time-service.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

kj::Promise<void> prepareEtcd(DaemonDependencies& deps, kj::Function<void(kj::StringPtr)> note) {
  return KJ_REQUIRE_NONNULL(deps.etcd).prepare(kj::mv(note));
}

kj::Array<kj::String> etcdArguments(DaemonDependencies& deps) {
  return KJ_REQUIRE_NONNULL(deps.etcd).arguments();
}

kj::StringPtr etcdImage(DaemonDependencies& deps) {
  return KJ_REQUIRE_NONNULL(deps.etcd).image();
}

ContainerSpec etcdContainer(DaemonDependencies& deps) {
  ContainerSpec spec;
  spec.image = kj::str(etcdImage(deps));
  auto arguments = etcdArguments(deps);
  auto argv = kj::heapArrayBuilder<kj::String>(arguments.size() + 1);
  argv.add(kj::str("/usr/local/bin/etcd"));
  for (auto& argument : arguments) argv.add(kj::mv(argument));
  spec.arguments = argv.finish();
  spec.mounts = kj::arr(ContainerMount{kj::str(kEtcdPki), kj::str(kEtcdPki)},
                        ContainerMount{kj::str(kEtcdData), kj::str(kEtcdData), true});
  spec.uid = kEtcdUid;
  return spec;
}

kj::Promise<void> prepareKubelet(DaemonDependencies& deps, kj::Function<void(kj::StringPtr)> note) {
  return KJ_REQUIRE_NONNULL(deps.kubelet).prepare(kj::mv(note));
}

kj::Promise<void> kubeletHasCertificate(DaemonDependencies& deps,
                                        kj::Function<void(kj::StringPtr)> note) {
  return KJ_REQUIRE_NONNULL(deps.kubelet).awaitCertificate(kj::mv(note));
}

// When a shared address moves, connections to it fall silent on its previous node. Without these
// variables Kubernetes' clients drop such connections after 45 s, which is nearly the time after
// which the node is NotReady. login1 is reached over the bus (kBusSocket).
constexpr kj::StringPtr kKubeletEnvironment[] = {
    "HTTP2_READ_IDLE_TIMEOUT_SECONDS=10"_kj, "HTTP2_PING_TIMEOUT_SECONDS=5"_kj,
    "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket"_kj};

ContainerSpec kubeletSpec(DaemonDependencies& deps) {
  return KJ_REQUIRE_NONNULL(deps.kubelet).container();
}

class FileExists final : public Condition {
 public:
  explicit FileExists(kj::StringPtr path) : path(kj::str(path)) {}
  kj::String description() const override { return kj::str("file \"", path, "\" to exist"); }
  bool met() const override { return access(path.cStr(), F_OK) == 0; }

 private:
  kj::String path;
};

kj::Array<kj::String> busArguments(DaemonDependencies&) {
  return kj::arr(kj::str("--config-file=/etc/dbus-1/system.conf"), kj::str("--nofork"),
                 kj::str("--nopidfile"), kj::str("--nosyslog"));
}

kj::Array<kj::String> networkdArguments(DaemonDependencies& deps) {
  kj::Vector<kj::String> arguments;
  KJ_IF_MAYBE (platform, platforms::called(deps.platform)) {
    if (!platform->dhcpMtu) arguments.add(kj::str(kDhcpWithoutMtu));
  }
  if (deps.predictableNames) arguments.add(kj::str(kPredictableNames));
  return arguments.releaseAsArray();
}

// On a worker, kubed has only the kubelet's rights, and does only what those allow.
kj::Array<kj::String> kubedArguments(DaemonDependencies& deps) {
  for (auto type : deps.store.list<rpc::MachineTypeSpec>()) {
    if (type.getType() == rpc::MachineType::JOIN) return kj::arr(kj::str("--worker"));
  }
  return nullptr;
}

// The resource exists on every control-plane node.
bool hasExtraManifests(Store& store) {
  KJ_IF_MAYBE (spec, store.tryGet<rpc::ControlPlaneConfigSpec>(kExtraManifestsId)) {
    return spec->isExtraManifests() && spec->getExtraManifests().getExtraManifests().size() > 0;
  }
  return false;
}

bool hasImageCache(Store& store) {
  KJ_IF_MAYBE (cache, store.tryGet<rpc::ImageCacheConfigSpec>(imagecache::kConfigId))
    return cache->getRoots().size() > 0;
  return false;
}

constexpr kj::StringPtr kContainerdCommand[] = {"/bin/containerd"_kj, "--address"_kj,
                                                kContainerdSocket, "--config"_kj,
                                                "/etc/cri/containerd.toml"_kj};
// containerd starts shims and runc by name.
constexpr kj::StringPtr kForeignPath = "PATH=/usr/bin:/usr/sbin"_kj;
constexpr kj::StringPtr kContainerPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"_kj;
constexpr kj::StringPtr kContainerRuntime = "cri"_kj;

constexpr kj::StringPtr kNetworkdReads[] = {"/proc/sys/kernel/hostname"_kj, "/sys/devices"_kj,
                                            "/sys/bus"_kj};
// apid resolves the names of control-plane machines: the resolver's files are links to these
// folders.
constexpr kj::StringPtr kApidReads[] = {"/system/etc"_kj, kNetworkdState};

// The same, and the public CAs. Their bundle may be a file of machine.files that is mounted there.
constexpr kj::StringPtr kFetcherReads[] = {"/system/etc"_kj, kNetworkdState, "/etc/ssl/certs"_kj};

constexpr kj::StringPtr kBusReads[] = {"/etc/dbus-1"_kj, "/etc/passwd"_kj};

// A node is useful as soon as its API answers. containerd alone uses as much of the processors as
// all of our services; the services listed here work without the services that they give way to.
constexpr kj::StringPtr kTrustdGivesWayTo[] = {"apid"_kj};
constexpr kj::StringPtr kContainerdGivesWayTo[] = {"apid"_kj, "trustd"_kj};

// The kubelet takes its inhibitor lock when it starts, and runs without the lock if login1 does not
// run yet: then a reboot kills its pods. So it waits longer than others, for a busy node.
constexpr auto kKubeletGivesWayFor = 20 * kj::SECONDS;
constexpr kj::StringPtr kKubeletGivesWayTo[] = {"apid"_kj, "trustd"_kj, "login1"_kj};

constexpr kj::StringPtr kControlPlaneGivesWayTo[] = {"apid"_kj};

// With a wrong clock, certificates seem expired or not yet valid. The daemons wait no longer than
// machine.time.bootTimeout, because the time servers may be unreachable.
constexpr kj::StringPtr kTimeFirst[] = {kTimed};

// etcd resolves the names of other members: the resolver's files are links to these folders.
constexpr kj::StringPtr kEtcdReads[] = {kEtcdPki, "/system/etc"_kj, kNetworkdState, "/proc"_kj,
                                        "/sys/kernel/mm"_kj};

constexpr kj::StringPtr kRegistrydReads[] = {imagecache::kCacheFolder};

constexpr uint64_t kMiB = 1u << 20;

// machined and process 1 have -999 and no limit: they restart the daemons, and no process restarts
// them.
const Daemon kDaemons[] = {
    {.id = "networkd",
     .arguments = networkdArguments,
     .uid = kNetworkdUid,
     .capabilities = "net_admin,net_raw,net_bind_service",
     .filter = "network",
     .read = kNetworkdReads,
     .state = kNetworkdState,
     // Settings of links; the kernel allows only those that CAP_NET_ADMIN permits. Without IPv6 no
     // narrower folder exists.
     .writes = "/proc/sys/net",
     // 7 MiB at rest, 8 MiB with 1000 links; the kernel's own part for these and for 10 000 routes
     // is some 40 MiB; 4 captures have buffers of 2 MiB each; the resolver keeps 4 MiB of answers.
     // It parses packets of DHCP and DNS from outside, and copies captured packets.
     .memoryMax = 128 * kMiB,
     .oomScore = -998,  // without it the node is not reachable
     .listen = {.socket = kNetworkdSocket, .mode = 0600},
     .mayBeStopped = false,
     .check = networkdIsReady},
    {.id = "apid",
     .uid = kApidUid,
     .read = kApidReads,
     // 12 MiB at rest, at most 104 MiB under the hostile pack. Its limits allow more: 96 MiB of
     // calls and answers (apid/gate/gate.h), and some 130 MiB for 1000 clients with full buffers of
     // TLS and sockets.
     .memoryMax = 256 * kMiB,
     .oomScore = -900,  // has the most clients; they reconnect
     .listen = {.port = kApidPort},
     .after = "networkd",
     .mayBeStopped = false,
     .carriesApi = true,
     .check = apidIsReady},
    {.id = "trustd",
     .uid = kTrustdUid,
     .filter = "listener",  // it connects only to machined
     // 11 MiB at rest, 15 MiB when 5000 nodes join at once, and at most 15 MiB under the hostile
     // pack; its 48 connections have messages of 32 KiB.
     .memoryMax = 64 * kMiB,
     .oomScore = -950,                                // a node that joins retries
     .listen = {.port = kTrustdPort, .queue = 4096},  // a whole rack may boot at once
     .after = "networkd",
     .givesWayTo = kTrustdGivesWayTo,
     .wantedWith = {typeName<rpc::RootSecretSpec>(), "os"},
     .check = trustdIsReady},
    // Serves the images of the node's cache to containerd, and isolates the media that have it.
    {.id = "registryd",
     .uid = kRegistrydUid,
     .filter = "listener",  // it connects to nothing
     .read = kRegistrydReads,
     .memoryMax = 64 * kMiB,  // its 64 connections have pieces of 128 KiB
     .oomScore = -900,        // containerd asks the registry instead
     .listen = {.port = kRegistrydPort, .loopback = true},
     .after = "networkd",
     .awaited = false,
     .wantedWith = {typeName<rpc::ImageCacheConfigSpec>(), imagecache::kConfigId, hasImageCache},
     .check = registrydIsReady},
    // Its shims are in its cgroup, but are not its children, and no signal is sent to the whole
    // cgroup. So containers keep running when it exits. It has no memory limit, because the shims
    // of all containers are accounted for in its cgroup.
    {.id = kContainerRuntime,
     .command = kContainerdCommand,
     .after = "networkd",
     // Made from machine.registries; containerd reads it when it starts.
     .file = "/system/etc/cri/conf.d/10-registries.toml",
     .givesWayTo = kContainerdGivesWayTo,
     .check = containerdServes,
     .checkTimeout = 20 * kj::SECONDS},  // an emulated machine under load starts it in 10 s
    // Decides how etcd runs, and reports its state. Shares etcd's user for its data.
    {.id = "etcd-supervisor",
     .uid = kEtcdUid,
     .filter = "storage",
     .read = kApidReads,  // it resolves names
     .state = kEtcdSupervisorState,
     .writes = kEtcdData,  // it removes the data of a member that has left
     .memoryMax = 64 * kMiB,
     .oomScore = -998,
     .listen = {.socket = kEtcdSupervisorSocket, .mode = 0600},
     .after = "networkd",
     .file = kEtcdData,
     .givesWayTo = kControlPlaneGivesWayTo,
     .wantedWith = {typeName<rpc::EtcdConfigSpec>(), kEtcdId},
     .check = etcdSupervisorIsReady},
    // Stores the backups that etcd-supervisor has encrypted and signed, and isolates the store's
    // answers.
    {.id = "backupd",
     .uid = kBackupdUid,
     .filter = "storage",
     .read = kFetcherReads,
     .memoryMax = 64 * kMiB,  // a list of names has 8 MiB at most, and an answer 2 MiB
     .oomScore = -900,        // an interrupted upload is started again
     .listen = {.socket = kBackupdSocket, .mode = 0600, .owner = kEtcdUid},
     .after = "networkd",
     .givesWayTo = kControlPlaneGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::EtcdBackupConfigSpec>(), "etcd"}},
    // The system's program, or the image in cluster.etcd.image. It waits for a cluster for as long
    // as necessary.
    {.id = kEtcdService,
     .container = etcdContainer,
     .inContainer = [](DaemonDependencies& deps) { return etcdImage(deps).size() > 0; },
     .prepare = prepareEtcd,
     .arguments = etcdArguments,
     .uid = kEtcdUid,
     .filter = "foreign",
     .read = kEtcdReads,
     .state = kEtcdData,
     .libraries = true,
     .oomScore = -998,
     .after = "networkd",
     .file = kEtcdData,
     .givesWayTo = kControlPlaneGivesWayTo,
     .waitsFor = kTimeFirst,
     .awaited = false,
     .wantedWith = {typeName<rpc::EtcdConfigSpec>(), kEtcdId},
     .check = etcdIsHealthy,
     .checkTimeout = 15 * kj::SECONDS},
    // The bus on which the kubelet finds login1; it has no other use.
    {.id = "dbus-daemon",
     .arguments = busArguments,
     .uid = kLogin1Uid,
     .filter = "bus",
     .read = kBusReads,
     .state = kBusFolder,
     .writes = "/dev/null",  // its standard input, which it opens for both
     .libraries = true,
     .memoryMax = 64 * kMiB,  // 4 MiB at rest; it limits the messages of its few clients
     .oomScore = -950,
     .after = "networkd",
     .file = kBusFolder,
     .givesWayTo = kContainerdGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::KubeletSpecSpec>(), kKubeletId}},
    {.id = "login1",
     .uid = kLogin1Uid,
     .libraries = true,
     .memoryMax = 64 * kMiB,
     .oomScore = -950,
     .keeps = true,  // the locks
     .after = "dbus-daemon",
     .file = kBusSocket,
     .givesWayTo = kContainerdGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::KubeletSpecSpec>(), kKubeletId},
     .check = login1Listens},
    // On every node of a cluster. It waits for an API server itself, for as long as necessary. Its
    // pods run without it, too.
    {.id = kKubeletService,
     .container = kubeletSpec,
     .prepare = prepareKubelet,
     .prepareLast = kubeletHasCertificate,
     .environment = kKubeletEnvironment,
     .oomScore = -998,
     .after = "networkd",
     .file = "/var/lib/kubelet",
     .givesWayTo = kKubeletGivesWayTo,
     .givesWayFor = kKubeletGivesWayFor,
     .waitsFor = kTimeFirst,
     .awaited = false,
     .wantedWith = {typeName<rpc::KubeletSpecSpec>(), kKubeletId},
     .check = kubeletIsHealthy},
    // After etcd, so that it stops before etcd.
    {.id = "vipd",
     .uid = kVipdUid,
     .capabilities = "net_admin,net_raw",
     .filter = "vip",
     .read = kFetcherReads,  // for the API of a provider that assigns an address
     .memoryMax = 64 * kMiB,
     .oomScore = -998,
     .after = kEtcdService,
     .awaited = false,
     .wantedWith = {typeName<rpc::VipSpecSpec>(), ""}},
    // Sends logs to other machines, and isolates the TLS of foreign receivers.
    {.id = "logd",
     .uid = kLogdUid,
     .filter = "storage",
     .read = kFetcherReads,  // it resolves names, and checks receivers with the public CAs
     .state = kLogdState,
     .memoryMax = 64 * kMiB,
     .oomScore = -900,  // it continues after a restart
     .after = "networkd",
     .file = kLogdState,
     .givesWayTo = kControlPlaneGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::LogDestinationSpec>(), ""}},
    // Fetches manifests for kubed, and isolates the answers of their servers.
    {.id = "manifestd",
     .uid = kManifestdUid,
     .read = kFetcherReads,
     .memoryMax = 128 * kMiB,  // several manifests of 4 MiB and their objects
     .oomScore = -900,         // it continues after a restart
     .after = "networkd",
     .givesWayTo = kControlPlaneGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::ControlPlaneConfigSpec>(), kExtraManifestsId, hasExtraManifests}},
    // Asks hosts whether they answer, and isolates their answers.
    {.id = "probed",
     .uid = kProbedUid,
     .read = kFetcherReads,
     .memoryMax = 64 * kMiB,  // 128 probes at most, each with the buffers of TLS and HTTP
     .oomScore = -900,        // it asks again after a restart
     .after = "networkd",
     .givesWayTo = kControlPlaneGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::ProbeSpecSpec>(), ""}},
    // Waits for etcd and for Kubernetes itself, and reports the component that it waits for.
    {.id = "kubed",
     .arguments = kubedArguments,
     .uid = kKubedUid,
     .read = kApidReads,
     .memoryMax = 128 * kMiB,  // an answer of the API server has at most 8 MiB; 16 MiB in pipes
     .oomScore = -900,         // it continues after a restart
     .listen = {.socket = kKubedSocket, .mode = 0600},
     .after = "networkd",
     .givesWayTo = kControlPlaneGivesWayTo,
     .awaited = false,
     .wantedWith = {typeName<rpc::NodenameSpec>(), kNodenameId}},
};

// Numbers of the descriptors inside a daemon.
constexpr int kListenAs = 3, kKeepingAs = 4, kKeptAs = 5, kPageAs = 6;

bool runsInContainer(const Daemon& daemon, DaemonDependencies& deps) {
  if (daemon.container == nullptr) return false;
  return daemon.inContainer == nullptr || daemon.inContainer(deps);
}

kj::Array<kj::String> environmentOf(const Daemon& daemon, bool container) {
  kj::Vector<kj::String> environment;
  auto add = [&](kj::StringPtr name, auto&& value) { environment.add(kj::str(name, "=", value)); };
  if (daemon.command != nullptr || container) {
    environment.add(kj::str(container ? kContainerPath : kForeignPath));
    for (auto variable : daemon.environment) environment.add(kj::str(variable));
    return environment.releaseAsArray();
  }
  if (daemon.listen.port != 0) {
    add(kListenTcpVariable, kListenAs);
  } else if (daemon.listen.socket != nullptr) {
    add(kListenUnixVariable, kListenAs);
  }
  if (daemon.keeps) {
    add(kKeepingVariable, kKeepingAs);
    add(kKeptVariable, kKeptAs);
  }
  if (isOurs(daemon)) add(crash::kServicePageVariable, kPageAs);
  add(kStoreVariable, kMachinedSocket);
  if (daemon.state != nullptr) add(kStateVariable, daemon.state);
  return environment.releaseAsArray();
}

void defineContainer(ServiceDefinition& d, const Daemon& daemon, DaemonDependencies& deps) {
  d.command = kj::str("container ", daemon.id);
  d.dependsOn.add(kj::str(kContainerRuntime));
  d.body = kj::heap<ContainerBody>(deps.containerd, daemon.id, [&daemon, &deps]() {
    auto spec = daemon.container(deps);
    spec.cgroup = serviceCgroup(daemon.id);
    spec.oomScore = allowedScore(daemon.oomScore);
    return spec;
  });
}

}  // namespace

int allowedScore(int wanted) {
  if (ownOomScores() == OomScores::kAny) return wanted;
  auto own = firstLine(readFile("/proc/self/oom_score_adj")).parseAs<int>();
  return kj::max(wanted, own);
}

kj::ArrayPtr<const Daemon> daemons() {
  return kDaemons;
}

bool isOurs(const Daemon& daemon) {
  return daemon.command == nullptr && daemon.container == nullptr && daemon.filter != "bus";
}

kj::Array<kj::String> confined(const Daemon& daemon, kj::StringPtr program) {
  kj::Vector<kj::String> argv;
  argv.add(kj::str(kConfine));
  argv.add(kj::str("--uid=", daemon.uid));
  if (daemon.capabilities != nullptr) argv.add(kj::str("--capabilities=", daemon.capabilities));
  argv.add(kj::str("--seccomp=", daemon.filter));
  // Naming the program creates a rule set even when nothing else may be read.
  argv.add(kj::str("--landlock-read=", program));
  if (daemon.filter == "listener") argv.add(kj::str("--landlock-tcp=none"));
  if (daemon.libraries) {
    for (auto path : kLibraryFolders) argv.add(kj::str("--landlock-libraries=", path));
  }
  // For the process that becomes the program: for its crash report and core dump.
  if (isOurs(daemon)) {
    argv.add(kj::str("--landlock-read=/proc/self/maps"));
    argv.add(kj::str("--landlock-read=/proc/self/smaps"));
  }
  for (auto path : daemon.read) argv.add(kj::str("--landlock-read=", path));
  for (auto path : {daemon.state, daemon.writes}) {
    if (path != nullptr) argv.add(kj::str("--landlock-write=", path));
  }
  argv.add(kj::str("--oom-score=", daemon.oomScore));
  argv.add(kj::str("--"));
  argv.add(kj::str(program));
  return argv.releaseAsArray();
}

kj::String serviceCgroup(kj::StringPtr id) {
  return id == "machined" ? kj::str("init") : kj::str("system/", id);
}

ServiceDefinition definitionOf(const Daemon& daemon, DaemonSockets sockets,
                               DaemonDependencies& deps) {
  ServiceDefinition d;
  d.id = kj::str(daemon.id);
  bool container = runsInContainer(daemon, deps);
  if (container) {
    defineContainer(d, daemon, deps);
  } else if (daemon.command == nullptr) {
    d.command = kj::str("/usr/bin/", daemon.id);
    if (daemon.container != nullptr) d.task = kj::str(daemon.id);
    d.argv = confined(daemon, d.command);
    KJ_IF_MAYBE (window, deps.window) {
      d.debugOrder = [id = daemon.id, &window = *window]() {
        window.follow(id);
        return debugOrder(id);
      };
    } else if (deps.replaceable) {
      d.debugOrder = [id = daemon.id]() { return debugOrder(id); };
    }
  } else {
    d.command = kj::str(daemon.command[0]);
    d.argv = KJ_MAP(argument, daemon.command) {
      return kj::str(argument);
    };
  }
  d.environment = environmentOf(daemon, container);
  d.cgroup = serviceCgroup(d.id);
  d.memoryMax = daemon.memoryMax;
  if (daemon.after != nullptr) d.dependsOn.add(kj::str(daemon.after));
  for (auto other : daemon.givesWayTo) d.givesWayTo.add(kj::str(other));
  d.givesWayFor = daemon.givesWayFor;
  for (auto other : daemon.waitsFor) d.waitsFor.add(kj::str(other));
  d.waitsAtMost = [&deps]() { return deps.timeLimit(); };
  if (daemon.file != nullptr) d.conditions.add(kj::heap<FileExists>(daemon.file));
  auto pass = [&](int fd, int as) {
    if (fd >= 0) d.sockets.add(ServiceDefinition::Socket{fd, as});
  };
  pass(sockets.listening, kListenAs);
  pass(sockets.keeping, kKeepingAs);
  pass(sockets.kept, kKeptAs);
  if (!container) pass(sockets.page, kPageAs);
  if (daemon.prepare != nullptr) {
    d.prepare = [prepare = daemon.prepare, &deps](kj::Function<void(kj::StringPtr)> note) {
      return prepare(deps, kj::mv(note));
    };
  }
  if (daemon.prepareLast != nullptr) {
    d.prepareLast = [prepare = daemon.prepareLast, &deps](kj::Function<void(kj::StringPtr)> note) {
      return prepare(deps, kj::mv(note));
    };
  }
  if (daemon.arguments != nullptr && !container)
    d.arguments = [arguments = daemon.arguments, &deps]() { return arguments(deps); };
  d.awaited = daemon.awaited;
  d.mayBeStopped = daemon.mayBeStopped;
  d.carriesApi = daemon.carriesApi;
  if (daemon.check != nullptr) {
    d.health = HealthCheck{[check = daemon.check, &deps]() { return check(deps); }, 0 * kj::SECONDS,
                           5 * kj::SECONDS, daemon.checkTimeout, 100 * kj::MILLISECONDS};
  }
  return d;
}

}  // namespace talos::machined
