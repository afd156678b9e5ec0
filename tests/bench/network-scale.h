// Large networks, made by networkd's reconciler on the real kernel of a namespace and by `ip
// -batch` in another one, in turn: for network-bench on the host and for the guest with bonds and
// VLANs.
#pragma once

#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "networkd/control/network-reconciler.h"
#include "networkd/control/test-network-store.h"
#include "tests/kernel/namespaces.h"

namespace talos::networkd {

// A network, as specs and as lines for `ip -batch` that make the same.
struct Scale {
  std::string name;
  unsigned count;
  std::function<void(Wanted&)> want;
  std::string before;  // lines that both begin with
  std::string batch;
};

inline WantedLink scaleLink(std::string name, kj::StringPtr kind) {
  WantedLink link;
  link.name = kj::str(name.c_str());
  link.kind = kj::str(kind);
  link.version = 1;
  return link;
}
inline std::string scaleAddress(unsigned i) {
  return "10." + std::to_string(i / 250) + "." + std::to_string(i % 250) + ".1/24";
}

inline Scale bridges(unsigned count) {
  Scale scale{"bridges", count, {}, "", ""};
  for (unsigned i = 0; i < count; ++i) {
    auto name = "net" + std::to_string(i);
    scale.batch += "link add name " + name + " type bridge\nlink set dev " + name +
                   " up\naddress add " + scaleAddress(i) + " dev " + name + "\n";
  }
  scale.want = [count](Wanted& wanted) {
    for (unsigned i = 0; i < count; ++i) {
      auto name = "net" + std::to_string(i);
      wanted.links.add(scaleLink(name, "bridge"));
      wanted.addresses.add(WantedAddress{
          .link = kj::str(name.c_str()), .prefix = prefix(scaleAddress(i).c_str()), .version = 1});
    }
  };
  return scale;
}

inline Scale routes(unsigned count) {
  Scale scale{"routes",
              count,
              {},
              "link add name net0 type veth peer name peer\nlink set dev peer up\n",
              "link set dev net0 up\naddress add 10.0.0.2/24 dev net0\n"};
  auto destination = [](unsigned i) {
    return "172." + std::to_string(16 + i / 65536) + "." + std::to_string(i / 256 % 256) + "." +
           std::to_string(i % 256) + "/32";
  };
  for (unsigned i = 0; i < count; ++i) {
    scale.batch += "route add " + destination(i) + " via 10.0.0.1 dev net0 metric 10\n";
  }
  scale.want = [count, destination](Wanted& wanted) {
    wanted.links.add(scaleLink("net0", ""));
    wanted.addresses.add(
        WantedAddress{.link = kj::str("net0"), .prefix = prefix("10.0.0.2/24"), .version = 1});
    for (unsigned i = 0; i < count; ++i) {
      wanted.routes.add(WantedRoute{.link = kj::str("net0"),
                                    .destination = prefix(destination(i).c_str()),
                                    .gateway = ip("10.0.0.1"),
                                    .metric = 10,
                                    .version = 1});
    }
  };
  return scale;
}

inline Scale vlans(unsigned count) {
  Scale scale{"vlans",
              count,
              {},
              "link add name net0 type veth peer name peer\nlink set dev peer up\n",
              "link set dev net0 up\n"};
  for (unsigned i = 1; i <= count; ++i) {
    auto name = "net0." + std::to_string(i);
    scale.batch += "link add link net0 name " + name + " type vlan id " + std::to_string(i) +
                   "\nlink set dev " + name + " up\n";
  }
  scale.want = [count](Wanted& wanted) {
    wanted.links.add(scaleLink("net0", ""));
    for (unsigned i = 1; i <= count; ++i) {
      auto link = scaleLink("net0." + std::to_string(i), "vlan");
      link.parent = kj::str("net0");
      link.vlan.id = i;
      wanted.links.add(kj::mv(link));
    }
  };
  return scale;
}

inline Scale bonds(unsigned count) {
  Scale scale{"bonds of two", count, {}, "", ""};
  for (unsigned i = 0; i < count; ++i) {
    auto n = std::to_string(i);
    scale.before +=
        "link add name one" + n + " type dummy\nlink add name two" + n + " type dummy\n";
    scale.batch += "link add name bond" + n + " type bond mode active-backup miimon 100\n" +
                   "link set dev one" + n + " master bond" + n + "\nlink set dev two" + n +
                   " master bond" + n + "\nlink set dev bond" + n + " up\n";
  }
  scale.want = [count](Wanted& wanted) {
    for (unsigned i = 0; i < count; ++i) {
      auto n = std::to_string(i);
      auto bond = scaleLink("bond" + n, "bond");
      bond.bond[netlink::BondOption::kMode] = uint32_t(netlink::BondMode::kActiveBackup);
      bond.bond[netlink::BondOption::kMiimon] = 100;
      wanted.links.add(kj::mv(bond));
      for (auto member : {"one", "two"}) {
        auto link = scaleLink(member + n, "");
        link.master = kj::str("bond", i);
        wanted.links.add(kj::mv(link));
      }
    }
  };
  return scale;
}

class ScaleStore final : public NetworkStore {
 public:
  explicit ScaleStore(const Scale& scale) : scale(scale) {}
  kj::Maybe<Report> last;
  Signal reported;
  kj::Maybe<Intent> intent() override {
    Intent intent;
    scale.want(intent.wanted);
    return kj::mv(intent);
  }
  kj::Promise<void> publish(Report report) override {
    last = kj::mv(report);
    reported.raise();
    return kj::READY_NOW;
  }
  rpc::NetworkStatusSpec::Reader status() {
    auto& report = KJ_ASSERT_NONNULL(last);
    return KJ_ASSERT_NONNULL(report.network.find("status"_kj))->getRoot<rpc::NetworkStatusSpec>();
  }

 private:
  const Scale& scale;
};

// A kernel that counts the requested changes.
class CountedKernel final : public netlink::Kernel {
 public:
  size_t changes = 0;
  kj::Vector<netlink::Link> links() override { return real->links(); }
  kj::Vector<netlink::Address> addresses() override { return real->addresses(); }
  kj::Vector<netlink::Route> routes() override { return real->routes(); }
  kj::Vector<netlink::Route> allRoutes() override { return real->allRoutes(); }
  kj::Vector<netlink::Route> routesOf(uint32_t table) override { return real->routesOf(table); }
  kj::Vector<netlink::Rule> rules() override { return real->rules(); }
  kj::Vector<netlink::Neighbour> neighbours() override { return real->neighbours(); }
  netlink::WireguardDevice wireguard(unsigned index) override { return real->wireguard(index); }
  kj::Vector<kj::Maybe<netlink::Failure>> apply(kj::ArrayPtr<const netlink::Change> list) override {
    changes += list.size();
    return real->apply(list);
  }

 private:
  kj::Own<netlink::Kernel> real = netlink::openKernel(60 * kj::SECONDS);
};

// Returns the processor time of this thread, including the kernel's work for it, in ms: netlink
// works in the call, and other load of the machine is not measured.
inline double processorTime() {
  timespec now;
  KJ_SYSCALL(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now));
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

struct ScaleTimes {
  double ours = 0, again = 0, ip = 0;  // ms
  size_t sent = 0, sentAgain = 0;
  std::string problem;
};

// Runs `ip -batch` in the namespace of the calling thread. Returns its processor time in ms.
inline double ipBatch(const std::string& lines) {
  if (lines.empty()) return 0;
  char name[] = "/tmp/network-bench-XXXXXX";
  int file;
  KJ_SYSCALL(file = mkstemp(name));
  kj::FdOutputStream(kj::AutoCloseFd(file)).write(lines.data(), lines.size());
  // A guest has neither a shell nor a PATH.
  auto program = access("/usr/sbin/ip", X_OK) == 0 ? "/usr/sbin/ip" : "/usr/bin/ip";
  const char* argv[] = {program, "-batch", name, nullptr};
  pid_t pid;
  int status = posix_spawn(&pid, program, nullptr, nullptr, const_cast<char**>(argv), environ);
  rusage used = {};
  if (status == 0) {
    KJ_SYSCALL(wait4(pid, &status, 0, &used));
  }
  unlink(name);
  KJ_REQUIRE(status == 0, "ip -batch failed", status);
  auto ms = [](const timeval& time) { return time.tv_sec * 1e3 + time.tv_usec / 1e3; };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

inline void oursInto(const Scale& scale, ScaleTimes& times) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ipBatch(scale.before);
  CountedKernel kernel;
  netlink::setUp(kernel, netlink::indexOf(kernel, "lo"));
  kernel.changes = 0;
  auto monitor = netlink::openMonitor(io.unixEventPort);
  ScaleStore store(scale);
  FakeHost host;
  Signal work;
  NetworkReconciler reconciler(kernel, *monitor, store, host, timer, work, [] { return 0.5; });
  auto begin = processorTime();
  auto running = reconciler.run().eagerlyEvaluate(
      [&](kj::Exception&& e) { times.problem = kj::str(e).cStr(); });
  timer.timeoutAfter(120 * kj::SECONDS, reconciler.ready()).wait(io.waitScope);
  times.ours = processorTime() - begin;
  times.sent = kernel.changes;
  // The reconciler reads back its own changes; until then it is not at rest.
  auto settle = [&] {
    for (;;) {
      auto sent = kernel.changes;
      timer.afterDelay(300 * kj::MILLISECONDS).wait(io.waitScope);
      if (sent == kernel.changes) return;
    }
  };
  settle();
  kernel.changes = 0;
  store.last = nullptr;
  begin = processorTime();
  work.raise();
  while (store.last == nullptr) store.reported.wait().wait(io.waitScope);
  times.again = processorTime() - begin;
  times.sentAgain = kernel.changes;
  if (store.status().getProblems().size() > 0) {
    times.problem = store.status().getProblems()[0].cStr();
  }
}

inline void ipInto(const Scale& scale, ScaleTimes& times) {
  ipBatch("link set dev lo up\n");
  ipBatch(scale.before);
  times.ip = ipBatch(scale.batch);
}

// Removes the links before their namespace, which would remove them in the background, under the
// lock that the next measurement needs.
inline void removeLinks() {
  auto kernel = netlink::openKernel(60 * kj::SECONDS);
  kj::Vector<netlink::Change> changes;
  for (auto& link : kernel->links()) {
    if (!link.loopback()) changes.add(netlink::DeleteLink{link.index});
  }
  kernel->apply(changes);
}

// Removing a bridge takes two grace periods of the kernel, so removing a thousand takes half a
// minute: `report` is called before that.
using ScaleReport = std::function<void(const ScaleTimes&)>;
inline ScaleTimes measure(
    const Scale& scale, const ScaleReport& report = [](const ScaleTimes&) {}) {
  ScaleTimes times;
  Namespace ours, theirs;
  ours.run([&] { oursInto(scale, times); });
  theirs.run([&] { ipInto(scale, times); });
  report(times);
  ours.run([&] { removeLinks(); });
  theirs.run([&] { removeLinks(); });
  return times;
}

// Reports the time in which `links` links are read again, as after an overrun, and found unchanged.
inline void resync(unsigned links, const std::function<void(double)>& report) {
  Namespace place;
  place.run([&] {
    auto scale = bridges(links);
    ScaleTimes times;
    oursInto(scale, times);
    report(times.again);
    removeLinks();
  });
}

}  // namespace talos::networkd
