// The destinations of a node as its store has them: a model of machined's store, reached through a
// socket.
#include "logd/destination-set.h"

#include <gtest/gtest.h>

#include "common/base/folder.h"
#include "common/grpc/test-grpc-server.h"
#include "common/testing/test-tree.h"
#include "rpc/machine-resources.capnp.h"
#include "tests/models/test-machined.h"

namespace talos::logd {
namespace {

constexpr kj::StringPtr kCollector = "https://otel.example.org:4318"_kj;

struct DestinationSetTest : public testing::Test {
  ~DestinationSetTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ModelMachined machined{io, kLogdUid};
  ModelKind& specs = machined.kind<rpc::LogDestinationSpec>();
  ModelKind& secrets = machined.kind<rpc::LogDestinationCredentialsSpec>();
  ModelKind& statuses = machined.kind<rpc::LogDestinationStatusSpec>();
  StoreClient store{*io.lowLevelProvider, timer, machined.socket(), kj::str("logd")};
  machined::TestTree tree;
  DiskThread disk;
  kj::Function<double()> random = [] { return 0.5; };
  std::vector<std::string> made;         // "name=value," for the headers of each destination
  kj::Maybe<grpc::ModelServer&> events;  // what the destinations are, instead of logs
  kj::Own<DestinationSet> set;
  kj::Promise<void> running = nullptr;

  void start() {
    set = kj::heap<DestinationSet>(DestinationSet::Dependencies{
        .timer = timer,
        .clock = kj::nullClock(),
        .random = random,
        .disk = disk,
        .store = store,
        .machined = KJ_EXCEPTION(DISCONNECTED, "this model has the store alone"),
        .state = kj::str(tree.root),
        .connector = [this](const DestinationSettings& settings) -> Connection {
          KJ_IF_MAYBE (server, events) {
            return kj::heap<EventReceiver>(timer, kj::str("192.0.2.7:4000"),
                                           [server]() { return server->dial(); });
          }
          std::string all;
          for (auto& header : settings.headers) {
            all += kj::str(header.name, "=", kj::StringPtr(header.value), ",").cStr();
          }
          made.push_back(all);
          return Dial([]() -> kj::Promise<kj::Own<ReceiverConnection>> { return kj::NEVER_DONE; });
        }});
    running = set->run().eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  void setSpec(const kj::Array<kj::StringPtr>& names) {
    specs.set<rpc::LogDestinationSpec>(kCollector, "runtime.LogDestinationsController",
                                       [&](auto spec) {
                                         spec.setFormat(config::LogFormat::OTLP);
                                         spec.setBufferBytes(1u << 20);
                                         auto list = spec.initHeaders(names.size());
                                         for (auto i : kj::indices(names)) list.set(i, names[i]);
                                       });
  }
  void setSecret(kj::StringPtr name, kj::StringPtr value) {
    secrets.set<rpc::LogDestinationCredentialsSpec>(kCollector, "runtime.LogDestinationsController",
                                                    [&](auto spec) {
                                                      auto header = spec.initHeaders(1)[0];
                                                      header.setKey(name);
                                                      header.setValue(value);
                                                    });
  }
  void waitUntil(kj::FunctionParam<bool()> is) {
    auto end = timer.now() + 20 * kj::SECONDS;
    while (timer.now() < end && !is()) timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  // Waits until a change without an effect was handled: a later change with an effect shows it.
  void settle() {
    auto other = kj::str("tcp://10.0.0.", ++others, ":514");
    auto before = made.size();
    specs.set<rpc::LogDestinationSpec>(other, "runtime.LogDestinationsController",
                                       [&](auto spec) { spec.setBufferBytes(1u << 20); });
    waitUntil([&] { return made.size() > before; });
    ASSERT_EQ("", made.back());
    made.pop_back();
  }
  unsigned others = 0;
};

// Catches: a request without its token because the token arrived later, or with the token of
// another header; a token that is renewed and not used.
TEST_F(DestinationSetTest, WaitsForTheCredentialsOfADestination) {
  machined.start();
  start();
  setSpec(kj::arr<kj::StringPtr>("Authorization"));
  ASSERT_NO_FATAL_FAILURE(settle());
  EXPECT_EQ(std::vector<std::string>(), made);
  setSecret("X-Token", "1");
  ASSERT_NO_FATAL_FAILURE(settle());
  EXPECT_EQ(std::vector<std::string>(), made);
  setSecret("Authorization", "2");
  waitUntil([&] { return made.size() == 1; });
  setSecret("Authorization", "3");
  waitUntil([&] { return made.size() == 2; });
  setSpec({});
  ASSERT_NO_FATAL_FAILURE(settle());  // with the old token: no destination is created
  secrets.destroy(kCollector);
  waitUntil([&] { return made.size() == 3; });
  EXPECT_EQ((std::vector<std::string>{"Authorization=2,", "Authorization=3,", ""}), made);
}

// Catches: a status of the machine that logd may not read, or reads and does not pass on; a change
// that comes after the destination is made and is not published.
TEST_F(DestinationSetTest, ReceiversOfEventsGetTheStatusOfTheMachine) {
  grpc::ModelServer server;
  std::vector<std::string> published;
  server.methods["/events.EventSinkService/Publish"] = [&](auto& call) {
    if (!call.ended) return;
    published.push_back(call.messages.front());
    call.send("");
    call.finish();
  };
  events = server;
  auto& machines = machined.kind<rpc::MachineStatusSpec>();
  auto setStage = [&](kj::StringPtr stage, kj::StringPtr problem) {
    machines.set<rpc::MachineStatusSpec>("machine", "runtime.MachineStatusController",
                                         [&](auto status) {
                                           status.setStage(stage);
                                           status.initProblems(1).set(0, problem);
                                         });
  };
  setStage("booting", "service-a");
  machined.start();
  start();
  specs.set<rpc::LogDestinationSpec>("grpc://192.0.2.7:4000", "runtime.LogDestinationsController",
                                     [&](auto spec) { spec.setBufferBytes(1u << 20); });
  waitUntil([&] { return published.size() == 1; });
  setStage("running", "service-b");
  waitUntil([&] { return published.size() == 2; });
  ASSERT_EQ(2u, published.size());
  EXPECT_NE(std::string::npos, published[0].find("service-a"));
  EXPECT_NE(std::string::npos, published[1].find("service-b"));
  running = nullptr;
  set = nullptr;
}

// Catches: lines of a destination that are removed with its folder while it waits for its token.
TEST_F(DestinationSetTest, KeepsTheFolderOfOneThatWaits) {
  setSpec(kj::arr<kj::StringPtr>("Authorization"));
  setSecret("Authorization", "1");
  machined.start();
  start();
  waitUntil([&] { return made.size() == 1 && statuses.size() == 1; });
  auto folders = [&] { return namesIn(tree.root).size(); };
  waitUntil([&] { return folders() == 1; });
  set = nullptr;
  running = nullptr;
  secrets.destroy(kCollector);
  start();
  ASSERT_NO_FATAL_FAILURE(settle());
  disk.run([] {}).wait(io.waitScope);
  EXPECT_EQ(2u, folders());
  specs.destroy(kCollector);
  waitUntil([&] { return folders() == 1; });
  EXPECT_EQ(1u, folders());
}

}  // namespace
}  // namespace talos::logd
