#include "machined/oom/oom-controller.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "machined/config/controllers/test-machine-config.h"
#include "machined/oom/test-cgroup-tree.h"
#include "rpc/hardware-resources.capnp.h"

namespace talos::machined {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kMain =
    "machine: {type: worker}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"_kj;

struct OomControllerTest : public ConfigTest {
  ~OomControllerTest() noexcept override {}

  TestCgroupTree files;
  std::vector<std::string> alarms;
  uint64_t total = 0;

  OomControllerTest() {
    files.cgroup("kubepods/besteffort/poda", 30 << 20, "max", "4194400\n4194401\n");
  }
  void begin() {
    runtime.add(oomController(
        {.timer = timer,
         .clock = clock,
         .memory = files.memory(),
         .readConfig = [this](Store& at) { return config.tryConfig(at); },
         .alarm = [this](kj::StringPtr text) { alarms.push_back(text.cStr()); },
         .blocking = [](kj::Function<void()>) -> kj::Promise<void> { return kj::READY_NOW; }}));
    poll();
  }
  void publishOom(kj::StringPtr keys) {
    publish(kj::str(kMain, "---\napiVersion: v1alpha1\nkind: OOMConfig\n", keys));
    poll();
  }
  // Lets all tasks of the node's services wait for memory for the whole time.
  void stallFor(kj::Duration time) {
    for (auto end = timer.now() + time; timer.now() < end;) {
      total += 100'000;
      files.pressureOf("system", 40, total);
      timer.advanceTo(timer.now() + 100 * kj::MILLISECONDS);
      poll();
    }
  }
  std::string actions() {
    std::string text;
    for (auto action : store.list<rpc::OomActionSpec>()) {
      text +=
          kj::str(action.id(), " ", action.getCgroup(), " ", action.getClass(), " ",
                  action.getScore(), " ", action.getMemoryBytes(), " ", action.getProcesses(), "\n")
              .cStr();
    }
    return text;
  }
};

// Catches: a handler that only a document starts; a kill without its numbers on the console; a kill
// that no resource shows.
TEST_F(OomControllerTest, DefaultsKillWithoutADocumentAndTheKillIsPublished) {
  publish(kMain);
  begin();
  stallFor(5 * kj::SECONDS);
  EXPECT_FALSE(files.isKilled("kubepods/besteffort/poda"));
  stallFor(1 * kj::SECONDS);
  EXPECT_TRUE(files.isKilled("kubepods/besteffort/poda"));
  EXPECT_EQ("1 kubepods/besteffort/poda Besteffort 31457280 31457280 2\n", actions());
  EXPECT_THAT(alarms, ElementsAre(AllOf(
                          HasSubstr("killed the cgroup kubepods/besteffort/poda of the class "
                                    "Besteffort with 30 MiB and 2 processes"),
                          HasSubstr("score 31457280, pressure of 10 s: some 0 %, full 0 %"))));
}

// Catches: a change of the document that waits for a reboot; an interval that is not that of the
// document.
TEST_F(OomControllerTest, DocumentSetsTriggerRankingAndInterval) {
  begin();
  publishOom(
      "triggerExpression: 'qos_memory_full_avg10[System] > 30.0'\n"
      "cgroupRankingExpression: 'path.endsWith(\"podb\") ? 2.5 : 0.0'\nsampleInterval: 10s\n");
  files.cgroup("kubepods/burstable/podb", 1 << 20);
  stallFor(9 * kj::SECONDS);
  EXPECT_EQ("", actions());
  stallFor(1 * kj::SECONDS);
  EXPECT_EQ("1 kubepods/burstable/podb Burstable 2.5 1048576 0\n", actions());
  EXPECT_FALSE(files.isKilled("kubepods/besteffort/poda"));
  publishOom("triggerExpression: 'false'\n");
  stallFor(20 * kj::SECONDS);
  EXPECT_EQ("1 kubepods/burstable/podb Burstable 2.5 1048576 0\n", actions());
}

// Catches: a console that says at each sample that there is nothing to kill.
TEST_F(OomControllerTest, ShortageWithoutAVictimIsReportedOnce) {
  begin();
  publishOom("triggerExpression: 'true'\ncgroupRankingExpression: '0.0'\n");
  stallFor(3 * kj::SECONDS);
  EXPECT_THAT(alarms, ElementsAre(HasSubstr("no cgroup has a rank above 0")));
}

// Catches: a console that a kill which fails fills at each sample; a handler that ends with it.
TEST_F(OomControllerTest, KillThatFailsIsReportedOnceAndTriedAgain) {
  begin();
  auto file = files.tree.at("cgroup/kubepods/besteffort/poda/cgroup.kill");
  unlink(file.cStr());
  publishOom("triggerExpression: 'true'\n");
  stallFor(3 * kj::SECONDS);
  EXPECT_THAT(alarms, ElementsAre(HasSubstr("cannot handle the shortage of memory: "
                                            "kubepods/besteffort/poda: No such file")));
  EXPECT_EQ("", actions());
  files.tree.file("cgroup/kubepods/besteffort/poda/cgroup.kill", "");
  stallFor(1 * kj::SECONDS);
  EXPECT_TRUE(files.isKilled("kubepods/besteffort/poda"));
}

// Catches: a handler that waits without a word on a kernel that measures nothing.
TEST_F(OomControllerTest, KernelWithoutPressureIsReportedOnce) {
  removeTree(files.tree.at("proc/pressure"));
  begin();
  stallFor(3 * kj::SECONDS);
  EXPECT_THAT(alarms, ElementsAre(HasSubstr("does not measure the pressure of memory")));
}

// Catches: a restarted brain that counts from 1 again and replaces what was published; more actions
// than are kept.
TEST_F(OomControllerTest, ActionsStayOverACrashAndTheOldestGo) {
  putRecord<rpc::OomActionSpec>(
      store, "9", [](rpc::OomActionSpec::Builder spec) { spec.setCgroup("old"); },
      "runtime.OOMController");
  begin();
  publishOom("triggerExpression: 'true'\nsampleInterval: 100ms\n");
  stallFor(200 * kj::MILLISECONDS);
  EXPECT_THAT(actions(), HasSubstr("9 old"));
  EXPECT_THAT(actions(), HasSubstr("11 kubepods/besteffort/poda"));
  stallFor(6 * kj::SECONDS);
  EXPECT_EQ(kKeptActions, store.list<rpc::OomActionSpec>().size());
  EXPECT_TRUE(store.tryGet<rpc::OomActionSpec>("9") == nullptr);
  EXPECT_FALSE(store.tryGet<rpc::OomActionSpec>("71") == nullptr);
}

}  // namespace
}  // namespace talos::machined
