// Tests which finding about an API server that hangs is the cause.
#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns a control-plane node with the message of its API server and the status of its scheduler.
std::string node(const char* address, const char* message, const char* scheduler,
                 const char* line = "") {
  return std::string("{address: ") + address + ", controlPlane: true, apiServer: {message: '" +
         message +
         "'}, containers: [{id: 'k/kube-apiserver-a:kube-apiserver', status: CONTAINER_RUNNING}, "
         "{id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}, {id: 'x:kube-scheduler', "
         "status: " +
         scheduler + "}], logs: [{id: 'x:kube-scheduler', lines: ['" + line + "']}]}";
}

Diagnosed diagnosedNodes(const std::string& nodes) {
  auto yaml = "{survey: {server: x}, nodes: [" + nodes + "]}";
  return Diagnosed(kj::StringPtr(yaml.c_str()));
}

constexpr const char* kSilent = "no answer within 5 s";
constexpr const char* kRuns = "CONTAINER_RUNNING";

// Catches: a scheduler that exits as the cause, with its log as the remedy, although the API server
// has not renewed its lease.
TEST(ControlPlaneChecks, AnApiServerThatHangsExplainsWhatExits) {
  auto all = diagnosedNodes(node("a", kSilent, "CONTAINER_EXITED", "error: leaderelection lost"));
  EXPECT_THAT(all.causes(), ElementsAre("api-server")) << all.text();
  EXPECT_EQ(all.chain("control-plane-pod"), "api-server > control-plane-pod");
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n a restart -k k/kube-apiserver-a:kube-apiserver"));
}

// Catches: a wrong argument of the scheduler as the consequence of an API server.
TEST(ControlPlaneChecks, AnApiServerThatHangsExplainsNoWrongArgument) {
  auto all = diagnosedNodes(node("a", kSilent, "CONTAINER_EXITED", "Error: unknown flag: --bogus"));
  EXPECT_THAT(all.causes(), ElementsAre("api-server", "control-plane-pod")) << all.text();
}

// Catches: an API server that is not seen because another one answers, and one that starts.
TEST(ControlPlaneChecks, OneOfTwoApiServersHangs) {
  auto all = diagnosedNodes(node("10.5.0.2", "Connection refused", kRuns) + ", " +
                            node("10.5.0.3", kSilent, kRuns));
  EXPECT_THAT(all.causes(), ElementsAre("api-server")) << all.text();
  EXPECT_THAT(all.text(), HasSubstr("1. 10.5.0.3: the API server of the node does not answer"));
}

// Catches: an API server that has hung since its start, while its status has the error from before.
TEST(ControlPlaneChecks, TheOnlyApiServerHangsFromItsStart) {
  auto yaml = "{surveyProblem: 'a: cannot read the version in time', nodes: [" +
              node("a", "Connection refused", kRuns) + "]}";
  Diagnosed all(kj::StringPtr(yaml.c_str()));
  EXPECT_THAT(all.causes(), ElementsAre("api-server")) << all.text();
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n a restart -k k/kube-apiserver-a:kube-apiserver"));
}

// Catches: a node that skipNodeRegistration keeps out of Kubernetes, and that is ill for ever; a
// kubelet that should have registered the node, and is not named.
TEST(ControlPlaneChecks, AnUnregisteredNodeNeedsNoNodeObject) {
  auto node = [](const char* arguments) {
    return std::string("{address: a, kubelet: {nodename: w-1, arguments: [") + arguments + "]}}";
  };
  auto outside = diagnosedNodes(node("'--config=/etc/kubernetes/kubelet.yaml'"));
  EXPECT_THAT(outside.causes(), ElementsAre()) << outside.text();
  auto missing = diagnosedNodes(node("'--config=/etc/kubernetes/kubelet.yaml', '--kubeconfig=/x'"));
  EXPECT_THAT(missing.causes(), ElementsAre("node-registration")) << missing.text();
}

}  // namespace
}  // namespace talos::talosctl
