#include "machined/resources/store.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/node-layout.h"
#include "machined/process1/test-damaged-descriptors.h"
#include "machined/resources/store-journal-file.h"
#include "machined/resources/store-journal.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

TEST_F(StoreTest, VersionsCountStoredChangesOnly) {
  EXPECT_EQ(put("a", "x"), 1u);
  EXPECT_EQ(put("a", "x", 1), 1u) << "an equal spec is no change";
  EXPECT_EQ(put("a", "y", 1), 2u);
  store.addFinalizer("", kHostnames, "a", "f");
  store.addFinalizer("", kHostnames, "a", "f");
  EXPECT_EQ(shown(), "a=y@3!");
  store.removeFinalizer("", kHostnames, "a", "f");
  store.removeFinalizer("", kHostnames, "a", "f");
  EXPECT_EQ(shown(), "a=y@4");
}

// Each row is an invalid write; the store must neither lose nor mix anything.
TEST_F(StoreTest, ConflictingWritesAreRefusedAndChangeNothing) {
  put("a", "x");
  put("a", "y", 1);
  EXPECT_EQ(kindOfFailure([&] { put("a", "z"); }), "Conflict") << "create what exists";
  EXPECT_EQ(kindOfFailure([&] { put("a", "z", 1); }), "Conflict") << "computed from an old version";
  EXPECT_EQ(kindOfFailure([&] { put("a", "z", 9); }), "Conflict") << "a version that never was";
  EXPECT_EQ(kindOfFailure([&] { put("b", "z", 1); }), "NotFound") << "replace what is gone";
  EXPECT_EQ(kindOfFailure([&] { put("a", "z", 2, "other"); }), "PermissionDenied")
      << "another's resource";
  EXPECT_EQ(kindOfFailure([&] { store.destroy("", kHostnames, "a", "other"); }),
            "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { store.teardown("", kHostnames, "a", "other"); }),
            "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { store.destroy("", kHostnames, "b", "test"); }), "NotFound");
  EXPECT_EQ(kindOfFailure([&] { put("", "z"); }), "InvalidArgument");
  EXPECT_EQ(kindOfFailure([&] { put("line\nbreak", "z"); }), "InvalidArgument");
  EXPECT_EQ(shown(), "a=y@2");
}

TEST_F(StoreTest, AResourceNeedsASpecOfSensibleSize) {
  capnp::MallocMessageBuilder message;
  auto resource = message.initRoot<rpc::Resource>();
  resource.initMetadata().setType(kHostnames);
  resource.getMetadata().setId("a");
  EXPECT_EQ(kindOfFailure([&] { store.put(resource.asReader()); }), "InvalidArgument");
  auto large = kj::heapString(kLargestResource);
  memset(large.begin(), 'x', large.size());
  EXPECT_EQ(kindOfFailure([&] { put("a", large); }), "InvalidArgument");
}

TEST_F(StoreTest, DestructionWaitsForFinalizers) {
  put("a", "x");
  store.addFinalizer("", kHostnames, "a", "kubelet");
  EXPECT_FALSE(store.teardown("", kHostnames, "a", "test"));
  EXPECT_FALSE(store.teardown("", kHostnames, "a", "test"));
  EXPECT_EQ(shown(), "a=x@3-!") << "the second teardown is no change";
  EXPECT_EQ(kindOfFailure([&] { store.destroy("", kHostnames, "a", "test"); }), "Conflict");
  EXPECT_EQ(kindOfFailure([&] { put("a", "y", 3); }), "Conflict") << "torn down";
  EXPECT_EQ(kindOfFailure([&] { store.addFinalizer("", kHostnames, "a", "late"); }), "Conflict");
  store.removeFinalizer("", kHostnames, "a", "kubelet");
  EXPECT_TRUE(store.teardown("", kHostnames, "a", "test"));
  store.destroy("", kHostnames, "a", "test");
  EXPECT_EQ(shown(), "");
}

TEST_F(StoreTest, TypesAreFoundByAliasAndNamespacesByName) {
  put("a", "x");
  EXPECT_EQ(store.list("", "hostnamespecs").size(), 1u);
  EXPECT_EQ(store.list("network", "HostnameSpec").size(), 1u);
  EXPECT_EQ(store.list("config", kHostnames).size(), 0u);
  EXPECT_EQ(kindOfFailure([&] { store.list("", "nonsense"); }), "NotFound");
  EXPECT_EQ(kindOfFailure([&] { store.list("nonsense", kHostnames); }), "NotFound");
  EXPECT_EQ(kindOfFailure([&] { store.list("", "as"); }), "InvalidArgument") << "ambiguous";
  EXPECT_TRUE(store.tryGet("", kHostnames, "b") == nullptr);
  EXPECT_EQ(kindOfFailure([&] { store.get("", kHostnames, "b"); }), "NotFound");
}

TEST_F(StoreTest, NamespacesAndTypesAreResourcesThatNobodyWrites) {
  auto definition = store.get("meta", "rd", "services.v1alpha1.talos.dev")
                        .getSpec()
                        .getAs<rpc::ResourceDefinitionSpec>();
  EXPECT_EQ(definition.getDisplayType(), "Service");
  EXPECT_EQ(definition.getDefaultNamespace(), "runtime");
  ASSERT_EQ(definition.getPrintColumns().size(), 2u);
  EXPECT_EQ(definition.getPrintColumns()[0].getJsonPath(), "{.running}");
  EXPECT_EQ(store.list("", "ns").size(), Registry::namespaces().size());
  EXPECT_EQ(store.list("", "rd").size(), registry.types().size());
  EXPECT_EQ(kindOfFailure([&] { store.destroy("meta", "ns", "config", ""); }), "PermissionDenied");
}

TEST_F(StoreTest, TimesSayWhenItWasMadeAndChanged) {
  put("a", "x");
  auto created = store.get("", kHostnames, "a").getMetadata().getCreated();
  clock.time += 5 * kj::SECONDS;
  put("a", "y", 1);
  auto metadata = store.get("", kHostnames, "a").getMetadata();
  EXPECT_EQ(metadata.getCreated(), created);
  EXPECT_EQ(metadata.getUpdated(), created + 5'000'000'000);
}

TEST_F(StoreTest, AWatcherGetsASnapshotAndThenEveryChange) {
  put("b", "x");
  put("a", "x");
  RecordingSink::Received all, one, absent;
  auto p1 = store.watch("", kHostnames, "", kj::heap<RecordingSink>(all)).eagerlyEvaluate(nullptr);
  auto p2 = store.watch("", kHostnames, "b", kj::heap<RecordingSink>(one)).eagerlyEvaluate(nullptr);
  auto p3 =
      store.watch("", kHostnames, "c", kj::heap<RecordingSink>(absent)).eagerlyEvaluate(nullptr);
  scope.poll();
  put("a", "y", 1);
  put("b", "y", 1);
  put("c", "x");
  store.destroy("", kHostnames, "b", "test");
  scope.poll();
  EXPECT_EQ(kj::strArray(all.lines, "; "),
            "snapshot a@1 b@1; updated a@2; updated b@2; created c@1; destroyed b@2");
  EXPECT_EQ(kj::strArray(one.lines, "; "), "snapshot b@1; updated b@2; destroyed b@2");
  EXPECT_EQ(kj::strArray(absent.lines, "; "), "snapshot; created c@1");
}

// The stopped reader must neither occupy memory nor miss changes unnoticed.
TEST_F(StoreTest, AStoppedWatcherLearnsThatItLaggedAndStartsOver) {
  put("a", "0");
  RecordingSink::Received stopped, awake;
  stopped.stopped = true;
  awake.keep = false;
  auto p1 =
      store.watch("", kHostnames, "", kj::heap<RecordingSink>(stopped)).eagerlyEvaluate(nullptr);
  auto p2 =
      store.watch("", kHostnames, "", kj::heap<RecordingSink>(awake)).eagerlyEvaluate(nullptr);
  scope.poll();
  size_t before = 0;
  constexpr unsigned kChanges = 50'000;
  for (unsigned i = 1; i <= kChanges; ++i) {
    put("a", kj::str(i), i);
    if (i % 100 == 0) scope.poll();
    if (i == kChanges / 10) before = mallinfo2().uordblks;
  }
  EXPECT_LT(mallinfo2().uordblks, before + (1u << 20));
  EXPECT_EQ(awake.changes, kChanges);
  EXPECT_EQ(awake.missed, 0u);
  stopped.stopped = false;
  stopped.go->fulfill();
  scope.poll();
  EXPECT_EQ(stopped.missed + stopped.changes, kChanges - 1000);
  EXPECT_EQ(stopped.lines[1], kj::str("lagged ", kChanges - 1000));
  EXPECT_EQ(stopped.lines[2], kj::str("snapshot a@", kChanges + 1));
  put("a", "last", kChanges + 1);
  scope.poll();
  EXPECT_EQ(stopped.lines.back(), kj::str("updated a@", kChanges + 2));
}

TEST_F(StoreTest, LargeChangesAreBoundedByTheirBytesToo) {
  RecordingSink::Received stopped;
  stopped.stopped = true;
  auto large = kj::heapString(1 << 20);
  memset(large.begin(), 'x', large.size());
  put("a", large);
  auto watching =
      store.watch("", kHostnames, "b", kj::heap<RecordingSink>(stopped)).eagerlyEvaluate(nullptr);
  scope.poll();
  for (unsigned i = 1; i < 20; ++i) {
    large[0] = 'a' + i;
    put("a", large, i);
    scope.poll();
  }
  stopped.stopped = false;
  stopped.go->fulfill();
  scope.poll();
  EXPECT_GE(stopped.missed, 15u);
}

TEST_F(StoreTest, ListenersHearABurstOnceAndNothingAfterTheyAreDropped) {
  int calls = 0, others = 0;
  auto handle = store.onChange("", kHostnames, [&] { ++calls; });
  auto other = store.onChange("", kServices, [&] { ++others; });
  put("a", "x");
  put("a", "y", 1);
  EXPECT_EQ(calls, 0) << "called inside the write";
  scope.poll();
  EXPECT_EQ(calls, 1);
  put("b", "x");
  handle = nullptr;
  scope.poll();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(others, 0);
}

// A reader obtained just before a write by the same caller must still have the old value, not freed
// memory.
TEST_F(StoreTest, AReaderOutlivesAWriteOfTheSameTurn) {
  put("a", "old");
  auto before = store.get("", kHostnames, "a");
  put("a", "new", 1);
  store.destroy("", kHostnames, "a", "test");
  EXPECT_EQ(before.getSpec().getAs<rpc::HostnameSpecSpec>().getHostname(), "old");
}

// --- the journal
// -------------------------------------------------------------------------------------

// The store of the next brain.
struct Successor {
  explicit Successor(StoreTest& test) : Successor(test, test.machine) {}
  Successor(StoreTest& test, FakeMachine& machine)
      : process1(machine), store(test.registry, test.clock) {
    store.attachJournal(process1).wait(test.scope);
  }
  FakeProcess1 process1;
  Store store;
};

kj::Array<kj::byte> heldBytes(const FakeMachine& machine) {
  int fd = machine.heldFd("store");
  struct stat stats;
  KJ_SYSCALL(fstat(fd, &stats));
  auto bytes = kj::heapArray<kj::byte>(stats.st_size);
  KJ_ASSERT(pread(fd, bytes.begin(), bytes.size(), 0) == ssize_t(bytes.size()));
  return bytes;
}

TEST_F(StoreTest, ASuccessorHasEveryRecordAndVersion) {
  store.attachJournal(process1).wait(scope);
  put("a", "x");
  put("a", "y", 1);
  put("b", "z");
  store.addFinalizer("", kHostnames, "b", "f");
  store.teardown("", kHostnames, "b", "test");
  put("c", "gone");
  store.destroy("", kHostnames, "c", "test");
  Successor next(*this);
  auto& successor = next.store;
  EXPECT_EQ(shown(successor), "a=y@2 b=z@3-!");
  EXPECT_EQ(successor.get("", "ns", "config").getMetadata().getVersion(), 1u);
  EXPECT_EQ(put(successor, "a", "after", 2), 3u);
  Successor afterNext(*this);
  auto& third = afterNext.store;
  EXPECT_EQ(shown(third), "a=after@3 b=z@3-!");
}

// Records from before the journal is attached are in the journal, too.
TEST_F(StoreTest, AttachingWritesWhatIsThere) {
  put("early", "x");
  store.attachJournal(process1).wait(scope);
  Successor next(*this);
  auto& successor = next.store;
  EXPECT_EQ(shown(successor), "early=x@1");
}

// The crash argument of the header, byte by byte.
TEST_F(StoreTest, AJournalCutAtAnyByteIsTheStoreAfterSomeWholeChange) {
  store.attachJournal(process1).wait(scope);
  auto start = heldBytes(machine).size();
  kj::Vector<kj::String> states;  // after each change
  auto step = [&](auto&& change) {
    change();
    states.add(shown());
  };
  states.add(shown());
  step([&] { put("a", "one"); });
  step([&] { put("b", "two"); });
  step([&] { put("a", "three", 1); });
  step([&] { store.addFinalizer("", kHostnames, "b", "f"); });
  step([&] { store.teardown("", kHostnames, "b", "test"); });
  step([&] { store.removeFinalizer("", kHostnames, "b", "f"); });
  step([&] { store.destroy("", kHostnames, "b", "test"); });
  step([&] { put("b", "again"); });
  auto bytes = heldBytes(machine);
  size_t newest = 0;
  for (size_t cut = start; cut <= bytes.size(); ++cut) {
    FakeMachine crashed;
    int raw;
    KJ_SYSCALL(raw = memfd_create("store", MFD_CLOEXEC));
    kj::AutoCloseFd fd(raw);
    KJ_ASSERT(::write(fd, bytes.begin(), cut) == ssize_t(cut));
    crashed.keep("store", kj::mv(fd));
    Successor first(*this, crashed);
    auto& successor = first.store;
    auto state = shown(successor);
    size_t found = newest;
    while (found < states.size() && states[found] != state) ++found;
    ASSERT_LT(found, states.size()) << "cut at " << cut << ": " << state.cStr();
    ASSERT_LE(found - newest, 1u) << "cut at " << cut << " lost or skipped a change";
    newest = found;
    // The successor can write to it.
    put(successor, "z", "new");
    Successor second(*this, crashed);
    ASSERT_EQ(shown(second.store), shown(successor)) << "cut at " << cut;
  }
  EXPECT_EQ(newest, states.size() - 1);
}

// Checks a store on this journal, and the next brain's: both have no records of it, report that,
// and work.
void expectReplaced(StoreTest& test, FakeMachine& machine, kj::StringPtr what) {
  FakeProcess1 process1(machine);
  Store store(test.registry, test.clock);
  auto lost = store.attachJournal(process1).wait(test.scope);
  KJ_IF_MAYBE (l, lost) {
    EXPECT_TRUE(l->startsWith("all records: ")) << what.cStr() << ": " << l->cStr();
  } else {
    ADD_FAILURE() << what.cStr() << " was taken for a good journal";
  }
  EXPECT_EQ(StoreTest::shown(store), "") << what.cStr();
  StoreTest::put(store, "a", "x");
  Successor next(test, machine);
  EXPECT_EQ(StoreTest::shown(next.store), "a=x@1") << what.cStr();
}

// Catches: a brain that crashes on the journal that it finds, as the next brain will, too.
TEST_F(StoreTest, ADamagedJournalIsReplacedAndSaid) {
  for (auto& bad : garbage("talosjn1")) {
    FakeMachine crashed;
    crashed.keep("store", kj::mv(bad.fd));
    if (bad.what == "noise behind a good beginning") {  // that is a journal without any record
      FakeProcess1 process1(crashed);
      Store next(registry, clock);
      auto lost = next.attachJournal(process1).wait(scope);
      EXPECT_TRUE(KJ_ASSERT_NONNULL(lost).startsWith("the records behind byte 8 of "));
      continue;
    }
    expectReplaced(*this, crashed, bad.what);
  }
}

// Returns the machine's journal with each record changed.
kj::AutoCloseFd journalWith(FakeMachine& machine,
                            kj::FunctionParam<void(rpc::Resource::Builder)> change) {
  auto bytes = heldBytes(machine);
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  memcpy(words.begin(), bytes.begin(), words.asBytes().size());
  kj::Vector<kj::byte> result;
  result.addAll(journal::heading());
  journal::recover(words, [&](rpc::Change::Reader read) {
    capnp::MallocMessageBuilder scratch;
    scratch.setRoot(read);
    change(scratch.getRoot<rpc::Change>().getResource());
    result.addAll(journal::encode(scratch.getRoot<rpc::Change>().asReader()));
  });
  return memoryFile(result);
}

// Catches: the same crash on a journal whose checksums are all right, but whose records this
// version refuses.
TEST_F(StoreTest, AJournalOfForeignRecordsIsReplacedAndSaid) {
  store.attachJournal(process1).wait(scope);
  FakeMachine crashed;
  crashed.keep("store", journalWith(machine, [](rpc::Resource::Builder resource) {
                 resource.getMetadata().setOwner("somebody else");
                 resource.getSpec().initAs<rpc::NamespaceSpec>();
               }));
  expectReplaced(*this, crashed, "foreign");
}

// Catches: records that were dropped with a journal and still count against the quota of their
// owner.
TEST_F(StoreTest, WhatWasGivenUpCountsForNobody) {
  auto write = [](Store& store, kj::StringPtr id) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    resource.initMetadata().setType(typeName<rpc::RouteStatusSpec>());
    resource.getMetadata().setId(id);
    resource.getMetadata().setOwner("networkd");
    resource.getSpec().initAs<rpc::RouteStatusSpec>().setSource(kj::str(kj::repeat(' ', 3u << 20)));
    store.limited(Access::ofUid(kNetworkdUid))->put(resource.asReader());
  };
  store.attachJournal(process1).wait(scope);
  write(store, "a");
  write(store, "b");
  FakeMachine crashed;
  crashed.keep("store", journalWith(machine, [](rpc::Resource::Builder resource) {
                 if (resource.getMetadata().getType() == typeName<rpc::RouteStatusSpec>()) return;
                 resource.getMetadata().setOwner("somebody else");
                 resource.getSpec().initAs<rpc::NamespaceSpec>();
               }));
  FakeProcess1 process1(crashed);
  Store next(registry, clock);
  EXPECT_TRUE(next.attachJournal(process1).wait(scope) != nullptr);
  EXPECT_EQ(0u, next.list<rpc::RouteStatusSpec>().size());
  write(next, "c");
  write(next, "d");
}

// Catches: records that are lost without a report, and a crash during an append that is reported as
// a loss.
TEST_F(StoreTest, LossesOfAJournalAreReported) {
  store.attachJournal(process1).wait(scope);
  put("a", "x");
  auto kept = heldBytes(machine).size();
  put("b", "y");
  auto bytes = heldBytes(machine);
  for (bool torn : {false, true}) {
    auto damaged = kj::heapArray(bytes.asPtr());
    if (!torn) damaged[kept + 20] ^= 1;
    FakeMachine crashed;
    crashed.keep("store", memoryFile(damaged.slice(0, bytes.size() - (torn ? 8 : 0))));
    FakeProcess1 process1(crashed);
    Store next(registry, clock);
    auto lost = next.attachJournal(process1).wait(scope);
    EXPECT_EQ(shown(next), "a=x@1");
    EXPECT_EQ(torn, lost == nullptr);
  }
}

// Catches: a store that grows until the node has no memory, and a store that stays full for ever.
TEST_F(StoreTest, RecordsAreBounded) {
  store.attachJournal(process1).wait(scope);
  auto large = kj::heapString(kLargestResource - 4096);
  memset(large.begin(), 'x', large.size());
  unsigned taken = 0;
  while (kindOfFailure([&] { put(kj::str(taken), large); }) == "ok") {
    ASSERT_LT(++taken, 100u);
    scope.poll();
  }
  EXPECT_GE(taken, kMostLiveBytes / kLargestResource - 1);
  EXPECT_EQ(kindOfFailure([&] { put(kj::str(taken), large); }), "ResourceExhausted");
  EXPECT_TRUE(store.tryGet("", kHostnames, kj::str(taken)) == nullptr);
  Successor next(*this);
  EXPECT_EQ(next.store.list<rpc::HostnameSpecSpec>().size(), taken);
  EXPECT_EQ(put("0", "small", 1), 2u) << "what becomes smaller is taken";
  store.destroy("", kHostnames, "1", "test");
  EXPECT_EQ(kindOfFailure([&] { put("1", large); }), "ok");
}

// Catches: a journal that grows until process 1 holds the compacted one, and a write that is then
// half done.
TEST_F(StoreTest, TheJournalIsBounded) {
  store.attachJournal(process1).wait(scope);
  auto never = kj::newPromiseAndFulfiller<void>();
  machine.holdGate = kj::mv(never.promise);
  auto large = kj::heapString(kLargestResource - 4096);
  memset(large.begin(), 'x', large.size());
  unsigned version = 0;
  kj::StringPtr outcome;
  for (;;) {
    large[0] = 'a' + version % 26;
    outcome = kindOfFailure([&] { put("a", large, version); });
    if (outcome != "ok") break;
    ASSERT_LT(++version, 100u);
    scope.poll();
  }
  EXPECT_EQ(outcome, "ResourceExhausted");
  EXPECT_LE(heldBytes(machine).size(), kLargestJournal);
  EXPECT_EQ(store.get("", kHostnames, "a").getMetadata().getVersion(), version);
  Successor next(*this);
  EXPECT_EQ(next.store.get("", kHostnames, "a").getMetadata().getVersion(), version);
}

TEST_F(StoreTest, TheJournalIsCompactedAndStaysSmall) {
  store.attachJournal(process1).wait(scope);
  auto holds = machine.holdCount;
  for (unsigned i = 1; i <= 60'000; ++i) {
    put("a", kj::str("value ", i), i - 1);
    if (i % 16 == 0) scope.poll();
  }
  EXPECT_GT(machine.holdCount, holds + 2);
  EXPECT_LT(heldBytes(machine).size(), kCompactionThreshold + (64u << 10));
  Successor next(*this);
  auto& successor = next.store;
  EXPECT_EQ(shown(successor), "a=value 60000@60000");
}

// Process 1 is slow to hold the compacted journal: a crash before that, and a crash after it, lose
// nothing.
TEST_F(StoreTest, ACrashDuringCompactionFindsEverythingInWhicheverJournalIsHeld) {
  store.attachJournal(process1).wait(scope);
  auto gate = kj::newPromiseAndFulfiller<void>();
  machine.holdGate = kj::mv(gate.promise);
  unsigned i = 0;
  while (machine.holdGate != nullptr) {  // until the request arrives
    ++i;
    put("a", kj::str("value ", i), i - 1);
  }
  put("b", "while it is on its way");
  FakeMachine before;
  before.keep("store", FakeMachine::duplicate(machine.heldFd("store")));
  gate.fulfiller->fulfill();
  scope.poll();
  put("c", "behind it");
  {
    Successor successor(*this, before);
    EXPECT_EQ(shown(successor.store),
              kj::str("a=value ", i, "@", i, " b=while it is on its way@1"));
  }
  Successor next(*this);
  auto& successor = next.store;
  EXPECT_EQ(shown(successor), shown());
}

}  // namespace
}  // namespace talos::machined
