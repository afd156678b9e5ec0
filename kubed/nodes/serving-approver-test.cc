#include "kubed/nodes/serving-approver.h"

#include <map>

#include "common/base/error.h"
#include "kubed/nodes/test-control-plane.h"

namespace talos::kubed {
namespace {

struct ServingApprovals : public TestControlPlane {
  pki::CertificateAndKey machineCa = pki::makeAuthority({.organization = "talos"});
  // Certificates of the machine API, by address; empty: the API does not answer until endCalls().
  std::map<std::string, std::string> apis;
  kj::Vector<kj::Own<kj::PromiseFulfiller<kj::String>>> silent;
  unsigned called = 0;
  kj::Maybe<ServingApprover> approver;
  kj::Promise<void> running = nullptr;

  ~ServingApprovals() noexcept override { running = nullptr; }
  explicit ServingApprovals(kj::Duration first = 20 * kj::MILLISECONDS) {
    model.addKind(kube::certificateRequests());
    model.addKind(kube::coreResource("events", "Event"));
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined",
        [&](auto spec) { spec.setMachineCa(machineCa.certificate.asBytes()); });
    ShownAt shown = [this](kj::String address) -> kj::Promise<kj::String> {
      ++called;
      auto found = apis.find(address.cStr());
      if (found == apis.end()) return error(ErrorKind::kUnavailable, "connection refused");
      if (found->second.empty()) {
        auto paf = kj::newPromiseAndFulfiller<kj::String>();
        silent.add(kj::mv(paf.fulfiller));
        return kj::mv(paf.promise);
      }
      return kj::str(found->second.c_str());
    };
    running = approver.emplace(begin(), kj::systemPreciseMonotonicClock(), kj::mv(shown), first)
                  .run()
                  .eagerlyEvaluate(nullptr);
  }
  // The machine of this name answers at the address, and has shown it to trustd.
  void answers(kj::StringPtr name, kj::StringPtr address) {
    auto machine =
        pki::issue(machineCa.certificate, machineCa.key,
                   {.dnsNames = kj::arr(kj::str(name)), .addresses = kj::arr(kj::str(address))});
    apis[address.cStr()] = machine.certificate.cStr();
  }
  void endCalls() {
    for (auto& one : silent) one->reject(KJ_EXCEPTION(DISCONNECTED, "the machine is off"));
    silent.clear();
  }
  // Ends when nothing is left to do before the next event of a socket or the timer.
  void settle() {
    kj::evalLast([] {}).wait(io.waitScope);
  }
  static kj::String pathOf(kj::StringPtr name) {
    return kube::pathOf(kube::certificateRequests(), "", name);
  }
  void put(kj::StringPtr name, kj::StringPtr node, kj::StringPtr address,
           const char* created = "2026-11-20T12:00:00Z") {
    auto text = servingText(node, kj::arr(kj::str(node)), kj::arr(kj::str(address)));
    auto request = servingRequest(name, node, text);
    request["metadata"]["creationTimestamp"] = created;
    model.put(pathOf(name), kj::mv(request));
  }
  std::string decisionOn(kj::StringPtr name) {
    auto& request = KJ_ASSERT_NONNULL(model.find(pathOf(name)));
    std::string all;
    for (auto condition : kube::itemsAt(request, {"status", "conditions"})) {
      all += (*condition)["type"].get<std::string>() + ": " +
             (*condition)["message"].get<std::string>();
    }
    return all;
  }
  std::string awaitDecision(kj::StringPtr name) {
    eventually([&] { return !decisionOn(name).empty(); });
    return decisionOn(name);
  }
  // Returns the messages of the Events about the request.
  std::string events(kj::StringPtr name) {
    std::string all;
    for (auto& one : model.asked) {
      if (one.method != "POST" || one.path.find("/events") == std::string::npos) continue;
      if (kube::textAt(one.body, {"involvedObject", "name"}) != name) continue;
      all += kube::textAt(one.body, {"message"}).cStr();
    }
    return all;
  }
};

// Catches: a kubelet that serves no TLS because its request is not approved; a request for another
// machine's address that is approved; a later request, as after a change of the address, that is
// not; a request left open without the cause.
TEST_F(ServingApprovals, AreForAddressesThatTheNodeHas) {
  answers("worker-1", "10.5.0.3");
  answers("master-1", "10.5.0.2");
  put("a-stolen", "worker-2", "10.5.0.2");
  put("b-own", "worker-1", "10.5.0.3");
  constexpr auto kApproved = "Approved: the machine API at 10.5.0.3 has shown that it is worker-1";
  EXPECT_EQ(awaitDecision("b-own"), kApproved);
  EXPECT_TRUE(eventually([&] { return !events("a-stolen").empty(); }));
  EXPECT_EQ(events("a-stolen"),
            "the certificate of the API at 10.5.0.2 is for master-1, not for worker-2");
  EXPECT_EQ(decisionOn("a-stolen"), "");
  answers("worker-1", "10.5.0.9");
  put("c-later", "worker-1", "10.5.0.9");
  EXPECT_EQ(awaitDecision("c-later"),
            "Approved: the machine API at 10.5.0.9 has shown that it is worker-1");
}

// Catches: a node that has no certificate because its API did not answer when its kubelet asked.
TEST_F(ServingApprovals, AreCheckedAgain) {
  put("a", "worker-1", "10.5.0.3");
  EXPECT_TRUE(eventually([&] { return called > 1; }));
  EXPECT_EQ(decisionOn("a"), "");
  answers("worker-1", "10.5.0.3");
  EXPECT_NE(awaitDecision("a"), "");
}

// Catches: a node whose earlier requests, which its kubelet has given up, hide the present one.
TEST_F(ServingApprovals, AreForTheNewestRequestOfANode) {
  for (unsigned i = 10; i < 40; ++i) {
    put(kj::str("a-", i), "worker-2", "10.5.0.7", "2026-11-20T11:00:00Z");
  }
  put("a-50", "worker-2", "10.5.0.8", "2026-11-20T12:00:00Z");
  put("a-51", "worker-2", "10.5.0.7", "2026-11-20T11:30:00Z");
  answers("worker-2", "10.5.0.8");
  EXPECT_NE(awaitDecision("a-50"), "");
  EXPECT_EQ(decisionOn("a-39"), "");
}

// Catches: an end of kubed when its inputs are gone after a call of an address.
TEST_F(ServingApprovals, InputsMayChangeDuringACall) {
  apis["10.5.0.3"] = "";
  put("a", "worker-1", "10.5.0.3");
  EXPECT_TRUE(eventually([&] { return called == 1; }));
  machined.kind<rpc::KubeletSecretsSpec>().destroy("kubelet");
  EXPECT_TRUE(eventually([&] { return KJ_ASSERT_NONNULL(adapter).machineCa().size() == 0; }));
  settle();
  endCalls();
  settle();
  machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
      "kubelet", "machined",
      [&](auto spec) { spec.setMachineCa(machineCa.certificate.asBytes()); });
  answers("worker-1", "10.5.0.3");
  EXPECT_NE(awaitDecision("a"), "");
}

// Catches: requests whose addresses kubed calls all at once, more than it has memory for.
TEST_F(ServingApprovals, CallSomeAddressesAtATime) {
  for (unsigned node = 0; node < 5; ++node) {
    kj::Vector<kj::String> addresses;
    for (size_t i = 1; i <= kMostServingAddresses; ++i) {
      apis[addresses.add(kj::str("10.6.", node, ".", i)).cStr()] = "";
    }
    auto name = kj::str("worker-", node);
    auto text = servingText(name, nullptr, addresses.releaseAsArray());
    model.put(pathOf(name), servingRequest(name, name, text));
  }
  EXPECT_TRUE(eventually([&] { return called > 0; }));
  settle();
  EXPECT_EQ(called, kMostCalled);
  endCalls();
  EXPECT_TRUE(eventually([&] { return called >= 5 * kMostServingAddresses; }))
      << "the others follow";
}

struct PacedApprovals : public ServingApprovals {
  ~PacedApprovals() noexcept override {}
  PacedApprovals() : ServingApprovals(1 * kj::HOURS) {}
};

// Catches: a node that makes kubed call addresses as often as it makes requests.
TEST_F(PacedApprovals, AnotherRequestOfTheNodeIsNotCheckedAtOnce) {
  put("a-1", "worker-1", "10.5.0.3");
  EXPECT_TRUE(eventually([&] { return called == 1; }));
  put("a-2", "worker-1", "10.5.0.3", "2026-11-20T12:00:01Z");
  answers("worker-2", "10.5.0.4");
  put("b", "worker-2", "10.5.0.4");
  EXPECT_NE(awaitDecision("b"), "");
  EXPECT_EQ(called, 2u);
}

// Catches: a request that no kubelet makes, and that stays open without the cause.
TEST_F(ServingApprovals, AreNotForOtherRequests) {
  answers("worker-1", "10.5.0.3");
  auto text = servingText("worker-1", nullptr, kj::arr(kj::str("10.5.0.3")));
  auto request = servingRequest("a", "worker-1", text);
  request["spec"]["username"] = "jo";
  model.put(pathOf("a"), kj::mv(request));
  EXPECT_TRUE(eventually([&] { return !events("a").empty(); }));
  EXPECT_EQ(events("a"), "it was not made by a user system:node:NAME of the group system:nodes");
  EXPECT_EQ(decisionOn("a"), "");
  EXPECT_EQ(called, 0u);
}

}  // namespace
}  // namespace talos::kubed
