#include "talosctl/dashboard/cluster-follower.h"

#include "talosctl/cli/commandline.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl::dashboard {
namespace {

struct Followers : public ClusterTest {
  ~Followers() noexcept override {}
  FakeNode& fake = node("10.0.0.2");
  Parsed parsed = parse();

  Parsed parse() {
    c.test.environment.upsert(kj::str("TALOSCONFIG"), c.configPath(), [](auto&, auto&&) {});
    const kj::StringPtr words[] = {"-n"_kj, "10.0.0.2"_kj, "dashboard"_kj};
    return parseCommandLine(*c.deps, *c.root, words);
  }
  void pass(kj::Duration time) {
    c.clock.advanceTo(c.clock.now() + time);
    c.settle();
  }
};

// Catches: a request about the cluster over a new connection that is not connected yet, after which
// no further request is sent.
TEST_F(Followers, TheClusterIsAskedThroughAConnectionThatIsNew) {
  fake.upgrades.voters = 3;
  ClusterFollower cluster(*parsed.call, 1 * kj::HOURS);
  cluster.start();
  c.settle();
  cluster.client.renew();
  pass(1 * kj::SECONDS);
  auto picture = cluster.picture();
  auto shown = picture->getRoot<rpc::Dashboard>();
  EXPECT_STREQ(shown.getProblem().cStr(), "");
  EXPECT_EQ(shown.getMembers().size(), 3u);
}

// Catches: counters with the time of the last of all answers, so that rates are wrong when one
// request hangs.
TEST_F(Followers, RatesAreOfTheTimeOfTheAnswer) {
  pass(1 * kj::SECONDS);
  SharedClient client(*parsed.call);
  NodeFollower follower(client, "10.0.0.2");
  fake.memoryHangs = true;
  auto first = follower.round(true);
  c.settle();
  pass(SharedClient::kAnswer);
  ASSERT_TRUE(first.poll(c.test.io.waitScope));
  first.wait(c.test.io.waitScope);
  pass(10 * kj::SECONDS - SharedClient::kAnswer);
  fake.memoryHangs = false;
  fake.processCpuMs = 1000;
  auto second = follower.round(true);
  c.settle();
  ASSERT_TRUE(second.poll(c.test.io.waitScope));
  second.wait(c.test.io.waitScope);
  capnp::MallocMessageBuilder message;
  auto written = message.initRoot<rpc::DashboardNode>();
  follower.write(written);
  ASSERT_EQ(written.getProcesses().size(), 1u);
  EXPECT_EQ(written.getProcesses()[0].getCpu(), 100u);  // 1 s of 10 s, in 1/10 %
}

}  // namespace
}  // namespace talos::talosctl::dashboard
