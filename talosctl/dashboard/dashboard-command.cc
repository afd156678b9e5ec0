// dashboard
#include "common/base/error.h"
#include "common/yaml/yaml-codec.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/terminal-screen.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/dashboard/cluster-follower.h"
#include "talosctl/dashboard/keys.h"
#include "talosctl/dashboard/log-tail.h"
#include "talosctl/dashboard/pages.h"
#include "talosctl/dashboard/web-screen.h"

namespace talos::talosctl {

namespace dashboard {

namespace {

constexpr auto kRefresh = 1 * kj::SECONDS;
// The pieces of a key's sequence arrive at most this long after each other.
constexpr auto kKeyPause = 60 * kj::MILLISECONDS;
constexpr size_t kTextColumns = 160;

class Terminal final : public Screen {
 public:
  explicit Terminal(Invocation& call)
      : console(call.deps.console),
        terminal(call.deps, lookOf(call).color ? Colors::kAnsi : Colors::kNone) {}
  size_t rows() const override { return console.rows(); }
  size_t columns() const override { return console.columns(); }
  void show(Canvas canvas) override { terminal.show(kj::mv(canvas)); }
  kj::Promise<kj::Array<char>> typed() override { return terminal.typed(); }

 private:
  Console& console;
  TerminalScreen terminal;
};

// Draws what the user looks at on a screen, whose keys change it.
class LiveScreen {
 public:
  LiveScreen(Invocation& call, ClusterFollower& cluster, Screen& screen)
      : call(call), cluster(cluster), screen(screen) {}

  kj::Promise<void> run() {
    for (;;) {
      draw();
      co_await wait();
      if (view.quit) co_return;
    }
  }

 private:
  Invocation& call;
  ClusterFollower& cluster;
  Screen& screen;
  KeyQueue keys{[this]() { return screen.typed(); }};
  Keyboard keyboard;
  View view;
  Extent extent;
  kj::Maybe<kj::Own<LogTail>> log, kernel;
  bool keyPending = false;

  void draw();
  kj::Promise<void> wait();
  void followLogs();
  void press(kj::Vector<Press> presses) {
    for (auto& one : presses) dashboard::press(view, one, extent);
  }
};

void LiveScreen::followLogs() {
  if (view.page != Page::kNode) {
    log = nullptr, kernel = nullptr;
    return;
  }
  auto keep = [&](kj::Maybe<kj::Own<LogTail>>& tail, kj::StringPtr service) {
    auto node = cluster.addressOf(view.node);
    KJ_IF_MAYBE (there, tail) {
      if ((*there)->isOf(node, service)) return;
    }
    tail = kj::heap<LogTail>(cluster.client, node, service);
  };
  keep(log, view.service);
  keep(kernel, "");
}

void LiveScreen::draw() {
  cluster.lookAtCluster(view.page == Page::kCluster);
  cluster.look(view.page == Page::kNode ? kj::Maybe<size_t>(view.node) : nullptr);
  followLogs();
  // The new picture may have another order; the selected node stays selected.
  auto chosen = kj::str(cluster.addressOf(view.node));
  auto picture = cluster.picture();
  if (view.page == Page::kNode) view.node = cluster.numberOf(chosen);
  Shown shown{picture->getRoot<rpc::Dashboard>().asReader()};
  KJ_IF_MAYBE (tail, log) shown.log = (*tail)->lines();
  KJ_IF_MAYBE (tail, kernel) shown.kernel = (*tail)->lines();
  Canvas canvas(screen.rows(), screen.columns());
  extent = drawScreen(canvas, view, shown);
  screen.show(kj::mv(canvas));
}

// Waits until there is something new to draw.
kj::Promise<void> LiveScreen::wait() {
  auto bytes = co_await keys.take(call.deps.timer.afterDelay(keyPending ? kKeyPause : kRefresh));
  press(bytes.size() > 0 ? keyboard.press(bytes) : keyboard.pause());
  keyPending = bytes.size() > 0;
}

kj::Promise<int> runOnce(Invocation& call, ClusterFollower& cluster, Format format) {
  co_await cluster.once();
  auto picture = cluster.picture();
  auto shown = picture->getRoot<rpc::Dashboard>().asReader();
  switch (format) {
    case Format::kTable: {
      auto columns = lookOf(call).columns;
      auto text = snapshotText(shown, columns > 0 ? columns : kTextColumns);
      auto variable = [&](kj::StringPtr name) {
        return call.deps.environment(name).orDefault(kj::str());
      };
      bool utf8 = isUtf8Locale(variable("LC_ALL"), variable("LC_CTYPE"), variable("LANG"));
      if (!utf8) text = asciiText(text);
      call.out(text);
      break;
    }
    case Format::kYaml:
      call.outBytes(codec::writeYaml(capnp::DynamicStruct::Reader(shown)));
      break;
    case Format::kJson:
      call.out(kj::str(codec::writeJson(capnp::DynamicStruct::Reader(shown)), "\n"));
      break;
  }
  co_return cluster.answering() > 0 ? 0 : 1;
}

kj::Promise<int> runOn(Screen& screen, Invocation& call, ClusterFollower& cluster) {
  cluster.start();
  LiveScreen live(call, cluster, screen);
  co_await live.run();
  co_return 0;
}

kj::Promise<int> runInBrowser(Invocation& call, ClusterFollower& cluster) {
  auto port = call.number("port");
  WebScreen screen(call.deps.lowLevel, call.deps.timer, uint16_t(port));
  call.out(kj::str(screen.address(), "\n"));
  call.err(
      "open this address in a browser; until this command ends it shows the cluster to everyone "
      "who has it\n");
  co_return co_await runOn(screen, call, cluster);
}

void checkFlags(const Invocation& call, Format format) {
  if (call.duration("update-interval") < 1 * kj::SECONDS) {
    failUsage("--update-interval is less than 1s");
  }
  if (!call.on("web")) {
    if (call.given("port")) failUsage("--port is for --web");
    return;
  }
  if (call.on("once")) failUsage("--web and --once exclude each other");
  if (format != Format::kTable) failUsage("--web and --output exclude each other");
  if (call.number("port") < 0 || call.number("port") > 65535) {
    failUsage("--port is not a number from 0 to 65535");
  }
}

kj::Promise<int> runDashboard(Invocation& call) {
  auto format = formatOf(call);
  auto& console = call.deps.console;
  checkFlags(call, format);
  ClusterFollower cluster(call, call.duration("update-interval"));
  // Without any endpoint there is nothing to show: the error is better than an empty screen.
  co_await cluster.client.get()->client.connect(call.deadline());
  if (call.on("web")) co_return co_await runInBrowser(call, cluster);
  bool live = console.drawsOnOut() && console.inIsTerminal() && !call.on("once") &&
              format == Format::kTable;
  if (!live) co_return co_await runOnce(call, cluster, format);
  Terminal screen(call);
  co_return co_await runOn(screen, call, cluster);
}

}  // namespace

}  // namespace dashboard

void addDashboardCommand(Command& root) {
  auto& command = root.add("dashboard", "Watch the nodes of a cluster on one screen");
  command.details =
      "Shows the nodes of --nodes, else those of the talosconfig and all that the cluster names: "
      "an overview, one node, the network, and the cluster with the causes that diagnose finds. "
      "Keys: arrows, Tab, Enter, / to filter, ? for all of them, q to quit. Where standard output "
      "is no terminal, with --once or another --output, it prints what it would show, once. "
      "With --web it is a page in a browser of this host, with the same keys. Changes nothing.";
  command.flag({.name = "update-interval",
                .letter = "d",
                .kind = FlagKind::kDuration,
                .fallback = "2s",
                .help = "how often nodes are queried, at least 1s"});
  command.flag({.name = "once", .help = "print everything once instead of a screen"});
  command.flag({.name = "web", .help = "show it in a browser, at an address of 127.0.0.1"});
  command.flag({.name = "port",
                .kind = FlagKind::kNumber,
                .fallback = "0",
                .help = "TCP port for --web; 0 is a free one"});
  addOutputFlag(command);
  command.interrupt = Interrupt::kIsSuccess;
  command.run = dashboard::runDashboard;
}

}  // namespace talos::talosctl
