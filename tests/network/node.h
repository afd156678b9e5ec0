// networkd as a node runs it, for tests: its own uid, its capabilities, an inherited socket, a
// store at the other end of a socket, and the real kernel of a network namespace that belongs to
// the calling thread. Needs root.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/base/signal.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/sanitizers.h"
#include "common/wire/rpc-server.h"
#include "machined/resources/store-records.h"
#include "machined/resources/store-server.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos {

// How long a test waits for an event that takes milliseconds: long enough for a machine that is
// many times slower, and stops now and then (another program holds the kernel's lock of all
// networks).
constexpr auto kTimeout = 120 * kj::SECONDS;

class MachinedServer final : public rpc::Machined::Server {
 public:
  MachinedServer(machined::Store& store, unsigned uid) : held(store), uid(uid) {}
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(machined::serveStore(held, uid));
    return kj::READY_NOW;
  }

 private:
  machined::Store& held;
  unsigned uid;
};

class Node {
 public:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  Registry registry;
  machined::Store store{registry, kj::systemCoarseCalendarClock()};
  kj::Own<netlink::Kernel> kernel = netlink::openKernel();
  kj::Own<netlink::Monitor> monitor = netlink::openMonitor(io.unixEventPort);
  unsigned eth0;
  kj::String directory;

  // Creates a link eth0, whose other end, "peer", is in this namespace or in that of the
  // descriptor.
  explicit Node(kj::Maybe<int> peerPlace = nullptr) {
    char made[] = "/tmp/networkd-program-XXXXXX";
    KJ_ASSERT(mkdtemp(made) != nullptr);
    directory = kj::str(made);
    KJ_SYSCALL(chmod(made, 0755));
    makeDirectories(path("state"));
    KJ_SYSCALL(chown(path("state").cStr(), kNetworkdUid, kNetworkdUid));
    machinedSocket = listenUnix(path("machined.sock"), 0666);
    networkdSocket = listenUnix(path("networkd.sock"), 0666);
    for (auto type : typeNames<rpc::NetworkStatusSpec, rpc::OperatorStatusSpec, rpc::RuleStatusSpec,
                               rpc::NeighbourStatusSpec>()) {
      handles.add(store.onChange("", type, [this] { changed.raise(); }));
    }
    // The kernel's own work on IPv6 addresses takes a second and would look like changes of another
    // program.
    kj::AutoCloseFd off(open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC));
    KJ_SYSCALL(write(off, "1", 1), "disable_ipv6");
    eth0 = netlink::addVeth(*kernel, "eth0", "peer");
    KJ_IF_MAYBE (place, peerPlace) {
      netlink::move(netlink::indexOf(*kernel, "peer"), *place);
    } else {
      netlink::setUp(*kernel, netlink::indexOf(*kernel, "peer"));
    }
  }
  ~Node() noexcept(false) {
    kill();
    removeTree(directory);
  }
  kj::String path(kj::StringPtr name) const { return kj::str(directory, '/', name); }

  void serve() {
    serving = serveUnix(*io.lowLevelProvider, timer, duplicate(machinedSocket),
                        [this](const UnixPeer& peer) -> capnp::Capability::Client {
                          return rpc::Machined::Client(kj::heap<MachinedServer>(store, peer.uid));
                        })
                  .eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
  void machinedGoesAway() { serving = nullptr; }

  void start() {
    auto program = required("NETWORKD"), wrapper = required("CONFINE");
    // Like on a node: networkd's uid, few capabilities, and only the calls and files that it needs.
    kj::Vector<kj::String> line;
    line.add(kj::str(wrapper));
    line.add(kj::str("--uid=", kNetworkdUid));
    line.add(kj::str("--capabilities=net_admin,net_raw,net_bind_service"));
    line.add(kj::str("--seccomp=network"));
    // With sanitizers networkd is not static, and Landlock's rules would refuse it its loader.
    if (!kAddressSanitizer) {
      line.add(kj::str("--landlock-read=/proc/sys/kernel/hostname"));
      line.add(kj::str("--landlock-write=", path("state")));
      line.add(kj::str("--landlock-write=/proc/sys/net"));
    }
    line.add(kj::str("--"));
    line.add(kj::str(program));
    auto arguments = line.releaseAsArray();
    // LeakSanitizer is off, because it needs ptrace.
    auto variables = kj::arr(
        kj::str(kListenUnixVariable, "=9"), kj::str(kStoreVariable, "=", path("machined.sock")),
        kj::str(kStateVariable, "=", path("state")), kj::str("ASAN_OPTIONS=detect_leaks=0"));
    auto argv = pointers(arguments), environment = pointers(variables);
    KJ_SYSCALL(pid = fork());
    if (pid != 0) return;
    // dup2() of a descriptor onto itself leaves it close-on-exec.
    if (dup2(networkdSocket, 9) < 0 || fcntl(9, F_SETFD, 0) < 0) _exit(125);
    execve(wrapper.cStr(), argv.begin(), environment.begin());
    _exit(127);
  }
  void kill() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }

  // Fails the test at once if the process could not start, or has exited.
  void requireRunning() {
    int status;
    if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid) return;
    pid = 0;
    KJ_FAIL_REQUIRE("networkd has ended (127: the wrapper cannot be run, 126: the program)",
                    WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }

  template <typename Spec, typename Fill>
  void put(kj::StringPtr id, Fill&& fill) {
    machined::putRecord<Spec>(store, id, kj::fwd<Fill>(fill), "test");
  }
  void putLink() {
    put<rpc::LinkSpecSpec>("eth0", [](rpc::LinkSpecSpec::Builder spec) {
      spec.setName("eth0");
      spec.setUp(true);
    });
  }
  void putAddress(kj::StringPtr address) {
    put<rpc::AddressSpecSpec>("first", [&](rpc::AddressSpecSpec::Builder spec) {
      spec.setAddress(address);
      spec.setLinkName("eth0");
    });
  }
  void putRoute(kj::StringPtr gateway) {
    put<rpc::RouteSpecSpec>("default", [&](rpc::RouteSpecSpec::Builder spec) {
      spec.setGateway(gateway);
      spec.setLinkName("eth0");
      spec.setMetric(10);
    });
  }

  bool applied(uint64_t versions) {
    KJ_IF_MAYBE (status, store.tryGet<rpc::NetworkStatusSpec>("status")) {
      return status->getApplied() == versions && status->getProblems().size() == 0;
    }
    return false;
  }
  bool has(kj::StringPtr text) {
    for (auto& a : kernel->addresses()) {
      if (a.prefix.toString() == text) return true;
    }
    return false;
  }
  bool hasDefault() { return hasDefaultBy("eth0"); }
  bool hasDefaultBy(kj::StringPtr name) {
    KJ_IF_MAYBE (link, netlink::findLink(*kernel, name)) {
      for (auto& r : kernel->routes()) {
        if (r.destination == Prefix::all(AF_INET) && r.link == link->index) return true;
      }
    }
    return false;
  }

  // Waits until the condition holds. Checks it at every change of the store or of the kernel, and
  // every 20 ms for files, whose changes are not reported; fails after kTimeout.
  template <typename F>
  void until(kj::StringPtr what, F&& condition) {
    auto deadline = timer.now() + kTimeout;
    while (!condition()) {
      requireRunning();
      auto storeChanged = changed.next();
      auto kernelChanged = monitor->next().then([](netlink::Notice) {});
      KJ_ASSERT(timer.now() < deadline, "did not happen within two minutes", what);
      timer.afterDelay(20 * kj::MILLISECONDS)
          .exclusiveJoin(kj::mv(storeChanged))
          .exclusiveJoin(kj::mv(kernelChanged))
          .wait(io.waitScope);
    }
  }
  rpc::Networkd::Client dial() {
    connection =
        timer
            .timeoutAfter(kTimeout, connectUnix(*io.lowLevelProvider, timer, path("networkd.sock")))
            .wait(io.waitScope);
    return connection->bootstrap().castAs<rpc::Networkd>();
  }
  void awaitReady() {
    auto client = dial();
    timer.timeoutAfter(kTimeout, client.readyRequest().send().ignoreResult()).wait(io.waitScope);
  }
  pid_t process() const { return pid; }
  bool kernelIsQuiet() {
    auto next = monitor->next();
    return !next.poll(io.waitScope);
  }

 private:
  kj::AutoCloseFd machinedSocket, networkdSocket;
  kj::Promise<void> serving = nullptr;
  kj::Vector<kj::Own<void>> handles;
  kj::Own<Connection> connection;
  Signal changed;
  pid_t pid = 0;

  static kj::StringPtr required(const char* variable) {
    auto value = getenv(variable);
    if (value == nullptr) KJ_FAIL_REQUIRE("must name a program; ctest sets it", variable);
    return value;
  }
  static kj::Array<char*> pointers(kj::ArrayPtr<kj::String> texts) {
    auto result = kj::heapArray<char*>(texts.size() + 1);
    for (size_t i = 0; i < texts.size(); ++i) result[i] = texts[i].begin();
    result[texts.size()] = nullptr;
    return result;
  }
  static kj::AutoCloseFd duplicate(int fd) {
    int copy;
    KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 3));
    return kj::AutoCloseFd(copy);
  }
};

}  // namespace talos
