// Counts of calls, of clients over real connections and of both protocols.
#include "apid/gate/call-counts.h"

#include "apid/gate/test-apid.h"

namespace talos::apid::testing {
namespace {

std::string countsOf(const CallCounts& counts) {
  std::string text;
  for (auto& [name, method] : counts.methods()) {
    for (auto& [labels, count] : method.results) {
      text += kj::str(name.c_str(), ' ', labels.first, ' ', labels.second, ' ', count, '\n').cStr();
    }
  }
  return text;
}

Peer peerWith(std::initializer_list<kj::StringPtr> organizations) {
  Peer peer;
  for (auto o : organizations) peer.organizations.add(kj::str(o));
  return peer;
}

struct CallCountsTest : ApidTest {
  ~CallCountsTest() noexcept override {}
};

// Catches: a call that is counted twice or not at all, under another role, or as answered although
// it was refused or dropped.
TEST_F(CallCountsTest, CallsOfClients) {
  start(a);
  {
    auto reader = connectAs(a, {"os:reader"});
    version(machine(reader.cluster));
    version(machine(reader.cluster));
    rebootFailure(machine(reader.cluster));
    auto admin = connectAs(a, {"os:reader", "os:admin"});
    version(machine(admin.cluster));
    EXPECT_EQ(
        "Machine.reboot os:reader PermissionDenied 1\n"
        "Machine.version os:admin OK 1\nMachine.version os:reader OK 2\n",
        countsOf(a.calls));
    auto logs = [&] {
      auto node = reader.cluster.nodeRequest().send().getNode();
      auto request = node.logsRequest().send().getLogs().readRequest();
      request.setSink(kj::heap<SlowSink>());
      return request.send();
    }();
    while (a.model.readers == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  for (auto end = timer.now() + 10 * kj::SECONDS; timer.now() < end;) {
    wait(timer.afterDelay(1 * kj::MILLISECONDS));
    if (countsOf(a.calls).find("Logs.read") != std::string::npos) break;
  }
  EXPECT_NE(std::string::npos, countsOf(a.calls).find("Logs.read os:reader Cancelled 1\n"));
}

// Catches: a bucket of another duration, a sum in other units, names that a client makes up.
TEST(CallCountsTable, DurationsAreCountedInTheirBuckets) {
  Rules rules(capnp::Schema::from<rpc::Cluster>());
  CallCounts counts(rules);
  auto observer = counts.observer(peerWith({"os:operator"}));
  observer->ended("/a/B", CallObserver::kOk, 1 * kj::MILLISECONDS);
  observer->ended("/a/B", CallObserver::kOk, 3 * kj::MILLISECONDS);
  observer->ended("/a/B", "NotFound", 1 * kj::HOURS);
  observer->ended(1, 2, CallObserver::kOk, 1 * kj::SECONDS);
  observer->ended(capnp::typeId<rpc::Cluster>(), 99, CallObserver::kOk, 1 * kj::SECONDS);
  auto& method = counts.methods().at("/a/B");
  EXPECT_EQ(1u, method.counts[0]);
  EXPECT_EQ(0u, method.counts[1]);
  EXPECT_EQ(1u, method.counts[2]);
  EXPECT_EQ(1u, method.counts[CallCounts::kCounts - 1]);
  EXPECT_DOUBLE_EQ(3600.004, method.seconds);
  EXPECT_EQ("/a/B os:operator NotFound 1\n/a/B os:operator OK 2\nunknown os:operator OK 2\n",
            countsOf(counts));
}

TEST(CallCountsTable, RolesAreCountedByTheirNames) {
  struct {
    Peer peer;
    kj::StringPtr role;
  } rows[] = {{peerWith({}), "none"},
              {peerWith({"talos"}), "none"},
              {peerWith({"os:reader", "os:operator"}), "os:operator"},
              {peerWith({"os:etcd:backup"}), "os:etcd:backup"},
              {peerWith({"os:impersonator"}), "os:impersonator"}};
  for (auto& row : rows) EXPECT_EQ(row.role, CallCounts::roleOf(row.peer));
  Peer anonymous;
  anonymous.anonymous = true;
  EXPECT_EQ("anonymous"_kj, CallCounts::roleOf(anonymous));
}

}  // namespace
}  // namespace talos::apid::testing
