// The planner on the real kernel.
#include <time.h>

#include "common/netlink/model/test-kernel.h"
#include "common/netlink/test-netlink.h"
#include "networkd/plan/test-random-network.h"
#include "tests/kernel/namespaces.h"

namespace talos::networkd {
namespace {

constexpr unsigned kHardware = 6, kPairs = 200;

// Plans and applies until nothing is left; how many steps that took.
unsigned settle(const Wanted& wanted, netlink::Kernel& kernel) {
  unsigned steps = 0;
  for (unsigned round = 0; round < 8; ++round) {
    auto todo = plan(wanted, observe(kernel, true, 1000000000, RandomNetwork::tables()));
    if (todo.steps.size() == 0) return steps;
    steps += todo.steps.size();
    auto changes = KJ_MAP(step, todo.steps) {
      return kj::mv(step.change);
    };
    for (auto& failure : kernel.apply(changes)) {
      KJ_IF_MAYBE (f, failure) {
        // An address that goes while its link went is no mistake of the plan.
        ADD_FAILURE() << "round " << round << ": " << f->message.cStr();
      }
    }
  }
  auto left = plan(wanted, observe(kernel, true, 1000000000, RandomNetwork::tables()));
  for (auto& step : left.steps) ADD_FAILURE() << "still: " << netlink::describe(step.change).cStr();
  return steps;
}

// Ends of cables stand for hardware links, which cannot be made in a guest.
class AsHardware final : public netlink::Kernel {
 public:
  kj::Vector<netlink::Link> links() override {
    auto links = inner->links();
    for (auto& link : links) {
      bool hardware = link.kind == "veth" && link.name.startsWith("eth");
      if (hardware) link.kind = kj::String(), link.parent = 0;
    }
    return links;
  }
  kj::Vector<netlink::Address> addresses() override { return inner->addresses(); }
  kj::Vector<netlink::Route> routes() override { return inner->routes(); }
  kj::Vector<netlink::Route> allRoutes() override { return inner->allRoutes(); }
  kj::Vector<netlink::Route> routesOf(uint32_t table) override { return inner->routesOf(table); }
  kj::Vector<netlink::Rule> rules() override { return inner->rules(); }
  kj::Vector<netlink::Neighbour> neighbours() override { return inner->neighbours(); }
  netlink::WireguardDevice wireguard(unsigned index) override { return inner->wireguard(index); }
  kj::Vector<kj::Maybe<netlink::Failure>> apply(kj::ArrayPtr<const netlink::Change> list) override {
    return inner->apply(list);
  }

 private:
  kj::Own<netlink::Kernel> inner = netlink::openKernel();
};

void plugReal(netlink::Kernel& kernel) {
  for (unsigned i = 0; i < kHardware; ++i) {
    netlink::addVeth(kernel, kj::str("eth", i), kj::str("peer", i));
    netlink::setUp(kernel, netlink::indexOf(kernel, kj::str("peer", i)));
  }
}

// Catches: every order that Linux refuses, and every difference between it and the model, on which
// the 2000 pairs of the unit test rest.
TEST(KernelPlan, RandomNetworksFromOneToAnother) {
  unsigned steps = 0, pairs = 0;
  for (unsigned seed = 1; seed <= kPairs && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    ++pairs;
    RandomNetwork generate(seed);
    auto a = generate.make(kHardware), b = generate.make(kHardware);
    netlink::TestKernel model;
    for (unsigned i = 0; i < kHardware; ++i) model.plug(kj::str("eth", i));
    Namespace ns;
    ns.run([&] {
      AsHardware real;
      plugReal(real);
      for (auto wanted : {&a, &b, &a}) {
        steps += settle(*wanted, real);
        settle(*wanted, model);
        EXPECT_STREQ(describeNetwork(real, *wanted).cStr(), describeNetwork(model, *wanted).cStr());
        EXPECT_EQ(
            plan(*wanted, observe(real, true, 1000000000, RandomNetwork::tables())).steps.size(),
            0u);
      }
    });
  }
  printf("  %u pairs of networks, %u steps, none refused\n", pairs, steps);
}

}  // namespace
}  // namespace talos::networkd
