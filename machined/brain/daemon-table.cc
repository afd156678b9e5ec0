#include "machined/brain/daemon-table.h"

#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/net/ip.h"
#include "machined/controllers/join-controller.h"

namespace talos::machined {
namespace {

// Connects, sends nothing and waits until the server closes: it does that only if it accepts
// connections and looks at them. A socket that process 1 holds takes connections even when nobody
// serves it.
kj::Promise<void> serverTakesConnections(DaemonParts& parts, uint16_t port) {
  auto server = Endpoint{Ip::require("127.0.0.1"), port}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  auto stream =
      co_await parts.lowLevel.wrapConnectingSocketFd(kj::mv(owned), server.get(), server.size());
  stream->shutdownWrite();
  char byte;
  // A reset is an answer as well.
  co_await stream->tryRead(&byte, 1, 1).ignoreResult().catch_([](kj::Exception&&) {});
}

// Answers when the first pass is done, so the first check tells that moment.
kj::Promise<void> networkdIsReady(DaemonParts& parts) {
  return parts.networkd.readyRequest().send().ignoreResult();
}

kj::Promise<void> apidIsReady(DaemonParts& parts) {
  KJ_IF_MAYBE (why, whyNotJoined(parts.store)) {
    return error(ErrorKind::kFailedPrecondition, *why);
  }
  return serverTakesConnections(parts, kApidPort);
}

kj::Promise<void> trustdIsReady(DaemonParts& parts) {
  return serverTakesConnections(parts, kTrustdPort);
}

constexpr kj::StringPtr kNetworkdReads[] = {"/proc/sys/kernel/hostname"_kj, "/sys/devices"_kj};
// It resolves the names of control-plane machines: the files are links to here.
constexpr kj::StringPtr kApidReads[] = {"/system/etc"_kj, kNetworkdState};

constexpr uint64_t kMiB = 1u << 20;

// machined and process 1 have -999 and no limit: they start the others again, and nobody them.
const Daemon kDaemons[] = {
    {.id = "networkd",
     .uid = kNetworkdUid,
     .capabilities = "net_admin,net_raw,net_bind_service",
     .filter = "network",
     .read = kNetworkdReads,
     .state = kNetworkdState,
     // 8 MiB with 1000 links; the kernel's own part of those and of 10 000 routes is some 40 MiB.
     .memoryMax = 256 * kMiB,
     .oomScore = -998,  // without it nobody reaches the node
     .door = {.socket = kNetworkdSocket, .mode = 0600},
     .mayBeStopped = false,
     .check = networkdIsReady},
    {.id = "apid",
     .uid = kApidUid,
     .read = kApidReads,
     // 6 MiB at rest; 1000 clients with full buffers of TLS and sockets are some 130 MiB.
     .memoryMax = 256 * kMiB,
     .oomScore = -900,  // has the most clients; they connect again
     .door = {.port = kApidPort},
     .after = "networkd",
     .mayBeStopped = false,
     .carriesApi = true,
     .check = apidIsReady},
    {.id = "trustd",
     .uid = kTrustdUid,
     // 15 MiB when 5000 nodes join at once.
     .memoryMax = 64 * kMiB,
     .oomScore = -950,                              // a node that joins asks again
     .door = {.port = kTrustdPort, .queue = 4096},  // a whole rack may come up at once
     .after = "networkd",
     .wantedWith = {typeName<rpc::RootSecretSpec>(), "os"},
     .check = trustdIsReady},
};

constexpr int kListenAs = 3;  // the number of its door in a daemon

kj::Array<kj::String> environmentOf(const Daemon& daemon) {
  kj::Vector<kj::String> environment;
  auto add = [&](kj::StringPtr name, auto&& value) { environment.add(kj::str(name, "=", value)); };
  if (daemon.door.port != 0) {
    add(kListenTcpVariable, kListenAs);
  } else if (daemon.door.socket != nullptr) {
    add(kListenUnixVariable, kListenAs);
  }
  add(kStoreVariable, kMachinedSocket);
  if (daemon.state != nullptr) add(kStateVariable, daemon.state);
  return environment.releaseAsArray();
}

}  // namespace

kj::ArrayPtr<const Daemon> daemons() {
  return kDaemons;
}

kj::Array<kj::String> confined(const Daemon& daemon, kj::StringPtr program) {
  kj::Vector<kj::String> argv;
  argv.add(kj::str(kConfine));
  argv.add(kj::str("--uid=", daemon.uid));
  if (daemon.capabilities != nullptr) {
    argv.add(kj::str("--capabilities=", daemon.capabilities));
  }
  argv.add(kj::str("--seccomp=", daemon.filter));
  // Naming the program makes a rule set even where nothing else may be read.
  argv.add(kj::str("--landlock-read=", program));
  for (auto path : daemon.read) argv.add(kj::str("--landlock-read=", path));
  if (daemon.state != nullptr) argv.add(kj::str("--landlock-write=", daemon.state));
  argv.add(kj::str("--oom-score=", daemon.oomScore));
  argv.add(kj::str("--"));
  argv.add(kj::str(program));
  return argv.releaseAsArray();
}

kj::String serviceCgroup(kj::StringPtr id) {
  return id == "machined" ? kj::str("init") : kj::str("system/", id);
}

ServiceDefinition definitionOf(const Daemon& daemon, int listening, DaemonParts& parts) {
  ServiceDefinition d;
  d.id = kj::str(daemon.id);
  d.command = kj::str("/usr/bin/", daemon.id);
  d.argv = confined(daemon, d.command);
  d.environment = environmentOf(daemon);
  d.cgroup = serviceCgroup(d.id);
  d.memoryMax = daemon.memoryMax;
  if (daemon.after != nullptr) d.dependsOn.add(kj::str(daemon.after));
  if (listening >= 0) d.sockets.add(ServiceDefinition::Socket{listening, kListenAs});
  d.mayBeStopped = daemon.mayBeStopped;
  d.carriesApi = daemon.carriesApi;
  if (daemon.check != nullptr) {
    d.health = HealthCheck{[check = daemon.check, &parts]() { return check(parts); },
                           0 * kj::SECONDS, 5 * kj::SECONDS, 5 * kj::SECONDS};
  }
  return d;
}

}  // namespace talos::machined
