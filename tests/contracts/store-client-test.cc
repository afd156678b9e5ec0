#include "common/wire/store-client.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "rpc/network-resources.capnp.h"
#include "tests/models/test-machined.h"

namespace talos {
namespace {

struct Client : testing::Test {
  ~Client() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io};
  ModelKind& state = machined.kind<rpc::HostnameSpecSpec>();
  StoreClient client{*io.lowLevelProvider, timer, machined.socket(), kj::str("test.Controller")};

  void start() { machined.start(); }
  void stop() { machined.stop(); }
  // `first`: the version, if it is new.
  void set(kj::StringPtr id, kj::StringPtr hostname, kj::StringPtr owner, uint64_t first = 1) {
    state.set<rpc::HostnameSpecSpec>(
        id, owner, [&](auto spec) { spec.setHostname(hostname); }, first);
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  void replace(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> specs,
               kj::StringPtr nameSpace = "") {
    StoreClient::Wanted wanted;
    for (auto& [id, hostname] : specs) {
      auto message = kj::heap<capnp::MallocMessageBuilder>();
      message->initRoot<rpc::HostnameSpecSpec>().setHostname(hostname);
      wanted.insert(kj::str(id), kj::mv(message));
    }
    wait(client.replaceAll<rpc::HostnameSpecSpec>(kj::mv(wanted), nameSpace));
  }
  // Returns the stored resources as "id=hostname@version ...".
  kj::String stored() {
    kj::Vector<kj::String> parts;
    for (auto resource : state.all()) parts.add(show(ResourceOf<rpc::HostnameSpecSpec>(resource)));
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
  kj::String observed() const {
    kj::Vector<kj::String> parts;
    for (auto one : watched) parts.add(Client::show(one));
    return kj::strArray(parts, " ");
  }
  Client& test;
  unsigned batches = 0;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> next;
  Watched<rpc::HostnameSpecSpec> watched;
};

// Catches: changes applied wrongly, or a batch that is notified more than once.
TEST_F(Client, WatchFollowsSnapshotAndChanges) {
  set("a", "one", "");
  set("b", "two", "", 4);
  start();
  Watching w(*this);
  EXPECT_FALSE(w.watched.synced());
  w.waitForBatch(1);
  EXPECT_TRUE(w.watched.synced());
  EXPECT_EQ(w.observed(), "a=one@1 b=two@4"_kj);

  state.destroy("a");
  set("b", "three", "");
  set("c", "four", "");
  w.waitForBatch(2);
  EXPECT_EQ(w.observed(), "b=three@5 c=four@1"_kj);
  EXPECT_EQ(Client::show(KJ_ASSERT_NONNULL(w.watched.find("c"))), "c=four@1"_kj);
  EXPECT_TRUE(w.watched.find("a") == nullptr);
  EXPECT_EQ(w.batches, 2u);
}

// Catches: a lagging watcher that keeps deleted resources.
TEST_F(Client, SnapshotAfterLagReplacesEverything) {
  set("a", "one", "");
  start();
  Watching w(*this);
  w.waitForBatch(1);
  state.destroy("a");
  for (size_t i = 0; i <= machined::kChangeRing; ++i) set("z", kj::str("new-", i), "");
  while (w.batches < 2) {
    EXPECT_EQ(w.observed(), "a=one@1"_kj);  // still the best there is
    wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  EXPECT_EQ(w.observed(), kj::str("z=new-", machined::kChangeRing, "@", machined::kChangeRing + 1));
}

// Catches: a daemon that has to be restarted after machined was, or that forgets all in between.
TEST_F(Client, WatchStartsOverAfterARestart) {
  set("a", "one", "");
  Watching w(*this);  // before machined runs
  start();
  w.waitForBatch(1);
  stop();
  EXPECT_EQ(w.observed(), "a=one@1"_kj);
  set("a", "other", "");
  start();
  w.waitForBatch(2);
  EXPECT_EQ(w.observed(), "a=other@2"_kj);
  EXPECT_EQ(state.watches, 2u);
}

// Catches: a watch that machined continues after its Watched was dropped.
TEST_F(Client, DroppedWatchEnds) {
  start();
  {
    Watching w(*this);
    w.waitForBatch(1);
  }
  set("a", "one", "");  // into the void
  replace({});          // a round trip after the drop
  EXPECT_EQ(state.watching, 0u);
}

// Catches: writes that change nothing, others' records destroyed, obsolete records that stay.
TEST_F(Client, ReplaceAllWritesOnlyTheDifference) {
  set("other", "x", "another.Controller", 3);
  set("gone", "x", "test.Controller", 3);
  set("same", "x", "test.Controller", 3);
  set("old", "x", "test.Controller", 3);
  start();
  replace({{"same", "x"}, {"old", "y"}, {"new", "z"}});
  EXPECT_EQ(stored(), "new=z@1 old=y@4 other=x@3 same=x@3"_kj);
  EXPECT_EQ(state.puts, 2u);
  EXPECT_EQ(state.destroys, 1u);
  replace({{"same", "x"}, {"old", "y"}, {"new", "z"}});
  EXPECT_EQ(state.puts, 2u);
  replace({});
  EXPECT_EQ(stored(), "other=x@3"_kj);
}

// Catches: records of another namespace that are read, written over or destroyed.
TEST_F(Client, NamespacesAreApart) {
  set("a", "own", "test.Controller", 3);
  start();
  replace({{"a", "x"}, {"b", "y"}}, "extras");
  replace({{"b", "z"}}, "extras");
  EXPECT_EQ(stored(), "a=own@3"_kj);
  auto& extras = machined.kind<rpc::HostnameSpecSpec>("extras");
  EXPECT_EQ(extras.size(), 1u);
  EXPECT_EQ(extras.versionOf("b"), 2u);
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto watched =
      client.watch<rpc::HostnameSpecSpec>([&] { paf.fulfiller->fulfill(); }, "", "extras");
  wait(kj::mv(paf.promise));
  EXPECT_TRUE(watched.find("a") == nullptr);
  EXPECT_EQ(show(KJ_ASSERT_NONNULL(watched.find("b"))), "b=z@2"_kj);
}

// Catches: one record too large for the store that keeps all later ones out, and the old ones in.
TEST_F(Client, OnlyTooLargeResourcesAreLeftOut) {
  set("old", "x", "test.Controller");
  state.tooLarge = {"b"};
  start();
  auto failure = kj::runCatchingExceptions([&] { replace({{"a", "1"}, {"b", "2"}, {"c", "3"}}); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kResourceExhausted);
  EXPECT_EQ(stored(), "a=1@1 c=3@1"_kj);
}

// Catches: a conflict answered by writing the stale version again, or by giving up at once.
TEST_F(Client, ConflictIsRecomputed) {
  set("a", "x", "test.Controller");
  state.conflicts = 2;
  start();
  replace({{"a", "y"}});
  EXPECT_EQ(stored(), "a=y@6"_kj);  // two versions by each of the other clients
}

// Catches: an endless loop against a writer that never rests.
TEST_F(Client, LastingConflictIsReported) {
  set("a", "x", "test.Controller");
  state.conflicts = 1000;
  start();
  auto failure = kj::runCatchingExceptions([&] { replace({{"a", "y"}}); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kConflict);
}

// Catches: a record with finalizers that is destroyed while they hold it, or never marked.
TEST_F(Client, FinalizersAreRespected) {
  set("held", "x", "test.Controller");
  state.store.addFinalizer("", state.type, "held", "reader");
  start();
  replace({});
  EXPECT_EQ(KJ_ASSERT_NONNULL(state.find("held")).getMetadata().getPhase(),
            rpc::Metadata::Phase::TEARING_DOWN);
  state.store.removeFinalizer("", state.type, "held", "reader");
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
