#include "talosctl/etcd/etcd-quorum.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

// v: a voter that answers, s: a silent voter, l: a learner; the first is the member of the node
// that answered.
struct Members {
  explicit Members(kj::StringPtr kinds) {
    auto list = message.initRoot<rpc::Etcd::MembersResults>().initMembers(kinds.size());
    for (auto i : kj::indices(kinds)) {
      list[i].setId(i + 1);
      list[i].setName(kj::str("m", i + 1));
      list[i].setLocal(i == 0);
      list[i].setLearner(kinds[i] == 'l');
      if (kinds[i] == 's') list[i].setProblem("connection refused");
    }
  }
  EtcdMembers get() { return message.getRoot<rpc::Etcd::MembersResults>().asReader().getMembers(); }
  capnp::MallocMessageBuilder message;
};

// Catches: learners counted as voters, a majority that is off by one.
TEST(EtcdQuorum, CountsVotersAndWhatTheyTolerate) {
  struct Row {
    kj::StringPtr kinds, text;
  } rows[] = {
      {"v", "etcd has 1 voter, which tolerates no failure"},
      {"vv", "etcd has 2 voters, which tolerate no failure"},
      {"vvv", "etcd has 3 voters, which tolerate 1 failure"},
      {"vvl", "etcd has 2 voters, which tolerate no failure"},
      {"vvvv", "etcd has 4 voters, which tolerate 1 failure"},
      {"vvvvv", "etcd has 5 voters, which tolerate 2 failures"},
      {"vvs", "etcd has 3 voters, 1 of which does not answer; they tolerate no failure"},
      {"vvvvs", "etcd has 5 voters, 1 of which does not answer; they tolerate 1 failure more"},
      {"vss", "etcd has 3 voters, 2 of which do not answer: no quorum"},
  };
  for (auto& row : rows) EXPECT_EQ(row.text, quorumText(Members(row.kinds).get()));
}

// Catches: the leaving member counted as remaining, a printed id that is not found.
TEST(EtcdQuorum, TellsWhatIsLeft) {
  struct Row {
    kj::StringPtr kinds, member, text;
  } rows[] = {
      {"vvv", "", "without m1 it has 2 voters, which tolerate no failure"},
      {"vvv", "m2", "without m2 it has 2 voters, which tolerate no failure"},
      {"vvv", "0000000000000003", "without m3 it has 2 voters, which tolerate no failure"},
      {"vsv", "m2", "without m2 it has 2 voters, which tolerate no failure"},
      {"vsv", "m3", "without m3 it has 2 voters, 1 of which does not answer: no quorum"},
      {"v", "", "m1 is the only voter"},
      {"vvv", "other", "other is not a member"},
      {"", "", "this node is not a member"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(row.text, quorumTextWithout(Members(row.kinds).get(), row.member));
  }
}

// Catches: a leaving member that is still counted, a restarting member that is not; the end of a
// cluster that is not reported; a silent member counted twice.
TEST(EtcdQuorum, TellsWhatANodeThatGoesDoes) {
  using Departure = EtcdDeparture;
  struct Row {
    kj::StringPtr kinds;
    Departure departure;
    kj::StringPtr text;
  } rows[] = {
      {"vvv", Departure::kLeaves,
       "etcd has 3 voters, which tolerate 1 failure; without m1 it has 2 voters, which tolerate no "
       "failure"},
      {"vvv", Departure::kRejoins,
       "etcd has 3 voters, which tolerate 1 failure; without m1 it has 2 voters, which tolerate no "
       "failure, until it has joined again"},
      {"vvv", Departure::kRestarts,
       "etcd has 3 voters, which tolerate 1 failure; while m1 restarts it has 3 voters, 1 of which "
       "does not answer; they tolerate no failure"},
      {"vvv", Departure::kErased,
       "etcd has 3 voters, which tolerate 1 failure; m1 does not leave it: it has 3 voters, 1 of "
       "which does not answer; they tolerate no failure, until talosctl etcd remove-member "
       "0000000000000001 on another node"},
      {"svv", Departure::kRestarts,
       "etcd has 3 voters, 1 of which does not answer; they tolerate no failure; while m1 restarts "
       "it has 3 voters, 1 of which does not answer; they tolerate no failure"},
      {"vs", Departure::kErased,
       "etcd has 2 voters, 1 of which does not answer: no quorum; m1 does not leave it: it has 2 "
       "voters, 2 of which do not answer: no quorum, until talosctl etcd remove-member "
       "0000000000000001 on another node"},
      {"v", Departure::kErased,
       "etcd has 1 voter, which tolerates no failure; m1 is the only voter: the cluster, and all "
       "of "
       "its data, end with it"},
      {"v", Departure::kRejoins,
       "etcd has 1 voter, which tolerates no failure; m1 is the only voter: the cluster, and all "
       "of "
       "its data, end with it"},
      {"v", Departure::kRestarts,
       "etcd has 1 voter, which tolerates no failure; while m1 restarts it has 1 voter, 1 of which "
       "does not answer: no quorum"},
      {"lvv", Departure::kErased,
       "etcd has 2 voters, which tolerate no failure; without m1 it has 2 voters, which tolerate "
       "no "
       "failure"},
  };
  for (auto& row : rows)
    EXPECT_EQ(row.text, departureText(Members(row.kinds).get(), row.departure));
}

}  // namespace
}  // namespace talos::talosctl
