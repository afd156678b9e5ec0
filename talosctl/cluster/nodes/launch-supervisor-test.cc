#include "talosctl/cluster/nodes/launch-supervisor.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct StartReport : public ::testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  std::vector<std::string> steps;
  std::string failure;

  ~StartReport() noexcept override {}

  // Writes the pieces one by one, each after the reader has consumed the previous ones, and ends.
  void follow(std::initializer_list<kj::StringPtr> pieces) {
    steps.clear();
    failure.clear();
    auto pipe = io.provider->newOneWayPipe();
    auto run = followStart(
        *pipe.in, [this](kj::StringPtr step) { steps.push_back(step.cStr()); },
        "/demo/supervisor.log");
    for (auto piece : pieces) {
      pipe.out->write(piece.begin(), piece.size()).wait(io.waitScope);
      EXPECT_FALSE(run.poll(io.waitScope)) << piece.cStr();
    }
    pipe.out = nullptr;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { run.wait(io.waitScope); })) {
      failure = messageOf(*e).cStr();
    }
  }
};

// Catches: a step that is cut between two reads, a step that is lost or repeated, and a cluster
// that counts as ready before its supervisor has reported it.
TEST_F(StartReport, HasItsStepsInTheirOrder) {
  follow({"step: creating network demo\nst", "ep: creating load bal", "ancer\n",
          "step: creating master nodes\nstep: creating worker nodes\nready\n"});
  EXPECT_EQ(failure, "");
  EXPECT_THAT(steps, ElementsAre("creating network demo", "creating load balancer",
                                 "creating master nodes", "creating worker nodes"));
  follow({"ready\n"});
  EXPECT_EQ(failure, "");
  EXPECT_THAT(steps, IsEmpty());
}

// Catches: an error that is printed as a step, or that loses a line; a supervisor that died without
// a report and counts as ready.
TEST_F(StartReport, EndsWithTheErrorOfTheSupervisor) {
  follow({"step: creating network demo\n", "error: no tap\nstep: see dmesg\n"});
  EXPECT_EQ(failure, "no tap\nstep: see dmesg");
  EXPECT_THAT(steps, ElementsAre("creating network demo"));
  for (auto text : {""_kj, "step: creating netw"_kj, "read"_kj}) {
    follow({text});
    EXPECT_EQ(failure, "the cluster's supervisor exited at once; see /demo/supervisor.log");
    EXPECT_THAT(steps, IsEmpty());
  }
}

}  // namespace
}  // namespace talos::cluster
