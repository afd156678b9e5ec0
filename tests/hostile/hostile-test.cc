// Ten thousand hostile sessions at each socket of a node: random bytes, random messages, right
// conversations cut and with bits flipped, and towards apid also what comes before its handshake.
// After each the honest client is answered; in the end nothing has grown. Pseudo-random with fixed
// seeds, so a failure comes again.
#include <dirent.h>
#include <gtest/gtest.h>

#include <random>

#include "apid/test-node.h"
#include "tests/fuzz/cluster-conversation.h"
#include "tests/fuzz/machined-world.h"
#include "tests/fuzz/networkd-world.h"
#include "tests/hostile/heap.h"

namespace talos {
namespace {

constexpr unsigned kSessions = 10'000;
constexpr unsigned kWarmUp = 1'000;        // until caches and tables have their size
constexpr size_t kNoise = 128u << 10;      // bytes; 9000 sessions that leave 16 bytes each are more
constexpr unsigned kFreshConnection = 16;  // every so many sessions an honest client dials anew

size_t openDescriptors() {
  auto* directory = opendir("/proc/self/fd");
  KJ_ASSERT(directory != nullptr);
  size_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// What a fuzzer would give to hostileBytes(): mostly little damage, for much is refused early.
class Generator {
 public:
  explicit Generator(unsigned seed) : random(seed) {}

  kj::Array<kj::byte> next() {
    kj::Vector<kj::byte> input;
    auto kind = below(8);
    input.add(kind < 1 ? 0 : kind < 2 ? 1 : 2);
    if (kind < 2) {
      fill(input, below(600));
    } else {
      bool cut = kind < 4;
      auto length = cut ? below(8192) : 0xffff;
      input.add(length & 0xff);
      input.add(length >> 8);
      auto flips = cut ? below(2) : 1 + below(1 + below(12));
      for (unsigned i = 0; i < flips; ++i) {
        fill(input, 2);
        input.add(below(2) == 0 ? 1 << below(8) : below(256));
      }
    }
    return input.releaseAsArray();
  }
  unsigned below(unsigned limit) { return random() % limit; }

 private:
  std::mt19937 random;

  void fill(kj::Vector<kj::byte>& bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes.add(random());
  }
};

struct Hostile : testing::Test {
  ~Hostile() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();

  // A promise that never comes fails the test by its deadline instead of hanging it.
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::Own<kj::AsyncIoStream> dial(kj::StringPtr address) {
    return wait(wait(io.provider->getNetwork().parseAddress(address))->connect());
  }

  // Says this, listens until the server ends it, and goes. What it heard.
  static kj::Promise<kj::Vector<kj::byte>> converse(kj::AsyncIoStream& stream,
                                                    kj::ArrayPtr<const kj::byte> bytes) {
    auto writing = stream.write(bytes.begin(), bytes.size())
                       .then([&stream]() { stream.shutdownWrite(); })
                       .eagerlyEvaluate([](kj::Exception&&) {});
    kj::Vector<kj::byte> heard;
    kj::byte buffer[4096];
    for (;;) {
      auto n =
          co_await stream.tryRead(buffer, 1, sizeof buffer).catch_([](kj::Exception&&) -> size_t {
            return 0;
          });  // reset
      if (n == 0) co_return kj::mv(heard);
      if (heard.size() < (1u << 20)) heard.addAll(buffer, buffer + n);
    }
  }

  struct Sizes {
    size_t heap = heapInUse(), descriptors = openDescriptors();
  };
  // `session` is one hostile session and returns how many of its calls had results, `honest` one
  // honest call, over a new connection if asked.
  void attack(kj::FunctionParam<unsigned(unsigned)> session, kj::FunctionParam<void(bool)> honest) {
    Sizes before;
    unsigned answered = 0;
    for (unsigned i = 0; i < kSessions; ++i) {
      if (i == kWarmUp) before = Sizes();
      if (session(i) > 0) ++answered;
      honest(i % kFreshConnection == 0);
      if (HasFailure()) {
        GTEST_FAIL() << "in session " << i;
      }
    }
    io.waitScope.poll();
    Sizes after;
    EXPECT_LT(after.heap, before.heap + kNoise);
    EXPECT_LE(after.descriptors, before.descriptors);
    // Damage that is always found at the first byte tries little.
    EXPECT_GT(answered, kSessions / 10);
    printf("heap %zu, then %zu bytes; %u of %u sessions had results\n", before.heap, after.heap,
           answered, kSessions);
  }

  // A Unix socket's server under attack.
  void attackUnix(kj::StringPtr path, kj::ArrayPtr<const kj::byte> right, unsigned seed,
                  kj::FunctionParam<void()> afterwards,
                  kj::Promise<void> (*use)(capnp::Capability::Client)) {
    Generator generator(seed);
    auto held = wait(connectUnix(*io.lowLevelProvider, timer, path));
    auto heldCapability = held->bootstrap();
    auto address = kj::str("unix:", path);
    attack(
        [&](unsigned) {
          auto bytes = fuzz::hostileBytes(right, generator.next());
          auto stream = dial(address);
          auto results = fuzz::answersIn(wait(converse(*stream, bytes))).results;
          afterwards();
          return results;
        },
        [&](bool fresh) {
          if (fresh) wait(use(wait(connectUnix(*io.lowLevelProvider, timer, path))->bootstrap()));
          wait(use(heldCapability));
        });
  }
};

struct Directory {
  kj::String path;
  Directory() {
    char name[] = "/tmp/hostile-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    path = kj::str(name);
  }
  ~Directory() noexcept(false) { removeTree(path); }
};

// Catches: a local daemon, or apid's process in foreign hands, that ends machined or makes it grow.
TEST_F(Hostile, Machined) {
  fuzz::MachinedWorld machined(io, timer);
  Directory directory;
  auto path = kj::str(directory.path, "/machined.sock");
  auto serving =
      serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600), [&](const UnixPeer&) {
        return machined.open();
      }).eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  attackUnix(
      path, machined.conversation(), 1, [&]() { machined.emptyStore(); }, fuzz::MachinedWorld::use);
}

// Catches: the same of networkd.
TEST_F(Hostile, Networkd) {
  fuzz::NetworkdWorld networkd(timer);
  Directory directory;
  auto path = kj::str(directory.path, "/networkd.sock");
  auto serving =
      serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600), [&](const UnixPeer&) {
        return networkd.open();
      }).eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  attackUnix(path, fuzz::NetworkdWorld::conversation(), 2, []() {}, fuzz::NetworkdWorld::use);
}

// Catches: anybody on the network that ends apid or makes it grow: before the handshake with random
// bytes and damaged ClientHellos, after it, with a reader's certificate, with damaged messages.
TEST_F(Hostile, Apid) {
  apid::testing::Authority authority;
  apid::testing::TestNode node(io, "10.0.0.1");
  node.certify(authority);
  node.startMachined();
  node.startApid();
  wait(node.trust.ready());
  TlsEndpoint client(authority.client("honest", {"os:reader"}));

  // The first flight of a right handshake.
  kj::byte hello[4096];
  size_t helloSize;
  {
    auto pipe = io.provider->newTwoWayPipe();
    auto connecting = client.connect(kj::mv(pipe.ends[0]), "10.0.0.1").eagerlyEvaluate(nullptr);
    helloSize = wait(pipe.ends[1]->tryRead(hello, 1, sizeof hello));
  }
  auto right = fuzz::clusterConversation();
  auto rightHello = kj::arrayPtr(hello, helloSize);
  auto address = kj::str("127.0.0.1:", node.port);

  auto connect = [&]() {
    return wait(
        connectTls(*io.lowLevelProvider, timer, client, "127.0.0.1", node.port, "10.0.0.1"));
  };
  auto use = [&](capnp::Capability::Client bootstrap) {
    auto there = bootstrap.castAs<rpc::Cluster>().nodeRequest().send().getNode();
    auto version = there.machineRequest().send().getMachine().versionRequest().send();
    EXPECT_EQ(wait(version.then([](auto&& r) { return kj::str(r.getTag()); })), "node 10.0.0.1"_kj);
  };
  Generator generator(3);
  auto held = connect();
  auto heldCapability = held->bootstrap();
  attack(
      [&](unsigned i) {
        auto input = generator.next();
        auto stream = dial(address);
        if (i % 4 != 0) {  // most of them have no certificate
          wait(converse(*stream, fuzz::hostileBytes(rightHello, input)));
          return 0u;
        }
        auto tls = wait(client.connect(kj::mv(stream), "10.0.0.1"));
        return fuzz::answersIn(wait(converse(*tls, fuzz::hostileBytes(right, input)))).results;
      },
      [&](bool fresh) {
        if (fresh) use(connect()->bootstrap());
        use(heldCapability);
      });
  EXPECT_EQ(node.model.readers, 0u);
}

}  // namespace
}  // namespace talos
