// Three hosts on one segment, each a network namespace with etcd, vipd and a store, as on three
// control-plane nodes; the holder is found by holder-watch.h. For tests; needs root.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "common/base/file.h"
#include "common/base/node-layout.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/sanitizers.h"
#include "common/tls/pki.h"
#include "common/wire/rpc-server.h"
#include "machined/resources/store-records.h"
#include "machined/resources/store-server.h"
#include "rpc/local.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "tests/vip/arp-prober.h"
#include "tests/vip/holder-watch.h"
#include "tests/vip/places.h"

namespace talos {

constexpr auto kTimeout = 120 * kj::SECONDS;
constexpr kj::StringPtr kVip = "10.77.0.50"_kj;
constexpr unsigned kHosts = 3;

inline kj::StringPtr required(kj::StringPtr variable) {
  auto value = getenv(variable.cStr());
  KJ_REQUIRE(value != nullptr, "not set", variable);
  return value;
}

class StoreOnly final : public rpc::Machined::Server {
 public:
  explicit StoreOnly(machined::Store& store) : held(store) {}
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(machined::serveStore(held, 0));
    return kj::READY_NOW;
  }

 private:
  machined::Store& held;
};

// Starts a program in a namespace; it ends with this thread.
inline pid_t spawn(int place, kj::StringPtr log, kj::ArrayPtr<const kj::String> line,
                   kj::ArrayPtr<const kj::String> variables) {
  std::vector<char*> argv, environment;
  for (auto& text : line) argv.push_back(const_cast<char*>(text.cStr()));
  for (auto& text : variables) environment.push_back(const_cast<char*>(text.cStr()));
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  kj::AutoCloseFd out(open(log.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setns(place, CLONE_NEWNET) < 0) _exit(125);
    dup2(out, 1);
    dup2(out, 2);
    execve(argv[0], argv.data(), environment.data());
    _exit(127);
  }
  return pid;
}

struct Host {
  unsigned number;
  kj::AutoCloseFd place;
  kj::Own<netlink::Kernel> kernel;
  Registry registry;
  machined::Store store{registry, kj::systemCoarseCalendarClock()};
  kj::Promise<void> serving = nullptr;
  pid_t etcd = 0, vipd = 0;

  explicit Host(unsigned number) : number(number) {}
  kj::String name() const { return kj::str("host-", number); }
  bool has() {
    for (auto& address : kernel->addresses()) {
      if (address.prefix.address == Ip::require(kVip)) return true;
    }
    return false;
  }
  kj::String status() {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::VipStatusSpec>(kVip)) {
      return kj::str(spec->getState(), " ", spec->getHolder(), ": ", spec->getReason());
    }
    return kj::str("none");
  }
};

class Hosts {
 public:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::Vector<kj::Own<Host>> hosts;
  kj::String directory;
  unsigned restarts = 0;  // number of restarts after a vipd ended by itself

  // Leaves the calling thread in the namespace of the segment.
  Hosts() {
    char made[] = "/tmp/vipd-program-XXXXXX";
    KJ_ASSERT(mkdtemp(made) != nullptr);
    directory = kj::str(made);
    KJ_SYSCALL(chmod(made, 0755));
    authority = pki::makeAuthority({.organization = "etcd"});
    auto both = issue();
    writeFileAtomically(path("ca.crt"), authority.certificate, 0644);
    writeFileAtomically(path("tls.crt"), both.certificate, 0644);
    writeFileAtomically(path("tls.key"), kj::StringPtr(pki::toPkcs8(both.key)), 0600);
    KJ_SYSCALL(unshare(CLONE_NEWNET), "these tests need root");
    kernel = netlink::openKernel();
    bridge = netlink::addLink(*kernel, "br0", netlink::Bridge{});
    // Without a fixed address the bridge has that of its lowest port, which is lost with this
    // port's host.
    netlink::change(*kernel,
                    netlink::SetLink{.index = bridge, .hardwareAddress = {{2, 0, 10, 77, 0, 254}}});
    netlink::setUp(*kernel, bridge);
    netlink::addAddress(*kernel, bridge, KJ_ASSERT_NONNULL(Prefix::parse("10.77.0.254/24")));
    for (unsigned i = 1; i <= kHosts; ++i) add(i);
    for (auto& host : hosts) startEtcd(*host);
    for (auto& host : hosts) serve(*host);
  }
  ~Hosts() noexcept(false) {
    for (auto& host : hosts) {
      end(host->vipd, SIGKILL);
      end(host->etcd, SIGKILL);
    }
    if (getenv("VIP_KEEP") == nullptr) removeTree(directory);
  }

  kj::String path(kj::StringPtr name) const { return kj::str(directory, '/', name); }

  void startEtcd(Host& host) {
    kj::Vector<kj::String> all, line;
    for (unsigned i = 1; i <= kHosts; ++i) {
      all.add(kj::str("host-", i, "=https://10.77.0.", i, ":2380"));
    }
    line.add(kj::str("/usr/bin/etcd"));
    auto flag = [&](kj::StringPtr name, kj::StringPtr value) {
      line.add(kj::str("--", name, "=", value));
    };
    auto peer = kj::str("https://10.77.0.", host.number, ":2380");
    flag("name", host.name());
    flag("data-dir", path(host.name()));
    flag("listen-client-urls", "https://127.0.0.1:2379");
    flag("advertise-client-urls", "https://127.0.0.1:2379");
    flag("listen-peer-urls", peer);
    flag("initial-advertise-peer-urls", peer);
    flag("initial-cluster", kj::strArray(all, ","));
    for (auto prefix : {"", "peer-"}) {
      flag(kj::str(prefix, "cert-file"), path("tls.crt"));
      flag(kj::str(prefix, "key-file"), path("tls.key"));
      flag(kj::str(prefix, "trusted-ca-file"), path("ca.crt"));
      flag(kj::str(prefix, "client-cert-auth"), "true");
    }
    flag("listen-metrics-urls", "http://127.0.0.1:2381");
    flag("log-level", "error");
    flag("unsafe-no-fsync", "true");
    host.etcd = spawn(host.place, path(kj::str(host.name(), "-etcd.log")), line, nullptr);
  }

  void start(Host& host) {
    kj::Vector<kj::String> line;
    for (auto text : {required("CONFINE"), "--uid=54"_kj, "--capabilities=net_admin,net_raw"_kj,
                      "--seccomp=vip"_kj, "--"_kj, required("VIPD")}) {
      line.add(kj::str(text));
    }
    auto variables = kj::arr(kj::str(kStoreVariable, "=", path(kj::str(host.name(), ".sock"))),
                             kj::str("ASAN_OPTIONS=detect_leaks=0"));
    host.vipd = spawn(host.place, path(kj::str(host.name(), ".log")), line, variables);
  }
  // Restarts a vipd that has ended by itself, as machined does.
  void supervise(Host& host) {
    int status;
    if (host.vipd <= 0 || waitpid(host.vipd, &status, WNOHANG) != host.vipd) return;
    ++restarts;
    KJ_ASSERT(restarts < 1000, "vipd does not run", said());
    start(host);
  }
  // Ends the program by the signal and returns its wait status.
  int end(pid_t& program, int signal) {
    auto pid = std::exchange(program, 0);
    if (pid <= 0) return 0;
    ::kill(pid, signal);
    ::kill(pid, SIGCONT);
    int status = 0;
    if (signal == SIGKILL) {
      waitpid(pid, &status, 0);
    } else {
      until("it ends", [&] { return waitpid(pid, &status, WNOHANG) == pid; });
    }
    return status;
  }
  // Returns a new client on the segment.
  kj::Own<ArpProber> probe() {
    auto br0 = KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "br0"));
    return kj::heap<ArpProber>(br0, Ip::require("10.77.0.254"), Ip::require(kVip));
  }
  // Watches the hosts' kernels for the address.
  kj::Own<HolderWatch> watch() {
    auto result = kj::heap<HolderWatch>(Ip::require(kVip), hosts.size());
    for (auto& host : hosts) result->put(host->number - 1, host->place);
    return result;
  }
  // Waits until one host has the address and the others are ready to take it; returns the holder.
  Host& settled() {
    Host* found = nullptr;
    until("one holds the address and the others wait", [&] {
      found = nullptr;
      unsigned waiting = 0;
      for (auto& host : hosts) {
        if (host->has() && host->status().startsWith("holder")) found = host.get();
        waiting += host->status().startsWith("waiting");
      }
      return found != nullptr && waiting == hosts.size() - 1;
    });
    return *found;
  }
  // Sets the other end of the host's cable up or down.
  void plug(Host& host, bool in) {
    netlink::setUp(*kernel, netlink::indexOf(*kernel, kj::str("h", host.number)), in);
  }

  // Removes the address from the host, whichever program has added it.
  void takeAway(Host& host) {
    for (auto& each : host.kernel->addresses()) {
      if (each.prefix.address != Ip::require(kVip)) continue;
      netlink::change(*host.kernel, netlink::DeleteAddress{each});
    }
  }

  template <typename F>
  int64_t until(kj::StringPtr what, F&& condition) {
    auto& clock = kj::systemPreciseMonotonicClock();
    auto begin = clock.now();
    while (!condition()) {
      for (auto& host : hosts) supervise(*host);
      KJ_ASSERT(clock.now() - begin < kTimeout, "did not happen within two minutes", what, said());
      timer.afterDelay(2 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return (clock.now() - begin) / kj::MILLISECONDS;
  }
  kj::String said() {
    kj::Vector<kj::String> all;
    for (auto& host : hosts) {
      all.add(kj::str(host->name(), ": ", host->status(), "\n",
                      tryReadFile(path(kj::str(host->name(), ".log"))).orDefault(nullptr)));
    }
    return kj::strArray(all, "\n");
  }

 private:
  pki::CertificateAndKey authority;
  kj::Own<netlink::Kernel> kernel;
  unsigned bridge = 0;

  pki::CertificateAndKey issue() const {
    auto addresses = kj::heapArrayBuilder<kj::String>(kHosts + 1);
    addresses.add(kj::str("127.0.0.1"));
    for (unsigned i = 1; i <= kHosts; ++i) addresses.add(kj::str("10.77.0.", i));
    return pki::issue(authority.certificate, authority.key,
                      {.commonName = "node", .addresses = addresses.finish()});
  }

  void add(unsigned number) {
    auto host = kj::heap<Host>(number);
    host->place = newPlace();
    host->kernel = inside(host->place, [] { return netlink::openKernel(); });
    plugIn(*kernel, bridge, kj::str("h", number), host->place,
           KJ_ASSERT_NONNULL(Prefix::parse(kj::str("10.77.0.", number, "/24"))));
    hosts.add(kj::mv(host));
  }

  void serve(Host& host) {
    auto put = [&]<typename Spec>(kj::StringPtr id, auto fill) {
      machined::putRecord<Spec>(host.store, id, fill, "test");
    };
    auto client = issue();
    put.operator()<rpc::VipSpecSpec>(kVip, [](rpc::VipSpecSpec::Builder spec) {
      spec.setLinkName("eth0");
      spec.setLeaseTtlMs(2000);
    });
    put.operator()<rpc::HostnameSpecSpec>(
        "hostname", [&](rpc::HostnameSpecSpec::Builder spec) { spec.setHostname(host.name()); });
    put.operator()<rpc::ServiceSpec>("etcd", [](rpc::ServiceSpec::Builder spec) {
      spec.setRunning(true);
      spec.setHealthy(true);
    });
    put.operator()<rpc::EtcdSecretsSpec>("client", [&](rpc::EtcdSecretsSpec::Builder spec) {
      auto pair = spec.initClient();
      pair.setCrt(client.certificate.asBytes());
      pair.setKey(kj::StringPtr(client.key).asBytes());
      spec.setCa(authority.certificate.asBytes());
    });
    host.serving =
        serveUnix(*io.lowLevelProvider, timer,
                  listenUnix(path(kj::str(host.name(), ".sock")), 0666),
                  [&host](const UnixPeer&) -> capnp::Capability::Client {
                    return rpc::Machined::Client(kj::heap<StoreOnly>(host.store));
                  })
            .eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  }
};

}  // namespace talos
