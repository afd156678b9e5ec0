// upgrade-k8s with the metrics of an API server: as large as those of a large cluster, or missing.
#include <gmock/gmock.h>

#include "tests/client/whole-client.h"

namespace talos::talosctl {
namespace {

using testing::HasSubstr;
using testing::Not;

struct UpgradeK8sLooks : WholeClient {
  ~UpgradeK8sLooks() noexcept override {}
  Outcome upgrade(const Words& more = {}) {
    return run(with({"upgrade-k8s", "-n", "10.0.0.2", "--to", "1.34.4", "--dry-run"}, more));
  }
};

constexpr const char* kRemoved =
    "apiserver_requested_deprecated_apis{group=\"policy\",removed_release=\"1.34\","
    "resource=\"podsecuritypolicies\",subresource=\"\",version=\"v1beta1\"} 1\n";

// Catches: a large cluster that cannot be upgraded because its metrics are larger than any other
// answer may be; a metric after this size that is not found.
TEST_F(UpgradeK8sLooks, MetricsAreLargerThanOtherAnswers) {
  auto& metrics = kubernetes.metrics.body;
  for (size_t i = 0; metrics.size() <= kube::kMostAnswer; ++i) {
    metrics += kj::str("apiserver_request_total{code=\"200\",resource=\"r", i,
                       "\",scope=\"namespace\",verb=\"LIST\"} ", i, "\n")
                   .cStr();
  }
  auto found = upgrade();
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.err, Not(HasSubstr("break this cluster")));
  metrics += kRemoved;
  found = upgrade();
  EXPECT_NE(found.status, 0);
  EXPECT_THAT(found.err, HasSubstr("Kubernetes 1.34.4 would break this cluster: "
                                   "podsecuritypolicies of policy/v1beta1"));
}

// Catches: a failure that --force does not pass; a failure that passes as metrics without requests.
TEST_F(UpgradeK8sLooks, WithoutMetricsOnlyForceGoesOn) {
  kubernetes.metrics = {500, "", ""};
  auto found = upgrade();
  EXPECT_NE(found.status, 0);
  EXPECT_THAT(found.err, HasSubstr("Kubernetes 1.34.4 may break this cluster: no API server says "
                                   "which API versions are in use; have one answer /metrics "
                                   "(Kubernetes at 127.0.0.1:"));
  EXPECT_THAT(found.err, HasSubstr(": cannot get /metrics: 500 Text)"));
  found = upgrade({"--force"});
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_THAT(found.err, HasSubstr("warning: Kubernetes 1.34.4 may break this cluster: no API"));
}

}  // namespace
}  // namespace talos::talosctl
