// The clients and their oracle at three members of the real etcd, which are killed and stopped.
#include "tests/day/registers/register-clients.h"

#include <gmock/gmock.h>
#include <kj/debug.h>

#include <algorithm>

#include "common/etcd/test-real-etcd.h"
#include "tests/harness/process.h"

namespace talos::day {
namespace {

using etcd::RealEtcd;
using harness::eventually;

constexpr double kTimeout = 60;  // s
// Much more often than in a day, because the test waits for a number of answers; a member that is
// stopped is noticed after `call`.
constexpr RegisterClients::Pace kOften{.between = std::chrono::milliseconds(20),
                                       .call = 500 * kj::MILLISECONDS};

// All tests have the same members, whose start takes most of the time; each begins without keys.
class RegistersAtEtcd : public testing::Test {
 public:
  ~RegistersAtEtcd() noexcept override {}
  static void SetUpTestSuite() {
    ASSERT_TRUE(RealEtcd::installed()) << RealEtcd::kProgram << " is not installed";
    cluster = std::make_unique<RealEtcd>();
    for (unsigned n : {1u, 2u, 3u}) cluster->start(n, {1, 2, 3});
  }
  static void TearDownTestSuite() { cluster = nullptr; }

 protected:
  static inline std::unique_ptr<RealEtcd> cluster;
  RealEtcd& real = *cluster;
  std::unique_ptr<RegisterClients> clients;

  void SetUp() override {
    real.ctl({"del", "--prefix", "/day/", "--dial-timeout=60s", "--command-timeout=60s"});
    real.finishCtl();
    std::vector<Member> members;
    for (unsigned n : {1u, 2u, 3u}) {
      members.push_back({RealEtcd::client(n), [this] { return real.credentials(); }});
    }
    clients = std::make_unique<RegisterClients>(std::move(members), [] {}, 3, 7, kOften);
    allAnswer({0, 1, 2});
  }
  // Waits until each of these members has answered some more calls.
  void allAnswer(const std::vector<unsigned>& members, unsigned more = 6) {
    for (auto member : members) {
      auto before = clients->answers(member);
      EXPECT_TRUE(eventually([&] { return clients->answers(member) >= before + more; }, kTimeout))
          << "member " << member << "\n"
          << real.log(member + 1);
    }
  }
  void fails(unsigned member) {
    auto before = clients->failures(member);
    EXPECT_TRUE(eventually([&] { return clients->failures(member) > before; }, kTimeout));
  }
};

// Catches: an answer that the clients record wrongly, so that a good etcd fails, and a client that
// stays away from a member that is back.
TEST_F(RegistersAtEtcd, AGoodEtcdPasses) {
  real.kill(2);
  fails(1);
  allAnswer({0, 2});
  real.start(2, {1, 2, 3});
  allAnswer({0, 1, 2});
  real.signal(3, SIGSTOP);
  fails(2);
  allAnswer({0, 1});
  real.signal(3, SIGCONT);
  allAnswer({0, 1, 2});
  auto answered = clients->answered();
  EXPECT_FALSE(answered.empty());
  EXPECT_EQ(lossProblem(answered, clients->present(0).keys), "");
  EXPECT_GE(clients->present(1).count, answered.size());
  auto history = clients->history();
  EXPECT_EQ(registerProblem(history), "");
  size_t swaps = 0, reads = 0;
  for (auto& [key, calls] : history) {
    for (auto& call : calls) {
      bool isDone = call.outcome == Call::Outcome::kDone;
      swaps += isDone && call.what == Call::What::kSwap;
      reads += isDone && call.what == Call::What::kRead && call.modified > 0;
    }
  }
  EXPECT_GT(swaps, 0u);
  EXPECT_GT(reads, 0u);
}

// Catches: clients that keep all of a long day, and a judge that finds a problem where two parts of
// the history meet.
TEST_F(RegistersAtEtcd, ForgetsOldCalls) {
  clients->forget();
  allAnswer({0, 1, 2});
  auto before = clients->history();
  EXPECT_EQ(registerProblem(before), "");
  clients->forget();
  allAnswer({0, 1, 2});
  auto after = clients->history();
  EXPECT_EQ(registerProblem(after), "");
  auto isOf = [](const std::string& epoch) {
    return
        [epoch](auto& each) { return each.first.starts_with(RegisterClients::kRegisters + epoch); };
  };
  EXPECT_TRUE(std::ranges::any_of(before, isOf("0.")));
  EXPECT_TRUE(std::ranges::none_of(after, isOf("0.")));
  EXPECT_TRUE(std::ranges::any_of(after, isOf("2.")));
  auto answered = clients->answered();
  auto totals = clients->totals();
  auto present = clients->present(0);
  EXPECT_EQ(lossProblem(answered, present.keys), "");
  EXPECT_GE(present.count, totals.once);
  EXPECT_GT(totals.forgotten, 0u);
}

// Catches: a history in which a loss of data does not show. All members lose their data at once and
// start as another cluster, as after a restore of an empty snapshot.
TEST_F(RegistersAtEtcd, AnEtcdThatHasLostItsDataFails) {
  auto answered = clients->answered();
  for (unsigned n : {1u, 2u, 3u}) {
    real.kill(n);
    harness::run({"rm", "-rf", real.at(RealEtcd::nameOf(n)).cStr()});
  }
  for (unsigned n : {1u, 2u, 3u}) real.start(n, {1, 2, 3});
  allAnswer({0, 1, 2});
  EXPECT_NE(registerProblem(clients->history()), "");
  if (!answered.empty()) EXPECT_NE(lossProblem(answered, clients->present(0).keys), "");
}

}  // namespace
}  // namespace talos::day
