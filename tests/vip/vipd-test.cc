#include "tests/vip/vip-hosts.h"

namespace talos {
namespace {

// Returns how many rounds of faults to make: 1, or VIP_ROUNDS.
unsigned rounds() {
  auto text = getenv("VIP_ROUNDS");
  return text == nullptr ? 1 : unsigned(atoi(text));
}

// Catches: two hosts with the address at one instant, a host that keeps it although its vipd is
// dead or stopped or cut off, a hand-over that takes a lease's time, and a program that does not
// run with the rights that it has on a node.
TEST(VipdProgram, OneOfThreeHostsHasTheAddressWhateverHappens) {
  ASSERT_EQ(access("/usr/bin/etcd", X_OK), 0) << "etcd is not installed";
  Hosts bed;
  auto watcher = bed.watch();
  auto client = bed.probe();
  for (auto& host : bed.hosts) bed.start(*host);
  auto* holder = &bed.settled();
  int64_t handOver = 1'000'000;
  auto note = [](kj::StringPtr what, int64_t ms) {
    testing::Test::RecordProperty(what.cStr(), int(ms));
    if (getenv("VIP_VERBOSE") != nullptr) fprintf(stderr, "%s: %d ms\n", what.cStr(), int(ms));
  };
  auto moved = [&](kj::StringPtr what) {
    auto& old = *holder;
    auto took = bed.until(what, [&] {
      for (auto& host : bed.hosts) {
        if (host.get() != &old && host->has()) {
          holder = host.get();
          return true;
        }
      }
      return false;
    });
    note(what, took);
    return took;
  };
  auto without = [&](kj::StringPtr what) { note(what, client->takeLongest()); };
  bed.until("it answers", [&] { return client->answered > 0; });
  client->takeLongest();
  for (unsigned round = 0; round < rounds(); ++round) {
    auto* old = holder;
    EXPECT_STREQ(old->status().cStr(), kj::str("holder ", old->name(), ": elected").cStr());
    bed.end(old->vipd, SIGKILL);
    moved("killed");
    bed.start(*old);
    bed.settled();
    without("killed: no answer");

    old = holder = &bed.settled();
    kill(old->vipd, SIGSTOP);
    moved("stopped");
    kill(old->vipd, SIGCONT);
    bed.settled();
    without("stopped: no answer");

    old = holder = &bed.settled();
    bed.plug(*old, false);
    moved("link down");
    bed.plug(*old, true);
    bed.settled();
    without("link down: no answer");

    old = holder = &bed.settled();
    auto leaving = std::exchange(old->vipd, 0);
    kill(leaving, SIGTERM);
    handOver = kj::min(handOver, moved("handed over"));
    int status = 0;
    bed.until("it ends", [&] { return waitpid(leaving, &status, WNOHANG) == leaving; });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << bed.said().cStr();
    EXPECT_FALSE(old->has());
    bed.start(*old);
    bed.settled();
    without("handed over: no answer");

    old = holder = &bed.settled();
    kill(old->etcd, SIGSTOP);
    moved("etcd stopped");
    kill(old->etcd, SIGCONT);
    holder = &bed.settled();
    without("etcd stopped: no answer");
  }
  client->end();
  note("restarts", bed.restarts);
  watcher->end();
  EXPECT_GT(watcher->looks.load(), 100u);
  EXPECT_EQ(0u, watcher->overlaps.load()) << bed.said().cStr();
  EXPECT_GT(client->answered.load(), 100u);
  EXPECT_EQ(0u, client->twice.load()) << bed.said().cStr();
  EXPECT_LT(handOver, 1500)
      << bed.said().cStr();  // some ms where nothing else runs; a lease would be more than 2 s
}

}  // namespace
}  // namespace talos
