#include "talosctl/cli/node-outcome.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

namespace talos::talosctl {
namespace {

// An answer of a node.
struct Node {
  capnp::MallocMessageBuilder message, message2, message3;
  rpc::Version::Builder version;
  rpc::Status::Builder status;
  rpc::Services::ListResults::Builder services;

  Node(kj::StringPtr bootId, rpc::Status::Stage stage)
      : version(message.initRoot<rpc::Version>()),
        status(message2.initRoot<rpc::Status>()),
        services(message3.initRoot<rpc::Services::ListResults>()) {
    version.setBootId(bootId);
    status.setStage(stage);
  }
  Node& with(kj::StringPtr id, rpc::ServiceState state, bool unknown, bool healthy,
             bool checked = true) {
    auto s = services.initServices(1)[0];
    s.setId(id);
    s.setState(state);
    s.getHealth().setUnknown(unknown);
    s.getHealth().setHealthy(healthy);
    s.setChecked(checked);
    return *this;
  }
  // Sets the message of the last service.
  Node& saying(kj::StringPtr message) {
    services.getServices()[0].initEvents(1)[0].setMessage(message);
    return *this;
  }
};

std::string textOf(const Judgement& j) {
  static const char* names[] = {"wait: ", "done: ", "failed: "};
  return std::string(names[int(j.verdict)]) + j.text.cStr();
}
std::string answer(Outcome& outcome, Node&& node) {
  return textOf(
      outcome.answered(node.version, node.status, node.services.asReader().getServices()));
}

using Stage = rpc::Status::Stage;

// Catches: a control-plane node that never counts as up because the cluster does not exist yet; a
// node that counts as up although its etcd cannot start.
TEST(Outcome, ANodeIsUpWithoutACluster) {
  using State = rpc::ServiceState;
  struct Row {
    kj::StringPtr id;
    State state;
    kj::StringPtr message;
    const char* expected;
  } rows[] = {
      {"etcd", State::PREPARING, "Waiting for a cluster: run", "done: booted, all services are up"},
      {"vipd", State::WAITING, "", "done: booted, all services are up"},
      {"etcd", State::PREPARING, "cannot pull", "wait: waiting for services: etcd"},
      {"etcd", State::WAITING, "Waiting for a cluster", "wait: waiting for services: etcd"},
      {"kubelet", State::PREPARING, "cannot pull", "done: booted, all services are up"},
      {"trustd", State::PREPARING, "Waiting for a cluster", "wait: waiting for services: trustd"}};
  for (auto& row : rows) {
    Outcome o(Outcome::Kind::kBoot, "");
    EXPECT_EQ(answer(o, kj::mv(Node("one", Stage::RUNNING)
                                   .with(row.id, row.state, true, false)
                                   .saying(row.message))),
              row.expected);
  }
}

// Catches a reboot that is reported done while the old boot still answers, or before the services
// are up.
TEST(Outcome, ARebootIsDoneWhenTheNewBootIsUp) {
  Outcome o(Outcome::Kind::kReboot, "one");
  Node down("one", Stage::REBOOTING);
  down.status.setSequence("reboot");
  down.status.setPhase("stopServices");
  EXPECT_EQ(answer(o, kj::mv(down)), "wait: reboot: stopServices");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  EXPECT_EQ(answer(o, Node("two", Stage::BOOTING)), "wait: booting");
  EXPECT_EQ(answer(o, kj::mv(Node("two", Stage::RUNNING)
                                 .with("apid", rpc::ServiceState::WAITING, true, false))),
            "wait: waiting for services: apid");
  EXPECT_EQ(answer(o, kj::mv(Node("two", Stage::RUNNING)
                                 .with("etcd", rpc::ServiceState::RUNNING, false, false))),
            "wait: waiting for services: etcd");
  EXPECT_EQ(answer(o, kj::mv(Node("two", Stage::RUNNING)
                                 .with("apid", rpc::ServiceState::RUNNING, false, false))),
            "wait: waiting for services: apid");
  EXPECT_EQ(answer(o, kj::mv(Node("two", Stage::RUNNING)
                                 .with("apid", rpc::ServiceState::RUNNING, true, false))),
            "wait: waiting for services: apid")
      << "its first health check is still under way";
  EXPECT_EQ(
      answer(o, kj::mv(Node("two", Stage::RUNNING)
                           .with("machined", rpc::ServiceState::RUNNING, true, false, false))),
      "done: rebooted, all services are up")
      << "nothing checks it";
  EXPECT_EQ(answer(o, kj::mv(Node("two", Stage::RUNNING)
                                 .with("apid", rpc::ServiceState::RUNNING, false, true))),
            "done: rebooted, all services are up");
}

// Catches: a worker that counts as up although its identity cannot be verified.
TEST(Outcome, ANodeWithoutACertificateIsNotUp) {
  Outcome o(Outcome::Kind::kBoot, "");
  Node worker("two", Stage::RUNNING);
  worker.with("apid", rpc::ServiceState::RUNNING, false, true);
  worker.version.setTag("v0.9.0 (not authenticated)");
  EXPECT_EQ(answer(o, kj::mv(worker)), "wait: waiting for its certificate");
}

TEST(Outcome, ANodeThatCannotGoOnIsAFailure) {
  Outcome o(Outcome::Kind::kReboot, "one");
  Node broken("two", Stage::FAILED);
  broken.status.initProblems(1).set(0, "no machine config");
  EXPECT_EQ(answer(o, kj::mv(broken)), "failed: rebooted, but the boot failed: no machine config");
}

// Catches one lost answer taken for a machine that is off, and a reboot taken for a shutdown.
TEST(Outcome, AShutdownIsDoneWhenTheNodeStaysSilent) {
  Outcome o(Outcome::Kind::kShutdown, "one");
  EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  EXPECT_EQ(answer(o, Node("one", Stage::SHUTTING_DOWN)), "wait: stopping");
  EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  EXPECT_EQ(textOf(o.silent()), "done: shut down");
  EXPECT_EQ(answer(o, Node("two", Stage::BOOTING)), "failed: started again instead of staying off");
}

// Catches: a node that counts as off because no endpoint could be reached.
TEST(Outcome, OneThatWasNotAskedIsNotSilent) {
  for (auto kind : {Outcome::Kind::kShutdown, Outcome::Kind::kReset}) {
    Outcome o(kind, "one");
    for (int i = 0; i < 100; ++i) EXPECT_EQ(textOf(o.unreached()), "wait: no endpoint answers");
    EXPECT_EQ(textOf(o.silent()), "wait: no answer");
    EXPECT_EQ(textOf(o.silent()), "wait: no answer");
  }
}

// Catches: a reset that never ends for the client because the node no longer has certificates; a
// reset that is reported as done while the node still erases.
TEST(Outcome, AResetIsDoneWhenTheNodeIsGoneOrUpAgain) {
  Outcome gone(Outcome::Kind::kReset, "one");
  EXPECT_EQ(answer(gone, Node("one", Stage::RESETTING)), "wait: stopping");
  EXPECT_EQ(textOf(gone.silent()), "wait: no answer");
  EXPECT_EQ(textOf(gone.silent()), "wait: no answer");
  EXPECT_EQ(textOf(gone.silent()), "done: down, to start without its config");
  Outcome up(Outcome::Kind::kReset, "one");
  EXPECT_EQ(answer(up, Node("two", Stage::MAINTENANCE)),
            "done: rebooted, waiting for a machine config");
}

std::string judged(kj::StringPtr stage, kj::StringPtr bootId, kj::StringPtr reason = "",
                   bool live = false) {
  capnp::MallocMessageBuilder message;
  auto status = message.initRoot<rpc::UpgradeStatusSpec>();
  status.setStage(stage);
  status.setSlot("B");
  status.setVersion("v2");
  status.setImage("x/installer:v2");
  status.setReason(reason);
  auto judgement = judgeUpgrade("old", bootId, status, live);
  const char* verdicts[] = {"wait: ", "done: ", "failed: "};
  return verdicts[static_cast<int>(judgement.verdict)] + std::string(judgement.text.cStr());
}

}  // namespace

// Catches: an upgrade that counts as done because the previous upgrade was; an upgrade that fell
// back and counts as done, or is still waited for.
TEST(UpgradeOutcome, ItIsOverWhenAnotherBootSaysSo) {
  EXPECT_EQ(judged("done", "new"), "done: running slot B (v2), healthy and confirmed");
  EXPECT_EQ(judged("done", "old"), "wait: rebooting");
  EXPECT_EQ(judged("rebooting", "old"), "wait: rebooting");
  EXPECT_EQ(judged("rebooting", "new"), "wait: booting slot B (v2)");
  EXPECT_EQ(judged("trying", "new", "service apid is not up"),
            "wait: trying slot B (v2): service apid is not up");
  EXPECT_EQ(judged("failed", "new", "no API"), "failed: no API; back on slot B (v2)");
  EXPECT_EQ(judged("failed", "old", "damaged"), "failed: damaged; still running slot B (v2)");
  EXPECT_EQ(judged("fetching", "old"), "wait: fetching x/installer:v2");
  EXPECT_EQ(judged("staged", "old", "v3, tried at the next reboot"),
            "done: staged: v3, tried at the next reboot; running slot B (v2)");
  EXPECT_EQ(judged("withdrawn", "old", "v3 was withdrawn"), "failed: v3 was withdrawn");
  EXPECT_EQ(judged("done", "new", "confirmed by an operator"),
            "done: running slot B (v2), confirmed by an operator");
}

// Catches: an upgrade without a reboot that is followed for ever, because its boot never ends.
TEST(UpgradeOutcome, WithoutARebootItIsOverInTheSameBoot) {
  EXPECT_EQ(judged("switching", "old", "", true), "wait: switching to the other slot");
  EXPECT_EQ(judged("done", "old", "", true), "done: running slot B (v2), healthy and confirmed");
  EXPECT_EQ(judged("failed", "old", "no API", true), "failed: no API; still running slot B (v2)");
  EXPECT_EQ(judged("failed", "new", "cut", true), "failed: cut; back on slot B (v2)");
}

}  // namespace talos::talosctl
