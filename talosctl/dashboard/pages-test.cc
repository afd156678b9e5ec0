// Compares the pages in three sizes with docs/screens; UPDATE_DOCS=1 writes those files.
#include "talosctl/dashboard/pages.h"

#include <gmock/gmock.h>

#include <fstream>

#include "talosctl/dashboard/test-example-cluster.h"

namespace talos::talosctl::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;

void expectScreen(const std::string& name, const std::string& text) {
  auto path = TALOS_SOURCE_DIR "/docs/screens/" + name;
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(text == written) << path << " is not up to date:\n" << text;
}

struct Size {
  size_t columns, rows;
};
constexpr Size kSizes[] = {{80, 24}, {120, 36}, {200, 60}};

kj::Array<kj::String> someLog() {
  return kj::arr(kj::str("2026-11-26T11:59:58.120Z listening on /run/talos/machined.sock"),
                 kj::str("2026-11-26T11:59:59.480Z service etcd: Health check successful"));
}

Canvas drawn(Size size, View& view, ShownCluster cluster) {
  Canvas canvas(size.rows, size.columns);
  auto log = someLog();
  Shown shown{.cluster = cluster, .log = log, .kernel = log};
  drawScreen(canvas, view, shown);
  return canvas;
}

// Catches: a page that differs from the page in the documents.
TEST(Pages, AreTheScreensOfTheDocuments) {
  ExampleCluster example;
  struct Screen {
    const char* name;
    Page page;
    Pane pane;
  };
  constexpr Screen kScreens[] = {{"overview", Page::kOverview, Pane::kUsage},
                                 {"node", Page::kNode, Pane::kUsage},
                                 {"services", Page::kNode, Pane::kServices},
                                 {"network", Page::kNetwork, Pane::kUsage},
                                 {"cluster", Page::kCluster, Pane::kUsage}};
  for (auto& screen : kScreens) {
    for (auto size : kSizes) {
      View view;
      view.page = screen.page, view.pane = screen.pane;
      auto canvas = drawn(size, view, example.get());
      auto name = kj::str(screen.name, "-", size.columns, "x", size.rows);
      expectScreen(kj::str(name, ".txt").cStr(), canvas.text().cStr());
      expectScreen(kj::str(name, ".svg").cStr(),
                   canvas.svg(kj::str("talosctl dashboard: ", screen.name)).cStr());
    }
  }
  expectScreen("piped.txt", snapshotText(example.get(), 160).cStr());
}

// Catches: a long message of one service that hides the process ids and restarts of all.
TEST(Pages, ALongMessageLeavesTheNumbersOfServices) {
  ExampleCluster example;
  capnp::MallocMessageBuilder copy;
  copy.setRoot(example.get());
  auto cluster = copy.getRoot<rpc::Dashboard>();
  auto service = cluster.getNodes()[0].getServices()[5];
  service.setState(rpc::ServiceState::PREPARING);
  auto event = service.initEvents(1)[0];
  event.setMessage("waiting for the volume of EPHEMERAL: the disk /dev/nvme0n1 does not answer");
  View view;
  view.page = Page::kNode, view.pane = Pane::kServices;
  std::string text = drawn({80, 24}, view, cluster.asReader()).text().cStr();
  EXPECT_THAT(text, testing::ContainsRegex("PID  STARTS  .*MESSAGE\n")) << text;
  EXPECT_THAT(text, testing::ContainsRegex("apid +Running +OK +100 +1 +.*Health check")) << text;
  EXPECT_THAT(text, testing::ContainsRegex("etcd +Preparing .*waiting for")) << text;
}

// Catches: a page that throws, or draws beyond the terminal, in an unusual size.
TEST(Pages, AreDrawnInEverySize) {
  ExampleCluster example;
  capnp::MallocMessageBuilder nothing;
  auto none = nothing.initRoot<rpc::Dashboard>().asReader();
  for (auto page : kPages) {
    for (size_t pane = 0; pane < kPaneCount; ++pane) {
      View view;
      view.page = page, view.pane = Pane(pane);
      for (size_t columns : {1, 20, 40, 79, 81, 159, 161, 300}) {
        for (size_t rows : {1, 5, 6, 9, 25, 70}) {
          drawn({columns, rows}, view, example.get());
          drawn({columns, rows}, view, none);
        }
      }
    }
  }
}

// Catches: parts of a page in a terminal without room for it.
TEST(Pages, InATerminalThatIsTooSmallThereIsNone) {
  ExampleCluster example;
  View view;
  for (Size size : {Size{39, 24}, Size{80, 5}}) {
    EXPECT_EQ(drawn(size, view, example.get()).text(), "the terminal is too small\n"_kj);
  }
  EXPECT_THAT(drawn({40, 6}, view, example.get()).text().cStr(), HasSubstr("master-1"));
}

TEST(Pages, ASilentNodeSaysForHowLongAndWhy) {
  ExampleCluster example;
  View view;
  auto text = drawn(kSizes[2], view, example.get()).text();
  EXPECT_THAT(text.cStr(), HasSubstr("silent 47s"));
  EXPECT_THAT(text.cStr(), HasSubstr("no answer within 5s"));
  example.change().getNodes()[4].setError("");
  EXPECT_THAT(drawn(kSizes[2], view, example.get()).text().cStr(), Not(HasSubstr("silent")));
}

TEST(Pages, AFullDiskIsAProblemOfItsNode) {
  ExampleCluster example;
  auto node = example.get().getNodes()[3];
  EXPECT_EQ(problemOf(node), "/var is nearly full"_kj);
  EXPECT_EQ(diskOf(node).text, "95 %"_kj);
  EXPECT_EQ(healthOf(node).look, Look::kBad);
  EXPECT_EQ(problemOf(example.get().getNodes()[0]), ""_kj);
}

TEST(Pages, AFailedHealthCheckIsNamed) {
  ExampleCluster example;
  auto node = example.change().getNodes()[0];
  auto health = node.getServices()[0].getHealth();
  health.setHealthy(false);
  health.setLastMessage("connection refused");
  EXPECT_EQ(healthOf(node.asReader()).text, "1 problem"_kj);
  EXPECT_THAT(problemOf(node.asReader()).cStr(), HasSubstr("apid: "));
  EXPECT_EQ(servicesOf(node.asReader()).text, "9/10"_kj);
}

// Catches: a stopped service that is missing in the count, as if the node had never had it.
TEST(Pages, AStoppedServiceIsCountedAsNotRunning) {
  ExampleCluster example;
  auto node = example.change().getNodes()[0];
  node.getServices()[0].setState(rpc::ServiceState::FINISHED);
  EXPECT_EQ(servicesOf(node.asReader()).text, "9/10"_kj);
  EXPECT_EQ(servicesOf(node.asReader()).look, Look::kWarning);
  node.getServices()[0].setState(rpc::ServiceState::SKIPPED);
  EXPECT_EQ(servicesOf(node.asReader()).text, "9/9"_kj);
}

// Catches: "0 B/s" and "0.0 %" after the first reading, from which no rate follows.
TEST(Pages, ARateThatIsNotKnownYetIsADash) {
  ExampleCluster example;
  auto node = example.change().getNodes()[0];
  for (auto link : node.getLinks()) link.setRatesKnown(false);
  for (auto process : node.getProcesses()) process.setCpuKnown(false);
  node.getDisks()[0].setRatesKnown(false);
  View view;
  view.page = Page::kNode;
  auto textOf = [&](Pane pane) {
    view.pane = pane;
    return std::string(drawn({200, 12}, view, example.get()).text().cStr());
  };
  EXPECT_THAT(textOf(Pane::kLinks), testing::ContainsRegex("bond0 +up +(bond +)?- +- "));
  EXPECT_THAT(textOf(Pane::kProcesses), testing::ContainsRegex("40 +- +90 MB"));
  EXPECT_THAT(textOf(Pane::kDisks), testing::ContainsRegex("nvme0n1 +- +- +-"));
}

// Catches: the end of a long line, cut off at 80 columns; a line that is cut within a
// character; the newest line below the screen.
TEST(Pages, ALongLineOfALogContinuesOnTheNextRow) {
  ExampleCluster example;
  Canvas canvas(24, 80);
  auto log =
      kj::arr(kj::str("first"), kj::str(kj::repeat('a', 79), "ä", kj::repeat('b', 78), "end"),
              kj::str("last"));
  View view;
  view.page = Page::kNode, view.pane = Pane::kLog;
  drawScreen(canvas, view, {.cluster = example.get(), .log = log});
  auto text = canvas.text();
  EXPECT_THAT(text.cStr(), HasSubstr(kj::str("first\n", kj::repeat('a', 79), "ä\n  ",
                                             kj::repeat('b', 78), "\n  end\nlast\n")
                                         .cStr()));
  // More lines than rows: the newest are at the end.
  kj::Vector<kj::String> many;
  for (unsigned i = 0; i < 50; ++i) many.add(kj::str(i, " ", kj::repeat('x', 100)));
  drawScreen(canvas, view, {.cluster = example.get(), .log = many});
  EXPECT_THAT(canvas.text().cStr(), HasSubstr("\n49 xxx"));
}

// Catches: a full disk that is hidden by a service that has been unhealthy for long.
TEST(Pages, EveryProblemOfANodeIsShown) {
  ExampleCluster example;
  auto node = example.change().getNodes()[3];
  auto health = node.getServices()[0].getHealth();
  health.setHealthy(false);
  health.setLastMessage("connection refused");
  EXPECT_EQ(healthOf(node.asReader()).text, "2 problems"_kj);
  View view;
  auto text = drawn(kSizes[1], view, example.get()).text();
  EXPECT_THAT(text.cStr(), HasSubstr("\nworker-1  apid: "));
  EXPECT_THAT(text.cStr(), HasSubstr("\nworker-1  /var is nearly full\n"));
}

TEST(Pages, AMemberThatIsBehindIsSeen) {
  ExampleCluster example;
  auto nodes = example.change().getNodes();
  EXPECT_EQ(etcdOf(example.get(), nodes[0]).text, "leader"_kj);
  nodes[1].getEtcdMember().setRaftAppliedIndex(100'000);
  EXPECT_EQ(etcdOf(example.get(), nodes[1]).text, "member -28400"_kj);
  nodes[2].getEtcdMember().setLeader(0);
  EXPECT_EQ(etcdOf(example.get(), nodes[2]).look, Look::kBad);
}

TEST(Pages, ASharedAddressThatNobodyHasIsSeen) {
  ExampleCluster example;
  auto status = example.change().getNodes()[1].getVips()[0].getStatus();
  View view;
  view.page = Page::kNetwork;
  EXPECT_THAT(drawn(kSizes[0], view, example.get()).text().cStr(),
              HasSubstr("shared address 10.5.0.50: master-2"));
  status.setState("waiting");
  EXPECT_THAT(drawn(kSizes[0], view, example.get()).text().cStr(),
              HasSubstr("shared address 10.5.0.50: no node has it"));
}

// Catches: a node that was lost a moment ago and is shown as a holder beside the new holder of its
// address; two concurrent holders of which only one is shown.
TEST(Pages, ASharedAddressHasTheHolderWhoseLeaseIsNewer) {
  ExampleCluster example;
  auto nodes = example.change().getNodes();
  auto vip = nodes[0].initVips(1)[0];
  vip.setAddress("10.5.0.50");
  auto status = vip.initStatus();
  status.setState("holder");
  status.setSince("2026-11-26T12:00:10Z");
  status.setLeaseUntil("2026-11-26T12:00:19Z");
  EXPECT_EQ(vipsOf(example.get(), nodes[0].asReader()), "10.5.0.50"_kj);
  EXPECT_EQ(vipsOf(example.get(), nodes[1].asReader()), ""_kj);
  View view;
  view.page = Page::kNetwork;
  auto text = drawn(kSizes[0], view, example.get()).text();
  EXPECT_THAT(text.cStr(), HasSubstr("shared address 10.5.0.50: master-1"));
  EXPECT_THAT(text.cStr(), Not(HasSubstr("10.5.0.50: master-2")));
  status.setSince("2026-11-26T12:00:08Z");
  EXPECT_EQ(vipsOf(example.get(), nodes[0].asReader()), "10.5.0.50"_kj);
  EXPECT_EQ(vipsOf(example.get(), nodes[1].asReader()), "10.5.0.50"_kj);
}

TEST(Pages, CertificatesWarnInTheLastTenthOfTheirTime) {
  auto cell = untilText("2026-11-26T12:00:00Z", "2026-11-26T10:00:00Z", "2026-11-27T10:00:00Z");
  EXPECT_EQ(cell.text, "in 22h0m0s"_kj);
  EXPECT_EQ(cell.look, Look::kPlain);
  EXPECT_EQ(untilText("2026-11-27T09:00:00Z", "2026-11-26T10:00:00Z", "2026-11-27T10:00:00Z").look,
            Look::kWarning);
  auto over = untilText("2026-12-01T00:00:00Z", "2026-11-26T10:00:00Z", "2026-11-27T10:00:00Z");
  EXPECT_EQ(over.text, "3d ago"_kj);
  EXPECT_EQ(over.look, Look::kBad);
}

TEST(Pages, AFilterLeavesTheOtherLinesOut) {
  ExampleCluster example;
  View view;
  view.filter = kj::str("worker-1");
  auto text = drawn(kSizes[0], view, example.get()).text();
  EXPECT_THAT(text.cStr(), HasSubstr("worker-1"));
  EXPECT_THAT(text.cStr(), Not(HasSubstr("master-3")));
  EXPECT_THAT(text.cStr(), HasSubstr("Esc shows all"));
}

// Catches: nodes that are found by a name that another node has as well.
TEST(Pages, NodesOfOneNameAreStillSeveral) {
  ExampleCluster example;
  auto nodes = example.change().getNodes();
  nodes[0].getVersion().setHostname("master-2");
  View view;
  view.line = 2;
  Canvas canvas(kSizes[2].rows, kSizes[2].columns);
  auto extent = drawScreen(canvas, view, {.cluster = example.get()});
  EXPECT_EQ(kj::str(extent.nodeOfLine), "0, 1, 2, 3, 4"_kj);
  view.filter = kj::str("worker");
  extent = drawScreen(canvas, view, {.cluster = example.get()});
  EXPECT_EQ(kj::str(extent.nodeOfLine), "3, 4"_kj);
}

TEST(Pages, HistoriesAreRelativeToWhatMatters) {
  ExampleCluster example;
  auto node = example.get().getNodes()[0];
  EXPECT_EQ(historyOf(node, Quantity::kCpu).most, 1000);
  EXPECT_EQ(historyOf(node, Quantity::kCpu).values.size(), 60u);
  capnp::MallocMessageBuilder idle;
  auto quiet = idle.initRoot<rpc::DashboardNode>();
  quiet.initSamples(1)[0].setDiskRead(3);
  EXPECT_EQ(historyOf(quiet.asReader(), Quantity::kDisk).most, 1'000'000);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
