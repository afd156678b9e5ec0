// Repairs of networkd as events.
#include "machined/config/network/network-events.h"

#include "common/base/error.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

struct NetworkEventsTest : public StoreTest {
  ~NetworkEventsTest() noexcept override {}
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kj::Vector<kj::String> reported;
  uint64_t kept = 0;
  bool broken = false;  // process 1 rejects the number
  kj::Maybe<kj::Own<ControllerRuntime>> runtime;

  // Starts a brain; the held number and the reported events of the previous brain stay.
  void start() {
    runtime = nullptr;
    auto made =
        kj::heap<ControllerRuntime>(store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; });
    made->add(kj::heap<NetworkEventController>(
        kept,
        [this](uint64_t number) -> kj::Promise<void> {
          if (broken) return error(ErrorKind::kUnavailable, "not now");
          kept = number;
          return kj::READY_NOW;
        },
        [this](kj::StringPtr link, kj::StringPtr what) {
          reported.add(kj::str(link, ": ", what));
        }));
    runtime = kj::mv(made);
    scope.poll();
  }
  // networkd has made `count` repairs, and lists those from `first` on.
  void repaired(uint64_t first, uint64_t count) {
    putRecord<rpc::NetworkStatusSpec>(store, "status", [&](rpc::NetworkStatusSpec::Builder spec) {
      spec.setRepairs(count);
      auto list = spec.initRepaired(count - first + 1);
      for (auto i : kj::indices(list)) {
        list[i].setNumber(first + i);
        list[i].setLink("eth0");
        list[i].setWhat(kj::str("repair ", first + i));
      }
    });
    scope.poll();
  }
  kj::String news() {
    auto text = kj::strArray(reported, ", ");
    reported.clear();
    return text;
  }
};

// Catches: an event for each read of the status, and no event for the second repair.
TEST_F(NetworkEventsTest, ReportsEachRepairOnce) {
  start();
  repaired(1, 1);
  EXPECT_EQ(news(), "eth0: repair 1");
  repaired(1, 3);
  EXPECT_EQ(news(), "eth0: repair 2, eth0: repair 3");
  EXPECT_EQ(kept, 3u);
  repaired(2, 3);
  EXPECT_EQ(news(), "");
}

// Catches: events that are repeated after every crash of the brain.
TEST_F(NetworkEventsTest, ANewBrainTellsWhatIsNew) {
  repaired(1, 2);
  start();
  EXPECT_EQ(news(), "eth0: repair 1, eth0: repair 2");
  start();
  EXPECT_EQ(news(), "");
  repaired(1, 3);
  EXPECT_EQ(news(), "eth0: repair 3");
}

// Catches: an event that is reported before its number is held, and an event that is lost.
TEST_F(NetworkEventsTest, HoldsTheNumberBeforeItReports) {
  broken = true;
  start();
  repaired(1, 1);
  EXPECT_EQ(news(), "");
  broken = false;
  timer.advanceTo(timer.now() + 1 * kj::MINUTES);
  scope.poll();
  EXPECT_EQ(news(), "eth0: repair 1");
}

}  // namespace
}  // namespace talos::machined
