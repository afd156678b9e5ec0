// The dashboard as a person has it: in a terminal (tmux) of three sizes, over nodes in containers,
// of which some go away and come back; and through a pipe.
#include <gtest/gtest.h>

#include <regex>
#include <tuple>

#include "tests/cluster/terminal.h"

namespace talos {
namespace {

using harness::Cluster;
using harness::contains;

struct DashboardTest : testing::Test {
  Cluster cluster{"dash",
                  {"--provisioner", "container", "--masters", "2", "--workers", "1", "--use-vip"}};

  DashboardTest() { cluster.ok({"bootstrap", "-n", Cluster::kFirst}, 120); }
};

// Something of each pane that only the node can say.
constexpr std::pair<const char*, const char*> kPanes[] = {
    {"Services", "etcd +Running +OK"},
    {"Processes", "/usr/bin/machined"},
    {"Disks", "DISK +READ"},
    {"Links", "eth0 +up"},
    {"Control groups", "system/apid"},
    {"Containers", "CONTAINER"},
    {"Certificates", "api-server +in "},
    {"Events", "etcd: "},
    {"Log of machined", "\\d{4}-\\d\\d-\\d\\dT"},
    {"Kernel", "."},
};

// Catches: a page or pane that stays empty, or is not reached by its keys; a screen that is left as
// it is at the end.
TEST_F(DashboardTest, ShowsEveryPageInThreeSizes) {
  const std::pair<const char*, const char*> sizes[] = {{"80", "24"}, {"120", "36"}, {"200", "60"}};
  for (auto& [columns, rows] : sizes) {
    Terminal terminal(cluster, columns, columns, rows, {"dashboard"});
    terminal.shows("dash-master-1 [^\n]*leader|dash-master-2 [^\n]*leader");
    terminal.shows("dash-worker-1 ");
    terminal.press("Enter");
    terminal.shows("┤ Usage ├");
    terminal.shows("pressure +CPU \\d+ %");
    for (auto& [title, content] : kPanes) {
      terminal.press("Tab");
      terminal.shows(std::string("┤ ") + title + " ├");
      terminal.shows(content);
    }
    terminal.press("3");
    terminal.shows("shared address [0-9.]+: dash-master-\\d");
    terminal.shows("dash-worker-1 +eth0 +up");
    terminal.press("4");
    terminal.shows("dash-master-2 +(leader|member) +\\d+");
    terminal.shows("kubelet|Kubernetes");
    terminal.press("?");
    terminal.shows("ends the dashboard");
    terminal.press("x");
    terminal.press("q");
    terminal.shows("ended with 0");
  }
}

// Catches: a node that is away and still shown as healthy, or not any more when it is back; an
// endpoint that takes the whole dashboard with it.
TEST_F(DashboardTest, SurvivesNodesThatGo) {
  Terminal terminal(cluster, "goes", "160", "40", {"dashboard", "-d", "1s"});
  terminal.shows("dash-worker-1 [^\n]*running");
  cluster.ok({"cluster", "node", "kill", "dash-worker-1"});
  terminal.shows("dash-worker-1 [^\n]*silent \\d+s");
  terminal.shows("dash-master-1 [^\n]*running");
  cluster.ok({"cluster", "node", "start", "dash-worker-1"});
  terminal.shows("dash-worker-1 [^\n]*running");
  // A paused node keeps its connections open, and one of the two nodes is the endpoint: the other
  // node stays shown as running for longer than the dashboard takes to notice the pause.
  const std::tuple<const char*, const char*, const char*> ways[] = {
      {"kill", "start", "\\d+s"}, {"pause", "resume", "(2\\d|[3-9]\\d)s"}};
  for (auto& [away, back, silence] : ways) {
    for (std::string node : {"dash-master-1", "dash-master-2"}) {
      auto other = node == "dash-master-1" ? "dash-master-2" : "dash-master-1";
      cluster.ok({"cluster", "node", away, node});
      terminal.shows(node + " [^\n]*silent " + silence);
      terminal.shows(std::string(other) + " [^\n]*running");
      cluster.ok({"cluster", "node", back, node});
      terminal.shows(node + " [^\n]*running");
    }
  }
  terminal.press("C-c");
  terminal.shows("ended with 0");
}

// Catches: the page of another node after one was discovered that stands before it.
TEST_F(DashboardTest, TheOpenedNodeStaysWhenTheirOrderChanges) {
  cluster.ok({"cluster", "node", "kill", "dash-master-1"});
  Terminal terminal(cluster, "order", "160", "40", {"dashboard", "-d", "1s"});
  // No fact about the other node is known yet, not even that it belongs to the control plane.
  terminal.shows("\n *dash-master-2 [^\n]*running[^]*\n *10\\.5\\.0\\.2 ");
  terminal.press("Enter");
  terminal.shows("dash-master-2 [^\n]* 1 of \\d ");
  cluster.ok({"cluster", "node", "start", "dash-master-1"});
  terminal.shows("dash-master-2 [^\n]* 2 of \\d ");
}

TEST_F(DashboardTest, FiltersLinesAndPrintsOnceIntoAPipe) {
  Terminal terminal(cluster, "filters", "100", "30", {"dashboard"});
  terminal.shows("dash-worker-1 ");
  terminal.press("/");
  terminal.press("worker");
  terminal.press("Enter");
  terminal.shows("lines with \"worker\"");
  EXPECT_FALSE(std::regex_search(terminal.screen(), std::regex("\ndash-master-1 +running")))
      << terminal.screen();
  terminal.press("Enter");
  terminal.shows("dash-worker-1 +[0-9.]+ ");

  auto text = cluster.ok({"dashboard"});
  for (auto part :
       {"dash-worker-1", "SHARED ADDRESS", "Causes of what is wrong", "dash-master-2: Services"}) {
    EXPECT_TRUE(contains(text, part)) << part << " is not in\n" << text;
  }
  EXPECT_FALSE(contains(text, "\x1b")) << text;
  auto json = cluster.ok({"dashboard", "-o", "json"});
  for (auto part : {"\"hostname\": \"dash-worker-1\"", "\"cpuBusy\"", "\"causes\"", "\"cores\""}) {
    EXPECT_TRUE(contains(json, part)) << part << " is not in\n" << json;
  }
  auto wrong = cluster.talosctl({"dashboard", "-d", "10ms"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_TRUE(contains(wrong.err, "--update-interval is less than 1s")) << wrong.err;
}

}  // namespace
}  // namespace talos
