#include "common/wire/store-client.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/types.capnp.h"

namespace talos {
namespace {

constexpr kj::StringPtr kType = "HostnameSpecs.net.talos.dev"_kj;  // as it is on the wire

// What a machined would keep, with the mishaps that a test asks for.
struct FakeState {
  kj::TreeMap<kj::String, HeldResource> resources;
  kj::Vector<rpc::ResourceSink::Client> sinks;
  unsigned puts = 0, destroys = 0, watches = 0, watching = 0;
  unsigned conflicts = 0;  // so many puts are refused, each time because somebody else wrote first

  HeldResource& set(kj::StringPtr id, kj::StringPtr hostname, kj::StringPtr owner,
                    uint64_t version) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setType(kType);
    metadata.setId(id);
    metadata.setOwner(owner);
    metadata.setVersion(version);
    resource.initSpec().initAs<rpc::HostnameSpecSpec>().setHostname(hostname);
    return put(resource.asReader());
  }
  HeldResource& put(rpc::Resource::Reader resource) {
    resources.erase(kj::StringPtr(resource.getMetadata().getId()));
    return resources.insert(kj::str(resource.getMetadata().getId()), HeldResource(resource)).value;
  }
  uint64_t versionOf(kj::StringPtr id) {
    KJ_IF_MAYBE (held, resources.find(id)) {
      return held->get().getMetadata().getVersion();
    }
    return 0;
  }
  void fill(capnp::List<rpc::Resource>::Builder list) {
    unsigned i = 0;
    for (auto& entry : resources) list.setWithCaveats(i++, entry.value.get());
  }
};

class FakeStore final : public rpc::Store::Server {
 public:
  explicit FakeStore(FakeState& state) : state(state) {}

 protected:
  kj::Promise<void> list(ListContext context) override {
    EXPECT_EQ(context.getParams().getKind().getType(), kType);
    state.fill(context.getResults().initResources(state.resources.size()));
    return kj::READY_NOW;
  }
  kj::Promise<void> watch(WatchContext context) override {
    ++state.watches;
    ++state.watching;
    KJ_DEFER(--state.watching);
    auto sink = context.getParams().getSink();
    auto request = sink.snapshotRequest();
    state.fill(request.initResources(state.resources.size()));
    state.sinks.add(sink);
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  kj::Promise<void> put(PutContext context) override {
    auto resource = context.getParams().getResource();
    kj::StringPtr id = resource.getMetadata().getId();
    if (state.conflicts > 0) {
      --state.conflicts;
      state.set(id, "somebody-else", resource.getMetadata().getOwner(), state.versionOf(id) + 1);
    }
    if (resource.getMetadata().getVersion() != state.versionOf(id)) {
      fail(ErrorKind::kConflict, "another version is stored");
    }
    ++state.puts;
    capnp::MallocMessageBuilder message;
    message.setRoot(resource);
    auto copy = message.getRoot<rpc::Resource>();
    copy.getMetadata().setVersion(state.versionOf(id) + 1);
    state.put(copy.asReader());
    return kj::READY_NOW;
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    KJ_IF_MAYBE (held, state.resources.find(context.getParams().getId())) {
      if (held->get().getMetadata().getFinalizers().size() > 0)
        fail(ErrorKind::kConflict, "finalizers");
    }
    ++state.destroys;
    state.resources.erase(kj::StringPtr(context.getParams().getId()));
    return kj::READY_NOW;
  }
  kj::Promise<void> teardown(TeardownContext context) override {
    auto& held = KJ_ASSERT_NONNULL(state.resources.find(context.getParams().getId()));
    capnp::MallocMessageBuilder message;
    message.setRoot(held.get());
    message.getRoot<rpc::Resource>().getMetadata().setPhase(rpc::Metadata::Phase::TEARING_DOWN);
    state.put(message.getRoot<rpc::Resource>().asReader());
    return kj::READY_NOW;
  }

 private:
  FakeState& state;
};

class FakeMachined final : public rpc::Machined::Server {
 public:
  explicit FakeMachined(FakeState& state) : state(state) {}

 protected:
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(kj::heap<FakeStore>(state));
    return kj::READY_NOW;
  }

 private:
  FakeState& state;
};

struct Client : testing::Test {
  ~Client() noexcept override {
    serving = nullptr;
    removeTree(directory);
  }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  kj::String directory = makeDirectory();
  kj::String path = kj::str(directory, "/machined.sock");
  FakeState state;
  kj::Maybe<kj::Promise<void>> serving;
  StoreClient client{*io.lowLevelProvider, timer, path, kj::str("test.Controller")};

  static kj::String makeDirectory() {
    char name[] = "/tmp/store-client-test-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  void start() {
    serving = serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600),
                        [this](const UnixPeer&) -> capnp::Capability::Client {
                          return kj::heap<FakeMachined>(state);
                        })
                  .eagerlyEvaluate(nullptr);
  }
  void stop() {
    serving = nullptr;
    state.sinks.clear();
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  void replace(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> specs) {
    StoreClient::Wanted wanted;
    for (auto& [id, hostname] : specs) {
      auto message = kj::heap<capnp::MallocMessageBuilder>();
      message->initRoot<rpc::HostnameSpecSpec>().setHostname(hostname);
      wanted.insert(kj::str(id), kj::mv(message));
    }
    wait(client.replaceAll<rpc::HostnameSpecSpec>(kj::mv(wanted)));
  }
  // "id=hostname@version ..." of what the store holds.
  kj::String stored() {
    kj::Vector<kj::String> parts;
    for (auto& entry : state.resources) {
      parts.add(show(ResourceOf<rpc::HostnameSpecSpec>(entry.value.get())));
    }
    return kj::strArray(parts, " ");
  }
  static kj::String show(ResourceOf<rpc::HostnameSpecSpec> one) {
    return kj::str(one.id(), '=', one.getHostname(), '@', one.version());
  }
};

// A watch whose next batch can be waited for.
struct Watching {
  explicit Watching(Client& test)
      : test(test), watched(test.client.watch<rpc::HostnameSpecSpec>([this] {
          ++batches;
          KJ_IF_MAYBE (f, next) {
            (*f)->fulfill();
          }
        })) {}
  void waitForBatch(unsigned number) {
    while (batches < number) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      next = kj::mv(paf.fulfiller);
      test.wait(kj::mv(paf.promise));
    }
  }
  kj::String seen() const {
    kj::Vector<kj::String> parts;
    for (auto one : watched) parts.add(Client::show(one));
    return kj::strArray(parts, " ");
  }
  Client& test;
  unsigned batches = 0;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> next;
  Watched<rpc::HostnameSpecSpec> watched;
};

// Catches: changes applied wrongly, or a batch told more than once.
TEST_F(Client, WatchFollowsSnapshotAndChanges) {
  state.set("a", "one", "", 1);
  state.set("b", "two", "", 4);
  start();
  Watching w(*this);
  EXPECT_FALSE(w.watched.synced());
  w.waitForBatch(1);
  EXPECT_TRUE(w.watched.synced());
  EXPECT_EQ(w.seen(), "a=one@1 b=two@4"_kj);

  auto request = state.sinks[0].changesRequest();
  auto changes = request.initChanges(3);
  changes[0].setEvent(rpc::Change::Event::DESTROYED);
  changes[0].setResource(state.set("a", "one", "", 1).get());
  changes[1].setEvent(rpc::Change::Event::UPDATED);
  changes[1].setResource(state.set("b", "three", "", 5).get());
  changes[2].setEvent(rpc::Change::Event::CREATED);
  changes[2].setResource(state.set("c", "four", "", 1).get());
  wait(request.send());
  w.waitForBatch(2);
  EXPECT_EQ(w.seen(), "b=three@5 c=four@1"_kj);
  EXPECT_EQ(Client::show(KJ_ASSERT_NONNULL(w.watched.find("c"))), "c=four@1"_kj);
  EXPECT_TRUE(w.watched.find("a") == nullptr);
  EXPECT_EQ(w.batches, 2u);
}

// Catches: a lagging watcher that keeps what is gone.
TEST_F(Client, SnapshotAfterLagReplacesEverything) {
  state.set("a", "one", "", 1);
  start();
  Watching w(*this);
  w.waitForBatch(1);
  auto lagged = state.sinks[0].laggedRequest();
  lagged.setMissed(7);
  wait(lagged.send());
  EXPECT_EQ(w.seen(), "a=one@1"_kj);  // still the best there is
  state.resources.clear();
  state.set("z", "new", "", 9);
  auto snapshot = state.sinks[0].snapshotRequest();
  state.fill(snapshot.initResources(1));
  wait(snapshot.send());
  w.waitForBatch(2);
  EXPECT_EQ(w.seen(), "z=new@9"_kj);
}

// Catches: a daemon that has to be restarted after machined was, or that forgets all in between.
TEST_F(Client, WatchStartsOverAfterARestart) {
  state.set("a", "one", "", 1);
  Watching w(*this);  // before machined is there
  start();
  w.waitForBatch(1);
  stop();
  EXPECT_EQ(w.seen(), "a=one@1"_kj);
  state.set("a", "other", "", 2);
  start();
  w.waitForBatch(2);
  EXPECT_EQ(w.seen(), "a=other@2"_kj);
  EXPECT_EQ(state.watches, 2u);
}

// Catches: a watch that machined goes on with, or a sink that is called, after its Watched was
// dropped.
TEST_F(Client, DroppedWatchEnds) {
  start();
  {
    Watching w(*this);
    w.waitForBatch(1);
  }
  auto sinks = kj::mv(state.sinks);
  auto request = sinks[0].snapshotRequest();
  state.fill(request.initResources(0));
  wait(request.send());  // into the void
  replace({});           // a round trip behind the drop
  EXPECT_EQ(state.watching, 0u);
}

// Catches: writes that change nothing, others' records destroyed, records left behind.
TEST_F(Client, ReplaceAllWritesOnlyTheDifference) {
  state.set("foreign", "x", "another.Controller", 3);
  state.set("gone", "x", "test.Controller", 3);
  state.set("same", "x", "test.Controller", 3);
  state.set("old", "x", "test.Controller", 3);
  start();
  replace({{"same", "x"}, {"old", "y"}, {"new", "z"}});
  EXPECT_EQ(stored(), "foreign=x@3 new=z@1 old=y@4 same=x@3"_kj);
  EXPECT_EQ(state.puts, 2u);
  EXPECT_EQ(state.destroys, 1u);
  replace({{"same", "x"}, {"old", "y"}, {"new", "z"}});
  EXPECT_EQ(state.puts, 2u);
  replace({});
  EXPECT_EQ(stored(), "foreign=x@3"_kj);
}

// Catches: a conflict answered by writing the stale version again, or by giving up at once.
TEST_F(Client, ConflictIsRecomputed) {
  state.set("a", "x", "test.Controller", 1);
  state.conflicts = 2;
  start();
  replace({{"a", "y"}});
  EXPECT_EQ(stored(), "a=y@4"_kj);
}

// Catches: an endless loop against a writer that never rests.
TEST_F(Client, LastingConflictIsReported) {
  state.set("a", "x", "test.Controller", 1);
  state.conflicts = 1000;
  start();
  auto failure = kj::runCatchingExceptions([&] { replace({{"a", "y"}}); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kConflict);
}

// Catches: a record with finalizers destroyed under those who hold it, or never marked.
TEST_F(Client, FinalizersAreRespected) {
  capnp::MallocMessageBuilder message;
  message.setRoot(state.set("held", "x", "test.Controller", 1).get());
  message.getRoot<rpc::Resource>().getMetadata().initFinalizers(1).set(0, "reader");
  state.put(message.getRoot<rpc::Resource>().asReader());
  start();
  replace({});
  EXPECT_EQ(KJ_ASSERT_NONNULL(state.resources.find("held"_kj)).get().getMetadata().getPhase(),
            rpc::Metadata::Phase::TEARING_DOWN);
  message.getRoot<rpc::Resource>().getMetadata().initFinalizers(0);
  state.put(message.getRoot<rpc::Resource>().asReader());
  replace({});
  EXPECT_EQ(stored(), ""_kj);
}

// Catches: a write lost because machined was being restarted just then.
TEST_F(Client, ReplaceAllWaitsForMachined) {
  StoreClient::Wanted wanted;
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  message->initRoot<rpc::HostnameSpecSpec>().setHostname("n");
  wanted.insert(kj::str("a"), kj::mv(message));
  auto replacing = client.replaceAll<rpc::HostnameSpecSpec>(kj::mv(wanted));
  EXPECT_FALSE(replacing.poll(io.waitScope));
  start();
  wait(kj::mv(replacing));
  EXPECT_EQ(stored(), "a=n@1"_kj);
}

}  // namespace
}  // namespace talos
