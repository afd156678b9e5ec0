// Tests which finding about an API server that hangs is the cause.
#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns a control-plane node whose API server runs, and whose scheduler has this status.
std::string node(const char* address, const char* scheduler, const char* line = "") {
  return std::string("{address: ") + address +
         ", controlPlane: true, containers: [{id: 'k/kube-apiserver-a:kube-apiserver', status: "
         "CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}, {id: "
         "'x:kube-scheduler', status: " +
         scheduler + "}], logs: [{id: 'x:kube-scheduler', lines: ['" + line + "']}]}";
}

Diagnosed diagnosed(const std::string& survey, const std::string& nodes) {
  auto yaml = "{" + survey + ", nodes: [" + nodes + "]}";
  return Diagnosed(kj::StringPtr(yaml.c_str()));
}

// Catches: a scheduler that exits as the cause, with its log as the remedy, although the API server
// has not renewed its lease.
TEST(ControlPlaneChecks, AnApiServerThatHangsExplainsWhatExits) {
  auto all = diagnosed("surveyProblem: 'a: no answer within 25s'",
                       node("a", "CONTAINER_EXITED", "error: leaderelection lost"));
  EXPECT_THAT(all.causes(), ElementsAre("api-server")) << all.text();
  EXPECT_EQ(all.chain("control-plane-pod"), "api-server > control-plane-pod");
  EXPECT_THAT(all.text(), HasSubstr("talosctl -n a restart -k k/kube-apiserver-a:kube-apiserver"));
}

// Catches: a wrong argument of the scheduler as the consequence of an API server.
TEST(ControlPlaneChecks, AnApiServerThatHangsExplainsNoWrongArgument) {
  auto all = diagnosed("surveyProblem: 'a: no answer within 25s'",
                       node("a", "CONTAINER_EXITED", "Error: unknown flag: --bogus"));
  EXPECT_THAT(all.causes(), ElementsAre("api-server", "control-plane-pod")) << all.text();
}

// Catches: an API server that hangs beside another one that answers; a node that is blamed for the
// error of the next one.
TEST(ControlPlaneChecks, OneOfTwoApiServersHangs) {
  auto both = node("10.5.0.2", "CONTAINER_RUNNING") + ", " + node("10.5.0.3", "CONTAINER_RUNNING");
  auto one = diagnosed(
      "survey: {server: x}, surveyProblem: '10.5.0.2: no answer; 10.5.0.3: Connection refused'",
      both);
  EXPECT_THAT(one.text(), HasSubstr("1. 10.5.0.2: the API server of the node does not answer"));
  EXPECT_THAT(one.causes(), ElementsAre("api-server")) << one.text();
  auto other = diagnosed(
      "survey: {server: x}, surveyProblem: '10.5.0.2: Connection refused; 10.5.0.3: no answer'",
      both);
  EXPECT_THAT(other.text(), HasSubstr("1. 10.5.0.3: the API server of the node does not answer"));
  EXPECT_THAT(other.causes(), ElementsAre("api-server")) << other.text();
}

}  // namespace
}  // namespace talos::talosctl
