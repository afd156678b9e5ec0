#include "talosctl/cluster/nodes/cluster-wait.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "talosctl/cluster/nodes/cluster-bootstrap.h"

namespace talos::cluster {
namespace {

constexpr const char* kOne = "ANFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEKc=";
constexpr const char* kTwo = "BNFlhVPP3bUjdbYTO2Ea9JOTjXMQNCYDW3vAkuRkEK+=";

kj::String on(kj::StringPtr console) {
  return fingerprintOn(console).orDefault(kj::str("none"));
}

// Catches: the fingerprint of an earlier boot, a word that is too long or too short for a
// fingerprint, a fingerprint that is cut off because it is being written.
TEST(ConsoleFingerprint, TheLastWholeOneCounts) {
  EXPECT_EQ(on(""), "none");
  EXPECT_EQ(on(kj::str("the fingerprint of its certificate is ", kOne, "\r\n")), kOne);
  EXPECT_EQ(on(kj::str("fingerprint '", kOne, "' x\nfingerprint=", kTwo, "\n")), kTwo);
  EXPECT_EQ(on(kj::str("fingerprint ", kOne, "\nfingerprint ", kj::str(kTwo).slice(0, 43))), kOne);
  EXPECT_EQ(on(kj::str("fingerprint x", kOne)), "none");
  EXPECT_EQ(on(kj::str("fingerprint\n", kOne)), "none");
}

// Catches: a cluster that counts as complete while a member does not vote, or does not answer.
TEST(ClusterBootstrap, IsOverWhenAllVote) {
  struct Row {
    kj::StringPtr kinds;  // v: votes, l: learns, s: does not answer
    size_t wanted;
    kj::StringPtr text;
    bool all;
  } rows[] = {
      {"v", 1, "1 of 1 control-plane node is a voting member", true},
      {"vl", 2, "1 of 2 control-plane nodes are voting members", false},
      {"vvs", 3, "2 of 3 control-plane nodes are voting members; m3: connection refused", false},
      {"vvs", 2, "2 of 2 control-plane nodes are voting members; m3: connection refused", false},
      {"vvv", 3, "3 of 3 control-plane nodes are voting members", true},
      {"", 3, "0 of 3 control-plane nodes are voting members", false},
  };
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto members = message.initRoot<rpc::Etcd::MembersResults>().initMembers(row.kinds.size());
    for (auto i : kj::indices(row.kinds)) {
      members[i].setName(kj::str("m", i + 1));
      members[i].setLearner(row.kinds[i] == 'l');
      if (row.kinds[i] == 's') members[i].setProblem("connection refused");
    }
    bool all = !row.all;
    EXPECT_EQ(row.text, votersText(members.asReader(), row.wanted, all));
    EXPECT_EQ(row.all, all) << row.text.cStr();
  }
}

}  // namespace
}  // namespace talos::cluster
