// A node under attack by somebody with the role os:reader: real process 1, brain and apid, and
// everything that a reader may call, at once and without end.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/testing/own-network.h"
#include "common/wire/test-connect.h"
#include "rpc/local.capnp.h"
#include "tests/hostile/by-hand.h"
#include "tests/hostile/pack.h"
#include "tests/kill/first-config.h"
#include "tests/kill/node-testbed.h"

namespace talos::hostile {
namespace {

constexpr auto kComesUp = 60 * kj::SECONDS;
constexpr kj::StringPtr kHanging = "/var/hanging"_kj;
// Two connections of each kind of call, and many of those that are about memory.
constexpr unsigned kKinds = 7, kCallers = 2 * kKinds, kHoarders = 48;
// The sum of apid's own limits, below its limit of memory (apid/gate/gate.h).
constexpr size_t kMostGrowthKiB = 224u << 10;
// The brain: the same again, and what an allocator keeps of it.
constexpr size_t kMostBrainGrowthKiB = 160u << 10;

kj::AutoCloseFd opened(kj::StringPtr path, int flags) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), flags | O_CLOEXEC), path);
  return kj::AutoCloseFd(fd);
}

// A whole node that runs, and two readers' certificates of it. Afterwards this thread is in the
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

  Credentials evil, honest;

 private:
  kill::NodeTestbed testbed{getenv("PROGRAMS")};
  kj::AutoCloseFd fuse;  // whoever asks for something of that mount waits for an answer from here

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

  // A file system whose server, this program, says nothing, as a network mount does that is gone.
  void mountWhatHangs() {
    fuse = opened("/dev/fuse", O_RDWR);
    auto process = kj::str("/proc/", testbed.firstProcess());
    auto there = opened(kj::str(process, "/ns/mnt"), O_RDONLY);
    auto root = opened(kj::str(process, "/root"), O_PATH);
    pid_t pid;
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      auto options = kj::str("fd=", fuse.get(), ",rootmode=40000,user_id=0,group_id=0,allow_other");
      bool done = setns(there, CLONE_NEWNS) == 0 && fchdir(root) == 0 && chroot(".") == 0 &&
                  mkdir(kHanging.cStr(), 0755) == 0 &&
                  mount("hanging", kHanging.cStr(), "fuse", 0, options.cStr()) == 0;
      _exit(done ? 0 : errno);
    }
    int status;
    KJ_SYSCALL(waitpid(pid, &status, 0));
    KJ_REQUIRE(status == 0, "cannot mount what hangs", strerror(WEXITSTATUS(status)));
  }
};

// Sinks that take nothing.
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

void askTheTime(rpc::Node::Client& node, Calls& calls) {
  auto machine = node.machineRequest().send().getMachine();
  for (unsigned i = 0; i < 64; ++i) {
    auto request = machine.timeRequest();
    request.setServer(i % 2 == 0 ? kj::str("10.9.9.", i) : kj::str("server-", i, ".example"));
    calls.add(request);
  }
}

void measure(rpc::Node::Client& node, Calls& calls, unsigned paths, kj::StringPtr path) {
  auto request = node.filesRequest().send().getFiles().diskUsageRequest();
  auto list = request.initPaths(paths);
  for (unsigned i = 0; i < paths; ++i) list.set(i, path);
  request.setAll(true);
  request.setSink(kj::heap<Stuck<rpc::UsageSink>>());
  calls.add(request);
}

void list(rpc::Node::Client& node, Calls& calls, kj::StringPtr root) {
  auto request = node.filesRequest().send().getFiles().listRequest();
  request.setRoot(root);
  request.setRecurse(true);
  request.setSink(kj::heap<Stuck<rpc::FileSink>>());
  calls.add(request);
}

void readTheKernelsLog(rpc::Node::Client& node, Calls& calls) {
  auto logs = node.logsRequest().send().getLogs();
  for (unsigned i = 0; i < 64; ++i) {
    auto request = logs.kernelRequest();
    request.setFollow(true);
    request.setSink(kj::heap<Stuck<rpc::LogSink>>());
    calls.add(request);
  }
}

void followEverything(rpc::Node::Client& node, Calls& calls) {
  for (unsigned i = 0; i < 64; ++i) {
    auto log = node.logsRequest().send().getLogs().readRequest();
    log.setId("machined");
    log.setFollow(true);
    log.setSink(kj::heap<Stuck<rpc::LogSink>>());
    calls.add(log);
    auto events = node.eventsRequest().send().getEvents().watchRequest();
    events.initTail().setLast(-1);
    events.setSink(kj::heap<Stuck<rpc::EventSink>>());
    calls.add(events);
    auto watch = node.resourcesRequest().send().getResources().watchRequest();
    watch.initKind().setType("Services");
    watch.setSink(kj::heap<Stuck<rpc::ResourceSink>>());
    calls.add(watch);
  }
}

void nameManyNodes(rpc::Cluster::Client& cluster, Calls& calls) {
  for (unsigned i = 0; i < 300; ++i) {
    auto request = cluster.nodeRequest();
    request.setAddress(kj::str("10.66.", i / 200, ".", 1 + i % 200));
    calls.add(request.send().getNode().machineRequest().send().getMachine().versionRequest());
  }
}

void hang(rpc::Node::Client& node, Calls& calls) {
  for (unsigned i = 0; i < 16; ++i) {
    list(node, calls, kHanging);
    calls.add(node.machineRequest().send().getMachine().mountsRequest());
    calls.add(node.machineRequest().send().getMachine().processesRequest());
  }
}

void callAll(unsigned kind, rpc::Cluster::Client& cluster, Calls& calls) {
  rpc::Node::Client node = cluster.nodeRequest().send().getNode();
  switch (kind) {
    case 0:
      return askTheTime(node, calls);
    case 1:
      for (unsigned i = 0; i < 32; ++i) measure(node, calls, 256, "/");
      return measure(node, calls, 500'000, "/");
    case 2:
      for (unsigned i = 0; i < 64; ++i) list(node, calls, "/");
      return;
    case 3:
      return readTheKernelsLog(node, calls);
    case 4:
      return followEverything(node, calls);
    case 5:
      return nameManyNodes(cluster, calls);
    default:
      return hang(node, calls);
  }
}

// One connection after the other: calls that are left open for a while, and then dropped.
kj::Promise<void> callWithoutEnd(Evil evil, unsigned kind) {
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto connection = co_await evil.connect();
      auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
      Calls calls{evil.tally, {}};
      callAll(kind, cluster, calls);
      co_await kj::joinPromises(calls.all.releaseAsArray())
          .exclusiveJoin(evil.timer.afterDelay(1 * kj::SECONDS));
    }).catch_([&](kj::Exception&&) { ++evil.tally.refused; });
    co_await evil.timer.afterDelay(20 * kj::MILLISECONDS);
  }
}

// Calls as large as a message may be, all of them open.
kj::Promise<void> hoardCalls(Evil evil) {
  auto connection = co_await evil.connect();
  auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
  rpc::Node::Client node = cluster.nodeRequest().send().getNode();
  auto path = kj::heapString(7u << 20);
  memset(path.begin(), 'a', path.size());
  Calls calls{evil.tally, {}};
  for (unsigned i = 0; i < 5; ++i) measure(node, calls, 1, path);
  co_await connection->onDisconnect().exclusiveJoin(evil.timer.afterDelay(5 * kj::SECONDS));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> raw(Evil evil) {
  return rawStream(evil.io, evil.tls, "10.0.0.66", "127.0.0.1");
}

// A message as large as it may be, but for its last word.
kj::Promise<void> hoardBytes(Evil evil) {
  auto stream = co_await raw(evil);
  constexpr uint32_t kWords = (1u << 20) - 8;
  auto bytes = kj::heapArray<kj::byte>(8 * kWords);
  memset(bytes.begin(), 0, bytes.size());
  const uint32_t header[2] = {0, kWords};
  memcpy(bytes.begin(), header, sizeof header);
  ++evil.tally.attacks;
  co_await stream->write(bytes.begin(), bytes.size() - 8);
  kj::byte nothing;
  co_await stream->tryRead(&nothing, 1, 1)
      .exclusiveJoin(evil.timer.afterDelay(5 * kj::SECONDS).then([]() -> size_t { return 0; }));
}

// Asks for what has long answers, and reads none of them.
kj::Promise<void> hoardAnswers(Evil evil) {
  auto stream = co_await raw(evil);
  ByHand calls;
  constexpr uint16_t kNode = 0, kServices = 1, kList = 0;  // ordinals
  auto node =
      calls.call<rpc::Cluster::NodeParams>(0, capnp::typeId<rpc::Cluster>(), kNode, [](auto) {});
  auto services = calls.call<rpc::Node::ServicesParams>(node, capnp::typeId<rpc::Node>(), kServices,
                                                        [](auto) {});
  for (unsigned i = 0; i < 2000; ++i) {
    ++evil.tally.attacks;
    calls.call<rpc::Services::ListParams>(services, capnp::typeId<rpc::Services>(), kList,
                                          [](auto) {});
  }
  co_await stream->write(calls.bytes().begin(), calls.bytes().size());
  co_await evil.timer.afterDelay(5 * kj::SECONDS);
}

kj::Promise<void> hoard(Evil evil, unsigned number) {
  for (;;) {
    kj::Promise<void> (*const ways[])(Evil) = {hoardCalls, hoardBytes, hoardAnswers};
    co_await kj::evalNow([&]() { return ways[number % 3](evil); }).catch_([&](kj::Exception&&) {
      ++evil.tally.refused;
    });
    co_await evil.timer.afterDelay(200 * kj::MILLISECONDS);
  }
}

// Calls that a reader may not make; one that is answered ends this scenario.
kj::Promise<void> askForMore(Evil evil) {
  for (;;) {
    co_await kj::evalNow([&]() -> kj::Promise<void> {
      auto connection = co_await evil.connect();
      auto node = connection->bootstrap().castAs<rpc::Cluster>().nodeRequest().send().getNode();
      ++evil.tally.attacks;
      co_await node.machineRequest().send().getMachine().rebootRequest().send();
    }).catch_([&](kj::Exception&&) { ++evil.tally.refused; });
    co_await evil.timer.afterDelay(200 * kj::MILLISECONDS);
  }
}

kj::Promise<void> attack(kj::AsyncIoContext& io, const Credentials& credentials, Tally& tally) {
  TlsEndpoint tls(RunningNode::copyOf(credentials));
  Evil evil{io, tls, tally};
  kj::Vector<kj::Promise<void>> all;
  for (unsigned i = 0; i < kCallers; ++i) all.add(callWithoutEnd(evil, i % kKinds));
  for (unsigned i = 0; i < kHoarders; ++i) all.add(hoard(evil, i));
  all.add(askForMore(evil));
  co_await kj::joinPromises(all.releaseAsArray());
}

// The calls of somebody who looks after the node.
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

// Catches: a reader who takes what other clients need, a place, a thread or a slot, or who makes
// apid or the brain grow; one who ends either of them.
TEST_F(Pack, Reader) {
  RunningNode node;
  Attacker attacker(*tally, [&](kj::AsyncIoContext& io) { return attack(io, node.evil, *tally); });
  Honest honest(*tally);
  TlsEndpoint reader(RunningNode::copyOf(node.honest));
  Looking looking{honest.wait(connectTls(*honest.io.lowLevelProvider, honest.timer, reader,
                                         "127.0.0.1", kApidPort, "127.0.0.1"))};
  auto pause = 20 * kj::MILLISECONDS;
  honest.add("services", pause, [&](unsigned) { return looking.services(); });
  honest.add("a list of files", pause, [&](unsigned) { return looking.files(); });
  honest.add("a log", pause, [&](unsigned) { return looking.log(); });
  honest.add("resources", pause, [&](unsigned) { return looking.resources(); });
  auto apid = node.apid(), brain = node.brain();
  auto before = residentKiB(brain);
  honest.run("reader", apid, kMostGrowthKiB);
  EXPECT_TRUE(attacker.alive()) << "it did not attack to the end";
  EXPECT_EQ(node.apid(), apid) << "apid ended";
  EXPECT_EQ(node.brain(), brain) << "the brain ended";
  auto most = peakKiB(brain);
  printf("{\"brainBeforeKiB\":%zu,\"brainMostKiB\":%zu}\n", before, most);
  EXPECT_LT(most, before + kMostBrainGrowthKiB);
}

}  // namespace
}  // namespace talos::hostile
