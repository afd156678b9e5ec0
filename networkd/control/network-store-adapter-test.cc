#include "networkd/control/network-store-adapter.h"

#include <gtest/gtest.h>

#include "common/base/node-layout.h"
#include "common/testing/printing.h"
#include "tests/models/test-machined.h"

namespace talos::networkd {
namespace {

// Catches: a machine with more routes than machined accepts, whose addresses are not reported
// because the routes before them are refused.
TEST(StoreAdapter, MoreThanMachinedTakesIsCutOff) {
  StoreClient::Wanted wanted;
  for (auto id : {"a", "b", "c"}) {
    wanted.insert(kj::str(id), kj::heap<capnp::MallocMessageBuilder>());
  }
  EXPECT_EQ(cutTo(wanted, 3), 0u);
  EXPECT_EQ(wanted.size(), 3u);
  EXPECT_EQ(cutTo(wanted, 2), 1u);
  EXPECT_TRUE(wanted.find("c") == nullptr);
  EXPECT_EQ(wanted.size(), 2u);
}

// Catches: connectivity that a failing probe does not change, or that one of several good probes
// makes; a pass over the kernel's network for each error of a probe; a networkd that never begins
// because probes arrive first or last.
TEST(StoreAdapter, ProbesDecideOnConnectivity) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ModelMachined machined{io, kNetworkdUid};
  auto& specs = machined.kind<rpc::ProbeSpecSpec>();
  auto& statuses = machined.kind<rpc::ProbeStatusSpec>();
  StoreClient store(*io.lowLevelProvider, timer, machined.socket(), kj::str("networkd"));
  unsigned changes = 0;
  StoreAdapter adapter(store, [&] { ++changes; }, [](auto, auto&) { return false; });
  auto shown = [&]() -> std::string {
    // Events of the watches arrive within some turns of the loop.
    timer.afterDelay(50 * kj::MILLISECONDS).wait(io.waitScope);
    auto intent = adapter.intent();
    KJ_IF_MAYBE (i, intent) {
      KJ_IF_MAYBE (good, i->probes) return *good ? "good" : "bad";
      return "none";
    }
    return "unknown";
  };
  auto status = [&](kj::StringPtr id, bool success, kj::StringPtr error = "") {
    statuses.set<rpc::ProbeStatusSpec>(id, "probed", [&](auto spec) {
      spec.setSuccess(success);
      spec.setLastError(error);
    });
  };
  auto spec = [&](kj::StringPtr id) { specs.set<rpc::ProbeSpecSpec>(id, "machined", [](auto) {}); };
  EXPECT_EQ(shown(), "unknown");
  machined.start();
  auto deadline = timer.now() + 20 * kj::SECONDS;
  while (adapter.intent() == nullptr && timer.now() < deadline) {
    timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  EXPECT_EQ(shown(), "none");
  EXPECT_GT(changes, 0u);
  status("tcp:a:1", true);
  EXPECT_EQ(shown(), "none") << "a status without its probe";
  spec("tcp:a:1");
  EXPECT_EQ(shown(), "good");
  spec("tcp:b:1");
  EXPECT_EQ(shown(), "bad") << "not asked yet";
  status("tcp:b:1", true);
  EXPECT_EQ(shown(), "good");
  status("tcp:b:1", false, "refused");
  EXPECT_EQ(shown(), "bad");
  auto before = changes;
  status("tcp:b:1", false, "no route");
  status("tcp:a:1", false, "no route");
  EXPECT_EQ(shown(), "bad");
  EXPECT_EQ(changes, before);
}

}  // namespace
}  // namespace talos::networkd
