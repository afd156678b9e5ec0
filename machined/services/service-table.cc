#include "machined/services/service-table.h"

#include <errno.h>
#include <kj/debug.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/net/ip.h"

namespace talos::machined {
namespace {

constexpr int kListenAs = 3;  // the number of its listening socket in a service

struct Rights {
  unsigned uid;
  kj::StringPtr capabilities;
  kj::StringPtr filter;                       // of system calls
  std::initializer_list<kj::StringPtr> read;  // the only files, beside the program
  kj::StringPtr write;                        // and that it may change; "" = none
};

// The exec wrapper: own uid, no new privileges, and what the service needs beyond that.
kj::Array<kj::String> confined(const Rights& rights, kj::StringPtr program) {
  kj::Vector<kj::String> argv;
  argv.add(kj::str("/usr/libexec/talos/confine"));
  argv.add(kj::str("--uid=", rights.uid));
  if (rights.capabilities != nullptr) {
    argv.add(kj::str("--capabilities=", rights.capabilities));
  }
  argv.add(kj::str("--seccomp=", rights.filter));
  // Naming the program makes a rule set even where nothing else may be read.
  argv.add(kj::str("--landlock-read=", program));
  for (auto path : rights.read) argv.add(kj::str("--landlock-read=", path));
  if (rights.write != nullptr) argv.add(kj::str("--landlock-write=", rights.write));
  argv.add(kj::str("--oom-score=-998"));
  argv.add(kj::str("--"));
  argv.add(kj::str(program));
  return argv.releaseAsArray();
}

}  // namespace

kj::String serviceCgroup(kj::StringPtr id) {
  return id == "machined" ? kj::str("init") : kj::str("system/", id);
}

ServiceDefinition networkdService(int listening, rpc::Networkd::Client networkd) {
  ServiceDefinition d;
  d.id = kj::str("networkd");
  d.command = kj::str("/usr/bin/networkd");
  d.argv = confined(Rights{kNetworkdUid,
                           "net_admin,net_raw,net_bind_service",
                           "network",
                           {"/proc/sys/kernel/hostname", "/sys/devices"},
                           kNetworkdState},
                    d.command);
  d.environment = kj::arr(kj::str(kListenUnixVariable, "=", kListenAs),
                          kj::str(kStoreVariable, "=", kMachinedSocket),
                          kj::str(kStateVariable, "=", kNetworkdState));
  d.cgroup = serviceCgroup(d.id);
  d.sockets.add(ServiceDefinition::Socket{listening, kListenAs});
  d.mayBeStopped = false;
  // Answers when the first pass is done, so the first check may begin at once and tells the moment.
  d.health =
      HealthCheck{[networkd]() mutable { return networkd.readyRequest().send().ignoreResult(); },
                  0 * kj::SECONDS, 5 * kj::SECONDS, 5 * kj::SECONDS};
  return d;
}

ServiceDefinition apidService(int listening, kj::LowLevelAsyncIoProvider& lowLevel,
                              kj::Function<kj::Maybe<kj::String>()> problem) {
  ServiceDefinition d;
  d.id = kj::str("apid");
  d.command = kj::str("/usr/bin/apid");
  // It resolves the names of control-plane machines: the files are links to here.
  d.argv = confined(Rights{kApidUid, "", "server", {"/system/etc", kNetworkdState}, ""}, d.command);
  d.environment = kj::arr(kj::str(kListenTcpVariable, "=", kListenAs),
                          kj::str(kStoreVariable, "=", kMachinedSocket));
  d.cgroup = serviceCgroup(d.id);
  d.dependsOn.add(kj::str("networkd"));
  d.sockets.add(ServiceDefinition::Socket{listening, kListenAs});
  d.mayBeStopped = false;
  d.health = HealthCheck{[&lowLevel, problem = kj::mv(problem)]() mutable -> kj::Promise<void> {
                           KJ_IF_MAYBE (why, problem()) {
                             return error(ErrorKind::kFailedPrecondition, *why);
                           }
                           return serverTakesConnections(lowLevel, kApidPort);
                         },
                         0 * kj::SECONDS, 5 * kj::SECONDS, 5 * kj::SECONDS};
  return d;
}

ServiceDefinition trustdService(int listening, kj::LowLevelAsyncIoProvider& lowLevel) {
  ServiceDefinition d;
  d.id = kj::str("trustd");
  d.command = kj::str("/usr/bin/trustd");
  d.argv = confined(Rights{kTrustdUid, "", "server", {}, ""}, d.command);
  d.environment = kj::arr(kj::str(kListenTcpVariable, "=", kListenAs),
                          kj::str(kStoreVariable, "=", kMachinedSocket));
  d.cgroup = serviceCgroup(d.id);
  d.dependsOn.add(kj::str("networkd"));
  d.sockets.add(ServiceDefinition::Socket{listening, kListenAs});
  d.health = HealthCheck{[&lowLevel]() { return serverTakesConnections(lowLevel, kTrustdPort); },
                         0 * kj::SECONDS, 5 * kj::SECONDS, 5 * kj::SECONDS};
  return d;
}

kj::Promise<void> serverTakesConnections(kj::LowLevelAsyncIoProvider& lowLevel, uint16_t port) {
  auto server = Endpoint{Ip::require("127.0.0.1"), port}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  auto stream =
      co_await lowLevel.wrapConnectingSocketFd(kj::mv(owned), server.get(), server.size());
  stream->shutdownWrite();
  char byte;
  // A reset is an answer as well.
  co_await stream->tryRead(&byte, 1, 1).ignoreResult().catch_([](kj::Exception&&) {});
}

}  // namespace talos::machined
