// The running config and the copy on disk after every mode, after a crash between any two steps,
// and after two concurrent calls.
#include "machined/config/test-config-manager.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/base/file.h"
#include "common/testing/freed-secrets.h"

namespace talos::machined {
namespace {

// --- modes ---

// Catches: a mode that changes more than it should: the running config before its reboot, or the
// disk instead of memory.
TEST_F(ConfigManagerTest, EachModeChangesWhatItSays) {
  struct {
    ApplyMode mode;
    kj::StringPtr more;
    const char* state;
    ApplyMode done;
    unsigned reboots;
  } rows[] = {
      {ApplyMode::NO_REBOOT, "", "b/b", ApplyMode::NO_REBOOT, 0},
      {ApplyMode::REBOOT, "", "a/b", ApplyMode::REBOOT, 1},
      {ApplyMode::STAGED, "", "a/b", ApplyMode::STAGED, 0},
      {ApplyMode::AUTO, "", "b/b", ApplyMode::NO_REBOOT, 0},
      {ApplyMode::AUTO, kEnv, "a/b", ApplyMode::REBOOT, 1},
  };
  for (auto& row : rows) {
    anotherMachine();
    auto& b = booted(document("a"));
    ASSERT_EQ("a/a", state());
    auto outcome = apply(document("b", row.more), row.mode).wait(io.waitScope);
    EXPECT_EQ(row.done, outcome.mode);
    EXPECT_EQ("machine.network.hostname", outcome.changes[0].path);
    EXPECT_EQ(row.state, state());
    settle();
    EXPECT_EQ(row.reboots, b.reboots);
    EXPECT_EQ(row.reboots, b.intended);
  }
}

// Catches: an answer that waits until the loop reads the reply to the last message, which is after
// all controllers that the config wakes; a pending config that is left with process 1.
TEST_F(ConfigManagerTest, AnAnswerDoesNotWaitForTheReplyToTheDrop) {
  booted(document("a"));
  auto paf = kj::newPromiseAndFulfiller<void>();
  machine.dropReply = kj::mv(paf.promise);
  auto outcome = apply(document("b"), ApplyMode::NO_REBOOT);
  EXPECT_TRUE(outcome.poll(io.waitScope));
  EXPECT_EQ("b/b", state());
  paf.fulfiller->fulfill();
  outcome.wait(io.waitScope);
  apply(document("a"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("a/a", state());
}

// Catches: a dry run with an effect.
TEST_F(ConfigManagerTest, ADryRunChangesNothing) {
  auto& b = booted(document("a"));
  auto writes = disk.writes;
  auto outcome = apply(document("b", kEnv), ApplyMode::AUTO, true).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::REBOOT, outcome.mode);
  ASSERT_EQ(2u, outcome.changes.size());
  EXPECT_FALSE(outcome.changes[1].live);
  settle();
  EXPECT_EQ("a/a", state());
  EXPECT_EQ(writes, disk.writes);
  EXPECT_EQ(0u, b.reboots);
}

// Catches: a reboot for keys without an effect, or such a key without a warning.
TEST_F(ConfigManagerTest, KeysWithoutEffectNeedNoReboot) {
  booted(document("a"));
  auto more = "  features: {diskQuotaSupport: true, nodeAddressSortAlgorithm: v1}\n"_kj;
  for (auto mode : {ApplyMode::NO_REBOOT, ApplyMode::AUTO}) {
    auto outcome = apply(document("a", more), mode).wait(io.waitScope);
    EXPECT_EQ(ApplyMode::NO_REBOOT, outcome.mode);
    ASSERT_EQ(2u, outcome.warnings.size());
    EXPECT_TRUE(
        contains(outcome.warnings[0].cStr(), "machine.features.diskQuotaSupport: this key"));
    EXPECT_TRUE(contains(outcome.warnings[1].cStr(),
                         "machine.features.nodeAddressSortAlgorithm: this key"));
    apply(document("a"), mode).wait(io.waitScope);
  }
  auto old = kj::str(document("a"), "  podCheckpointer: {image: x}\n");
  auto outcome = apply(old, ApplyMode::NO_REBOOT).wait(io.waitScope);
  ASSERT_EQ(1u, outcome.warnings.size());
  EXPECT_TRUE(
      contains(outcome.warnings[0].cStr(), "cluster.podCheckpointer: this key has no effect"));
  settle();
  EXPECT_EQ(0u, brain().reboots);
}

// Catches: an incomplete list of the changes that need a reboot, and a refused apply that changed
// something.
TEST_F(ConfigManagerTest, RefusalsNameTheReasonAndChangeNothing) {
  booted(document("a"));
  auto text = refusal(apply(document("b", "  env: {a: b, c: d}\n"), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "FailedPrecondition: these changes need a reboot:")) << text;
  EXPECT_TRUE(contains(text, "\n  machine.env.a\n  machine.env.c\n")) << text;
  EXPECT_FALSE(contains(text, "hostname")) << text;

  text = refusal(apply("machine:\n  type: masterr\n  bogus: 1\n", ApplyMode::AUTO));
  EXPECT_TRUE(contains(text, "InvalidArgument: ")) << text;
  EXPECT_TRUE(contains(text, "machine config:2:9: machine.type")) << text;
  EXPECT_TRUE(contains(text, "bogus")) << text;

  for (auto mode : {ApplyMode::REBOOT, ApplyMode::STAGED}) {
    text = refusal(apply(document("b", "", false), mode));
    EXPECT_TRUE(contains(text, "FailedPrecondition: the next boot would not use")) << text;
  }
  disk.volatileBecause = kj::str("it is memory");
  text = refusal(apply(document("b"), ApplyMode::STAGED));
  EXPECT_TRUE(contains(text, "it is memory")) << text;
  auto outcome = apply(document("b"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
  ASSERT_LE(1u, outcome.warnings.size());
  EXPECT_EQ("the config will be lost with the next boot: it is memory", outcome.warnings.back());
  disk.volatileBecause = nullptr;

  text = refusal(apply(document("b"), static_cast<ApplyMode>(77)));
  EXPECT_TRUE(contains(text, "InvalidArgument: mode 77")) << text;
  settle();
  EXPECT_EQ("a/a", state());
  EXPECT_EQ(0u, brain().reboots);
}

// Catches: a staged config that is replaced without a warning.
TEST_F(ConfigManagerTest, WarnsThatAStagedConfigIsReplaced) {
  booted(document("a"));
  auto said = [&](kj::StringPtr text, ApplyMode mode, bool dryRun) {
    auto outcome = apply(text, mode, dryRun).wait(io.waitScope);
    return outcome.warnings.size() > 0 &&
           contains(outcome.warnings.back().cStr(), "staged for the next boot");
  };
  EXPECT_FALSE(said(document("b"), ApplyMode::STAGED, true));
  EXPECT_FALSE(said(document("b"), ApplyMode::STAGED, false));
  EXPECT_TRUE(said(document("c"), ApplyMode::NO_REBOOT, true));
  EXPECT_TRUE(said(document("c"), ApplyMode::NO_REBOOT, false));
  EXPECT_EQ("c/c", state());
  EXPECT_FALSE(said(document("d"), ApplyMode::NO_REBOOT, false));

  // Also on a machine whose running config is not on disk.
  disk.content = nullptr;
  machine.drop();
  booted(document("a", "", false));
  EXPECT_FALSE(said(document("b"), ApplyMode::STAGED, false));
  EXPECT_EQ("a/b", state());
  EXPECT_TRUE(said(document("c"), ApplyMode::STAGED, true));
}

// Catches: a staged config whose memory is freed with its secrets when another config replaces it.
TEST_F(ConfigManagerTest, AStagedConfigIsZeroedWhenItWasLookedAt) {
  booted(document("a"));
  apply(document("staged-secret"), ApplyMode::STAGED).wait(io.waitScope);
  FreedSecrets freed("staged-secret");
  apply(document("b"), ApplyMode::STAGED, true).wait(io.waitScope);
  EXPECT_EQ(freed.count(), 0u);
}

// Catches: a document that is accepted and cannot be published.
TEST_F(ConfigManagerTest, TheLargestDocument) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  auto sized = [](size_t bytes) {
    auto begin = kj::str(document("b"), "# ");
    return kj::str(begin, kj::repeat('x', bytes - begin.size()));
  };
  constexpr size_t kMost = (4u << 20) - 4096;
  auto text = refusal(apply(sized(kMost + 1), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(
      contains(text, "InvalidArgument: machine config: too large: a machine config has at most "))
      << text;
  apply(sized(kMost), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

// Catches: visitors who fill the memory of a machine in maintenance with documents.
TEST_F(ConfigManagerTest, OnlySoManyDocumentsAreLookedAtAtOnce) {
  booted(document("a"));
  auto large = kj::str(document("b"), "# ", kj::repeat('x', 200'000), "\n");
  kj::Vector<kj::Promise<ConfigManager::Outcome>> calls;
  {
    HeldReaders held(brain().foreign);
    for (int i = 0; i < 4; i++) {
      calls.add(apply(large, ApplyMode::NO_REBOOT, true));
      EXPECT_FALSE(calls.back().poll(io.waitScope));
    }
    auto text = refusal(apply(large, ApplyMode::NO_REBOOT, true));
    EXPECT_TRUE(contains(text, "ResourceExhausted: 4 configs")) << text;
    calls.removeLast();  // the caller disconnects, which ends its process
    calls.add(apply(large, ApplyMode::NO_REBOOT, true));
    EXPECT_FALSE(calls.back().poll(io.waitScope));
    apply(document("b"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);  // an ordinary apply
  }
  for (auto& call : calls) call.wait(io.waitScope);
  EXPECT_EQ("nothing was refused", refusal(apply(large, ApplyMode::NO_REBOOT, true)));
}

// Catches: visitors who prevent a machine from reading the config of its source.
TEST_F(ConfigManagerTest, VisitorsDoNotTakeAllReaders) {
  sources.answers.add(kj::str());
  auto loading = waitForAConfig();
  brain().foreign.heldFrom = 0;
  kj::Vector<kj::Promise<ConfigManager::Outcome>> calls;
  {
    HeldReaders held(brain().foreign);
    auto visitor = ConfigManager::Caller::kVisitor;
    for (int i = 0; i < 4; i++) {
      calls.add(apply(document("v"), ApplyMode::AUTO, true, visitor));
      EXPECT_FALSE(calls.back().poll(io.waitScope));
    }
    auto text = refusal(apply(document("v"), ApplyMode::AUTO, true, visitor));
    EXPECT_TRUE(contains(text, "ResourceExhausted: 4 configs")) << text;
  }
  for (auto& call : calls) call.wait(io.waitScope);
  apply(document("v"), ApplyMode::AUTO, false, ConfigManager::Caller::kVisitor).wait(io.waitScope);
  EXPECT_EQ("v", running());
}

kj::Exception killed() {
  return error(ErrorKind::kInvalidArgument,
               "the parser was killed while reading machine config: twice killed by signal 11");
}

// Catches: a half-made change, or work that never ends, after all parsers of a document died.
TEST_F(ConfigManagerTest, ADocumentThatKillsItsReadersIsRefused) {
  booted(document("a"));
  brain().foreign.broken = killed();
  for (bool dryRun : {true, false}) {
    auto text = refusal(apply(document("b"), ApplyMode::NO_REBOOT, dryRun));
    EXPECT_TRUE(contains(text, "InvalidArgument: the parser was killed while reading")) << text;
  }
  EXPECT_EQ("a/a", state());
  brain().foreign.broken = nullptr;
  apply(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

// Catches: a machine with an owner that takes another config because all parsers of its config
// died.
TEST_F(ConfigManagerTest, AKeptDocumentThatKillsItsReadersEndsTheBoot) {
  disk.content = kj::str(document("kept"));
  sources.answers.add(kj::str(document("source")));
  auto& b = start();
  b.foreign.broken = killed();
  auto loading = b.manager.load();
  ASSERT_TRUE(loading.poll(io.waitScope));
  auto text = refused(kj::mv(loading));
  EXPECT_TRUE(
      contains(text, "FailedPrecondition: config.yaml cannot be read: the parser was killed"))
      << text;
  EXPECT_FALSE(b.manager.inMaintenance());
  EXPECT_EQ(0u, sources.searches);
}

// Catches: a source whose search ends because its parsers died.
TEST_F(ConfigManagerTest, ASourceThatKillsItsReadersIsAskedAgain) {
  sources.answers.add(kj::str(document("source")));
  auto& b = start();
  b.foreign.broken = killed();
  auto loading = b.manager.load();
  EXPECT_FALSE(loading.poll(io.waitScope));
  ASSERT_TRUE(b.manager.inMaintenance());
  ASSERT_LE(1u, b.manager.maintenanceReasons().size());
  b.foreign.broken = nullptr;
  pass(1 * kj::SECONDS);
  ASSERT_TRUE(loading.poll(io.waitScope));
  EXPECT_EQ("source", running());
}

// Catches: a brain that sees a machine without a config because only its predecessor has read the
// config.
TEST_F(ConfigManagerTest, ANewBrainHasThePublishedDocumentRead) {
  booted(document("a"));
  auto& b = start();
  EXPECT_EQ(1u, b.foreign.configs);
  EXPECT_EQ("a", b.reader.machine(b.store).getNetwork().getHostname());
}

// Catches: a copy that others can read, a copy that is not removed, and a needless write at each
// boot.
TEST_F(ConfigManagerTest, TheCopyOnDisk) {
  char name[] = "/tmp/keeper-test-XXXXXX";
  auto folder = kj::str(mkdtemp(name));
  KJ_DEFER(removeTree(folder));
  auto path = kj::str(folder, "/config.yaml");
  StateDisk real(uv, StateOn::kDisk, path);
  EXPECT_TRUE(real.read() == nullptr);
  auto write = [&](kj::StringPtr text) {
    real.write(kj::heapArray(text.asArray().slice(0, text.size()))).wait(io.waitScope);
    struct stat info;
    KJ_SYSCALL(stat(path.cStr(), &info));
    EXPECT_EQ(0600u, info.st_mode & 07777);
    EXPECT_EQ(text, KJ_ASSERT_NONNULL(real.read()));
    return info.st_ino;
  };
  auto first = write("one");
  EXPECT_EQ(first, write("one"));
  EXPECT_NE(first, write("two"));
  KJ_SYSCALL(chmod(path.cStr(), 0644));
  write("two");
  real.remove().wait(io.waitScope);
  real.remove().wait(io.waitScope);
  EXPECT_TRUE(real.read() == nullptr);
  auto why = [&](StateOn on, kj::StringPtr path) {
    return std::string(StateDisk(uv, on, path).whyNotDurable().orDefault(kj::str()).cStr());
  };
  auto missing = kj::str(folder, "/none/config.yaml");
  EXPECT_EQ(kj::str(folder, "/none is missing"), why(StateOn::kDisk, missing).c_str());
  EXPECT_EQ(kj::str(folder, "/none is missing"), why(StateOn::kLauncher, missing).c_str());
  // /dev is a tmpfs on every kernel. A launcher keeps whatever it mounts.
  EXPECT_EQ("no disk is mounted at /dev, which is memory and lost with a reboot",
            why(StateOn::kDisk, "/dev/config.yaml"));
  EXPECT_EQ("", why(StateOn::kLauncher, "/dev/config.yaml"));
  EXPECT_EQ(kj::str("nothing is mounted at ", folder, ", so it is lost with a reboot"),
            why(StateOn::kLauncher, path).c_str());
}

// Catches: a copy that others can read and that no boot examines because its text is right. (If
// nothing is wrong, the disk writes nothing: TheCopyOnDisk.)
TEST_F(ConfigManagerTest, EachBootLooksAtTheCopy) {
  booted(document("a"));
  auto writes = disk.writes;
  brain().manager.save().wait(io.waitScope);
  EXPECT_EQ(writes + 1, disk.writes);
}

// Records documents that are freed with their text in them.
struct Watcher final : public kj::ArrayDisposer {
  mutable unsigned clean = 0, readable = 0;
  void disposeImpl(void* first, size_t, size_t count, size_t, void (*)(void*)) const override {
    auto bytes = kj::arrayPtr(static_cast<const char*>(first), count);
    bool zeroed = true;
    for (char c : bytes) zeroed = zeroed && c == 0;
    ++(zeroed ? clean : readable);
    delete[] bytes.begin();
  }
  kj::Array<char> watched(kj::StringPtr text) const {
    auto* copy = new char[text.size()];
    std::copy(text.begin(), text.end(), copy);
    return kj::Array<char>(copy, text.size(), *this);
  }
};

// Catches: a document, which holds secrets, that stays in memory after a refusal, after its caller
// disconnects, or at the end of the work.
TEST_F(ConfigManagerTest, DocumentsAreOverwrittenBeforeTheyAreLetGo) {
  Watcher watcher;
  booted(document("a"));
  auto large = kj::str(document("b"), "# ", kj::repeat('x', 200'000), "\n");
  auto give = [&](kj::StringPtr text, ApplyMode mode, bool dryRun = false) {
    return brain().manager.apply(
        {.document = watcher.watched(text), .mode = mode, .dryRun = dryRun});
  };
  give(document("b"), ApplyMode::NO_REBOOT, true).wait(io.waitScope);
  give(document("b"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  refusal(give("machine: {}\n", ApplyMode::AUTO));
  refusal(give(document("c", kEnv), ApplyMode::NO_REBOOT));
  give(document("b"), ApplyMode::TRY).wait(io.waitScope);
  {
    HeldReaders held(brain().foreign);
    kj::Vector<kj::Promise<ConfigManager::Outcome>> calls;
    for (int i = 0; i < 4; i++) {
      calls.add(give(large, ApplyMode::NO_REBOOT));
      EXPECT_FALSE(calls.back().poll(io.waitScope));
    }
    refusal(give(large, ApplyMode::NO_REBOOT));
  }
  brain().runningSequence = kj::str("boot");
  refusal(give(document("c"), ApplyMode::STAGED));
  settle();
  EXPECT_EQ(11u, watcher.clean);
  EXPECT_EQ(0u, watcher.readable);
}

// Catches: an old copy that the next boot uses.
TEST_F(ConfigManagerTest, WithoutPersistNothingStaysOnDisk) {
  booted(document("a"));
  auto outcome = apply(document("b", "", false), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("b/-", state());
  ASSERT_LE(1u, outcome.warnings.size());
  EXPECT_TRUE(outcome.warnings.back().startsWith("persist: false"));
}

// Catches: an answer before the write is done, and a full disk that destroys the old copy or the
// running config.
TEST_F(ConfigManagerTest, AFailedWriteChangesNothingAndIsOver) {
  booted(document("a"));
  disk.broken = true;
  for (auto mode : {ApplyMode::REBOOT, ApplyMode::NO_REBOOT, ApplyMode::STAGED}) {
    auto text = refusal(apply(document("b"), mode));
    EXPECT_TRUE(contains(text, "no space left")) << text;
    EXPECT_EQ("a/a", state());
  }
  EXPECT_EQ(0u, brain().reboots + brain().intended);
  disk.broken = false;
  apply(document("c"), ApplyMode::NO_REBOOT).wait(io.waitScope);  // the next apply is not blocked
  EXPECT_EQ("c/c", state());
}

// --- concurrent calls ---

// Catches: two documents that are mixed, a second document that is lost in silence, and a config
// manager that stays busy for ever.
TEST_F(ConfigManagerTest, SecondApplyIsRefusedWhileOneRuns) {
  booted(document("a"));
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  auto first = apply(document("b"), ApplyMode::NO_REBOOT);
  EXPECT_FALSE(first.poll(io.waitScope));
  auto text = refusal(apply(document("c"), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "Conflict: another config is being applied (mode no-reboot)")) << text;
  paf.fulfiller->fulfill();
  first.wait(io.waitScope);
  EXPECT_EQ("b/b", state());
  apply(document("c"), ApplyMode::NO_REBOOT).wait(io.waitScope);
  EXPECT_EQ("c/c", state());
  apply(document("d"), ApplyMode::REBOOT).wait(io.waitScope);
  text = refusal(apply(document("e"), ApplyMode::STAGED));  // the machine is about to shut down
  EXPECT_TRUE(contains(text, "Conflict: another config is being applied (mode reboot)")) << text;
  EXPECT_EQ("c/d", state());
}

// Catches: an apply that runs between the tasks of a boot.
TEST_F(ConfigManagerTest, NotDuringAnotherSequence) {
  booted(document("a"));
  brain().runningSequence = kj::str("boot");
  auto text = refusal(apply(document("b"), ApplyMode::STAGED));
  EXPECT_TRUE(contains(text, "Conflict: the sequence boot is running")) << text;
  EXPECT_EQ("a/a", state());
}

// A wrong config may prevent a service, and the boot, from coming up. Catches: a wrong config that
// can be replaced only after the boot; a staged config that a new brain, which runs the boot again,
// replaces by the wrong config.
TEST_F(ConfigManagerTest, StagedDuringABootThatWaitsForServices) {
  booted(document("a"));
  brain().runningSequence = kj::str("boot");
  brain().saved = true;
  auto text = refusal(apply(document("b"), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "Conflict: the sequence boot is running")) << text;
  EXPECT_TRUE(contains(text, "or use --on-reboot")) << text;
  apply(document("b"), ApplyMode::STAGED).wait(io.waitScope);
  EXPECT_EQ("a/b", state());
  start();
  load();
  brain().manager.save().wait(io.waitScope);
  EXPECT_EQ("a/b", state());
  machine.drop();
  start();
  load();
  brain().manager.save().wait(io.waitScope);
  EXPECT_EQ("b/b", state());
}

// Catches: work that ends when its caller disconnects.
TEST_F(ConfigManagerTest, ACallerThatGoesAwayChangesNothing) {
  booted(document("a"));
  auto paf = kj::newPromiseAndFulfiller<void>();
  disk.gate = kj::mv(paf.promise);
  {
    auto call = apply(document("b"), ApplyMode::NO_REBOOT);
    EXPECT_FALSE(call.poll(io.waitScope));
  }
  EXPECT_EQ("a/a*", state());
  paf.fulfiller->fulfill();
  settle();
  EXPECT_EQ("b/b", state());
}

// Catches: a failed boot that can only be repaired by hand.
TEST_F(ConfigManagerTest, AFailedBootTakesADocumentByRebooting) {
  booted(document("a"));
  brain().failed = true;
  auto text = refusal(apply(document("b"), ApplyMode::NO_REBOOT));
  EXPECT_TRUE(contains(text, "boot of the node failed")) << text;
  auto outcome = apply(document("b"), ApplyMode::AUTO).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::REBOOT, outcome.mode);
  EXPECT_EQ("a/b", state());
}

// Catches: a node in a container whose config cannot be changed.
TEST_F(ConfigManagerTest, AContainerReboots) {
  mode = config::Mode::kContainer;
  booted(document("a"));
  auto outcome = apply(document("b", kEnv), ApplyMode::AUTO).wait(io.waitScope);
  EXPECT_EQ(ApplyMode::REBOOT, outcome.mode);
  EXPECT_EQ("a/b", state());
}

// --- crashes of the brain ---

// Catches, at every step: a document that is half in place after a crash, an intention that is
// forgotten, or an intention that is carried out again and again.
TEST_F(ConfigManagerTest, ACrashAtAnyStep) {
  struct {
    ApplyMode mode;
    const char* end;
    unsigned intended;
  } modes[] = {{ApplyMode::NO_REBOOT, "b/b", 0},
               {ApplyMode::REBOOT, "a/b", 1},
               {ApplyMode::STAGED, "a/b", 0}};
  for (auto& row : modes) {
    // 0: before process 1 holds the document. 1: process 1 holds it. 2: written. 3: published.
    for (int step = 0; step <= 3; step++) {
      SCOPED_TRACE(testing::Message() << nameOf(row.mode).cStr() << " step " << step);
      anotherMachine();
      booted(document("a"));
      auto paf = kj::newPromiseAndFulfiller<void>();
      auto& gate = step == 0 ? machine.holdGate : disk.gate;
      gate = kj::mv(paf.promise);
      auto call = apply(document("b"), row.mode);
      EXPECT_FALSE(call.poll(io.waitScope));
      if (step >= 2) disk.content = kj::str(document("b"));
      if (step >= 3 && row.mode == ApplyMode::NO_REBOOT) {
        putRecord<rpc::MachineConfigSpec>(
            brain().store, kMachineConfigId,
            [&](rpc::MachineConfigSpec::Builder spec) { spec.setDocument(document("b")); });
      }
      call = ConfigManager::Outcome();
      auto& next = start();
      EXPECT_EQ(step == 0 ? "a/a" : row.end, state());
      EXPECT_EQ(step == 0 ? 0u : row.intended, next.intended);
      EXPECT_EQ(0u, next.reboots);  // the code that carries out the intention reboots
      auto& another = start();
      EXPECT_EQ(0u, another.intended);
      EXPECT_EQ(step == 0 ? "a/a" : row.end, state());
    }
  }
}

// Catches: a full disk at the worst moment that prevents every new brain from starting.
TEST_F(ConfigManagerTest, RecoveryThatFailsIsGivenUp) {
  booted(document("a"));
  holdPending(brain().process1,
              Pending(ApplyMode::NO_REBOOT, kj::heapArray(document("b").asArray())))
      .wait(io.waitScope);
  disk.broken = true;
  start();
  EXPECT_EQ("a/a", state());
  EXPECT_TRUE(brain().saidThat("no space left"));
}

// Catches: a memory file that another program wrote and that is treated as a document.
TEST_F(ConfigManagerTest, NonsenseThatIsHeldIsNotTaken) {
  booted(document("a"));
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd a(ends[0]), b(ends[1]);
  machine.keep(kPendingName, kj::mv(a));
  start();
  EXPECT_EQ("a", running());

  auto good = document("b");
  auto tryWith = [&](ApplyMode mode, kj::ArrayPtr<const char> text) {
    disk.content = kj::str(document("a"));
    holdPending(brain().process1, Pending(mode, kj::heapArray(text))).wait(io.waitScope);
    start();
    return onDisk();
  };
  EXPECT_EQ("b", tryWith(ApplyMode::STAGED, good.asArray()));
  EXPECT_EQ("a", tryWith(static_cast<ApplyMode>(99), good.asArray()));
  // A document that was valid for a predecessor with other checks.
  EXPECT_EQ("a", tryWith(ApplyMode::STAGED, good.asArray().slice(0, good.size() / 2)));
  EXPECT_TRUE(brain().saidThat("cannot read the interrupted change"));
  EXPECT_FALSE(machine.holds(kPendingName));
}

}  // namespace
}  // namespace talos::machined
