#include "kubed/nodes/kubed-server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <string>
#include <vector>

namespace talos::kubed {
namespace {

struct Unreachable final : public rpc::Kubernetes::Server {
  kj::Promise<void> survey(SurveyContext) override {
    return KJ_EXCEPTION(DISCONNECTED, "no answer");
  }
};

// Catches: a failed survey that cannot be found in the log of kubed; an id of another request.
TEST(KubedServer, TheLogNamesTheRequest) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  Rules rules(capnp::Schema::from<rpc::Kubernetes>());
  std::vector<std::string> lines;
  RequestTrace trace(kj::systemCoarseMonotonicClock(), rules,
                     RequestTrace::Keep([&](kj::StringPtr line) { lines.push_back(line.cStr()); }));
  auto kubed = serveKubed(kj::heap<Unreachable>(), trace);
  auto ask = [&](kj::StringPtr id) {
    auto request = kubed.kubernetesRequest();
    request.setRequest(id);
    auto asked = request.send().getKubernetes().surveyRequest().send();
    EXPECT_THROW(asked.wait(scope), kj::Exception);
  };
  ask("mine-1");
  ask("mine-2");
  ask("");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::HasSubstr("method=Kubernetes.survey request=mine-1 "));
  EXPECT_THAT(lines[1], testing::HasSubstr("method=Kubernetes.survey request=mine-2 "));
}

}  // namespace
}  // namespace talos::kubed
