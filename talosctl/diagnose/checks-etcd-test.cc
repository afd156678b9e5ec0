// Tests which of several findings about the members of etcd is the cause.
#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Returns the fields of a node that lists three members, of which some do not answer.
std::string lists(const char* problemOfSecond, const char* problemOfThird, bool quorum) {
  return std::string("address: 10.5.0.2, controlPlane: true, quorum: ") +
         (quorum ? "true" : "false") +
         ", etcd: {phase: member}, members: [{name: m-1, local: true, peerUrls: "
         "['https://10.5.0.2:2380']}, {name: m-2, peerUrls: ['https://10.5.0.3:2380'], problem: '" +
         problemOfSecond + "'}, {name: m-3, peerUrls: ['https://10.5.0.4:2380'], problem: '" +
         problemOfThird + "'}]";
}
// Returns nodes whose containers are unknown, because only etcd is tested.
std::string nodes(const std::string& first, const std::string& second, const std::string& third) {
  const std::string rest = ", unanswered: [{question: containers, error: x}]}";
  return "nodes: [{" + first + rest + ", {address: 10.5.0.3, controlPlane: true, " + second + rest +
         ", {address: 10.5.0.4, controlPlane: true, " + third + rest + "]";
}
std::string etcd(const char* state, const char* event) {
  return std::string("etcd: {phase: member}, services: [{id: etcd, state: ") + state +
         ", events: [{message: '" + event + "'}]}]";
}

Diagnosed diagnosed(const std::string& yaml) {
  return Diagnosed(kj::StringPtr(yaml.c_str()));
}

constexpr const char* kGood = "etcd: {phase: member}, services: [{id: etcd, state: running}]";
constexpr const char* kHangs =
    "etcd: {phase: member}, services: [{id: etcd, state: running, checked: true, health: {unknown: "
    "false, lastMessage: no answer within 5s}}]";
constexpr const char* kEmpty =
    "etcd: {phase: waiting, message: 'cannot join yet: no node answers with the members'}";

// Catches: a member that does not answer as the cause, whose remedy does not start a stopped etcd.
TEST(EtcdChecks, TheMemberOfAStoppedEtcdIsAConsequence) {
  auto all = diagnosed(nodes(lists("", "Connection refused", true), kGood,
                             etcd("finished", "Service stopped: exited with status 0")));
  EXPECT_THAT(all.causes(), ElementsAre("etcd")) << all.text();
  EXPECT_EQ(all.chain("etcd-member"), "etcd > etcd-member");
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n 10.5.0.4 service etcd start\n"));
}

// Catches: a quorum that is lost as the cause of the two that were stopped.
TEST(EtcdChecks, StoppedMembersAreTheCauseOfTheLostQuorum) {
  auto stopped = etcd("finished", "Service stopped: exited with status 0");
  auto all = diagnosed(nodes(lists("refused", "refused", false), stopped, stopped));
  EXPECT_THAT(all.causes(), ElementsAre("etcd")) << all.text();
  EXPECT_EQ(all.chain("etcd-quorum"), "etcd > etcd-member > etcd-quorum");
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n 10.5.0.3,10.5.0.4 service etcd start\n"));
}

// Catches: a wrong argument that is named as the consequence of a member, whose remedy is a
// restart with the same argument.
TEST(EtcdChecks, TheMemberOfAWrongArgumentIsAConsequence) {
  auto all = diagnosed(nodes(lists("", "Connection refused", true), kGood,
                             etcd("waiting", "Process (PID 8) exited with status 2") +
                                 ", logs: [{id: etcd, lines: ['flag provided but not defined: "
                                 "-bogus']}]"));
  EXPECT_THAT(all.causes(), ElementsAre("etcd")) << all.text();
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n 10.5.0.4 edit machineconfig"));
}

// Catches: a cause for each of the members, of which each remedy leaves the other one without
// answer.
TEST(EtcdChecks, MembersThatHangAreOneCause) {
  auto all = diagnosed(nodes(lists("no answer", "no answer", false), kHangs, kHangs));
  EXPECT_THAT(all.causes(), ElementsAre("etcd-member")) << all.text();
  EXPECT_EQ(all.chain("etcd-quorum"), "etcd-member > etcd-quorum");
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n 10.5.0.3,10.5.0.4 service etcd restart"));
}

// Catches: a restart, or a start of the nodes, as the remedy for members whose data is gone; a
// recovery with an older snapshot, although a member still has the newest data; `bootstrap`.
TEST(EtcdChecks, AQuorumWithoutDataIsRecovered) {
  auto all = diagnosed(nodes(lists("not running", "not running", false), kEmpty, kEmpty));
  EXPECT_THAT(all.causes(), ElementsAre("etcd-quorum")) << all.text();
  EXPECT_EQ(all.chain("etcd-join"), "etcd-quorum > etcd-join");
  EXPECT_THAT(
      all.text(),
      testing::AllOf(HasSubstr("2 of 3 members have lost their data: m-2 10.5.0.3, m-3 10.5.0.4"),
                     HasSubstr("talosctl -n 10.5.0.2 etcd snapshot <file> && talosctl -n "
                               "10.5.0.2,10.5.0.3,10.5.0.4 cluster recover <this file>"),
                     Not(HasSubstr("bootstrap"))));
}

// Catches: the snapshot of a member that does not answer.
TEST(EtcdChecks, WithoutAMemberThatAnswersARecoveryNeedsASnapshot) {
  auto first = lists("not running", "not running", false);
  auto at = first.find("local: true");
  first.insert(at, "problem: no answer, ");
  auto all = diagnosed(nodes(first, kEmpty, kEmpty));
  EXPECT_THAT(all.text(), HasSubstr("   remedy:   talosctl -n 10.5.0.2,10.5.0.3,10.5.0.4 cluster "
                                    "recover <snapshot>\n"));
}

// Catches: the snapshot of a learner, whose data may be older than that of a voter.
TEST(EtcdChecks, ALearnerIsNotTakenForTheHolderOfTheData) {
  const std::string learner =
      "quorum: false, etcd: {phase: learner}, members: [{name: m-2, local: true, learner: true, "
      "peerUrls: "
      "['https://10.5.0.3:2380']}]";
  auto first = lists("", "not running", false);
  first.insert(first.find("local: true"), "problem: no answer, ");
  first.insert(first.find("name: m-2") + 9, ", learner: true");
  auto all = diagnosed(nodes(first, learner, kEmpty));
  EXPECT_THAT(all.text(), HasSubstr("cluster recover <snapshot>\n"));
  EXPECT_THAT(all.text(), Not(HasSubstr("etcd snapshot")));
}

// Catches: the first of several members that have their data, taken for the one with the newest
// data: what the others have written since would be lost.
TEST(EtcdChecks, TheRevisionsOfSeveralHoldersAreCompared) {
  auto member = [](int number, bool local, const char* problem) {
    auto n = std::to_string(number);
    return "{name: m-" + n + (local ? ", local: true" : "") + ", peerUrls: ['https://10.5.0." + n +
           ":2380'], problem: '" + problem + "'}";
  };
  std::string yaml = "nodes: [";
  for (int own = 2; own <= 6; ++own) {
    yaml += "{address: 10.5.0." + std::to_string(own) +
            ", controlPlane: true, quorum: false, unanswered: [{question: containers, error: x}], ";
    if (own > 3) {
      yaml += std::string(kEmpty) + "}, ";
      continue;
    }
    yaml += "etcd: {phase: member}, members: [";
    for (int one = 2; one <= 6; ++one) {
      yaml += member(one, one == own, one > 3 ? "not running" : "") + ", ";
    }
    yaml += "]}, ";
  }
  auto all = diagnosed(yaml + "]");
  EXPECT_THAT(all.text(),
              testing::AllOf(HasSubstr("3 of 5 members have lost their data"),
                             HasSubstr("talosctl -n 10.5.0.2,10.5.0.3 etcd status -o yaml"),
                             HasSubstr("talosctl -n <this node> etcd snapshot <file>"),
                             Not(HasSubstr("the newest data is"))));
}

// Catches: data that is given up although the members that have it may come back.
TEST(EtcdChecks, AQuorumThatMayComeBackIsNotLost) {
  auto all = diagnosed(nodes(lists("not running", "no answer", false), kEmpty,
                             "reach: silent, error: no answer within 10s"));
  EXPECT_THAT(all.text(), Not(HasSubstr("have lost their data")));
  EXPECT_THAT(all.causes(), ElementsAre("node-down")) << all.text();
}

// Catches: the removal of a member as the remedy, which needs the quorum that is gone.
TEST(EtcdChecks, WithoutAQuorumNoMemberIsRemoved) {
  auto all = diagnosed("nodes: [{" + lists("no answer", "no answer", false) +
                       ", unanswered: [{question: containers, error: x}]}]");
  EXPECT_THAT(all.causes(), ElementsAre("etcd-quorum")) << all.text();
  EXPECT_THAT(all.text(), Not(HasSubstr("remove-member")));
}

// Catches: the exit of a removed member as the cause, whose remedy is a log, or an argument that
// was corrected before.
TEST(EtcdChecks, ARemovedMemberExits) {
  const std::string service =
      "services: [{id: etcd, state: waiting, events: [{message: 'Process (PID 8) exited with "
      "status 0'}]}], logs: [{id: etcd, lines: ['flag provided but not defined: -bogus']}]";
  auto all = diagnosed(
      nodes(lists("", "", true), kGood,
            "etcd: {phase: member, message: 'the other members have removed this one; run'}, " +
                service));
  EXPECT_THAT(all.causes(), ElementsAre("etcd-join")) << all.text();
  EXPECT_EQ(all.chain("etcd"), "etcd-join > etcd");
  // The node has not noticed its removal yet.
  auto early = diagnosed(nodes(lists("", "", true), kGood, "etcd: {phase: member}, " + service));
  EXPECT_THAT(early.text(), HasSubstr("1. 10.5.0.4: etcd does not run, or is not healthy [etcd, "
                                      "likely]"));
}

}  // namespace
}  // namespace talos::talosctl
