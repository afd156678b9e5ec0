#include "machined/kubernetes/etcd/etcd-departure.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "machined/kubernetes/etcd/test-etcd-supervisor.h"

namespace talos::machined {
namespace {

using rpc::DepartureKind;

constexpr kj::StringPtr kOtherwise = "or use --anyway"_kj;

struct EtcdDepartureTest : testing::Test {
  ~EtcdDepartureTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Said said;
  bool runs = true;
  std::vector<std::string> printed;
  EtcdDeparture departure{{timer, [this]() { return runs; }, kj::heap<ModelSupervisor>(said),
                           [this](kj::StringPtr line) { printed.push_back(line.cStr()); }}};

  // Returns "done", or kind and message, at the latest after `timeout`.
  std::string outcome(kj::Promise<void> promise, kj::Duration timeout = 0 * kj::SECONDS) {
    std::string result = "still waiting";
    auto waiting = promise
                       .then([&] { result = "done"; },
                             [&](kj::Exception&& e) {
                               result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
                             })
                       .eagerlyEvaluate(nullptr);
    scope.poll();
    timer.advanceTo(timer.now() + timeout);
    scope.poll();
    return result;
  }
  std::string require() {
    return outcome(
        departure.require(DepartureKind::LEAVES, ErrorKind::kFailedPrecondition, kOtherwise)
            .ignoreResult(),
        30 * kj::SECONDS);
  }
  std::string leave(bool force = false) {
    return outcome(
        departure.leave(DepartureKind::REJOINS, force, ErrorKind::kFailedPrecondition, kOtherwise),
        100 * kj::SECONDS);
  }
};

// Catches: an objection or a failed query that is taken for consent; an error without the
// alternative; a query without a timeout.
TEST_F(EtcdDepartureTest, DoesNotLeaveWithoutKnowingTheConsequences) {
  EXPECT_EQ(require(), "done");
  said.objection = "etcd has 1 voter";
  EXPECT_EQ(require(), "FailedPrecondition: etcd has 1 voter; or use --anyway");
  said.problem = "etcd-supervisor is starting";
  EXPECT_EQ(
      require(),
      "FailedPrecondition: cannot find out whether the etcd cluster can do without this node: "
      "etcd-supervisor is starting; or use --anyway");
  said.silent = true;
  EXPECT_EQ(
      require(),
      "FailedPrecondition: cannot find out whether the etcd cluster can do without this node: "
      "no answer of etcd-supervisor within 15 s; or use --anyway");
  said.asked.clear();
  runs = false;
  EXPECT_EQ(require(), "done");
  EXPECT_EQ(leave(), "done");
  EXPECT_EQ(said.asked.size(), 0u);
}

// Catches: a node that is erased before it has left; a node that leaves despite an objection;
// leaving without a timeout.
TEST_F(EtcdDepartureTest, LeavesOrReportsWhyNot) {
  EXPECT_EQ(leave(), "done");
  EXPECT_EQ(said.asked, (std::vector<std::string>{"outlook", "rejoins"}));
  said.leaves = "etcdserver: no leader";
  EXPECT_EQ(leave(),
            "Unavailable: cannot leave etcd: etcdserver: no leader; retry, or use --anyway");
  EXPECT_EQ(printed.back(), "etcd: leaving the cluster") << "the caller tells why it has not";
  said.hangs = true;
  EXPECT_EQ(leave(),
            "DeadlineExceeded: cannot leave etcd: not done within 100 s; talosctl get etcdstatus "
            "shows what it waits for; retry, or use --anyway");
  said.asked.clear();
  said.objection = "etcd has 1 voter";
  EXPECT_EQ(leave(), "FailedPrecondition: etcd has 1 voter; or use --anyway");
  EXPECT_EQ(said.asked, std::vector<std::string>{"outlook"});
}

// Catches: an objection of etcd-supervisor with another error kind, which the caller takes for a
// permanent error.
TEST_F(EtcdDepartureTest, AnObjectionHasTheErrorKindOfTheCaller) {
  said.leaves = "etcd has 1 voter";
  said.kind = ErrorKind::kFailedPrecondition;
  EXPECT_EQ(
      outcome(departure.leave(DepartureKind::RESTARTS, false, ErrorKind::kUnavailable, kOtherwise)),
      "Unavailable: etcd cannot do without this node yet: etcd has 1 voter; retry, or use "
      "--anyway");
}

// Catches: a turn that is never released; a node without etcd, or with an etcd that hangs, that
// waits.
TEST_F(EtcdDepartureTest, StayingReleasesTheTurn) {
  EXPECT_EQ(outcome(departure.stay()), "done");
  EXPECT_EQ(said.asked, std::vector<std::string>{"stays"});
  said.hangs = true;
  EXPECT_EQ(outcome(departure.stay(), 5 * kj::SECONDS), "done");
  runs = false;
  EXPECT_EQ(outcome(departure.stay()), "done");
  EXPECT_EQ(said.asked.size(), 2u);
}

// Catches: a flag that has no effect when etcd does not work, or that fails without a message.
TEST_F(EtcdDepartureTest, ForcedItTriesAndGoesOn) {
  said.silent = true;
  said.leaves = "no member answers";
  EXPECT_EQ(leave(true), "done");
  EXPECT_EQ(said.asked, std::vector<std::string>{"forced rejoins"});
  EXPECT_EQ(printed.back(), "cannot leave etcd: no member answers");
  said.hangs = true;
  EXPECT_EQ(leave(true), "done");
}

}  // namespace
}  // namespace talos::machined
