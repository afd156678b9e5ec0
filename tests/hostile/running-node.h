// For the hostile pack: a node that runs (real process 1, brain, networkd and apid), with a reader
// who attacks it, and another who looks after it.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/testing/own-network.h"
#include "common/wire/test-connect.h"
#include "rpc/local.capnp.h"
#include "tests/hostile/pack.h"
#include "tests/kill/node-testbed.h"

namespace talos::hostile {

constexpr auto kComesUp = 60 * kj::SECONDS;
constexpr kj::StringPtr kHanging = "/var/hanging"_kj;

inline kj::AutoCloseFd opened(kj::StringPtr path, int flags) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), flags | O_CLOEXEC), path);
  return kj::AutoCloseFd(fd);
}

// A whole running node, and the certificates of two readers. Afterwards this thread is in the
// node's network, where every address of 10.0.0.0/8 is the node's.
class RunningNode {
 public:
  RunningNode() {
    auto io = kj::setupAsyncIo();
    auto machined = reconnecting(*io.lowLevelProvider, io.provider->getTimer(),
                                 kj::str(testbed.socket().c_str()))
                        .castAs<rpc::Machined>();
    auto node = machined.nodeRequest().send().getNode();
    until(io, "a first config", [&]() -> kj::Promise<bool> {
      auto node = machined.nodeRequest().send().getNode();
      auto document = co_await kill::firstConfig(node);
      auto apply = node.configurationRequest().send().getConfiguration().applyRequest();
      apply.initRequest().setDocument(document.asBytes());
      apply.getRequest().setMode(rpc::ApplyMode::NO_REBOOT);
      co_await apply.send();
      co_return true;
    });
    until(io, "a node that runs", [&]() -> kj::Promise<bool> {
      auto machine = machined.nodeRequest().send().getNode().machineRequest().send().getMachine();
      auto status = co_await machine.statusRequest().send();
      co_return status.getStage() == rpc::Status::Stage::RUNNING;
    });
    for (auto* to : {&evil, &honest}) {
      until(io, "a certificate", [&]() -> kj::Promise<bool> {
        *to = co_await certificate(machined.nodeRequest().send().getNode());
        co_return true;
      });
    }
    auto network = opened(kj::str("/proc/", testbed.firstProcess(), "/ns/net"), O_RDONLY);
    KJ_SYSCALL(setns(network, CLONE_NEWNET));
    ownTestAddresses();
    mountWhatHangs();
    until(io, "apid", [&]() -> kj::Promise<bool> {
      TlsEndpoint tls(copyOf(honest));
      co_await connectTls(*io.lowLevelProvider, io.provider->getTimer(), tls, "127.0.0.1",
                          kApidPort, "127.0.0.1");
      co_return true;
    });
  }

  static Credentials copyOf(const Credentials& from) {
    return {kj::str(from.authorities), kj::str(from.certificate), from.key.clone()};
  }
  pid_t apid() { return testbed.process("apid"); }
  pid_t brain() { return testbed.brain(); }
  pid_t process(const char* name) { return testbed.process(name); }

  // Makes a directory with `entries` entries, as a pod can, on a separate file system.
  void crowd(kj::StringPtr path, unsigned entries) {
    inside("make a directory with many entries", [&] {
      if (mkdir(path.cStr(), 0755) != 0 || mount("crowded", path.cStr(), "tmpfs", 0, "") != 0) {
        return false;
      }
      auto first = kj::str(path, "/entry-0");
      int fd = open(first.cStr(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      if (fd < 0) return false;
      close(fd);
      for (unsigned i = 1; i < entries; ++i) {
        if (link(first.cStr(), kj::str(path, "/entry-", i).cStr()) != 0) return false;
      }
      return true;
    });
  }

  Credentials evil, honest;

 private:
  kill::NodeTestbed testbed{getenv("PROGRAMS")};
  kj::AutoCloseFd fuse;  // programs that use the mount wait for an answer from this descriptor

  template <typename F>
  void until(kj::AsyncIoContext& io, kj::StringPtr what, F&& reached) {
    auto& timer = io.provider->getTimer();
    auto late = timer.now() + kComesUp;
    kj::String why;
    for (;;) {
      auto trying = timer.timeoutAfter(10 * kj::SECONDS, reached());
      bool done = trying
                      .catch_([&](kj::Exception&& e) {
                        why = messageOf(e);
                        return false;
                      })
                      .wait(io.waitScope);
      if (done) return;
      KJ_REQUIRE(timer.now() < late, "not reached in time", what, why, testbed.console().c_str());
      timer.afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }

  static kj::Promise<Credentials> certificate(rpc::Node::Client node) {
    auto key = pki::makeKey(pki::KeyType::kEd25519);
    auto request = node.machineRequest().send().getMachine().clientCertificateRequest();
    request.setRequest(pki::makeRequest(key, {.commonName = "reader"}).asBytes());
    request.initRoles(1).set(0, "os:reader");
    request.setLifetimeS(3600);
    auto answer = co_await request.send();
    co_return {kj::heapString(answer.getCa().asChars()),
               kj::heapString(answer.getCertificate().asChars()), kj::mv(key)};
  }

  // Mounts a file system whose server, this program, does not answer, as a lost network mount.
  void mountWhatHangs() {
    fuse = opened("/dev/fuse", O_RDWR);
    auto options = kj::str("fd=", fuse.get(), ",rootmode=40000,user_id=0,group_id=0,allow_other");
    inside("mount what hangs", [&] {
      return mkdir(kHanging.cStr(), 0755) == 0 &&
             mount("hanging", kHanging.cStr(), "fuse", 0, options.cStr()) == 0;
    });
  }

  // Runs the function in a process that sees the files of the node; if it returns false, errno has
  // the cause.
  void inside(kj::StringPtr what, kj::FunctionParam<bool()> run) {
    auto process = kj::str("/proc/", testbed.firstProcess());
    auto there = opened(kj::str(process, "/ns/mnt"), O_RDONLY);
    auto root = opened(kj::str(process, "/root"), O_PATH);
    pid_t pid;
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      bool done = setns(there, CLONE_NEWNS) == 0 && fchdir(root) == 0 && chroot(".") == 0 && run();
      _exit(done ? 0 : errno);
    }
    int status;
    KJ_SYSCALL(waitpid(pid, &status, 0));
    KJ_REQUIRE(status == 0, "not done in the node", what, strerror(WEXITSTATUS(status)));
  }
};

// A sink that accepts nothing.
template <typename Interface>
class Stuck;
#define STUCK(Interface, method, Context)                             \
  template <>                                                         \
  class Stuck<rpc::Interface> final : public rpc::Interface::Server { \
    kj::Promise<void> method(Context) override {                      \
      return kj::NEVER_DONE;                                          \
    }                                                                 \
  };
STUCK(FileSink, files, FilesContext)
STUCK(UsageSink, usages, UsagesContext)
STUCK(LogSink, write, WriteContext)
STUCK(EventSink, events, EventsContext)
STUCK(ResourceSink, snapshot, SnapshotContext)
#undef STUCK

struct Evil {
  kj::AsyncIoContext& io;
  TlsEndpoint& tls;
  Tally& tally;
  kj::Timer& timer = io.provider->getTimer();

  kj::Promise<kj::Own<Connection>> connect() {
    return connectTls(*io.lowLevelProvider, timer, tls, "10.0.0.66", kApidPort, "127.0.0.1");
  }
};

// The calls of one round; they are dropped after a while.
struct Calls {
  Tally& tally;
  kj::Vector<kj::Promise<void>> all;

  template <typename Request>
  void add(Request&& request) {
    ++tally.attacks;
    all.add(request.send().ignoreResult().catch_([this](kj::Exception&&) { ++tally.refused; }));
  }
};

inline void measure(rpc::Node::Client& node, Calls& calls, unsigned paths, kj::StringPtr path) {
  auto request = node.filesRequest().send().getFiles().diskUsageRequest();
  auto list = request.initPaths(paths);
  for (unsigned i = 0; i < paths; ++i) list.set(i, path);
  request.setAll(true);
  request.setSink(kj::heap<Stuck<rpc::UsageSink>>());
  calls.add(request);
}

inline void list(rpc::Node::Client& node, Calls& calls, kj::StringPtr root) {
  auto request = node.filesRequest().send().getFiles().listRequest();
  request.setRoot(root);
  request.setRecurse(true);
  request.setSink(kj::heap<Stuck<rpc::FileSink>>());
  calls.add(request);
}

// The calls of an administrator who looks after the node.
struct Looking {
  kj::Own<Connection> connection;

  rpc::Node::Client node() {
    return connection->bootstrap().castAs<rpc::Cluster>().nodeRequest().send().getNode();
  }
  kj::Promise<void> services() {
    auto answer = co_await node().servicesRequest().send().getServices().listRequest().send();
    KJ_REQUIRE(answer.getServices().size() >= 4);
  }
  kj::Promise<void> files() {
    auto request = node().filesRequest().send().getFiles().listRequest();
    request.setRoot("/usr/libexec/talos");
    request.setSink(kj::heap<Taking>());
    co_await request.send();
  }
  kj::Promise<void> log() {
    auto request = node().logsRequest().send().getLogs().readRequest();
    request.setId("machined");
    request.setTailLines(10);
    request.setSink(kj::heap<Reading>());
    co_await request.send();
  }
  kj::Promise<void> routes() {
    auto answer = co_await node().networkRequest().send().getNetwork().routesRequest().send();
    KJ_REQUIRE(answer.getRoutes().size() > 0);
  }
  kj::Promise<void> resources() {
    auto request = node().resourcesRequest().send().getResources().listRequest();
    request.initKind().setType("Services");
    auto answer = co_await request.send();
    KJ_REQUIRE(answer.getResources().size() >= 4);
  }

 private:
  struct Taking final : rpc::FileSink::Server {
    kj::Promise<void> files(FilesContext) override { return kj::READY_NOW; }
  };
  struct Reading final : rpc::LogSink::Server {
    kj::Promise<void> write(WriteContext) override { return kj::READY_NOW; }
  };
};

}  // namespace talos::hostile
